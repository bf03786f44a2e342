/* SPDX-License-Identifier: Apache-2.0 */

/*
 * An event that another process has created: each may record it, and wait until the
 * other's stream has come to it
 *
 * The child creates, because CUDA's devices do not survive a fork.  Both processes go
 * through the same list of scenes, and a pipe in each direction keeps them in step.
 * What holds a stream up is a host function that reads from a pipe, its gate, which
 * either process may open.
 */

#include <dlfcn.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "program.h"

#define SHARED (cudaEventInterprocess | cudaEventDisableTiming)

/* What both have from before the fork. */
static int to_parent[2], to_child[2], gates[2][2];

/* Each process's own. */
static int hear_from, tell_to;
static cudaStream_t streams[2];
static cudaEvent_t event;

/* ---- in step ---------------------------------------------------------- */

static void tell(void)
{
	CHECK(write(tell_to, "", 1) == 1);
}

static void hear(void)
{
	char byte;

	CHECK(read(hear_from, &byte, 1) == 1);
}

/* The end of a scene. */
static void meet(void)
{
	tell();
	hear();
}

static void pass(void *gate)
{
	char byte;

	CHECK(read(((int *)gate)[0], &byte, 1) == 1);
}

/* Hold stream @i up until gate @i is opened. */
static void hold(int i)
{
	CUDA(cudaLaunchHostFunc(streams[i], pass, gates[i]));
}

static void open_gate(int i)
{
	CHECK(write(gates[i][1], "", 1) == 1);
}

static void expect_pending(void)
{
	CHECK(cudaEventQuery(event) == cudaErrorNotReady);
	CHECK(cudaGetLastError() == cudaErrorNotReady);
}

static void expect_busy(int i)
{
	CHECK(cudaStreamQuery(streams[i]) == cudaErrorNotReady);
	CHECK(cudaGetLastError() == cudaErrorNotReady);
}

/* ---- scenes ----------------------------------------------------------- */

/* One process records, with its stream held up, and the other one's waits. */
static void records(void)
{
	hold(0);
	CUDA(cudaEventRecord(event, streams[0]));
	tell();
	hear();
	expect_pending();
	open_gate(0);
	CUDA(cudaEventSynchronize(event));
	CUDA(cudaEventQuery(event));
	meet();
}

static void waits(void)
{
	hear();
	expect_pending();
	CUDA(cudaStreamWaitEvent(streams[0], event, 0));
	expect_busy(0);
	tell();
	CUDA(cudaEventSynchronize(event));
	CUDA(cudaEventQuery(event));
	CUDA(cudaStreamSynchronize(streams[0]));
	meet();
}

/* What waits already is let go on by what it waits for, and not by a later recording,
 * whether that is sooner or later to happen. */
static void records_again(void)
{
	hold(0);
	CUDA(cudaEventRecord(event, streams[0]));
	tell();
	hear();
	CUDA(cudaEventRecord(event, streams[1]));
	CUDA(cudaEventSynchronize(event));
	tell();
	hear();
	hold(1);
	CUDA(cudaEventRecord(event, streams[1]));
	open_gate(0);
	tell();
	hear();
	expect_pending();
	open_gate(1);
	CUDA(cudaEventSynchronize(event));
	tell();
	meet();
}

static void keeps_waiting(void)
{
	hear();
	CUDA(cudaStreamWaitEvent(streams[0], event, 0));
	tell();
	hear();
	CUDA(cudaEventQuery(event));
	expect_busy(0);
	CUDA(cudaStreamWaitEvent(streams[1], event, 0));
	CUDA(cudaStreamSynchronize(streams[1]));
	tell();
	hear();
	CUDA(cudaStreamSynchronize(streams[0]));
	expect_pending();
	tell();
	hear();
	CUDA(cudaEventQuery(event));
	meet();
}

/* Many recordings that nobody waits for in between. */
static void records_often(void)
{
	hold(0);
	for (int i = 0; i < 200; i++)
		CUDA(cudaEventRecord(event, streams[0]));
	tell();
	hear();
	open_gate(0);
	CUDA(cudaStreamSynchronize(streams[0]));
	meet();
}

/* A recording or wait that is queued outlives the event of the process that has queued it.
 * The parent opens it again. */
static void destroys_its_wait(void)
{
	hear();
	CUDA(cudaStreamWaitEvent(streams[0], event, 0));
	CUDA(cudaEventDestroy(event));
	expect_busy(0);
	tell();
	CUDA(cudaStreamSynchronize(streams[0]));
	meet();
}

static void destroys_its_record(void)
{
	hold(0);
	CUDA(cudaEventRecord(event, streams[0]));
	CUDA(cudaEventDestroy(event));
	tell();
	hear();
	open_gate(0);
	CUDA(cudaStreamSynchronize(streams[0]));
	meet();
}

/* ---- handles ---------------------------------------------------------- */

static void refuse_handles(void)
{
	cudaIpcEventHandle_t handle;
	cudaEvent_t other;

	CHECK(cudaEventCreateWithFlags(&other, cudaEventInterprocess) ==
	      cudaErrorInvalidValue);
	CUDA(cudaEventCreateWithFlags(&other, cudaEventDisableTiming));
	CHECK(cudaIpcGetEventHandle(&handle, other) ==
	      cudaErrorInvalidResourceHandle);
	CHECK(cudaIpcGetEventHandle(NULL, other) == cudaErrorInvalidValue);
	CUDA(cudaEventDestroy(other));
	cudaGetLastError();
}

