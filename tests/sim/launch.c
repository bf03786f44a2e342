/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests of kernel launches through the driver, with and without a launcher
 */

#include <criterion/criterion.h>
#include <stdatomic.h>
#include <string.h>

#include "sim/driver/driver.h"
#include "sim/host.h"
#include "support/native.h"

static const struct platform *p;
static cudaStream_t stream;
static char function; /* its address is the handle of a kernel */

/* Last launch that the launcher received, and the results that it returns */
static struct {
	CUresult result;
	CUresult error; /* result of the kernel */
	struct host_launch launch;
	char arguments[64];
} asked;

/* Number of kernels that have run, and number of kernels that were dropped.
 * Atomic, because the stream's thread writes them. */
static atomic_int runs, drops;

static CUresult run(void *user)
{
	cr_assert_eq(user, &asked);
	atomic_fetch_add(&runs, 1);
	return asked.error;
}

static void drop(void *user)
{
	cr_assert_eq(user, &asked);
	atomic_fetch_add(&drops, 1);
}

static CUresult launcher(const struct host_launch *launch,
                         struct host_kernel *kernel)
{
	asked.launch = *launch;
	if (launch->arguments)
		memcpy(asked.arguments, launch->arguments, launch->bytes);
	kernel->run = run;
	kernel->drop = drop;
	kernel->user = &asked;
	return asked.result;
}

static void open_two(void)
{
	p = native_open_host(2);
	stream = native_stream(p, 1);
	driver_set_launcher(launcher);
}

static void close_two(void)
{
	native_must(p->cudaStreamDestroy(stream), "cudaStreamDestroy");
}

TestSuite(launch, .init = open_two, .fini = close_two, .timeout = 20);

static CUfunction handle(void)
{
	return (CUfunction)&function;
}

static CUresult launch(unsigned int blocks, void **extra)
{
	return driver_cuLaunchKernel(handle(), blocks, 1, 1, 32, 2, 1, 100,
	                             stream, NULL, extra);
}

static void finish(int wanted_runs, int wanted_drops)
{
	cr_assert_eq(p->cudaStreamSynchronize(stream), cudaSuccess);
	cr_assert_eq(atomic_load(&runs), wanted_runs);
	cr_assert_eq(atomic_load(&drops), wanted_drops);
}

Test(launch, launched_kernel_runs_in_stream_order)
{
	struct native_gate gate;

	native_gate_hold(p, &gate, stream);
	cr_assert_eq(launch(3, NULL), CUDA_SUCCESS);
	native_gate_reached(&gate);
	cr_assert_eq(atomic_load(&runs), 0);
	native_gate_open(&gate);
	finish(1, 1);
	cr_assert_eq(asked.launch.function, &function);
	cr_assert_eq(asked.launch.grid[0], 3);
	cr_assert_eq(asked.launch.block[1], 2);
	cr_assert_eq(asked.launch.shared, 100);
	cr_assert_eq(asked.launch.device, 1);
	cr_assert_eq(asked.launch.stream, stream);
	cr_assert_null(asked.launch.arguments);
}

Test(launch, kernel_that_fails_makes_its_device_fail)
{
	void *memory;

	asked.error = CUDA_ERROR_ILLEGAL_ADDRESS;
	cr_assert_eq(launch(1, NULL), CUDA_SUCCESS);
	cr_assert_eq(p->cudaStreamSynchronize(stream), cudaErrorIllegalAddress);
	cr_assert_eq(atomic_load(&drops), 1);
	cr_assert_eq(launch(1, NULL), CUDA_ERROR_ILLEGAL_ADDRESS);
	native_must(p->cudaSetDevice(1), "cudaSetDevice");
	cr_assert_eq(p->cudaMalloc(&memory, 1), cudaErrorIllegalAddress);
	cr_assert_eq(host_cudaDeviceSynchronize(), cudaErrorIllegalAddress);
	/* The failed device must not affect device 0. */
	native_must(p->cudaSetDevice(0), "cudaSetDevice");
	native_must(p->cudaMalloc(&memory, 1), "cudaMalloc");
	native_must(p->cudaFree(memory), "cudaFree");
	cohort_sim_faults_clear();
}

Test(launch, launcher_gets_packed_arguments)
{
	char text[] = "some arguments";
	size_t bytes = sizeof(text);
	void *extra[] = { CU_LAUNCH_PARAM_BUFFER_POINTER, text,
		          CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
		          CU_LAUNCH_PARAM_END };
	void *wrong[] = { (void *)3, text, CU_LAUNCH_PARAM_END };

	cr_assert_eq(launch(1, extra), CUDA_SUCCESS);
	cr_assert_eq(asked.launch.bytes, sizeof(text));
	cr_assert_str_eq(asked.arguments, text);
	cr_assert_eq(launch(1, wrong), CUDA_ERROR_INVALID_VALUE);
	finish(1, 1);
}

