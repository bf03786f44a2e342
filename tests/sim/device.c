/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests of the host platform's devices and errors
 */

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <cohort/cohort.h>
#include <cohort/sim.h>

#include "platform/platform.h"
#include "support/native.h"
#include "support/place.h"

/* ---- devices ---------------------------------------------------------- */

Test(device, eight_devices_exist_by_default, .timeout = 10)
{
	const struct platform *p;
	int count = -1;

	place_need_built_in("the number of devices");
	unsetenv("COHORT_HOST_DEVICES");
	cr_assert_eq(platform_open(COHORT_PLATFORM_HOST, &p), COHORT_OK);
	cr_assert_eq(p->cudaGetDeviceCount(&count), cudaSuccess);
	cr_assert_eq(count, 8);
}

Test(device, number_of_devices_comes_from_the_environment, .timeout = 10)
{
	const struct platform *p = native_open(3);
	int count = -1;

	place_need_host("the number of devices");
	cr_assert_eq(p->cudaGetDeviceCount(&count), cudaSuccess);
	cr_assert_eq(count, 3);
}

Test(device, sim_set_devices_overrides_the_environment, .timeout = 10)
{
	const struct platform *p;
	int count = -1;

	place_need_host("the number of devices");
	cr_assert_eq(cohort_sim_set_devices(5), COHORT_OK);
	p = native_open(3);
	cr_assert_eq(p->cudaGetDeviceCount(&count), cudaSuccess);
	cr_assert_eq(count, 5);
}

Test(device, sim_set_devices_is_refused_once_devices_are_in_use, .timeout = 10)
{
	native_open(3);
	place_need_host("the number of devices");
	cr_assert_eq(cohort_sim_set_devices(4), COHORT_STATE);
	cr_assert_eq(cohort_sim_set_devices(3), COHORT_OK);
}

Test(device, sim_set_devices_checks_its_range, .timeout = 10)
{
	cr_assert_eq(cohort_sim_set_devices(0), COHORT_INVALID);
	cr_assert_eq(cohort_sim_set_devices(-1), COHORT_INVALID);
	cr_assert_eq(cohort_sim_set_devices(COHORT_SIM_MAX_DEVICES + 1),
	             COHORT_INVALID);
	cr_assert_eq(cohort_sim_set_devices(COHORT_SIM_MAX_DEVICES), COHORT_OK);
}

Test(device, opening_a_platform_twice_returns_the_same_table, .timeout = 10)
{
	const struct platform *p = native_open(2);
	const struct platform *again;

	cr_assert_eq(platform_open(place_platform(), &again), COHORT_OK);
	cr_assert_eq(p, again);
	cr_assert_eq(p->kind, place_platform());
	cr_assert_str_eq(p->name,
	                 p->kind == COHORT_PLATFORM_HOST ? "host" : "gpu");
}

Test(device, opening_an_unknown_platform_is_invalid, .timeout = 10)
{
	const struct platform *p;

	cr_assert_eq(platform_open(77, &p), COHORT_INVALID);
}

Test(device, cudaSetDevice_refuses_numbers_out_of_range, .timeout = 10)
{
	const struct platform *p = native_open(2);
	int device = -1;

	place_need_host("the number of devices");
	cr_assert_eq(p->cudaSetDevice(1), cudaSuccess);
	cr_assert_eq(p->cudaSetDevice(2), cudaErrorInvalidDevice);
	cr_assert_eq(p->cudaSetDevice(-1), cudaErrorInvalidDevice);
	cr_assert_eq(p->cudaGetDevice(&device), cudaSuccess);
	cr_assert_eq(device, 1);
}

Test(device, device_queries_refuse_null_outputs, .timeout = 10)
{
	const struct platform *p = native_open(2);

	cr_assert_eq(p->cudaGetDevice(NULL), cudaErrorInvalidValue);
	cr_assert_eq(p->cudaGetDeviceCount(NULL), cudaErrorInvalidValue);
	cr_assert_eq(p->cudaRuntimeGetVersion(NULL), cudaErrorInvalidValue);
	cr_assert_eq(p->cudaDriverGetVersion(NULL), cudaErrorInvalidValue);
}

Test(device, cuda_and_nccl_versions_are_positive, .timeout = 10)
{
	const struct platform *p = native_open(2);
	int runtime = 0;
	int driver = 0;
	int nccl = 0;

	cr_assert_eq(p->cudaRuntimeGetVersion(&runtime), cudaSuccess);
	cr_assert_eq(p->cudaDriverGetVersion(&driver), cudaSuccess);
	cr_assert_eq(p->ncclGetVersion(&nccl), ncclSuccess);
	cr_assert_gt(runtime, 0);
	cr_assert_gt(driver, 0);
	cr_assert_gt(nccl, 20000);
}

static void *other_thread_looks(void *user)
{
	const struct platform *p = user;
	int device = -1;

	p->cudaGetDevice(&device);
	return (void *)(intptr_t)device;
}

Test(device, current_device_is_per_thread, .timeout = 10)
{
	const struct platform *p = native_open(4);
	pthread_t thread;
	void *seen;

	cr_assert_eq(p->cudaSetDevice(3), cudaSuccess);
	pthread_create(&thread, NULL, other_thread_looks, (void *)(uintptr_t)p);
	pthread_join(thread, &seen);
	cr_assert_eq((intptr_t)seen, 0);
}

