/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Open NCCL and the CUDA runtime, and fill the table from them
 *
 * Libraries that the process has already loaded come first: a program that
 * brings its own must not get a second copy.  If COHORT_GPU_LIBRARIES names a
 * folder, only that folder is searched.  Functions with a version in
 * functions.h are optional: if one is missing, its entry returns an error, and
 * platform_has() returns false for it.
 */

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "base/text.h"
#include "platform/gpu/gpu.h"

static const char *const cudart_names[] = { "libcudart.so.13",
	                                    "libcudart.so.12", "libcudart.so",
	                                    NULL };
static const char *const nccl_names[] = { "libnccl.so.2", "libnccl.so", NULL };

/* Open the first of @names that exists.  Return NULL if none does, with the
 * reason for the first one in @why. */
static void *open_any(const char *folder, const char *const *names, int flags,
                      char why[256])
{
	char path[PATH_MAX];
	void *library;
	size_t i;

	for (i = 0; names[i]; i++) {
		snprintf(path, sizeof(path), "%s%s%s", folder ? folder : "",
		         folder ? "/" : "", names[i]);
		library = dlopen(path, RTLD_LOCAL | RTLD_NOW | flags);
		if (library)
			return library;
		if (!i)
			text_set(why, 256, "%s", dlerror());
	}
	return NULL;
}

static int open_library(const char *const *names, void **out)
{
	const char *folder = getenv("COHORT_GPU_LIBRARIES");
	void *library = NULL;
	char why[256];

	if (folder && !*folder)
		folder = NULL;
	if (!folder)
		library = open_any(NULL, names, RTLD_NOLOAD, why);
	if (!library)
		library = open_any(folder, names, 0, why);
	if (!library)
		return error_set(COHORT_NO_LIBRARY, "cannot open %s: %s",
		                 names[0], why);
	*out = library;
	return COHORT_OK;
}

static const char *file_of(void *library)
{
	struct link_map *map;

	return dlinfo(library, RTLD_DI_LINKMAP, &map) == 0 ? map->l_name : NULL;
}

/* Return the file of NVIDIA's NCCL if @library runs it on the simulator,
 * otherwise NULL. */
static const char *file_within(void *library)
{
	const char *(*file)(void);

	*(void **)&file = dlsym(library, "cohort_nccl_file");
	return file ? file() : NULL;
}

static bool is_drop_in(void *library)
{
	return dlsym(library, "cohort_drop_in");
}

/* Return the additional functions of a drop-in library, or NULL if it belongs
 * to another version of Cohort. */
static const struct host_knobs *find_knobs(void *library)
{
	const char *(*version)(void);
	const struct host_knobs *(*knobs)(void);

	*(void **)&version = dlsym(library, "cohort_drop_in");
	/* dlsym() also searches the libraries that @library depends on. */
	*(void **)&knobs = dlsym(library, "cohort_host_knobs");
	if (!knobs || strcmp(version(), cohort_version()) != 0)
		return NULL;
	return knobs();
}

const char *gpu_find_library(void)
{
	static const char *const driver_names[] = { "libcuda.so.1", NULL };
	char why[256];
	void *library = open_any(NULL, driver_names, 0, why), *nccl = NULL;

	if (library)
		return file_of(library);
	if (open_library(cudart_names, &library) == COHORT_OK &&
	    open_library(nccl_names, &nccl) == COHORT_OK &&
	    !is_drop_in(library) && !is_drop_in(nccl))
		return file_of(nccl);
	return NULL;
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"

/* Entries for missing functions: each returns an error. */
#define ABSENT(answer, result, name, parameters)                                 \
	static result absent_##name parameters                                   \
	{                                                                        \
		return _Generic((result)0,                                     \
			const char *: "missing",                               \
			default: answer); \
	}
#define ABSENT_NCCL(since, result, name, parameters, arguments)                \
	ABSENT(ncclInvalidUsage, result, name, parameters)
#define ABSENT_CUDA(since, result, name, parameters, arguments)                \
	ABSENT(cudaErrorNotSupported, result, name, parameters)
NCCL_FUNCTIONS(ABSENT_NCCL)
CUDA_FUNCTIONS(ABSENT_CUDA)

#pragma GCC diagnostic pop

/* True for each missing function; constant once the platform is open. */
static bool lacks[FUNCTIONS];

/* Store the address of function @name in @entry, a pointer to a function
 * pointer.  Return COHORT_NO_SYMBOL if a required function (@since is 0) is
 * missing. */
static int find(void *library, const char *soname, const char *name, int since,
                enum platform_function function, void *entry)
{
	void *address = dlsym(library, name);

	lacks[function] = !address;
	if (address)
		*(void **)entry = address;
	else if (!since)
		return error_set(COHORT_NO_SYMBOL, "%s has no symbol %s",
		                 soname, name);
	return COHORT_OK;
}

#define FIND(soname, library, since, name)                                     \
	table->name = absent_##name;                                           \
	if (rc == COHORT_OK)                                                   \
		rc = find(library, soname, #name, since, FUNCTION_##name,      \
		          &table->name);

static int find_cuda(void *library, struct platform *table)
{
	int rc = COHORT_OK;

#define FIND_CUDA(since, result, name, parameters, arguments)                  \
	FIND("libcudart", library, since, name)
	CUDA_FUNCTIONS(FIND_CUDA)
#undef FIND_CUDA
	return rc;
}

static int find_nccl(void *library, struct platform *table)
{
	int rc = COHORT_OK;

#define FIND_NCCL(since, result, name, parameters, arguments)                  \
	FIND("libnccl", library, since, name)
	NCCL_FUNCTIONS(FIND_NCCL)
#undef FIND_NCCL
	return rc;
}

/* Return the version that function @name reports, or 0 if this fails. */
static int ask_version(void *library, const char *name)
{
	int (*get)(int *version);
	int version = 0;

	*(void **)&get = dlsym(library, name);
	return get && get(&version) == 0 ? version : 0;
}

int gpu_load_cuda(struct gpu_libraries *l, struct platform *table)
{
	int rc = open_library(cudart_names, &l->cudart);

	if (rc != COHORT_OK)
		return rc;
	table->lacks = lacks;
	l->cudart_file = file_of(l->cudart);
	l->are_ours = is_drop_in(l->cudart);
	if (l->are_ours)
		l->knobs = find_knobs(l->cudart);
	if (l->knobs)
		rc = host_platform_join(l->knobs);
	if (rc != COHORT_OK)
		return rc;
	l->cudart_version = ask_version(l->cudart, "cudaRuntimeGetVersion");
	rc = gpu_check_cuda(l);
	return rc == COHORT_OK ? find_cuda(l->cudart, table) : rc;
}

int gpu_load_nccl(struct gpu_libraries *l, struct platform *table)
{
	int rc = open_library(nccl_names, &l->nccl);

	if (rc != COHORT_OK)
		return rc;
	l->nccl_file = file_within(l->nccl);
	l->runs_nvidia = l->nccl_file;
	if (!l->nccl_file)
		l->nccl_file = file_of(l->nccl);
	l->nccl_version = ask_version(l->nccl, "ncclGetVersion");
	if (is_drop_in(l->nccl) != l->are_ours)
		return error_set(
			COHORT_UNSUPPORTED,
			"%s is a drop-in library of the host platform, "
			"but %s is not: load both or neither",
			l->are_ours ? l->cudart_file : l->nccl_file,
			l->are_ours ? l->nccl_file : l->cudart_file);
	rc = gpu_check_nccl(l);
	return rc == COHORT_OK ? find_nccl(l->nccl, table) : rc;
}
