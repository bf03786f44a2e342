/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests of the driver functions that the host platform's runtime returns to
 * programs
 */

#include <criterion/criterion.h>

#include "sim/host.h"
#include "support/native.h"

typedef int (*value_fn)(cudaStream_t stream, unsigned long long address,
                        uint32_t value, unsigned int flags);

static const struct platform *p;
static cudaStream_t stream;
static uint32_t *word; /* a word in pinned memory */

static void open_two(void)
{
	void *memory;

	p = native_open_host(2);
	stream = native_stream(p, 0);
	native_must(p->cudaMallocHost(&memory, sizeof(*word)),
	            "cudaMallocHost");
	word = memory;
	*word = 0;
}

static void close_two(void)
{
	native_must(p->cudaStreamDestroy(stream), "cudaStreamDestroy");
	native_must(p->cudaFreeHost(word), "cudaFreeHost");
}

TestSuite(entry, .init = open_two, .fini = close_two, .timeout = 20);

/* Store driver function @name in *@out.  Return the status of the lookup. */
static enum cudaDriverEntryPointQueryResult get(const char *name, void *out)
{
	enum cudaDriverEntryPointQueryResult status =
		(enum cudaDriverEntryPointQueryResult)77;
	void **address = out;

	cr_assert_eq(host_cudaGetDriverEntryPointByVersion(
			     name, address, 12000, cudaEnableDefault, &status),
	             cudaSuccess);
	return status;
}

static value_fn must_get(const char *name)
{
	value_fn f = NULL;

	cr_assert_eq(get(name, &f), cudaDriverEntryPointSuccess);
	cr_assert_not_null(f);
	return f;
}

static unsigned long long address(const uint32_t *at)
{
	return (unsigned long long)(uintptr_t)at;
}

