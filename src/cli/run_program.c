/* SPDX-License-Identifier: Apache-2.0 */

/*
 * cohort run: runs a program that uses NCCL and the CUDA runtime on the host
 * platform
 *
 * It only sets variables: the folder of the drop-in libraries comes first in
 * LD_LIBRARY_PATH.  Then the program replaces this process.
 */

#include "cli/commands.h"

#include <dlfcn.h>
#include <errno.h>
#include <getopt.h>
#include <glob.h>
#include <limits.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cohort/cohort.h>
#include <cohort/sim.h>

#include "base/util.h"
#include "cli/common/cli.h"
#include "cli/common/cli_options.h"
#include "sim/nvidia/kernel/nccl_version.h"

static void print_help(void)
{
	/* clang-format off */
	puts("usage: cohort run [OPTION]... [--] PROGRAM [ARGUMENT]...\n"
	     "\n"
	     "Runs a program that uses NCCL and the CUDA runtime without a GPU, on the host\n"
	     "platform: its libraries take the place of libnccl.so.2 and libcudart.so.13 or\n"
	     ".12.\n"
	     "\n"
	     "  -n, --ranks N  number of devices (default COHORT_HOST_DEVICES, or 8)\n"
	     "  --strict       end the program when it does what NCCL leaves undefined\n"
	     "  --faults LIST  scripted faults, as in COHORT_FAULTS\n"
	     "  --nccl PATH    run NVIDIA's own NCCL on the simulated devices: PATH, or auto\n"
	     "                 to find a libnccl.so.2; x86-64 only\n"
	     "  -h, --help     this text\n"
	     "\n"
	     "A program that uses libcohort gets the gpu platform on these libraries, unless\n"
	     "COHORT_PLATFORM is set.\n"
	     "\n"
	     "With --nccl, CPUs carry out NCCL's kernels.  Some variables of NCCL are set,\n"
	     "unless the environment has them: docs/simulator.md lists them.  Strict mode\n"
	     "and scripted faults have no effect: they belong to the simulator's own NCCL.\n"
	     "\n"
	     "These cannot work: a program's own kernels, whose launches fail; a CUDA runtime\n"
	     "that is linked statically (nvcc needs -cudart shared); NCCL's device\n"
	     "API.\n"
	     "\n"
	     "Exit status: that of PROGRAM; 126 or 127 if it cannot be run or is not found.");
	/* clang-format on */
}

/* ---- NVIDIA's NCCL ----------------------------------------------------- */

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

/* The newest that the simulator knows is the best; without one, the first that
 * is NCCL at all. */
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
	for (i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++)
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

/* Load the loader, as the program will: it says on stderr why there is no NCCL.
 * Its RUNPATH has the drop-in libraries. */
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

/*
 * Set where the environment has none.  All ranks are threads of one process,
 * and CPUs carry out the kernels; those of a ring with the protocol Simple are
 * the plainest.
 */
static const struct {
	const char *name, *value;
} settings[] = {
	{ "NCCL_ALGO", "Ring" },
	{ "NCCL_PROTO", "Simple" },
	/* Simple for small messages, too. */
	{ "NCCL_P2P_LL_THRESHOLD", "-1" },
	/* One thread serves all channels of a launch: more of them gain
	 * nothing. */
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
	/* Windows are registered as other buffers are: there are no kernels
	 * that use them. */
	{ "NCCL_WIN_ENABLE", "0" },
	/* The simulator's: memory functions wait as on devices. */
	{ "COHORT_HOST_SYNC", "memory" },
};

static int set_all(const char *nccl)
{
	int status = cli_setenv("run", "COHORT_HOST_NCCL", nccl, true);
	size_t i;

	for (i = 0;
	     status == CLI_OK && i < sizeof(settings) / sizeof(settings[0]);
	     i++)
		status = cli_setenv("run", settings[i].name, settings[i].value,
		                    false);
	return status;
}

/* The loader's library is built beside the drop-in libraries, and installed
 * so. */
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

/*
 * Prepare the environment for @which, a path or "auto".  @own is the folder of
 * the command, @drop_ins that of the drop-in libraries.  Stores the folder that
 * shall come before that one for the loader.  CLI_OK, or another exit status
 * after a complaint.
 */
static int prepare_nccl(const char *which, const char *own,
                        const char *drop_ins, char folder[PATH_MAX])
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

/* ---- the libraries ---------------------------------------------------- */

/* Where the drop-in libraries are, relative to the folder of the command: where
 * they are built, and where they are installed for several names of libdir. */
static const char *const places[] = {
	"lib/drop-in",
	"../lib/cohort/drop-in",
	"../lib*/cohort/drop-in",
	"../lib/*/cohort/drop-in",
};

/* Find the first match of @pattern in @folder that has the libraries. */
static bool find_in_folder(const char *folder, const char *pattern,
                           char out[PATH_MAX])
{
	char path[2 * PATH_MAX];
	bool found;
	glob_t hits;

	snprintf(path, sizeof(path), "%s/%s/libcohort-host.so", folder,
	         pattern);
	if (glob(path, 0, NULL, &hits))
		return false;
	found = realpath(hits.gl_pathv[0], out) != NULL;
	globfree(&hits);
	if (found)
		*strrchr(out, '/') = '\0';
	return found;
}

