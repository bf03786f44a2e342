/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Which libraries a process gets, if there are several; and what a launcher
 * needs
 */

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"
#include "cli/check/check.h"

#define CHECK "libraries"

static bool is_same_file(const char *a, const char *b)
{
	struct stat x, y;

	return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev &&
	       x.st_ino == y.st_ino;
}

/* Copy the next part of the list in @at to @out, and move @at behind it; false
 * at its end. */
static bool next_part(const char **at, const char *separators,
                      char out[PATH_MAX])
{
	size_t n;

	if (!*at || !**at)
		return false;
	n = strcspn(*at, separators);
	snprintf(out, PATH_MAX, "%.*s", (int)n, *at);
	*at += n + ((*at)[n] != 0);
	return true;
}

/* The file @name that the loader finds in LD_LIBRARY_PATH, if it is not @file;
 * false if it is, or if there is none. */
static bool find_other(const char *name, const char *file, char out[PATH_MAX])
{
	const char *at = getenv("LD_LIBRARY_PATH");

	while (next_part(&at, ":", out)) {
		text_append(out, PATH_MAX, "/%s", name);
		if (access(out, F_OK) == 0)
			return !is_same_file(out, file);
	}
	return false;
}

/* @name is what the loader is asked for, @file what the library has opened. */
static void check_library(struct check *c, const char *name, const char *stem,
                          const char *file)
{
	const char *chosen = getenv("COHORT_GPU_LIBRARIES"),
		   *at = getenv("LD_PRELOAD");
	char other[PATH_MAX];

	if (!*file)
		return;
	while (next_part(&at, ": ", other)) {
		if (!strstr(other, stem) || is_same_file(other, file))
			continue;
		check_warn(c, CHECK, name, "Leave one of them.",
		           "LD_PRELOAD has %s, and groups use %s: calls of "
		           "both in one process do not mix.",
		           other, file);
	}
	/* What runs NVIDIA's NCCL on the simulator stands before it on
	 * purpose. */
	if (!c->probed.info.is_drop_in && find_other(name, file, other))
		check_warn(
			c, CHECK, name, "Leave one of them in LD_LIBRARY_PATH.",
			"Groups use %s%s, and programs that are linked with "
			"it get %s: calls of both in one process do not mix.",
			file,
			chosen && *chosen ? " (COHORT_GPU_LIBRARIES)" : "",
			other);
}

/* A launcher's variables, without the library by which processes meet over
 * it. */
static void check_launcher(struct check *c)
{
	const char *space = getenv("PMIX_NAMESPACE");
	void *library;

	if (!space || !*space) {
		check_skip(c, "launcher",
		           "No launcher with a PMIx server has started this "
		           "process.");
		return;
	}
	library = dlopen("libpmix.so.2", RTLD_LAZY | RTLD_LOCAL);
	if (library) {
		check_ok(c, "launcher",
		         "libpmix.so.2 is here, for the launcher's PMIx "
		         "server");
		dlclose(library);
		return;
	}
	check_error(c, "launcher", NULL,
	            "Install it (Debian: libpmix2), or use "
	            "COHORT_BOOTSTRAP_TABLE.",
	            "A launcher has started this process with a PMIx server, "
	            "but %s: processes of several machines cannot find each "
	            "other.",
	            dlerror());
}

void check_libraries(struct check *c)
{
	const unsigned before = check_troubles(c);
	const char *base = strrchr(c->probed.runtime_file, '/');
	const bool is_old = strstr(base ? base : "", ".so.12");

	if (c->is_probed) {
		check_library(c, "libnccl.so.2", "libnccl",
		              c->probed.nccl_file);
		check_library(c, is_old ? "libcudart.so.12" : "libcudart.so.13",
		              "libcudart", c->probed.runtime_file);
	}
	if (!c->is_probed || !c->probed.nccl_file[0])
		check_skip(c, CHECK, "The platform opens no libraries.");
	else if (check_troubles(c) == before)
		check_ok(c, CHECK, "%s and %s", c->probed.nccl_file,
		         c->probed.runtime_file);
	check_launcher(c);
}