static uint32_t load(void)
{
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

Test(entry, driver_writes_words_in_stream_order)
{
	value_fn write = must_get("cuStreamWriteValue32");
	struct native_gate gate;

	native_gate_hold(p, &gate, stream);
	cr_assert_eq(write(stream, address(word), 7, 0), 0);
	native_gate_reached(&gate);
	cr_assert_eq(load(), 0);
	native_gate_open(&gate);
	cr_assert_eq(p->cudaStreamSynchronize(stream), cudaSuccess);
	cr_assert_eq(load(), 7);
}

Test(entry, driver_refuses_words_in_memory_unknown_to_cuda)
{
	value_fn write = must_get("cuStreamWriteValue32");
	value_fn wait = must_get("cuStreamWaitValue32");
	uint32_t own = 0;

	cr_assert_eq(write(stream, address(&own), 7, 0), cudaErrorInvalidValue);
	cr_assert_eq(write(stream, 0, 7, 0), cudaErrorInvalidValue);
	cr_assert_eq(write(stream, address(word) + 1, 7, 0),
	             cudaErrorInvalidValue);
	cr_assert_eq(write(stream, address(word), 7, 2), cudaErrorInvalidValue);
	cr_assert_eq(wait(stream, address(&own), 7, 0), cudaErrorInvalidValue);
	cr_assert_eq(wait(stream, address(word), 7, 4), cudaErrorInvalidValue);
	cr_assert_eq(p->cudaGetLastError(), cudaSuccess,
	             "the driver does not set the runtime's error");
}

static void check_wait(unsigned int compare, uint32_t before, uint32_t value,
                       uint32_t after)
{
	value_fn wait = must_get("cuStreamWaitValue32");

	__atomic_store_n(word, before, __ATOMIC_RELEASE);
	cr_assert_eq(wait(stream, address(word), value, compare), 0);
	cr_assert_eq(p->cudaStreamQuery(stream), cudaErrorNotReady);
	/* A plain store wakes no thread. */
	__atomic_store_n(word, after, __ATOMIC_RELEASE);
	cr_assert_eq(p->cudaStreamSynchronize(stream), cudaSuccess);
}

Test(entry, driver_waits_until_a_word_is_not_below_a_value)
{
	check_wait(0, 0xfffffffe, 3, 4);
}

Test(entry, driver_waits_until_a_word_equals_a_value)
{
	check_wait(1, 9, 8, 8);
}

Test(entry, driver_waits_until_a_word_has_a_bit)
{
	check_wait(2, 3, 4, 6);
}

Test(entry, driver_waits_until_a_word_lacks_a_bit)
{
	check_wait(3, 0xffffffff, 0xf, 0xf);
}

Test(entry, cuStreamWriteValue32_ends_a_wait_on_another_device)
{
	value_fn write = must_get("cuStreamWriteValue32");
	value_fn wait = must_get("cuStreamWaitValue32");
	cudaStream_t other = native_stream(p, 1);

	cr_assert_eq(wait(other, address(word), 1, 0), 0);
	cr_assert_eq(write(stream, address(word), 1, 0), 0);
	cr_assert_eq(p->cudaStreamSynchronize(other), cudaSuccess);
	p->cudaStreamDestroy(other);
}

Test(entry, driver_functions_have_a_per_thread_stream_variant)
{
	value_fn plain = must_get("cuStreamWriteValue32"), own = NULL;
	void *function;
	struct native_gate gate;

	cr_assert_eq(host_cudaGetDriverEntryPoint(
			     "cuStreamWriteValue32", &function,
			     cudaEnablePerThreadDefaultStream, NULL),
	             cudaSuccess);
	*(void **)&own = function;
	cr_assert_neq(own, plain);
	native_gate_hold(p, &gate, cudaStreamPerThread);
	cr_assert_eq(own(NULL, address(word), 7, 0), 0);
	native_gate_reached(&gate);
	cr_assert_eq(load(), 0);
	native_gate_open(&gate);
	cr_assert_eq(p->cudaStreamSynchronize(cudaStreamPerThread),
	             cudaSuccess);
	cr_assert_eq(load(), 7);
}

Test(entry, unknown_driver_function_is_not_found)
{
	void *function = &function;

	cr_assert_eq(get("cuLaunchNothing", &function),
	             cudaDriverEntryPointSymbolNotFound);
	cr_assert_null(function);
}

Test(entry, old_driver_version_has_fewer_functions)
{
	enum cudaDriverEntryPointQueryResult status;
	void *function = &function;

	cr_assert_eq(host_cudaGetDriverEntryPointByVersion(
			     "cuStreamWriteValue32", &function, 7000, 0,
			     &status),
	             cudaSuccess);
	cr_assert_eq(status, cudaDriverEntryPointVersionNotSufficent);
	cr_assert_null(function);
	cr_assert_eq(host_cudaGetDriverEntryPointByVersion(
			     "cuStreamWriteValue32", &function, 99000, 0,
			     &status),
	             cudaErrorInvalidValue);
}

Test(entry, driver_entry_point_query_checks_its_arguments)
{
	void *function;

	cr_assert_eq(host_cudaGetDriverEntryPoint(NULL, &function, 0, NULL),
	             cudaErrorInvalidValue);
	cr_assert_eq(host_cudaGetDriverEntryPoint("cuInit", NULL, 0, NULL),
	             cudaErrorInvalidValue);
	cr_assert_eq(host_cudaGetDriverEntryPoint("cuInit", &function, 3, NULL),
	             cudaErrorInvalidValue);
}

Test(entry, driver_functions_know_devices_and_contexts)
{
	int (*device_get)(int *device, int number) = NULL;
	int (*get_attribute)(int *value, int attribute, int device) = NULL;
	int (*get_current)(void **context) = NULL;
	int (*set_current)(void *context) = NULL;
	int (*get_device)(int *device) = NULL;
	int device = -1;
	void *context = NULL;

	get("cuDeviceGet", &device_get);
	get("cuDeviceGetAttribute", &get_attribute);
	get("cuCtxGetCurrent", &get_current);
	get("cuCtxSetCurrent", &set_current);
	get("cuCtxGetDevice", &get_device);
	cr_assert_eq(device_get(&device, 1), 0);
	cr_assert_eq(device, 1);
	cr_assert_eq(device_get(&device, 2), cudaErrorInvalidDevice);
	cr_assert_eq(get_attribute(&device, 122, 0), 0);
	cr_assert_eq(device, 1, "words can have 64 bits");
	cr_assert_eq(get_attribute(&device, cudaDevAttrWarpSize, 0), 0);
	cr_assert_eq(device, 32);
	p->cudaSetDevice(1);
	cr_assert_eq(get_current(&context), 0);
	p->cudaSetDevice(0);
	cr_assert_eq(set_current(context), 0);
	cr_assert_eq(get_device(&device), 0);
	cr_assert_eq(device, 1);
	cr_assert_eq(set_current(&device), cudaErrorDeviceUninitialized);
}

/*
 * This suite's own thread has set no device. Calls that need no context must
 * not create one.
 */
TestSuite(contexts_of_host, .timeout = 20);

Test(contexts_of_host, context_of_a_device_is_created_by_its_first_use)
{
	int (*get_state)(int device, unsigned int *flags, int *active) = NULL;
	unsigned int flags;
	void *memory;
	int active = -1, n;

	p = native_open_host(2);
	get("cuDevicePrimaryCtxGetState", &get_state);
	cr_assert_eq(p->cudaGetDevice(&n), cudaSuccess);
	cr_assert_eq(p->cudaGetDeviceCount(&n), cudaSuccess);
	cr_assert_eq(get_state(0, &flags, &active), 0);
	cr_assert_eq(active, 0);
	p->cudaSetDevice(1);
	cr_assert_eq(get_state(1, &flags, &active), 0);
	cr_assert_eq(active, 1);
	native_must(p->cudaMalloc(&memory, 1), "cudaMalloc");
	native_must(p->cudaFree(memory), "cudaFree");
	cr_assert_eq(get_state(0, &flags, &active), 0);
	cr_assert_eq(active, 0);
	cr_assert_eq(host_cudaDeviceReset(), cudaSuccess);
	cr_assert_eq(get_state(1, &flags, &active), 0);
	cr_assert_eq(active, 0);
	cr_assert_eq(get_state(n, &flags, &active), cudaErrorInvalidDevice);
	cr_assert_eq(get_state(0, NULL, &active), cudaErrorInvalidValue);
}

Test(entry, driver_error_codes_have_texts)
{
	int (*get_string)(int error, const char **text) = NULL;
	const char *text = "";

	get("cuGetErrorString", &get_string);
	cr_assert_eq(get_string(1, &text), 0);
	cr_assert_str_eq(text, "invalid argument");
	cr_assert_eq(get_string(12345, &text), cudaErrorInvalidValue);
	cr_assert_null(text);
}
