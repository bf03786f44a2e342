/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The measurement of cohort bench average: one thread per rank, all methods in every
 * round
 *
 * Methods take turns, and each round begins with another one.  Each way of lists has a
 * group of its own.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "cli/bench/average_lane.h"
#include "cli/common/cli.h"

#define ABORT_DEADLINE_NS (2 * NS_PER_S)

static int open_one(struct average_runner *r, int method, int way)
{
	const struct average_options *o = r->average->options;
	struct cohort_group_options options;

	cohort_group_options_init(&options);
	options.log = "none";
	options.name = "bench";
	options.platform = o->platform;
	options.deadlines.abort_ns = ABORT_DEADLINE_NS;
	options.stack_signal = CLI_STACK_SIGNAL;
	options.many = way;
	return cohort_group_open(NULL, o->ranks, &options, &r->groups[method]);
}

/* The first group serves all methods without a group of their own. */
static int open_groups(struct average_runner *r)
{
	const bool *asked = r->average->options->methods;
	int rc = open_one(r, METHOD_ALONE, COHORT_MANY_AUTO);

	if (rc == COHORT_OK && asked[METHOD_GROUP])
		rc = open_one(r, METHOD_GROUP, COHORT_MANY_GROUP);
	if (rc == COHORT_OK && asked[METHOD_FLAT])
		rc = open_one(r, METHOD_FLAT, COHORT_MANY_FLAT);
	for (int m = METHOD_GROUP; m <= METHOD_FLAT; m++)
		if (rc == COHORT_OK && r->groups[m])
			rc = cohort_group_split(r->groups[m], r->comms[m]);
	if (rc == COHORT_OK) {
		r->average->platform =
			cohort_group_platform(r->groups[METHOD_ALONE]);
		return CLI_OK;
	}
	cli_complain("bench average", "%s", cohort_last_error());
	return CLI_FAILED;
}

static int close_groups(struct average_runner *r, int status)
{
	for (int m = METHODS - 1; m >= 0; m--)
		if (cohort_group_close(r->groups[m]) != COHORT_OK &&
		    status == CLI_OK) {
			cli_complain("bench average", "%s",
			             cohort_last_error());
			status = CLI_FAILED;
		}
	return status;
}

static int run(struct average_runner *r, bool *all_back_out)
{
	struct cohort_cause cause;
	int rc;

	progress_start(&r->progress);
	rc = cohort_group_run(r->groups[METHOD_ALONE], average_worker, r,
	                      &cause);
	progress_erase(&r->progress);
	*all_back_out =
		cohort_group_abandoned(r->groups[METHOD_ALONE], NULL, 0) == 0;
	if (rc == COHORT_OK)
		return CLI_OK;
	cli_complain("bench average", "%s",
	             *r->meeting.complaint ? r->meeting.complaint : cause.text);
	return CLI_FAILED;
}

int average_measure(struct average *a)
{
	struct average_runner *r =
		aligned_alloc(64, (sizeof(*r) + 63) / 64 * 64);
	int status = CLI_OK, ranks = a->options->ranks;
	bool all_back = true;

	if (r)
		memset(r, 0, sizeof(*r));
	for (int i = 0; r && i < ranks && status == CLI_OK; i++) {
		r->average = a;
		r->lanes[i] = average_lane_create(r, i);
		status = r->lanes[i] ? CLI_OK : CLI_FAILED;
	}
	if (!r || status != CLI_OK) {
		cli_complain("bench average", "out of memory");
		status = CLI_FAILED;
		goto out;
	}
	meeting_init(&r->meeting, ranks, a->cores);
	status = open_groups(r);
	if (status == CLI_OK)
		status = run(r, &all_back);
	status = close_groups(r, status);
out:
	for (int i = 0; r && all_back && i < ranks; i++)
		average_lane_destroy(r->lanes[i]);
	if (all_back)
		free(r);
	return status;
}