Test(launch, launch_records_the_event_in_its_attributes)
{
	CUlaunchAttribute attribute = {
		.id = CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT,
	};
	CUlaunchConfig config = {
		.gridDimX = 1,
		.gridDimY = 1,
		.gridDimZ = 1,
		.blockDimX = 1,
		.blockDimY = 1,
		.blockDimZ = 1,
		.hStream = stream,
		.attrs = &attribute,
		.numAttrs = 1,
	};
	struct native_gate gate;
	cudaEvent_t event;

	native_must(p->cudaSetDevice(1), "cudaSetDevice");
	native_must(p->cudaEventCreate(&event), "cudaEventCreate");
	attribute.value.launchCompletionEvent.event = event;
	native_gate_hold(p, &gate, stream);
	cr_assert_eq(driver_cuLaunchKernelEx(&config, handle(), NULL, NULL),
	             CUDA_SUCCESS);
	cr_assert_eq(p->cudaEventQuery(event), cudaErrorNotReady);
	native_gate_open(&gate);
	cr_assert_eq(p->cudaEventSynchronize(event), cudaSuccess);
	finish(1, 1);
	native_must(p->cudaEventDestroy(event), "cudaEventDestroy");
}

Test(launch, launch_function_has_a_per_thread_stream_variant)
{
	CUlaunchConfig config = {
		.gridDimX = 1,
		.gridDimY = 1,
		.gridDimZ = 1,
		.blockDimX = 1,
		.blockDimY = 1,
		.blockDimZ = 1,
	};
	__typeof__(driver_cuLaunchKernelEx) *own = NULL;

	cr_assert_eq(host_cudaGetDriverEntryPoint(
			     "cuLaunchKernelEx", (void **)&own,
			     cudaEnablePerThreadDefaultStream, NULL),
	             cudaSuccess);
	cr_assert_eq(own(&config, handle(), NULL, NULL), CUDA_SUCCESS);
	cr_assert_eq(asked.launch.stream, cudaStreamPerThread);
	cr_assert_eq(p->cudaStreamSynchronize(cudaStreamPerThread),
	             cudaSuccess);
	finish(1, 1);
}

Test(launch, captured_launch_runs_with_its_graph)
{
	cudaGraphExec_t exec;
	cudaGraph_t graph;

	cr_assert_eq(host_cudaStreamBeginCapture(stream,
	                                         cudaStreamCaptureModeRelaxed),
	             cudaSuccess);
	cr_assert_eq(launch(1, NULL), CUDA_SUCCESS);
	cr_assert_eq(host_cudaStreamEndCapture(stream, &graph), cudaSuccess);
	cr_assert_eq(host_cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
	cr_assert_eq(host_cudaGraphDestroy(graph), cudaSuccess);
	finish(0, 0);
	cr_assert_eq(host_cudaGraphLaunch(exec, stream), cudaSuccess);
	cr_assert_eq(host_cudaGraphLaunch(exec, stream), cudaSuccess);
	finish(2, 0);
	cr_assert_eq(host_cudaGraphExecDestroy(exec), cudaSuccess);
	finish(2, 1);
}

Test(launch, launch_fails_with_the_launchers_error)
{
	asked.result = CUDA_ERROR_INVALID_IMAGE;
	cr_assert_eq(launch(1, NULL), CUDA_ERROR_INVALID_IMAGE);
	finish(0, 0);
}

Test(launch, launch_of_no_blocks_or_no_function_is_refused)
{
	cr_assert_eq(launch(0, NULL), CUDA_ERROR_INVALID_VALUE);
	cr_assert_eq(driver_cuLaunchKernel(NULL, 1, 1, 1, 1, 1, 1, 0, stream,
	                                   NULL, NULL),
	             CUDA_ERROR_INVALID_HANDLE);
	finish(0, 0);
}

Test(launch, launch_fails_without_a_launcher)
{
	int value;

	driver_set_launcher(NULL);
	cr_assert_eq(launch(1, NULL), CUDA_ERROR_NOT_SUPPORTED);
	cr_assert_eq(driver_cuFuncGetAttribute(
			     &value, CU_FUNC_ATTRIBUTE_NUM_REGS, handle()),
	             CUDA_ERROR_NOT_SUPPORTED);
	finish(0, 0);
}
