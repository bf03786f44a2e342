/* SPDX-License-Identifier: Apache-2.0 */

#include "support/ranks.h"

#include <stdio.h>
#include <stdlib.h>

#include <cohort/bootstrap.h>

#include "support/clock.h"
#include "support/spread.h"

/* Defined only in Criterion suites, which can run in several processes */
#pragma weak spread_processes
#pragma weak spread_first
#pragma weak spread_end
#pragma weak spread_not

void ranks_must(int rc, const char *what)
{
	if (rc == COHORT_OK)
		return;
	fprintf(stderr, "%s: %s: %s\n", what, cohort_status_text(rc),
	        cohort_last_error());
	exit(1);
}

static bool is_spread(void)
{
	return spread_processes && spread_processes() > 1;
}

struct cohort_group *ranks_open(int n,
                                const struct cohort_group_options *options)
{
	static const struct cohort_bootstrap others = {
		.size = sizeof(others),
		.kind = COHORT_BOOTSTRAP_ENV,
	};
	int devices[COHORT_MAX_RANKS], count = 0, i;
	struct cohort_group_options o;
	struct cohort_group *group;

	place_need(n);
	if (options)
		o = *options;
	else
		cohort_group_options_init(&o);
	o.platform = place_platform();
	if (is_spread()) {
		if (n < spread_processes())
			spread_not("fewer ranks than processes");
		o.bootstrap = &others;
		for (i = spread_first(n); i < spread_end(n); i++)
			devices[count++] = i;
	}
	ranks_must(cohort_group_open(count ? devices : NULL, count ? count : n,
	                             &o, &group),
	           "open");
	return group;
}

struct cohort_group *ranks_split(int n,
                                 const struct cohort_group_options *options,
                                 struct cohort_comm *comms[])
{
	struct cohort_group *group;

	if (is_spread())
		spread_not("one thread has all communicators");
	group = ranks_open(n, options);
	ranks_must(cohort_group_split(group, comms), "split");
	return group;
}

struct cohort_group *ranks_ahead(int n,
                                 const struct cohort_group_options *options,
                                 struct cohort_comm *comms[])
{
	struct cohort_group_options o;

	if (options)
		o = *options;
	else
		cohort_group_options_init(&o);
	o.launch = COHORT_LAUNCH_AHEAD;
	return ranks_split(n, &o, comms);
}

void ranks_launch_ahead(void)
{
	setenv("COHORT_LAUNCH", "ahead", 1);
}

struct cohort_group *ranks_small(int n, struct cohort_comm *comms[])
{
	struct cohort_group_options o;

	cohort_group_options_init(&o);
	o.recorder_slots = 16;
	return ranks_split(n, &o, comms);
}

static bool has_joined(struct cohort_comm *comm)
{
	const int n = cohort_comm_size(comm);
	struct cohort_rank_report *reports =
		calloc((size_t)n, sizeof(*reports));
	bool joined = false;
	int i;

	ranks_must(cohort_comm_snapshot(comm, reports, n, sizeof(*reports)),
	           "snapshot");
	for (i = 0; i < n; i++)
		if (reports[i].rank == cohort_comm_rank(comm))
			joined = reports[i].joined;
	free(reports);
	return joined;
}

void ranks_await_joined(struct cohort_comm *comm)
{
	while (!has_joined(comm))
		test_nap();
}

struct cohort_cause ranks_cause(struct cohort_group *group)
{
	struct cohort_cause cause;

	cohort_group_cause(group, &cause);
	return cause;
}

void ranks_fault(int rank, uint64_t operation, int kind, uint64_t value)
{
	const struct cohort_fault fault = {
		.rank = rank,
		.operation = operation,
		.kind = kind,
		.value = value,
	};

	place_need_our_nccl("faults");
	ranks_must(cohort_sim_fault_add(&fault), "fault");
}

uint64_t ranks_sum(struct cohort_comm *comm, int32_t *value)
{
	uint64_t ticket = 0;

	ranks_must(cohort_all_reduce(comm, value, value, 1, COHORT_I32,
	                             COHORT_SUM, cohort_comm_stream(comm),
	                             &ticket),
	           "all_reduce");
	return ticket;
}

int ranks_sum_wait(struct cohort_comm *comm, int32_t *value)
{
	uint64_t ticket;
	int rc =
		cohort_all_reduce(comm, value, value, 1, COHORT_I32, COHORT_SUM,
	                          cohort_comm_stream(comm), &ticket);

	return rc == COHORT_OK ? cohort_wait(comm, ticket, RANKS_SOON) : rc;
}
