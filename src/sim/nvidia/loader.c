/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The real NCCL (see loader.h): opened when this library is loaded, and called
 * by NCCL's functions here, each of which jumps to the real one with all that
 * its caller has passed
 */

#include "sim/nvidia/loader.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cohort/cohort.h>

#include "platform/cuda_abi.h"
#include "platform/nccl_abi.h"
#include "sim/nvidia/elf_file.h"
#include "sim/nvidia/nccl_exports.h"
#include "sim/nvidia/nccl_image.h"
#include "sim/nvidia/nccl_launch.h"
#include "sim/nvidia/patch.h"
#include "sim/nvidia/sockets.h"

/* ---- NCCL's functions -------------------------------------------------- */

/* Why there is no NCCL, or NULL.  Written by the constructor only. */
static const char *no_nccl;

/* What a function answers that has nowhere to jump to: a code or, if it is one
 * that gives texts, a text. */
static const void *refuse(const char *name, bool is_text)
{
	const char *why = no_nccl;

	if (!why) {
		why = "this NCCL has no such function";
		fprintf(stderr, "cohort: %s: %s\n", name, why);
	}
	return is_text ? why : (const void *)(uintptr_t)ncclSystemError;
}

/* clang-format off */
#define IS_TEXT(result) \
	_Generic((result)0, const char *: true, default: false)
/* clang-format on */

/* forward_NAME: where the function jumps.  Written by the constructor only. */
#define FUNCTION(since, result, name, parameters, arguments)                   \
	static const void *refuse_##name(void)                                 \
	{                                                                      \
		return refuse(#name, IS_TEXT(result));                         \
	}                                                                      \
	extern const void *(*forward_##name)(void);                            \
	const void *(*forward_##name)(void) = refuse_##name;                   \
                                                                               \
	COHORT_API void p##name(void) __attribute__((naked));                  \
	void p##name(void)                                                     \
	{                                                                      \
		__asm__("jmp *forward_" #name "(%rip)");                       \
	}                                                                      \
	COHORT_API void name(void) __attribute__((weak, alias("p" #name)));

NCCL_EXPORTS(FUNCTION)

static void forward(void *library, const char *name, void *slot)
{
	void *function = dlsym(library, name);

	if (function)
		*(void **)slot = function;
}

/* Let the functions of this library jump to those of @library. */
static void forward_to(void *library)
{
#define FORWARD(since, result, name, parameters, arguments)                    \
	forward(library, #name, &forward_##name);
	NCCL_EXPORTS(FORWARD)
#undef FORWARD
}

/* Written by the constructor only. */
static char failure[512];
static struct image image;

const char *cohort_nccl_file(void)
{
	return image.path;
}

/* Say why NCCL cannot be had; false. */
__attribute__((format(printf, 1, 2))) static bool fail(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(failure, sizeof(failure), format, arguments);
	va_end(arguments);
	return false;
}

/* True if @library is one of this project. */
static bool is_ours(void *library)
{
	return dlsym(library, "cohort_drop_in");
}

/* The real library, or NULL.  Its constructors register its kernels with its
 * own runtime, which wants no driver for that. */
static void *open_nccl(void)
{
	const char *path = getenv("COHORT_HOST_NCCL");
	void *library;

	if (!path || !*path) {
		fail("COHORT_HOST_NCCL has no path: run the program by cohort "
		     "run "
		     "--nccl");
		return NULL;
	}
	if (!elf_file_is_whole(path, failure, sizeof(failure)))
		return NULL;
	library = dlopen(path, RTLD_NOW | RTLD_GLOBAL | RTLD_NODELETE);
	if (!library)
		fail("%s", dlerror());
	else if (is_ours(library))
		fail("%s is not NVIDIA's: it is one of the simulator's", path);
	else
		return library;
	return NULL;
}

static const struct nccl_version *find_version(void *library)
{
	const struct nccl_version *version;
	int (*get)(int *number);
	int number = 0;

	*(void **)&get = dlsym(library, "ncclGetVersion");
	if (!get || get(&number) != 0) {
		fail("%s is not NCCL: it has no ncclGetVersion",
		     getenv("COHORT_HOST_NCCL"));
		return NULL;
	}
	version = version_find(number);
	if (!version)
		fail("NCCL %d.%d.%d is not known to the simulator; these are: "
		     "%s",
		     number / 10000, number / 100 % 100, number % 100,
		     version_list());
	return version;
}

/* The drop-in library with the functions of the CUDA runtime that NCCL has
 * linked in, or NULL. */
static void *open_runtime(void)
{
	static const char name[] = "libcudart.so.13";
	void *runtime = dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);

	if (!runtime)
		fail("%s", dlerror());
	else if (!is_ours(runtime))
		fail("%s is not the simulator's", name);
	else
		return runtime;
	return NULL;
}

/* The name of a table that is missing in the library, or has another size than
 * in @version; NULL if there is none. */
static const char *other_table(const struct nccl_version *version)
{
	static const char *const names[] = NCCL_TABLES;
	const Elf64_Sym *symbol;
	size_t i;

	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		symbol = image_symbol(&image, names[i]);
		if (!symbol || symbol->st_size != version->table_bytes[i])
			return names[i];
	}
	return NULL;
}

static bool adapt(void *library, const struct nccl_version *version)
{
	void *runtime = open_runtime();
	const char *table;

	if (!runtime || !image_find(&image, library, failure, sizeof(failure)))
		return false;
	table = other_table(version);
	if (table)
		return fail("%s is NCCL %s, but not the build that is known: "
		            "%s has another size",
		            image.path, version->text, table);
	if (!launch_begin(version, &image))
		return fail("%s: the tables of its kernels are not as "
		            "expected, or memory is short",
		            image.path);
	return patch_runtime(&image, runtime, failure, sizeof(failure));
}

__attribute__((constructor)) static void load(void)
{
	void *library = open_nccl();
	const struct nccl_version *version =
		library ? find_version(library) : NULL;

	if (version && adapt(library, version)) {
		sockets_with_pauses(library);
		forward_to(library);
		return;
	}
	image.path = NULL;
	no_nccl = failure;
	fprintf(stderr, "cohort: no NCCL: %s\n", failure);
}
