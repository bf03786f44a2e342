/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Which NCCL, and the settings with which it runs on CPUs (src/sim/nvidia)
 */

#include "cli/run_nccl.h"

#include <dlfcn.h>
#include <errno.h>
#include <glob.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/util.h"
#include "cli/common/cli.h"
#include "sim/nvidia/known.h"

/* ---- the library ------------------------------------------------------ */

/* The best that was found so far. */
struct found {
	char path[PATH_MAX];
	int version; /* 0: there is none */
	bool is_known;
};

static bool is_known(int version)
{
#define IS(number, major, minor, patch) version == (number) ||
	return KNOWN_NCCL(IS) false;
#undef IS
}

/* The newest that the simulator knows is the best; without one, the first that is NCCL
 * at all. */
static void choose(const struct found *f, struct found *best)
{
	if (f->version &&
	    (!best->version ||
	     (f->is_known && (!best->is_known || f->version > best->version))))
		*best = *f;
}

/* What @library is: nothing, unless it is NCCL, and not a drop-in library. */
static void identify(void *library, struct found *out)
{
	struct found f = { .version = 0 };
	int (*get_version)(int *version);
	struct link_map *map;

	*(void **)&get_version = dlsym(library, "ncclGetVersion");
	if (!get_version || dlsym(library, "cohort_drop_in") ||
	    get_version(&f.version) != 0 ||
	    dlinfo(library, RTLD_DI_LINKMAP, &map) != 0 ||
	    !realpath(map->l_name, f.path))
		return;
	f.is_known = is_known(f.version);
	*out = f;
}

/* Write to @fd what the library @name is. */
__attribute__((noreturn)) static void tell(const char *name, int fd)
{
	struct found f = { .version = 0 };
	void *library = dlopen(name, RTLD_LAZY | RTLD_LOCAL);

	if (library)
		identify(library, &f);
	_exit(write(fd, &f, sizeof(f)) == (ssize_t)sizeof(f) ? 0 : 1);
}

/* The library @name, in a process of its own: one that is broken may end it. */
static void consider_file(const char *name, struct found *best)
{
	struct found f = { .version = 0 };
	int ends[2], status = 0;
	ssize_t n;
	pid_t child;

	if (pipe(ends) != 0)
		return;
	child = fork();
	if (!child)
		tell(name, ends[1]);
	close(ends[1]);
	n = read(ends[0], &f, sizeof(f));
	close(ends[0]);
	if (child < 0 || waitpid(child, &status, 0) < 0)
		return;
	if (WIFSIGNALED(status))
		cli_complain("run", "%s: %s as it was loaded", name,
		             strsignal(WTERMSIG(status)));
	if (n == (ssize_t)sizeof(f))
		choose(&f, best);
}

static void consider_pattern(const char *pattern, struct found *best)
{
	glob_t hits;
	size_t i;

	if (glob(pattern, 0, NULL, &hits))
		return;
	for (i = 0; i < hits.gl_pathc; i++)
		consider_file(hits.gl_pathv[i], best);
	globfree(&hits);
}

/* What scripts/deps-nvidia.sh brings has its libraries there. */
#define WHEELS "*/nvidia/nccl/lib/libnccl.so.2"

static int find_nccl(const char *own, char out[PATH_MAX])
{
	static const char *const patterns[] = {
		"/usr/local/cuda*/lib64/libnccl.so.2",
		"/usr/local/cuda*/lib/libnccl.so.2",
	};
	char wheels[PATH_MAX + sizeof(WHEELS)];
	struct found best = { .version = 0 };
	size_t i;

	/* The loader's own path. */
	consider_file("libnccl.so.2", &best);
	for (i = 0; i < ARRAY_SIZE(patterns); i++)
		consider_pattern(patterns[i], &best);
	snprintf(wheels, sizeof(wheels), "%s/%s", own, WHEELS);
	consider_pattern(wheels, &best);
	if (best.version) {
		strcpy(out, best.path);
		return CLI_OK;
	}
	cli_complain("run",
	             "--nccl auto: there is no libnccl.so.2 in the loader's "
	             "path, in /usr/local/cuda*/lib64, or as %s",
	             wheels);
	return CLI_FAILED;
}

static int resolve_nccl(const char *path, char out[PATH_MAX])
{
	if (realpath(path, out))
		return CLI_OK;
	cli_complain("run", "--nccl %s: %s", path, strerror(errno));
	return CLI_FAILED;
}

