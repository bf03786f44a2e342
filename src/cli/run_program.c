/* SPDX-License-Identifier: Apache-2.0 */

/*
 * cohort run: runs a program that uses NCCL and the CUDA runtime on the host
 * platform
 *
 * It sets variables, including LD_LIBRARY_PATH for the drop-in libraries, and
 * then executes the program in this process.
 */

#include "cli/common/cli.h"

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
#include "cli/common/cli_options.h"
#include "sim/nvidia/kernel/nccl_version.h"

/* clang-format off */
static const char help[] =
	"usage: cohort run [OPTION]... [--] PROGRAM [ARGUMENT]...\n"
	"\n"
	"Runs a program that uses NCCL and the CUDA runtime without a GPU: libraries of\n"
	"the host platform replace libnccl.so.2 and libcudart.so.13 or .12.\n"
	"\n"
	"  -n, --ranks N  number of devices (default COHORT_HOST_DEVICES, or 8)\n"
	"  --strict       end the program if it does what NCCL leaves undefined\n"
	"  --faults LIST  scripted faults, as in COHORT_FAULTS\n"
	"  --nccl PATH    run NVIDIA's own NCCL on the simulated devices: PATH, or auto\n"
	"                 to find a libnccl.so.2; x86-64 only\n"
	"  --deadline T   report collectives that take longer, as cohort watch does\n"
	"  -h, --help     this text\n"
	"\n"
	"A program that uses libcohort gets the gpu platform on these libraries, unless\n"
	"COHORT_PLATFORM is set.\n"
	"\n"
	"With --nccl, CPUs execute NCCL's kernels.  Some variables of NCCL are set\n"
	"unless the environment has them; docs/simulator.md lists them.  Strict mode and\n"
	"scripted faults have no effect: they belong to the simulator's own NCCL.\n"
	"\n"
	"A CUDA runtime that is linked into PROGRAM is replaced, unless PROGRAM is\n"
	"stripped or found in PATH; x86-64 only.\n"
	"\n"
	"These do not work: the program's own kernels, whose launches fail; a CUDA\n"
	"runtime that is linked into a library (build with nvcc -cudart shared); NCCL's\n"
	"device API.\n"
	"\n"
	"Exit status: that of PROGRAM; 126 or 127 if it cannot be run or is not found.\n";
/* clang-format on */

struct found {
	char path[PATH_MAX];
	int version; /* NCCL's version, or 0 if no library was found */
	bool is_known;
};

static bool is_known(int version)
{
#define IS(number, major, minor, patch) version == (number) ||
	return KNOWN_NCCL(IS) false;
#undef IS
}

/* Set *@best to @f if @f is better. The best library is the newest one that the
 * simulator knows. If there is none, the best is the first NCCL library. */
static void choose(const struct found *f, struct found *best)
{
	if (f->version &&
	    (!best->version ||
	     (f->is_known && (!best->is_known || f->version > best->version))))
		*best = *f;
}

/* Identify @library, and describe it in *@out. Leave *@out unchanged if
 * @library is not NCCL or is a drop-in library. */
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

/* Identify the library @name, write a struct found to @fd, and exit. */
__attribute__((noreturn)) static void report(const char *name, int fd)
{
	struct found f = { .version = 0 };
	void *library = dlopen(name, RTLD_LAZY | RTLD_LOCAL);

	if (library)
		identify(library, &f);
	_exit(write(fd, &f, sizeof(f)) == (ssize_t)sizeof(f) ? 0 : 1);
}

/* Consider the library @name. Load it in a new process, because a broken
 * library may crash the process. */
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
		report(name, ends[1]);
	close(ends[1]);
	n = read(ends[0], &f, sizeof(f));
	close(ends[0]);
	if (child < 0 || waitpid(child, &status, 0) < 0)
		return;
	if (WIFSIGNALED(status))
		cli_error("%s: %s while it was loaded", name,
		          strsignal(WTERMSIG(status)));
	if (n == (ssize_t)sizeof(f))
		choose(&f, best);
}

