/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Jumps at the heads of the functions of CUDA's runtime in NCCL, and the
 * functions that the drop-in libcudart refuses, or answers otherwise, and NCCL
 * needs: those on kernels, and memory's handles for other processes
 *
 * The target's address follows the jump, so that a jump reaches all of memory.
 * It takes 14 bytes, and functions begin at multiples of 16.  No thread runs
 * the functions meanwhile: NCCL's constructors have run, and its functions are
 * called through this library, which is not loaded yet.
 */

#include "sim/nvidia/patch.h"

#include <ctype.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sim/dropin/host_calls.h"
#include "sim/nvidia/nccl_launch.h"

/* The codes of compute capability 9.0, which the simulator's devices have. */
#define CODE 90
#define SHARED_MOST (227 * 1024)

static cudaError_t fail(cudaError_t error)
{
	return cohort_host_calls()->fail(error);
}

/* ---- kernels ---------------------------------------------------------- */

/* NCCL asks for the stack and for the shared memory that a kernel takes:
 * none. */
static cudaError_t get_attributes(struct cudaFuncAttributes *out,
                                  const void *kernel)
{
	if (!out)
		return fail(cudaErrorInvalidValue);
	if (!stub_name(kernel))
		return fail(cudaErrorInvalidDeviceFunction);
	*out = (struct cudaFuncAttributes){
		.maxThreadsPerBlock = 1024,
		.numRegs = 96,
		.ptxVersion = CODE,
		.binaryVersion = CODE,
		.maxDynamicSharedSizeBytes = SHARED_MOST,
		.preferredShmemCarveout = -1,
	};
	return cudaSuccess;
}

/* What is set concerns the use of a multiprocessor, of which there is none. */
static cudaError_t set_attribute(const void *kernel, int attribute, int value)
{
	(void)attribute;
	(void)value;
	return stub_name(kernel) ? cudaSuccess
	                         : fail(cudaErrorInvalidDeviceFunction);
}

static cudaError_t get_function(const void **out, const void *kernel)
{
	if (!out)
		return fail(cudaErrorInvalidValue);
	if (!stub_name(kernel))
		return fail(cudaErrorInvalidDeviceFunction);
	*out = kernel;
	return cudaSuccess;
}

/* ---- memory's handles ------------------------------------------------- */

/*
 * NCCL makes them for all of its buffers, to send them to ranks of other
 * processes; and it takes the address itself for the ranks of its own process,
 * which are all that there are where memory cannot be shared.
 */
static cudaError_t get_handle(cudaIpcMemHandle_t *handle, void *memory)
{
	const struct host_calls *calls = cohort_host_calls();
	const cudaError_t error = calls->cudaIpcGetMemHandle(handle, memory);

	if (error != cudaErrorNotSupported)
		return error;
	calls->cudaGetLastError();
	memset(handle, 0, sizeof(*handle));
	memcpy(handle, &memory, sizeof(memory));
	return cudaSuccess;
}

/* ---- what only a runtime that is linked in has ------------------------ */

/* Functions that no NCCL has been seen to call, and the drop-in libcudart
 * lacks. */
#define MISSING(X)                                                             \
	X(cudaDevResourceGenerateDesc)                                         \
	X(cudaDevSmResourceSplit)                                              \
	X(cudaDevSmResourceSplitByCount)                                       \
	X(cudaDeviceGetDevResource)                                            \
	X(cudaDeviceGetExecutionCtx)                                           \
	X(cudaExecutionCtxDestroy)                                             \
	X(cudaExecutionCtxGetDevResource)                                      \
	X(cudaExecutionCtxGetDevice)                                           \
	X(cudaExecutionCtxGetId)                                               \
	X(cudaExecutionCtxRecordEvent)                                         \
	X(cudaExecutionCtxStreamCreate)                                        \
	X(cudaExecutionCtxSynchronize)                                         \
	X(cudaExecutionCtxWaitEvent)                                           \
	X(cudaFuncGetParamCount)                                               \
	X(cudaGraphConditionalHandleCreate_v2)                                 \
	X(cudaGraphExecGetId)                                                  \
	X(cudaGraphGetId)                                                      \
	X(cudaGraphNodeGetContainingGraph)                                     \
	X(cudaGraphNodeGetLocalId)                                             \
	X(cudaGraphNodeGetParams)                                              \
	X(cudaGraphNodeGetToolsId)                                             \
	X(cudaGreenCtxCreate)                                                  \
	X(cudaLaunchHostFunc_v2)                                               \
	X(cudaLaunchHostFunc_v2_ptsz)                                          \
	X(cudaMemGetLocationInfo)                                              \
	X(cudaMemcpy3DWithAttributesAsync)                                     \
	X(cudaMemcpy3DWithAttributesAsync_ptsz)                                \
	X(cudaMemcpyWithAttributesAsync)                                       \
	X(cudaMemcpyWithAttributesAsync_ptsz)                                  \
	X(cudaStreamBeginRecaptureToGraph)                                     \
	X(cudaStreamBeginRecaptureToGraph_ptsz)                                \
	X(cudaStreamGetCaptureInfo_v2)                                         \
	X(cudaStreamGetDevResource)                                            \
	X(cudaStreamGetDevResource_ptsz)                                       \
	X(cudaSubgridCreate)                                                   \
	X(cudaSubgridWorkerGridCreate)                                         \
	X(cudaSubgridWorksetCreate)

