/* SPDX-License-Identifier: Apache-2.0 */

/*
 * cohort run: runs a program that uses NCCL and the CUDA runtime on the host platform
 *
 * It only sets variables: the folder of the drop-in libraries comes first in
 * LD_LIBRARY_PATH.  Then the program replaces this process.
 */

#include "cli/commands.h"

#include <errno.h>
#include <getopt.h>
#include <glob.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cohort/cohort.h>
#include <cohort/sim.h>

#include "base/util.h"
#include "cli/common/cli.h"
#include "cli/common/cli_options.h"
#include "cli/run_nccl.h"

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

/* Let the loader find the drop-in libraries first and, if @nccl is not NULL, what
 * loads that NCCL before them. */
static int choose_libraries(const char *nccl)
{
	char own[PATH_MAX], folder[PATH_MAX], before[PATH_MAX];
	int status = find_libraries(own, folder);

	if (status == CLI_OK && nccl)
		status = run_nccl(nccl, own, folder, before);
	if (status == CLI_OK)
		status = put_in_front(folder);
	if (status == CLI_OK && nccl)
		status = put_in_front(before);
	return status;
}

/* A program's own NCCL calls go to these libraries; let libcohort's calls go there
 * as well. */
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
 * library, which the runtime opens, and the names of the runtime's errors, but not
 * the name of the runtime's library. */
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