static void consider_pattern(const char *pattern, struct found *best)
{
	glob_t hits;

	if (glob(pattern, 0, NULL, &hits))
		return;
	for (size_t i = 0; i < hits.gl_pathc; i++)
		consider_file(hits.gl_pathv[i], best);
	globfree(&hits);
}

/* Path of a library that scripts/deps-nvidia.sh installed, relative to the
 * folder of the command */
#define WHEELS "*/nvidia/nccl/lib/libnccl.so.2"

static int find_nccl(const char *own, char out[PATH_MAX])
{
	static const char *const patterns[] = {
		"/usr/local/cuda*/lib64/libnccl.so.2",
		"/usr/local/cuda*/lib/libnccl.so.2",
	};
	char wheels[PATH_MAX + sizeof(WHEELS)];
	struct found best = { .version = 0 };

	/* Let the dynamic linker search for the library. */
	consider_file("libnccl.so.2", &best);
	for (size_t i = 0; i < ARRAY_SIZE(patterns); i++)
		consider_pattern(patterns[i], &best);
	snprintf(wheels, sizeof(wheels), "%s/%s", own, WHEELS);
	consider_pattern(wheels, &best);
	if (best.version) {
		strcpy(out, best.path);
		return CLI_OK;
	}
	return cli_fail("--nccl auto: no libnccl.so.2 on the loader's path, in "
	                "/usr/local/cuda*/lib64, or at %s; give its path",
	                wheels);
}

/* Load the library that loads NVIDIA's NCCL, as the program will. On failure,
 * the library reports the reason on stderr. Its RUNPATH contains the drop-in
 * libraries. */
static bool loads(const char *folder)
{
	char path[PATH_MAX + 32];
	const char *(*file)(void);
	void *library;

	snprintf(path, sizeof(path), "%s/libnccl.so.2", folder);
	library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!library) {
		cli_error("%s", dlerror());
		return false;
	}
	*(void **)&file = dlsym(library, "cohort_nccl_file");
	return file && file();
}

/* Try to load NVIDIA's NCCL. Do this in a new process, because this process
 * will execute the program. */
static int try_nccl(const char *nccl, const char *folder)
{
	pid_t child = fork();
	int status = 0;

	if (!child)
		_exit(loads(folder) ? 0 : 1);
	if (child < 0 || waitpid(child, &status, 0) < 0)
		return cli_fail("--nccl %s: %s", nccl, strerror(errno));
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return CLI_OK;
	if (WIFSIGNALED(status))
		cli_error("--nccl %s: %s while it was loaded", nccl,
		          strsignal(WTERMSIG(status)));
	else
		cli_error("--nccl %s: the simulator cannot run this library",
		          nccl);
	return CLI_FAILED;
}

/*
 * Variables to set unless they are set in the environment. All ranks are
 * threads of one process, and CPUs execute the kernels. The kernels of the ring
 * algorithm with the protocol Simple are the simplest.
 */
static const struct {
	const char *name, *value;
} settings[] = {
	{ "NCCL_ALGO", "Ring" },
	{ "NCCL_PROTO", "Simple" },
	{ "NCCL_P2P_LL_THRESHOLD", "-1" }, /* Simple for all message sizes */
	/* One thread executes all channels of a launch, so more channels would
	 * not be faster. */
	{ "NCCL_MAX_NCHANNELS", "1" },
	/* Host buffers are plain shared memory, not memory of the driver. */
	{ "NCCL_CUMEM_HOST_ENABLE", "0" },
	/* There are no NVLink switches and no other machines. */
	{ "NCCL_NVLS_ENABLE", "0" },
	{ "NCCL_MNNVL_ENABLE", "0" },
	{ "NCCL_IB_DISABLE", "1" },
	{ "NCCL_SOCKET_IFNAME", "lo" },
	/* RAS is a thread that reports the state of ranks to other
	 * processes. */
	{ "NCCL_RAS_ENABLE", "0" },
	/* Devices can access each other's memory, whatever topology is
	 * reported. */
	{ "NCCL_P2P_LEVEL", "SYS" },
	/* Register windows as ordinary buffers, because no kernel uses
	 * windows. */
	{ "NCCL_WIN_ENABLE", "0" },
	/* A variable of the simulator: memory functions block as on devices. */
	{ "COHORT_HOST_SYNC", "memory" },
};

