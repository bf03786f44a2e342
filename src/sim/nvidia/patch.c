/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Redirects the CUDA runtime inside an image to another library (see patch.h)
 *
 * A jump is followed by its target's address, so it can reach all of memory.  A
 * jump takes 14 bytes, which fit because functions are aligned to 16 bytes.
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

/* ---- missing functions ------------------------------------------------ */

/* Functions of CUDA 13.1 and later, which the drop-in libcudart lacks. */
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
	return cohort_host_calls()->fail(cudaErrorNotSupported);
}

#define REFUSE(name)                                                           \
	static cudaError_t name##_missing(void)                                \
	{                                                                      \
		return refuse(#name);                                          \
	}

MISSING(REFUSE)

#define MISSING_ENTRY(name) { #name, name##_missing },

static const struct replacement missing[] = { MISSING(MISSING_ENTRY){ NULL,
	                                                              NULL } };

/* ---- targets of the jumps --------------------------------------------- */

struct redirection {
	const struct image *image;
	void *runtime;
	const struct replacement *own;
};

static void *find(const struct replacement *list, const char *name)
{
	for (; list && list->name; list++)
		if (strcmp(list->name, name) == 0)
			return list->function;
	return NULL;
}

/* Return true if @name is a function of the runtime to redirect.  If the image
 * is a program, include the functions that compiled code calls (__cuda...),
 * because the constructors that register kernels have not run yet. */
static bool is_of_runtime(const struct redirection *r, const char *name)
{
	if (find(r->own, name))
		return true;
	if (!r->own && strncmp(name, "__", 2) == 0)
		name += 2;
	return strncmp(name, "cuda", 4) == 0 && isupper((unsigned char)name[4]);
}

/* Return the address to which @name must jump, or NULL if there is none. */
static void *target(const struct redirection *r, const char *name)
{
	void *function = find(r->own, name);

	if (!function)
		function = find(missing, name);
	return function ? function : dlsym(r->runtime, name);
}

/* Return true if @s is a function to redirect.  A program can itself define
 * functions with such names; these are not redirected, because the drop-in
 * libcudart lacks them. */
static bool is_redirected(const struct redirection *r, const Elf64_Sym *s)
{
	const char *name = image_name(r->image, s);

	return ELF64_ST_TYPE(s->st_info) == STT_FUNC &&
	       image_address(r->image, s) && is_of_runtime(r, name) &&
	       (r->own || target(r, name));
}

/* ---- writing jumps ---------------------------------------------------- */

/* the instruction jmp *0(%rip) */
static const unsigned char jump[] = { 0xff, 0x25, 0, 0, 0, 0 };

#define JUMP_BYTES (sizeof(jump) + sizeof(void *))
#define HEAD_BYTES 16

/* The range from the start of the first function to the start of the last. */
struct span {
	char *first, *last;
	size_t count;
};

/* Check all functions before writing.  Return false if a function has no room
 * for a jump or has no target. */
static bool check_targets(const struct redirection *r, struct span *out,
                          char *why, size_t why_bytes)
{
	const struct image *image = r->image;
	const Elf64_Sym *s = image->symbols;
	const char *name;
	char *head;

	for (; s < image->symbols + image->symbol_count; s++) {
		if (!is_redirected(r, s))
			continue;
		name = image_name(image, s);
		head = image_address(image, s);
		if (head < image->text ||
		    head + HEAD_BYTES > image->text + image->text_bytes ||
		    (uintptr_t)head % HEAD_BYTES) {
			snprintf(why, why_bytes,
			         "%s: function %s cannot be replaced by a jump",
			         image->path, name);
			return false;
		}
		if (!target(r, name)) {
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
	         "%s contains no CUDA runtime with named functions",
	         image->path);
	return false;
}

static void write_jumps(const struct redirection *r)
{
	const struct image *image = r->image;
	const Elf64_Sym *s = image->symbols;
	char *head;
	void *to;

	for (; s < image->symbols + image->symbol_count; s++) {
		if (!is_redirected(r, s))
			continue;
		head = image_address(image, s);
		to = target(r, image_name(image, s));
		memcpy(head, jump, sizeof(jump));
		memcpy(head + sizeof(jump), &to, sizeof(to));
	}
}

bool patch_runtime(const struct image *image, void *runtime,
                   const struct replacement *own, char *why, size_t why_bytes)
{
	const struct redirection r = { image, runtime, own };
	const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	struct span span = { .count = 0 };
	size_t bytes;
	char *start;

	_Static_assert(JUMP_BYTES <= HEAD_BYTES, "a jump fits");
	if (!check_targets(&r, &span, why, why_bytes))
		return false;
	start = span.first - (uintptr_t)span.first % page;
	bytes = (size_t)(span.last + HEAD_BYTES - start);
	if (mprotect(start, bytes, PROT_READ | PROT_WRITE | PROT_EXEC) != 0) {
		snprintf(why, why_bytes,
		         "the code of %s cannot be made writable: %s",
		         image->path, strerror(errno));
		return false;
	}
	write_jumps(&r);
	mprotect(start, bytes, PROT_READ | PROT_EXEC);
	return true;
}
