/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A hook of the dynamic loader (rtld-audit) that substitutes the shim for
 * NCCL's library
 *
 * The loader calls the hook before it opens a file.  If the file is NCCL's
 * library, the hook records its path and returns the path of the shim.  The
 * shim depends on a library named REAL, for which the hook returns the recorded
 * path.
 *
 * The hook works for programs that are linked with NCCL, even if they find it
 * through an RPATH, as the libraries of Python wheels do, and for programs that
 * open NCCL by name or by path.  LD_PRELOAD does not affect a program that
 * opens NCCL by path, and does not reveal which file the program would have
 * opened.  LD_LIBRARY_PATH affects neither an RPATH nor a path.
 */

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

/* Name of the shim's dependency, as in mk/build.mk. */
#define REAL "libcohort-watched-nccl.so"

/* Path of the NCCL library that the program would have opened, or "".  Guarded
 * by the loader's lock, which is held during la_objsearch(). */
static char real[PATH_MAX];

/* Path of the shim, which is in the folder of this library; or "". */
static char shim[PATH_MAX];

/* True if the next search for @real is for the shim's dependency. */
static bool is_for_shim;

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* Return whether @path is libnccl.so, libnccl.so.2, or a full version. */
static bool is_nccl(const char *path)
{
	static const char name[] = "libnccl.so";
	const char *base = base_name(path);
	const size_t n = sizeof(name) - 1;

	return strncmp(base, name, n) == 0 && (!base[n] || base[n] == '.');
}

EXPORT unsigned int la_version(unsigned int version)
{
	Dl_info own;
	int folder;

	if (dladdr(shim, &own) && strchr(own.dli_fname, '/')) {
		folder = (int)(base_name(own.dli_fname) - own.dli_fname);
		snprintf(shim, sizeof(shim), "%.*slibnccl.so.2", folder,
		         own.dli_fname);
	}
	return version < LAV_CURRENT ? version : LAV_CURRENT;
}

EXPORT char *la_objsearch(const char *name, uintptr_t *cookie,
                          unsigned int flag)
{
	/* The loader initializes the cookie to the link map of the library that
	 * causes the search. */
	const struct link_map *by = (const struct link_map *)*cookie;
	char *same = (char *)(uintptr_t)name;

	if (flag == LA_SER_ORIG && strcmp(name, REAL) == 0 && *real) {
		is_for_shim = true;
		return real;
	}
	if (is_for_shim && strcmp(name, real) == 0) {
		is_for_shim = false;
		return same;
	}
	/* A library with NCCL's name may itself open another NCCL. */
	if (!*shim || !strchr(name, '/') || !is_nccl(name) ||
	    (by && is_nccl(by->l_name)) || access(name, R_OK) ||
	    strlen(name) >= sizeof(real))
		return same;
	if (!*real)
		strcpy(real, name);
	return shim;
}
