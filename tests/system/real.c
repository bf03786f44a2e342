/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests groups on a machine without a GPU, for real.sh. Opening a group on the
 * GPU platform, which REAL_PLATFORM or COHORT_PLATFORM can select, is refused
 * every time, and the host platform works afterwards. Prints OK.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cohort/cohort.h>

static void must(int holds, const char *what)
{
	if (holds)
		return;
	printf("%s: %s\n", what, cohort_last_error());
	exit(1);
}

static int open_on(int platform, struct cohort_group **group)
{
	struct cohort_group_options o;

	cohort_group_options_init(&o);
	o.platform = platform;
	*group = NULL;
	return cohort_group_open(NULL, 2, &o, group);
}

static void refused(int platform)
{
	struct cohort_group *group;

	must(open_on(platform, &group) == COHORT_NO_DEVICE, "open");
	must(!group, "a group");
	must(strstr(cohort_last_error(), "cudaGetDeviceCount: ") != NULL,
	     "the function");
	must(strstr(cohort_last_error(),
	            " (COHORT_PLATFORM=host runs without a GPU)") != NULL,
	     "the way out");
}

int main(void)
{
	int platform = getenv("REAL_PLATFORM") ? COHORT_PLATFORM_GPU
	                                       : COHORT_PLATFORM_AUTO;
	struct cohort_group *group;
	int i;

	for (i = 0; i < 3; i++)
		refused(platform);
	must(open_on(COHORT_PLATFORM_HOST, &group) == COHORT_OK, "on the host");
	refused(platform);
	must(cohort_group_close(group) == COHORT_OK, "close");
	puts("OK");
	return 0;
}
