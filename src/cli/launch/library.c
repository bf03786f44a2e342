/* SPDX-License-Identifier: Apache-2.0 */

#include "cli/launch/library.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/util.h"
#include "cli/common/cli.h"

#define LIBRARY "libpmix.so.2"

struct library library;

int library_load(void)
{
	static const char *const names[] = {
#define NAME(name, result, arguments) #name,
		PMIX_ABI_SERVER_FUNCTIONS(NAME)
#undef NAME
	};
	void **const functions[] = {
#define PLACE(name, result, arguments) (void **)(void *)&library.name,
		PMIX_ABI_SERVER_FUNCTIONS(PLACE)
#undef PLACE
	};
	void *opened = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
	size_t i;

	if (!opened) {
		cli_complain("launch",
		             "cannot open " LIBRARY
		             ": %s; of Debian, the package libpmix2",
		             dlerror());
		return CLI_FAILED;
	}
	for (i = 0; i < ARRAY_SIZE(names); i++) {
		*functions[i] = dlsym(opened, names[i]);
		if (!*functions[i]) {
			cli_complain("launch", LIBRARY " has no %s()",
			             names[i]);
			return CLI_FAILED;
		}
	}
	return CLI_OK;
}

int library_check(const char *function, int status)
{
	if (status == PMIX_ABI_SUCCESS ||
	    status == PMIX_ABI_OPERATION_SUCCEEDED)
		return CLI_OK;
	cli_complain("launch", "%s: %s (%d)", function,
	             library.PMIx_Error_string(status), status);
	return CLI_FAILED;
}

/* ---- the job ----------------------------------------------------------- */

/* What is known of a process. */
struct facts {
	struct pmix_array array;
	struct pmix_info info[2];
};

static void set_facts(struct pmix_info *info, struct facts *f, uint32_t process)
{
	f->array = (struct pmix_array){ PMIX_ABI_INFO, 2, f->info };
	f->info[0] = PMIX_INFO(PMIX_ABI_RANK, PROC_RANK, uint32, process);
	f->info[1] =
		PMIX_INFO(PMIX_ABI_GLOBAL_RANK, PROC_RANK, uint32, process);
	*info = PMIX_INFO(PMIX_ABI_PROC_DATA, DATA_ARRAY, array, &f->array);
}

/* OpenPMIx 4.2.2 gives a job to no client if it knows nothing of the last process. */
static int register_namespace(const char *job, int n, struct pmix_info *info,
                              struct facts *facts)
{
	const uint32_t count = (uint32_t)n;

	for (uint32_t i = 0; i < count; i++)
		set_facts(&info[i], &facts[i], i);
	info[n] = PMIX_INFO(PMIX_ABI_JOB_SIZE, UINT32, uint32, count);
	info[n + 1] = PMIX_INFO(PMIX_ABI_UNIV_SIZE, UINT32, uint32, count);
	info[n + 2] = PMIX_INFO(PMIX_ABI_MAX_PROCS, UINT32, uint32, count);
	info[n + 3] =
		PMIX_INFO(PMIX_ABI_RM_NAME, STRING, string, PMIX_LINE_LAUNCHER);
	return library_check("PMIx_server_register_nspace",
	                     library.PMIx_server_register_nspace(
				     job, n, info, (size_t)n + 4, NULL, NULL));
}

int library_register_job(const char *job, int processes)
{
	const size_t n = (size_t)processes;
	struct pmix_info *info = calloc(n + 4, sizeof(*info));
	struct facts *facts = calloc(n, sizeof(*facts));
	int rc = CLI_FAILED;

	if (info && facts)
		rc = register_namespace(job, processes, info, facts);
	else
		cli_complain("launch", "out of memory");
	free(info);
	free(facts);
	return rc;
}
