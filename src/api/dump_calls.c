/* SPDX-License-Identifier: Apache-2.0 */

/* Implements cohort_dump(): writes a dump when the program requests one */

#include <stdio.h>
#include <string.h>

#include "api/group.h"
#include "base/status.h"
#include "core/clique_tree.h"
#include "dump/dump.h"

/* Maximum number of cliques split from the group that a dump includes. */
#define MAX_CHILDREN 256

static int write_dump(struct flight *flight, const char *directory)
{
	char what[DUMP_PATH];
	int err = dump_write(flight, directory, what, sizeof(what));

	return err ? error_set(COHORT_SYSTEM, "cannot write %s of %s: %s", what,
	                       directory, strerror(err))
	           : COHORT_OK;
}

static void take_ranks(struct clique *q, void *flight)
{
	flight_take_ranks(flight, q);
}

/* Dump a clique, unless it is a split clique that is being freed. */
static int dump(struct clique *q, const char *directory)
{
	struct flight flight;
	int rc = COHORT_OK;

	if (!flight_init(&flight, q->size, q->slots))
		return error_set(COHORT_NO_MEMORY, "no memory for a dump");
	flight_take_facts(&flight, q, "call", NULL);
	if (clique_tree_call(q, take_ranks, &flight))
		rc = write_dump(&flight, directory);
	flight_fini(&flight);
	return rc;
}

/* Dump the clique and all cliques that were split from it.  Continue after a
 * failure; return the first error. */
static int dump_all(struct clique *q, const char *directory)
{
	struct clique *children[MAX_CHILDREN];
	int n = clique_tree_get_all(q, children, MAX_CHILDREN);
	char error[512];
	int i, rc = dump(q, directory), next;

	for (i = 0; i < n; i++) {
		if (rc != COHORT_OK)
			text_set(error, sizeof(error), "%s",
			         cohort_last_error());
		next = dump(children[i], directory);
		clique_put(children[i]);
		if (rc == COHORT_OK)
			rc = next;
		else
			error_set(rc, "%s", error);
	}
	return rc;
}

int cohort_dump(struct cohort_group *group, const char *directory)
{
	int rc = group_check(group);

	if (rc != COHORT_OK)
		return rc;
	if (!directory)
		directory = group->options.dump_directory;
	if (!directory)
		return error_set(COHORT_INVALID, "directory is NULL, and so is "
		                                 "options->dump_directory");
	if (!*directory)
		return error_set(COHORT_INVALID, "directory is \"\"");
	return dump_all(group_clique(group), directory);
}
