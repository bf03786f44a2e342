/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A dump that the program asks for
 */

#include <stdio.h>
#include <string.h>

#include "api/group.h"
#include "base/status.h"
#include "core/clique_tree.h"
#include "dump/dump.h"

/* How many cliques that were split from a group are dumped at most. */
#define MAX_CHILDREN 256

static int write_down(struct flight *flight, const char *directory)
{
	char what[DUMP_PATH];
	int err = dump_write(flight, directory, what, sizeof(what));

	return err ? error_set(COHORT_SYSTEM, "cannot write %s of %s: %s", what,
	                       directory, strerror(err))
	           : COHORT_OK;
}

static int no_memory(void)
{
	return error_set(COHORT_NO_MEMORY, "no memory for a dump");
}

static int dump(struct clique *q, const char *directory)
{
	struct flight flight;
	int rc;

	if (!flight_init(&flight, q->size, q->slots))
		return no_memory();
	flight_take(&flight, q, "call", NULL);
	rc = write_down(&flight, directory);
	flight_fini(&flight);
	return rc;
}

static void take_ranks(struct clique *q, void *flight)
{
	flight_take_ranks(flight, q);
}

/* Dump a split clique, which may end meanwhile and give back its memory: then
 * there is nothing to write. */
static int dump_child(struct clique *q, const char *directory)
{
	struct flight flight;
	int rc = COHORT_OK;

	if (!flight_init(&flight, q->size, q->slots))
		return no_memory();
	flight_take_facts(&flight, q, "call", NULL);
	if (clique_tree_look(q, take_ranks, &flight))
		rc = write_down(&flight, directory);
	flight_fini(&flight);
	return rc;
}

/* Dump the clique and all that was split from it.  A failure does not stop the
 * rest from being dumped; the first error is returned. */
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
		next = dump_child(children[i], directory);
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
