/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A dump that the program asks for
 */

#include <string.h>

#include "api/group.h"
#include "base/status.h"
#include "guard/dump.h"

static int dump(struct clique *q, const char *directory)
{
	struct flight flight;
	char what[DUMP_PATH];
	int err;

	if (!flight_init(&flight, q->size, q->slots))
		return error_set(COHORT_NO_MEMORY, "no memory for a dump");
	flight_take(&flight, q, "call", NULL);
	err = dump_write(&flight, directory, what, sizeof(what));
	flight_fini(&flight);
	return err ? error_set(COHORT_SYSTEM, "cannot write %s of %s: %s", what,
	                       directory, strerror(err))
	           : COHORT_OK;
}

int cohort_dump(struct cohort_group *group, const char *directory)
{
	int rc = group_check(group);

	if (rc != COHORT_OK)
		return rc;
	if (!directory)
		directory = group->options.dump_directory;
	if (!directory || !*directory)
		return error_set(COHORT_INVALID, "directory is NULL, and so is "
		                                 "options->dump_directory");
	return dump(group_clique(group), directory);
}
