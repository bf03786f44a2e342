/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Checks that a group ends and reports its cause even if no thread can be
 * started: the verdict, the abort of the group and its children, the callback
 * and the close must work
 */

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>

#include "support/ranks.h"

#define MS UINT64_C(1000000)
#define RANKS 2

static atomic_bool refuses;
static atomic_int refused, reported;

int pthread_create(pthread_t *thread, const pthread_attr_t *attr,
                   void *(*fn)(void *), void *arg)
{
	static int (*real)(pthread_t *, const pthread_attr_t *,
	                   void *(*)(void *), void *);

	if (!real)
		*(void **)&real = dlsym(RTLD_NEXT, "pthread_create");
	if (!atomic_load(&refuses))
		return real(thread, attr, fn, arg);
	atomic_fetch_add(&refused, 1);
	return EAGAIN;
}

static int count(const struct cohort_verdict *v, void *user)
{
	(void)user;
	atomic_fetch_add(&reported, v->stage == COHORT_STAGE_ENDED);
	return 0;
}

/* Rank 0 waits for rank 1, which sleeps. */
static int stall(struct cohort_comm *c, void *user)
{
	struct cohort_cause cause = { .status = COHORT_OK };
	struct cohort_comm *child;
	int32_t value = 1;

	(void)user;
	ranks_must(cohort_comm_split(c, 0, 0, &child), "split");
	ranks_must(ranks_sum_wait(c, &value), "sum");
	atomic_store(&refuses, true);
	if (cohort_comm_rank(c) == 0)
		return ranks_sum_wait(c, &value);
	while (cause.status == COHORT_OK && !sched_yield())
		cohort_comm_cause(c, &cause);
	return 0;
}

int main(void)
{
	struct cohort_group_options o;
	struct cohort_group *group;
	struct cohort_cause cause;
	int rc;

	cohort_group_options_init(&o);
	o.deadlines.join_ns = 100 * MS;
	o.on_verdict = count;
	group = ranks_open(RANKS, &o);
	rc = cohort_group_run(group, stall, NULL, &cause);
	ranks_must(cohort_group_close(group), "close");
	if (rc == COHORT_STALLED && cause.missing[0] == 2 && reported &&
	    refused)
		return 0;
	fprintf(stderr, "%d: %s; %d verdicts, %d threads refused\n", rc,
	        cause.text, reported, refused);
	return 1;
}