/* What is no handle, or of another event than it says. */
static void open_wrong(cudaIpcEventHandle_t handle)
{
	cudaIpcEventHandle_t wrong;
	cudaEvent_t other;

	memset(&wrong, 0, sizeof(wrong));
	CHECK(cudaIpcOpenEventHandle(&other, wrong) ==
	      cudaErrorInvalidResourceHandle);
	for (size_t i = 0; i < 56; i++) {
		wrong = handle;
		wrong.reserved[i] = (char)(wrong.reserved[i] ^ 0x55);
		CHECK(cudaIpcOpenEventHandle(&other, wrong) != cudaSuccess);
	}
	CHECK(cudaIpcOpenEventHandle(NULL, handle) == cudaErrorInvalidValue);
	cudaGetLastError();
}

static void *driver_function(const char *name)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW);
	void *function = driver ? dlsym(driver, name) : NULL;

	CHECK(function);
	return function;
}

static cudaIpcEventHandle_t handle_by_driver(void)
{
	int (*get)(cudaIpcEventHandle_t *, cudaEvent_t);
	cudaIpcEventHandle_t handle;

	*(void **)&get = driver_function("cuIpcGetEventHandle");
	CHECK(get(&handle, event) == 0);
	return handle;
}

static void open_by_driver(cudaIpcEventHandle_t handle)
{
	int (*open_handle)(cudaEvent_t *, cudaIpcEventHandle_t);

	*(void **)&open_handle = driver_function("cuIpcOpenEventHandle");
	CHECK(open_handle(&event, handle) == 0);
}

static void expect_no_time(void)
{
	float ms;

	CHECK(cudaEventElapsedTime(&ms, event, event) ==
	      cudaErrorInvalidResourceHandle);
	cudaGetLastError();
}

/* ---- the processes ---------------------------------------------------- */

/* Closes the other process's ends, so that neither waits for one that has failed. */
static void begin(const int from[2], const int to[2])
{
	hear_from = from[0];
	tell_to = to[1];
	CHECK(close(from[1]) == 0 && close(to[0]) == 0);
	CUDA(cudaStreamCreateWithFlags(&streams[0], cudaStreamNonBlocking));
	CUDA(cudaStreamCreateWithFlags(&streams[1], cudaStreamNonBlocking));
}

/* Is killed in the end, with a recording that will not happen. */
static void run_child(void)
{
	cudaIpcEventHandle_t handle, gone;
	cudaEvent_t other;

	begin(to_child, to_parent);
	refuse_handles();
	CUDA(cudaEventCreateWithFlags(&event, SHARED));
	gone = handle_by_driver();
	CUDA(cudaEventDestroy(event));
	CUDA(cudaEventCreateWithFlags(&event, SHARED));
	CUDA(cudaIpcGetEventHandle(&handle, event));
	CHECK(cudaIpcOpenEventHandle(&other, handle) ==
	      cudaErrorDeviceUninitialized);
	cudaGetLastError();
	CHECK(write(tell_to, &gone, sizeof(gone)) == sizeof(gone));
	CHECK(write(tell_to, &handle, sizeof(handle)) == sizeof(handle));
	hear();
	records();
	waits();
	records_again();
	keeps_waiting();
	records_often();
	records();
	waits();
	hold(0);
	CUDA(cudaEventRecord(event, streams[0]));
	tell();
	hear();
}

static void run_parent(pid_t child)
{
	cudaIpcEventHandle_t handle, gone;
	int status;

	begin(to_parent, to_child);
	CHECK(read(hear_from, &gone, sizeof(gone)) == sizeof(gone));
	CHECK(read(hear_from, &handle, sizeof(handle)) == sizeof(handle));
	open_wrong(handle);
	CHECK(cudaIpcOpenEventHandle(&event, gone) != cudaSuccess);
	CUDA(cudaIpcOpenEventHandle(&event, handle));
	CUDA(cudaEventQuery(event));
	expect_no_time();
	CHECK(cudaIpcGetEventHandle(&gone, event) != cudaSuccess);
	cudaGetLastError();
	tell();
	waits();
	records();
	keeps_waiting();
	records_again();
	waits();
	destroys_its_wait();
	open_by_driver(handle);
	destroys_its_record();
	CUDA(cudaIpcOpenEventHandle(&event, handle));
	hear();
	CHECK(kill(child, SIGKILL) == 0);
	CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status));
	expect_pending();
	CUDA(cudaEventDestroy(event));
	CHECK(cudaIpcOpenEventHandle(&event, handle) ==
	      cudaErrorInvalidResourceHandle);
	cudaGetLastError();
}

int main(void)
{
	pid_t child;

	CHECK(pipe(to_parent) == 0 && pipe(to_child) == 0);
	CHECK(pipe(gates[0]) == 0 && pipe(gates[1]) == 0);
	child = fork();
	if (child == 0) {
		run_child();
		return 1;
	}
	run_parent(child);
	puts("OK");
	return 0;
}