/* ---- whether it works -------------------------------------------------- */

/* Load the loader, as the program will: it says on stderr why there is no NCCL.  Its
 * RUNPATH has the drop-in libraries. */
static bool loads(const char *folder)
{
	char path[PATH_MAX + 32];
	const char *(*file)(void);
	void *library;

	snprintf(path, sizeof(path), "%s/libnccl.so.2", folder);
	library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!library) {
		cli_complain("run", "%s", dlerror());
		return false;
	}
	*(void **)&file = dlsym(library, "cohort_nccl_file");
	return file && file();
}

/* Try it in a process of its own: this one becomes the program. */
static int try_nccl(const char *nccl, const char *folder)
{
	pid_t child = fork();
	int status = 0;

	if (!child)
		_exit(loads(folder) ? 0 : 1);
	if (child < 0 || waitpid(child, &status, 0) < 0) {
		cli_complain("run", "--nccl %s: %s", nccl, strerror(errno));
		return CLI_FAILED;
	}
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return CLI_OK;
	if (WIFSIGNALED(status))
		cli_complain("run", "--nccl %s: %s as it was loaded", nccl,
		             strsignal(WTERMSIG(status)));
	else
		cli_complain("run", "--nccl %s: the simulator cannot run it",
		             nccl);
	return CLI_FAILED;
}

/* ---- the settings ----------------------------------------------------- */

/*
 * Set where the environment has none.  All ranks are threads of one process, and CPUs
 * carry out the kernels; those of a ring with the protocol Simple are the plainest.
 */
static const struct {
	const char *name, *value;
} settings[] = {
	{ "NCCL_ALGO", "Ring" },
	{ "NCCL_PROTO", "Simple" },
	/* Simple for small messages, too. */
	{ "NCCL_P2P_LL_THRESHOLD", "-1" },
	/* One thread serves all channels of a launch: more of them gain nothing. */
	{ "NCCL_MAX_NCHANNELS", "1" },
	/* Host buffers are plain shared memory, not the driver's. */
	{ "NCCL_CUMEM_HOST_ENABLE", "0" },
	/* No switch adds up, and there are no other machines. */
	{ "NCCL_NVLS_ENABLE", "0" },
	{ "NCCL_MNNVL_ENABLE", "0" },
	{ "NCCL_IB_DISABLE", "1" },
	{ "NCCL_SOCKET_IFNAME", "lo" },
	/* A thread that tells other processes about the ranks. */
	{ "NCCL_RAS_ENABLE", "0" },
	/* Devices reach each other's memory, however far apart they look. */
	{ "NCCL_P2P_LEVEL", "SYS" },
	/* Windows are registered as other buffers are: there are no kernels that use
	 * them. */
	{ "NCCL_WIN_ENABLE", "0" },
	/* The simulator's: memory functions wait as on devices. */
	{ "COHORT_HOST_SYNC", "memory" },
};

static int set_all(const char *nccl)
{
	int status = cli_setenv("run", "COHORT_HOST_NCCL", nccl, true);
	size_t i;

	for (i = 0; status == CLI_OK && i < ARRAY_SIZE(settings); i++)
		status = cli_setenv("run", settings[i].name, settings[i].value,
		                    false);
	return status;
}

/* ---- both ------------------------------------------------------------- */

/* The loader's library is built beside the drop-in libraries, and installed so. */
static int find_loader(const char *drop_ins, char folder[PATH_MAX])
{
	char path[PATH_MAX + 32];

	snprintf(path, sizeof(path), "%s/../nvidia/libnccl.so.2", drop_ins);
	if (realpath(path, folder)) {
		*strrchr(folder, '/') = '\0';
		return CLI_OK;
	}
#ifdef __x86_64__
	cli_complain("run", "%s: %s", path, strerror(errno));
#else
	cli_complain("run", "--nccl works on x86-64 alone");
#endif
	return CLI_FAILED;
}

int run_nccl(const char *which, const char *own, const char *drop_ins,
             char folder[PATH_MAX])
{
	char nccl[PATH_MAX];
	int status = find_loader(drop_ins, folder);

	if (status == CLI_OK)
		status = strcmp(which, "auto") == 0 ? find_nccl(own, nccl)
		                                    : resolve_nccl(which, nccl);
	if (status == CLI_OK)
		status = set_all(nccl);
	return status == CLI_OK ? try_nccl(nccl, folder) : status;
}
