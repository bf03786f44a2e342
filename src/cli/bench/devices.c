/* SPDX-License-Identifier: Apache-2.0 */

/* The cores and devices that cohort bench, average and overlap run on. */

#include "cli/bench/bench.h"

#include <sched.h>
#include <stdlib.h>

#include <cohort/cohort.h>
#include <cohort/sim.h>

#include "cli/common/cli.h"

enum { DEFAULT_HOST_DEVICES = 8 };

int bench_count_cores(void)
{
	cpu_set_t allowed;

	return sched_getaffinity(0, sizeof(allowed), &allowed)
	               ? 1
	               : CPU_COUNT(&allowed);
}

int bench_settle_devices(int platform, int ranks,
                         struct cohort_platform_info *info)
{
	int devices =
		ranks > DEFAULT_HOST_DEVICES ? ranks : DEFAULT_HOST_DEVICES;

	info->size = sizeof(*info);
	if ((getenv("COHORT_HOST_DEVICES") ||
	     cohort_sim_set_devices(devices) == COHORT_OK) &&
	    cohort_platform_probe(platform, info) == COHORT_OK)
		return CLI_OK;
	cli_complain("bench", "%s", cohort_last_error());
	return CLI_FAILED;
}