/* ---- errors ----------------------------------------------------------- */

Test(error, peek_keeps_the_last_cuda_error_and_get_resets_it, .timeout = 10)
{
	const struct platform *p = native_open(2);

	cr_assert_eq(p->cudaPeekAtLastError(), cudaSuccess);
	p->cudaSetDevice(-1);
	cr_assert_eq(p->cudaPeekAtLastError(), cudaErrorInvalidDevice);
	cr_assert_eq(p->cudaPeekAtLastError(), cudaErrorInvalidDevice);
	cr_assert_eq(p->cudaGetLastError(), cudaErrorInvalidDevice);
	cr_assert_eq(p->cudaGetLastError(), cudaSuccess);
}

Test(error, successful_call_does_not_reset_the_last_cuda_error, .timeout = 10)
{
	const struct platform *p = native_open(2);

	p->cudaSetDevice(-1);
	cr_assert_eq(p->cudaSetDevice(0), cudaSuccess);
	cr_assert_eq(p->cudaGetLastError(), cudaErrorInvalidDevice);
}

static void *other_thread_peeks(void *user)
{
	const struct platform *p = user;

	return (void *)(intptr_t)p->cudaPeekAtLastError();
}

Test(error, last_cuda_error_is_per_thread, .timeout = 10)
{
	const struct platform *p = native_open(2);
	pthread_t thread;
	void *seen;

	p->cudaSetDevice(-1);
	pthread_create(&thread, NULL, other_thread_peeks, (void *)(uintptr_t)p);
	pthread_join(thread, &seen);
	cr_assert_eq((intptr_t)seen, cudaSuccess);
	cr_assert_eq(p->cudaGetLastError(), cudaErrorInvalidDevice);
}

Test(error, cuda_error_codes_have_names_and_texts, .timeout = 10)
{
	const struct platform *p = native_open(2);

	cr_assert_str_eq(p->cudaGetErrorName(cudaSuccess), "cudaSuccess");
	cr_assert_str_eq(p->cudaGetErrorString(cudaSuccess), "no error");
	cr_assert_str_eq(p->cudaGetErrorName(cudaErrorNotReady),
	                 "cudaErrorNotReady");
	cr_assert_str_eq(p->cudaGetErrorName(cudaErrorInvalidDevice),
	                 "cudaErrorInvalidDevice");
	cr_assert_str_eq(p->cudaGetErrorString(cudaErrorInvalidValue),
	                 "invalid argument");
	cr_assert_str_eq(p->cudaGetErrorString(cudaErrorMemoryAllocation),
	                 "out of memory");
}

/* Every code must have a different name. */
Test(error, all_cuda_error_codes_are_known, .timeout = 10)
{
	static const struct {
		cudaError_t code;
		const char *name, *text;
	} all[] = {
#define CODE(name, value, driver, text) { name, #name, text },
#define RUNTIME_CODE(name, value, text) { name, #name, text },
		CUDA_ERRORS(CODE, RUNTIME_CODE)
#undef CODE
#undef RUNTIME_CODE
	};
	const struct platform *p = native_open(2);
	const size_t n = sizeof(all) / sizeof(all[0]);
	size_t i;

	if (p->kind == COHORT_PLATFORM_GPU && place_is_real())
		cr_skip_test("a runtime knows the codes of its version");
	for (i = 0; i < n; i++) {
		cr_assert_str_eq(p->cudaGetErrorName(all[i].code), all[i].name);
		cr_assert_str_eq(p->cudaGetErrorString(all[i].code),
		                 all[i].text);
	}
}

Test(error, text_of_an_unknown_cuda_code_says_so, .timeout = 10)
{
	const struct platform *p = native_open(2);

	cr_assert_str_eq(p->cudaGetErrorName((cudaError_t)12345),
	                 "unrecognized error code");
	cr_assert_str_eq(p->cudaGetErrorString((cudaError_t)12345),
	                 "unrecognized error code");
}

/* The texts of libnccl.so.2, version 2.28.9 */
Test(error, nccl_result_codes_have_nccls_texts, .timeout = 10)
{
	static const char *const texts[] = {
		"no error",
		"unhandled cuda error (run with NCCL_DEBUG=INFO for details)",
		"unhandled system error (run with NCCL_DEBUG=INFO for details)",
		("internal error - please report this issue to the NCCL "
		 "developers"),
		"invalid argument (run with NCCL_DEBUG=WARN for details)",
		"invalid usage (run with NCCL_DEBUG=WARN for details)",
		"remote process exited or there was a network error",
		"NCCL operation in progress",
	};
	const struct platform *p = native_open(2);
	int i;

	for (i = 0; i <= ncclInProgress; i++)
		cr_assert_str_eq(p->ncclGetErrorString((ncclResult_t)i),
		                 texts[i]);
}

Test(error, text_of_an_unknown_nccl_code_says_so, .timeout = 10)
{
	const struct platform *p = native_open(2);

	cr_assert_str_eq(p->ncclGetErrorString((ncclResult_t)99),
	                 "unknown result code");
	cr_assert_str_eq(p->ncclGetErrorString((ncclResult_t)-1),
	                 "unknown result code");
}
