/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Loads NVIDIA's NCCL when this library is loaded, and forwards NCCL's
 * functions to it (see loader.h)
 *
 * Each function jumps to NCCL's function of the same name, which receives all
 * arguments of the caller.
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
#include "sim/nccl_exports.h"

/* ---- NCCL's functions -------------------------------------------------- */

/* The reason why NCCL is not available, or NULL if it is.  Written only by the
 * constructor. */
static const char *no_nccl;

/* Return the result of a function that cannot be forwarded: an error code or,
 * if the function returns a string, the reason. */
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
	_Generic((result *)0, const char **: true, default: false)
/* clang-format on */

/* Define an exported function p<name>, with <name> as a weak alias.  The
 * function jumps to *forward_<name>.  Until the constructor sets this pointer,
 * it points to a function that fails. */
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

static void forward_to(void *library)
{
#define FORWARD(since, result, name, parameters, arguments)                    \
	forward(library, #name, &forward_##name);
	NCCL_EXPORTS(FORWARD)
#undef FORWARD
}

/* Text of the reason why NCCL is not available.  Written only by the
 * constructor. */
static char failure[512];
static struct image image;

const char *cohort_nccl_file(void)
{
	return image.path;
}

__attribute__((format(printf, 1, 2))) static bool fail(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(failure, sizeof(failure), format, arguments);
	va_end(arguments);
	return false;
}

static bool is_ours(void *library)
{
	return dlsym(library, "cohort_drop_in");
}

/* Load NVIDIA's library, or return NULL.  The library's constructors register
 * its kernels with its own copy of the CUDA runtime; this works without a
 * driver. */
static void *open_nccl(void)
{
	const char *path = getenv("COHORT_HOST_NCCL");
	void *library;

	if (!path || !*path) {
		fail("COHORT_HOST_NCCL is not set: run the program with cohort "
		     "run --nccl");
		return NULL;
	}
	if (!elf_file_is_whole(path, failure, sizeof(failure)))
		return NULL;
	library = dlopen(path, RTLD_NOW | RTLD_GLOBAL | RTLD_NODELETE);
	if (!library)
		fail("%s", dlerror());
	else if (is_ours(library))
		fail("%s is not NVIDIA's library: it belongs to the simulator",
		     path);
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
		fail("NCCL %d.%d.%d is not supported by the simulator, which "
		     "supports %s",
		     number / 10000, number / 100 % 100, number % 100,
		     version_list());
	return version;
}

/* Load the drop-in libcudart, which replaces the runtime that is linked into
 * NCCL, or return NULL. */
static void *open_runtime(void)
{
	static const char name[] = "libcudart.so.13";
	void *runtime = dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);

	if (!runtime)
		fail("%s", dlerror());
	else if (!is_ours(runtime))
		fail("%s is not the simulator's CUDA runtime", name);
	else
		return runtime;
	return NULL;
}

/* Return the name of a table that is missing in NCCL or whose size differs from
 * the size in @version.  Return NULL if all tables match. */
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
		return fail("%s is NCCL %s, but not the supported build: the "
		            "size of %s differs",
		            image.path, version->text, table);
	if (!launch_begin(version, &image))
		return fail("%s: unexpected kernel tables, or out of memory",
		            image.path);
	return nccl_runtime_redirect(&image, runtime, failure, sizeof(failure));
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
	fprintf(stderr, "cohort: cannot load NVIDIA's NCCL: %s\n", failure);
}