static cudaError_t refuse(const char *name)
{
	fprintf(stderr, "cohort: %s: the host platform has no such function\n",
	        name);
	return fail(cudaErrorNotSupported);
}

#define REFUSE(name)                                                           \
	static cudaError_t name##_missing(void)                                \
	{                                                                      \
		return refuse(#name);                                          \
	}

MISSING(REFUSE)

/* ---- the end of the process ------------------------------------------- */

/* The runtime that is linked in would unload the kernels from a driver. */
static void unregister(void **module)
{
	(void)module;
}

#define REFUSAL(name) { #name, name##_missing },

/* The functions that take the place of the image's. */
static const struct {
	const char *name;
	void *function;
} own[] = {
	{ "cudaFuncGetAttributes", get_attributes },
	{ "cudaFuncSetAttribute", set_attribute },
	{ "cudaGetFuncBySymbol", get_function },
	{ "cudaIpcGetMemHandle", get_handle },
	MISSING(REFUSAL){ "__cudaUnregisterFatBinary", unregister },
};

/* ---- jumps ------------------------------------------------------------ */

/* jmp *0(%rip) */
static const unsigned char jump[] = { 0xff, 0x25, 0, 0, 0, 0 };

#define JUMP_BYTES (sizeof(jump) + sizeof(void *))
#define HEAD_BYTES 16

/* The library registers its kernels before any jump is written; it unregisters
 * them when the process ends, by this function. */
#define AT_EXIT "__cudaUnregisterFatBinary"

static bool is_of_runtime(const struct image *image, const Elf64_Sym *s)
{
	const char *name = image_name(image, s);

	if (ELF64_ST_TYPE(s->st_info) != STT_FUNC || !image_address(image, s))
		return false;
	return (strncmp(name, "cuda", 4) == 0 &&
	        isupper((unsigned char)name[4])) ||
	       strcmp(name, AT_EXIT) == 0;
}

/* Where the function @name is to jump; NULL if there is no such function. */
static void *target(const char *name, void *runtime)
{
	for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
		if (strcmp(own[i].name, name) == 0)
			return own[i].function;
	return dlsym(runtime, name);
}

/* The first and the last byte of the heads of all functions. */
struct span {
	char *first, *last;
	size_t count;
};

/* False if one of the functions has no place for a jump, or none to jump to. */
static bool survey(const struct image *image, void *runtime, struct span *out,
                   char *why, size_t why_bytes)
{
	const Elf64_Sym *s = image->symbols;
	const char *name;
	char *head;

	for (; s < image->symbols + image->symbol_count; s++) {
		if (!is_of_runtime(image, s))
			continue;
		name = image_name(image, s);
		head = image_address(image, s);
		if (head < image->text ||
		    head + HEAD_BYTES > image->text + image->text_bytes ||
		    (uintptr_t)head % HEAD_BYTES) {
			snprintf(why, why_bytes, "%s: no room for a jump in %s",
			         image->path, name);
			return false;
		}
		if (!target(name, runtime)) {
			snprintf(why, why_bytes,
			         "%s has %s, which the drop-in libcudart lacks",
			         image->path, name);
			return false;
		}
		if (!out->count++)
			out->first = out->last = head;
		out->first = head < out->first ? head : out->first;
		out->last = head > out->last ? head : out->last;
	}
	if (out->count)
		return true;
	snprintf(why, why_bytes,
	         "%s has no CUDA runtime linked in whose functions have names",
	         image->path);
	return false;
}

static void write_jumps(const struct image *image, void *runtime)
{
	const Elf64_Sym *s = image->symbols;
	char *head;
	void *to;

	for (; s < image->symbols + image->symbol_count; s++) {
		if (!is_of_runtime(image, s))
			continue;
		head = image_address(image, s);
		to = target(image_name(image, s), runtime);
		memcpy(head, jump, sizeof(jump));
		memcpy(head + sizeof(jump), &to, sizeof(to));
	}
}

bool patch_runtime(const struct image *image, void *runtime, char *why,
                   size_t why_bytes)
{
	const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	struct span span = { .count = 0 };
	size_t bytes;
	char *start;

	_Static_assert(JUMP_BYTES <= HEAD_BYTES, "a jump fits");
	if (!survey(image, runtime, &span, why, why_bytes))
		return false;
	start = span.first - (uintptr_t)span.first % page;
	bytes = (size_t)(span.last + HEAD_BYTES - start);
	if (mprotect(start, bytes, PROT_READ | PROT_WRITE | PROT_EXEC) != 0) {
		snprintf(why, why_bytes,
		         "the code of %s cannot be made writable: %s",
		         image->path, strerror(errno));
		return false;
	}
	write_jumps(image, runtime);
	mprotect(start, bytes, PROT_READ | PROT_EXEC);
	return true;
}
