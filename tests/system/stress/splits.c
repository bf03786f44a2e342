/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Races splits with aborts
 *
 * Each round opens a group whose workers split, call, split again and close.
 * They create a random family of communicators, the same on all ranks, and use
 * them all, while another thread aborts one of them or the group. Checks that
 * every worker returns and that the group can be closed.
 */

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "support/crew.h"
#include "support/ranks.h"
#include "support/stress.h"

#define RANKS 4
#define DEPTH 3

struct round {
	uint64_t seed; /* seed of the splits, the same for all ranks */
	struct cohort_group *group;

	/*
	 * Atomic. Handle of a communicator that can be aborted, or NULL before
	 * the first one and after the aborting thread took it.
	 */
	struct cohort_abort *_Atomic victim;
	bool all; /* whether to abort the whole group as well */
	uint32_t distance;
};

/* Let the aborting thread abort @c instead of an earlier communicator. */
static void offer(struct round *r, struct cohort_comm *c)
{
	struct cohort_abort *handle = cohort_comm_abort_handle(c);

	cohort_abort_put(atomic_exchange(&r->victim, handle));
}

/*
 * Return whether the call succeeded. Exit with an error if it failed for
 * a reason other than an abort.
 */
static bool goes_on(int rc, const char *what)
{
	if (rc != COHORT_OK && rc != COHORT_ABORTED)
		stress_fail("%s: %d: %s", what, rc, cohort_last_error());
	return rc == COHORT_OK;
}

static bool use(struct cohort_comm *c)
{
	int32_t value = 1;
	uint64_t ticket;
	int rc = cohort_all_reduce(c, &value, &value, 1, COHORT_I32, COHORT_SUM,
	                           cohort_comm_stream(c), &ticket);

	if (rc == COHORT_OK)
		rc = cohort_wait(c, ticket, RANKS_SOON);
	if (rc == COHORT_OK && value != cohort_comm_size(c))
		stress_fail("%d ranks have summed to %d", cohort_comm_size(c),
		            value);
	return goes_on(rc, "sum");
}

/* Split @c and use the child. All its ranks draw the same random numbers. */
static bool split_and_go_on(struct round *r, struct cohort_comm *c,
                            uint64_t *seed, int depth)
{
	/*
	 * Descendants use their own random numbers, because an abort can cut
	 * them short on only some ranks.
	 */
	uint64_t below = stress_random(seed);
	int colors = 1 + (int)(stress_random(seed) % 3);
	bool leaves = stress_random(seed) % 2, victim = stress_random(seed) % 2;
	struct cohort_comm *child;
	int rank = cohort_comm_rank(c);
	bool ok;

	if (!goes_on(cohort_comm_split(c, rank % colors, rank, &child),
	             "split"))
		return false;
	if (victim)
		offer(r, child);
	ok = use(child);
	if (ok && depth > 1)
		ok = split_and_go_on(r, child, &below, depth - 1);
	if (ok && leaves)
		goes_on(cohort_comm_close(child), "close");
	/* The end of a descendant does not affect its ancestors. */
	return use(c);
}

static int worker(struct cohort_comm *c, void *user)
{
	struct round *r = user;
	uint64_t seed = r->seed;

	offer(r, c);
	while (split_and_go_on(r, c, &seed, DEPTH) && stress_random(&seed) % 4)
		;
	return 0;
}

static void end_one(void *arg, int i)
{
	struct round *r = arg;
	struct cohort_abort *handle;

	(void)i;
	stress_spin(r->distance);
	if (r->all)
		cohort_group_abort(r->group, "stress");
	handle = atomic_exchange(&r->victim, NULL);
	if (handle)
		cohort_abort_fire(handle, "stress");
	cohort_abort_put(handle);
}

int main(int argc, char **argv)
{
	static struct crew crew;
	unsigned long rounds, ended = 0;
	uint64_t seed = 1;
	int rc;

	crew_start(&crew, 1, end_one);
	for (rounds = 0; stress_continue(argc, argv); rounds++) {
		struct round r = { .seed = stress_random(&seed) };

		r.all = stress_random(&seed) % 4 == 0;
		r.distance = stress_random(&seed) % 200000;
		r.group = ranks_open(RANKS, NULL);
		crew_begin(&crew, &r);
		rc = cohort_group_run(r.group, worker, &r, NULL);
		/* The group might have been aborted before the run. */
		if (rc != COHORT_STATE)
			goes_on(rc, "run");
		ended += rc != COHORT_OK;
		crew_end(&crew);
		cohort_abort_put(atomic_exchange(&r.victim, NULL));
		ranks_must(cohort_group_close(r.group), "close");
	}
	printf("%lu rounds, %lu groups ended\n", rounds, ended);
	return 0;
}