/* Find the folder of the library that loads NVIDIA's NCCL. It is next to the
 * folder of the drop-in libraries. */
static int find_loader(const char *drop_ins, char folder[PATH_MAX])
{
	char path[PATH_MAX + 32];

	snprintf(path, sizeof(path), "%s/../nvidia/libnccl.so.2", drop_ins);
	if (realpath(path, folder)) {
		*strrchr(folder, '/') = '\0';
		return CLI_OK;
	}
#ifdef __x86_64__
	cli_error("%s: %s", path, strerror(errno));
#else
	cli_error("--nccl works on x86-64 only");
#endif
	return CLI_FAILED;
}

/*
 * Prepare the environment for NVIDIA's NCCL.
 *
 * @which:    its path, or "auto"
 * @own:      the folder of the command
 * @drop_ins: the folder of the drop-in libraries
 * @folder:   receives the folder to put in front of @drop_ins
 *
 * Return CLI_OK, or another exit status after printing an error.
 */
static int prepare_nccl(const char *which, const char *own,
                        const char *drop_ins, char folder[PATH_MAX])
{
	char nccl[PATH_MAX];
	int status = find_loader(drop_ins, folder);

	if (status == CLI_OK && strcmp(which, "auto") == 0)
		status = find_nccl(own, nccl);
	else if (status == CLI_OK && !realpath(which, nccl))
		status = cli_fail("--nccl %s: %s", which, strerror(errno));
	if (status == CLI_OK)
		status = cli_setenv("COHORT_HOST_NCCL", nccl, true);
	for (size_t i = 0; status == CLI_OK && i < ARRAY_SIZE(settings); i++)
		status = cli_setenv(settings[i].name, settings[i].value, false);
	return status == CLI_OK ? try_nccl(nccl, folder) : status;
}

static int put_in_front(const char *variable, const char *item)
{
	const char *old = getenv(variable);
	char *list;
	int rc;

	if (asprintf(&list, "%s%s%s", item, old && *old ? ":" : "",
	             old ? old : "") < 0)
		return cli_fail("out of memory");
	rc = cli_setenv(variable, list, true);
	free(list);
	return rc;
}

/* Let the dynamic linker find the drop-in libraries first. If @nccl is not
 * NULL, put the library that loads that NCCL in front of the drop-in
 * libraries. */
static int choose_libraries(const char *nccl)
{
	char own[PATH_MAX], folder[PATH_MAX], before[PATH_MAX];
	int status =
		cli_find_libraries("drop-in", "libcohort-host.so", own, folder);

	if (status == CLI_OK && nccl)
		status = prepare_nccl(nccl, own, folder, before);
	if (status == CLI_OK)
		status = put_in_front("LD_LIBRARY_PATH", folder);
	if (status == CLI_OK && nccl)
		status = put_in_front("LD_LIBRARY_PATH", before);
	return status;
}

/* Return whether a CUDA runtime seems to be linked into a program. Such a
 * program contains the name of the driver's library, which the runtime opens,
 * and the names of the runtime's errors, but not the name of the runtime's
 * library. */
static bool has_own_runtime(const char *image, size_t bytes)
{
	return cli_has_text(image, bytes, "libcuda.so.1") &&
	       cli_has_text(image, bytes, "cudaErrorInsufficientDriver") &&
	       !cli_has_text(image, bytes, "libcudart.so");
}

