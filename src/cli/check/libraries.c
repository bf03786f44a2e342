/* SPDX-License-Identifier: Apache-2.0 */

/* Checks which of several installed libraries a process loads, and whether the
 * library that a launcher needs is installed */

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

/* Copy the next part of the list at *@at to @out, and advance *@at. Return
 * false if there is no next part. */
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

/* Find the file @name in LD_LIBRARY_PATH. Return whether the first file found
 * is not @file. */
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

/* Check the library @file, which Cohort has opened. Programs are linked with
 * @name. */
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
		check_warn(c, CHECK, name, "Remove one of them.",
		           "LD_PRELOAD has %s, but groups use %s: a process "
		           "cannot use both.",
		           other, file);
	}
	/* The library that runs NVIDIA's NCCL on the simulator precedes it in
	 * LD_LIBRARY_PATH on purpose. */
	if (!c->probed.info.is_drop_in && find_other(name, file, other))
		check_warn(c, CHECK, name,
		           "Keep only one of them in LD_LIBRARY_PATH.",
		           "Groups use %s%s, but programs that are linked with "
		           "it get %s: a process cannot use both.",
		           file,
		           chosen && *chosen ? " (COHORT_GPU_LIBRARIES)" : "",
		           other);
}

/* If the launcher has a PMIx server, which lets processes find each other,
 * check that libpmix is installed. */
static void check_launcher(struct check *c)
{
	const char *space = getenv("PMIX_NAMESPACE");
	void *library;

	if (!space || !*space) {
		check_skip(c, "launcher",
		           "This process was not started by a launcher with a "
		           "PMIx server.");
		return;
	}
	library = dlopen("libpmix.so.2", RTLD_LAZY | RTLD_LOCAL);
	if (library) {
		check_ok(c, "launcher",
		         "libpmix.so.2 is installed, for the launcher's PMIx "
		         "server");
		dlclose(library);
		return;
	}
	check_error(c, "launcher", NULL,
	            "Install it (Debian: libpmix2), or use "
	            "COHORT_BOOTSTRAP_TABLE.",
	            "The launcher of this process has a PMIx server, but %s: "
	            "processes on several machines cannot find each other.",
	            dlerror());
}

void check_libraries(struct check *c)
{
	const unsigned before = check_troubles(c);
	const bool is_old = strstr(basename(c->probed.runtime_file), ".so.12");

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