/* Find the folder of this executable, and that of the libraries. */
static int find_libraries(char folder[PATH_MAX], char out[PATH_MAX])
{
	if (!realpath("/proc/self/exe", folder)) {
		cli_complain("run", "/proc/self/exe: %s", strerror(errno));
		return CLI_FAILED;
	}
	*strrchr(folder, '/') = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(places); i++)
		if (find_in_folder(folder, places[i], out))
			return CLI_OK;
	cli_complain("run",
	             "no drop-in libraries: there is no libcohort-host.so in "
	             "%s/%s or %s/%s",
	             folder, places[0], folder, places[1]);
	return CLI_FAILED;
}

static int put_in_front(const char *folder)
{
	const char *old = getenv("LD_LIBRARY_PATH");
	char *path;
	int rc;

	if (asprintf(&path, "%s%s%s", folder, old && *old ? ":" : "",
	             old ? old : "") < 0) {
		cli_complain("run", "out of memory");
		return CLI_FAILED;
	}
	rc = cli_setenv("run", "LD_LIBRARY_PATH", path, true);
	free(path);
	return rc;
}

/* Let the loader find the drop-in libraries first and, if @nccl is not NULL,
 * what loads that NCCL before them. */
static int choose_libraries(const char *nccl)
{
	char own[PATH_MAX], folder[PATH_MAX], before[PATH_MAX];
	int status = find_libraries(own, folder);

	if (status == CLI_OK && nccl)
		status = prepare_nccl(nccl, own, folder, before);
	if (status == CLI_OK)
		status = put_in_front(folder);
	if (status == CLI_OK && nccl)
		status = put_in_front(before);
	return status;
}

/* A program's own NCCL calls go to these libraries; let libcohort's calls go
 * there as well. */
static int choose_platform(void)
{
	const char *chosen = getenv("COHORT_PLATFORM");

	unsetenv("COHORT_GPU_LIBRARIES");
	return chosen && *chosen
	               ? CLI_OK
	               : cli_setenv("run", "COHORT_PLATFORM", "gpu", true);
}

/* ---- the program ------------------------------------------------------ */

static bool has_text(const char *image, size_t bytes, const char *text)
{
	return memmem(image, bytes, text, strlen(text));
}

/* A program that has a CUDA runtime linked in has the name of the driver's
 * library, which the runtime opens, and the names of the runtime's errors, but
 * not the name of the runtime's library. */
static bool has_own_runtime(const char *image, size_t bytes)
{
	return has_text(image, bytes, "libcuda.so.1") &&
	       has_text(image, bytes, "cudaErrorInsufficientDriver") &&
	       !has_text(image, bytes, "libcudart.so");
}

/* Warn of such a program; one that is found by PATH is not checked. */
static void warn_of_own_runtime(const char *program)
{
	size_t size = 0;
	const char *image =
		strchr(program, '/') ? cli_map_file(program, &size) : NULL;

	if (image && has_own_runtime(image, size))
		cli_complain("run",
		             "%s seems to have a CUDA runtime of its own, "
		             "which needs a GPU",
		             program);
}

static int become(char **argv)
{
	int err;

	warn_of_own_runtime(argv[0]);
	fflush(stdout);
	execvp(argv[0], argv);
	err = errno;
	cli_complain("run", "%s: %s", argv[0], strerror(err));
	return err == ENOENT ? CLI_NOT_FOUND : CLI_NOT_EXECUTABLE;
}

/* ---- options ---------------------------------------------------------- */

static int set_ranks(const struct cli_option *option, const char *text)
{
	uint64_t ranks;
	int status = cli_number("run", option->name, text, 1,
	                        COHORT_SIM_MAX_DEVICES, &ranks);

	return status == CLI_OK
	               ? cli_setenv("run", "COHORT_HOST_DEVICES", text, true)
	               : status;
}

static int set_strict(const struct cli_option *option, const char *text)
{
	(void)option, (void)text;
	return cli_setenv("run", "COHORT_HOST_STRICT", "1", true);
}

static int set_faults(const struct cli_option *option, const char *text)
{
	(void)option;
	return cli_setenv("run", "COHORT_FAULTS", text, true);
}

/* Complain now of settings that the program would fail on. */
static int check_environment(void)
{
	struct cohort_platform_info info = { .size = sizeof(info) };
	const char *why = NULL;

	if (cohort_platform_probe(COHORT_PLATFORM_HOST, &info) != COHORT_OK)
		why = cohort_last_error();
	else if (info.status != COHORT_OK)
		why = info.reason;
	if (!why)
		return CLI_OK;
	cli_complain("run", "%s", why);
	return CLI_USAGE;
}

int run_main(int argc, char **argv)
{
	const char *nccl = NULL;
	const struct cli_option options[] = {
		{ "ranks", 'n', CLI_READ, .read = set_ranks },
		{ "strict", 0, CLI_CALL, .read = set_strict },
		{ "faults", 0, CLI_READ, .read = set_faults },
		{ "nccl", 0, CLI_TEXT, .value = &nccl },
		{ .kind = CLI_PROGRAM },
	};
	bool help;
	int status = cli_options("run", argc, argv, options, print_help, &help);

	if (status != CLI_OK || help)
		return status;
	if (optind == argc) {
		cli_complain("run", "no program given, see cohort run --help");
		return CLI_USAGE;
	}
	status = check_environment();
	if (status == CLI_OK)
		status = choose_libraries(nccl);
	if (status == CLI_OK)
		status = choose_platform();
	return status == CLI_OK ? become(argv + optind) : status;
}