/* If a CUDA runtime is linked into @program, replace its functions, with a
 * library that the dynamic linker preloads.  The library finds these functions
 * in the program's symbol table.  A program that is searched for in PATH is not
 * checked. */
static int replace_own_runtime(const char *program)
{
	size_t size = 0;
	const char *image =
		strchr(program, '/') ? cli_map_file(program, &size) : NULL;

	if (!image || !has_own_runtime(image, size))
		return CLI_OK;
#ifdef __x86_64__
	if (cli_has_text(image, size, ".symtab"))
		return put_in_front("LD_PRELOAD", "libcohort-static.so");
#endif
	cli_error("%s seems to have a CUDA runtime of its own, which needs "
	          "a GPU (do not strip it, or build it with nvcc -cudart "
	          "shared)",
	          program);
	return CLI_OK;
}

static int run_watched(const char *deadline, char **program)
{
	char *options[] = { "watch", "--deadline", (char *)(uintptr_t)deadline,
		            "--" };
	const int n = ARRAY_SIZE(options);
	char **arguments;
	int count = 0;

	while (program[count])
		count++;
	arguments =
		cli_need(calloc((size_t)(n + count + 1), sizeof(*arguments)));
	memcpy(arguments, options, sizeof(options));
	memcpy(arguments + n, program, (size_t)count * sizeof(*program));
	return watch_main(n + count, arguments);
}

static int set_ranks(const struct cli_option *option, const char *text)
{
	uint64_t ranks;
	int status = cli_number(option->name, text, 1, COHORT_SIM_MAX_DEVICES,
	                        &ranks);

	return status == CLI_OK ? cli_setenv("COHORT_HOST_DEVICES", text, true)
	                        : status;
}

static int set_variable(const struct cli_option *option, const char *text)
{
	return cli_setenv(option->value, text ? text : "1", true);
}

static int check_environment(void)
{
	struct cohort_platform_info info = { .size = sizeof(info) };
	const char *why = NULL;

	if (cohort_platform_probe(COHORT_PLATFORM_HOST, &info) != COHORT_OK)
		why = cohort_last_error();
	else if (info.status != COHORT_OK)
		why = info.reason;
	return why ? cli_misuse("%s", why) : CLI_OK;
}

int run_main(int argc, char **argv)
{
	const char *nccl = NULL, *deadline = NULL;
	const char *chosen = getenv("COHORT_PLATFORM");
	const struct cli_option options[] = {
		{ "ranks", 'n', CLI_READ, .read = set_ranks },
		{ "strict", 0, CLI_CALL, "COHORT_HOST_STRICT",
		  .read = set_variable },
		{ "faults", 0, CLI_READ, "COHORT_FAULTS",
		  .read = set_variable },
		{ "nccl", 0, CLI_TEXT, .value = &nccl },
		{ "deadline", 0, CLI_TEXT, .value = &deadline },
		{ .kind = CLI_PROGRAM },
	};
	int status;

	if (!cli_options("run", argc, argv, options, help, &status))
		return status;
	if (optind == argc)
		return cli_misuse("no program given; see cohort run --help");
	status = check_environment();
	if (status == CLI_OK)
		status = choose_libraries(nccl);
	/* Let libcohort use the same libraries as the program's own NCCL
	 * calls. */
	unsetenv("COHORT_GPU_LIBRARIES");
	if (status == CLI_OK && (!chosen || !*chosen))
		status = cli_setenv("COHORT_PLATFORM", "gpu", true);
	if (status == CLI_OK)
		status = replace_own_runtime(argv[optind]);
	if (status != CLI_OK)
		return status;
	if (deadline)
		return run_watched(deadline, argv + optind);
	fflush(stdout);
	execvp(argv[optind], argv + optind);
	return cli_cannot_run(argv[optind], errno);
}
