/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Memory that is shared with another process, which has allocated it. Both
 * processes see all writes until the memory is closed.
 *
 * The child allocates, because CUDA's devices do not survive a fork.
 */

#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "program.h"

#define BYTES 3000 /* not a multiple of the page size */
#define LAZY cudaIpcMemLazyEnablePeerAccess

static int to_parent[2], to_child[2];

static void await_parent(void)
{
	char byte;

	CHECK(read(to_child[0], &byte, 1) == 1);
}

/*
 * Allocate twice, so that the second block does not start at a page boundary.
 */
static int run_child(void)
{
	cudaIpcMemHandle_t handle;
	char *before, *memory, byte = 'a';

	CUDA(cudaMalloc((void **)&before, BYTES));
	CUDA(cudaMalloc((void **)&memory, BYTES));
	CUDA(cudaMemset(before, 'x', BYTES));
	CUDA(cudaMemcpy(memory + 8, &byte, 1, cudaMemcpyHostToDevice));
	CUDA(cudaIpcGetMemHandle(&handle, memory));
	CHECK(write(to_parent[1], &handle, sizeof(handle)) == sizeof(handle));
	await_parent();
	CUDA(cudaMemcpy(&byte, memory + 8, 1, cudaMemcpyDeviceToHost));
	CHECK(byte == 'b');
	CUDA(cudaMemcpy(&byte, before + BYTES - 1, 1, cudaMemcpyDeviceToHost));
	CHECK(byte == 'x');
	/* The process that created the memory may not open it. */
	CHECK(cudaIpcOpenMemHandle((void **)&before, handle, LAZY) ==
	      cudaErrorDeviceUninitialized);
	return 0;
}

static void use(char *memory)
{
	struct cudaPointerAttributes attributes;
	char byte;

	CUDA(cudaPointerGetAttributes(&attributes, memory));
	CHECK(attributes.type == cudaMemoryTypeDevice);
	CUDA(cudaMemcpy(&byte, memory + 8, 1, cudaMemcpyDeviceToHost));
	CHECK(byte == 'a');
	byte = 'b';
	CUDA(cudaMemcpy(memory + 8, &byte, 1, cudaMemcpyHostToDevice));
	CHECK(cudaFree(memory) == cudaErrorInvalidValue);
}

/* Open invalid handles, and a handle that names another file. */
static void open_wrong(cudaIpcMemHandle_t handle)
{
	cudaIpcMemHandle_t wrong;
	void *memory;

	memset(&wrong, 0, sizeof(wrong));
	CHECK(cudaIpcOpenMemHandle(&memory, wrong, LAZY) ==
	      cudaErrorInvalidResourceHandle);
	for (size_t i = 0; i < 48; i++) {
		wrong = handle;
		wrong.reserved[i] = (char)(wrong.reserved[i] ^ 0x55);
		if (cudaIpcOpenMemHandle(&memory, wrong, LAZY) == cudaSuccess)
			CUDA(cudaIpcCloseMemHandle(memory));
	}
	CHECK(cudaIpcOpenMemHandle(&memory, handle, 0) ==
	      cudaErrorInvalidValue);
	CHECK(cudaIpcOpenMemHandle(NULL, handle, LAZY) ==
	      cudaErrorInvalidValue);
}

int main(void)
{
	cudaIpcMemHandle_t handle;
	void *memory, *again;
	pid_t child;
	int status;

	CHECK(pipe(to_parent) == 0 && pipe(to_child) == 0);
	child = fork();
	if (child == 0)
		return run_child();
	CHECK(read(to_parent[0], &handle, sizeof(handle)) == sizeof(handle));
	open_wrong(handle);
	CUDA(cudaIpcOpenMemHandle(&memory, handle, LAZY));
	CUDA(cudaIpcOpenMemHandle(&again, handle, LAZY));
	CHECK(again == memory);
	use(memory);
	CUDA(cudaIpcCloseMemHandle(memory));
	CUDA(cudaMemset(memory, 'c', 1)); /* the memory is still open once */
	CUDA(cudaIpcCloseMemHandle(memory));
	CHECK(cudaIpcCloseMemHandle(memory) == cudaErrorInvalidValue);
	CHECK(write(to_child[1], "", 1) == 1);
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	CHECK(cudaIpcOpenMemHandle(&memory, handle, LAZY) ==
	      cudaErrorInvalidResourceHandle);
	cudaGetLastError();
	puts("OK");
	return 0;
}
