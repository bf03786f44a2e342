/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Aborts two groups on the same devices at the same time
 *
 * In every round, two groups are opened on the same two devices. A thread per
 * device sums numbers on both, on the groups' streams or on a shared one. Each
 * group has an aborter. In some rounds, one group is closed normally during the
 * other's abort. Checks that each aborted group ends with its own abort, that a
 * group that is not aborted completes all its sums, that the closes succeed,
 * and that each native communicator was released once, by its own group's
 * reaper.
 */

#include <sched.h>
#include <stdio.h>

#include "support/contest.h"
#include "support/crew.h"
#include "support/ledger.h"
#include "support/ranks.h"
#include "support/stress.h"

#define RANKS 2
#define GROUPS 2
#define SUMS 10

struct sibling {
	struct cohort_group *group;
	struct cohort_comm *comms[RANKS];
	struct contest contest;
	bool is_aborted;
	atomic_bool is_fired;
	atomic_ulong done, cut;
};

struct round {
	unsigned long number;
	struct sibling siblings[GROUPS];
};

/* ---- ranks ------------------------------------------------------------ */

/* One group's part of a sum. */
struct sum {
	struct sibling *sibling;
	struct cohort_comm *comm;
	int32_t value;
	uint64_t ticket; /* ticket, or 0 if the sum was not queued */
};

static void check(const struct sum *s, int rc)
{
	if (rc != COHORT_OK &&
	    !(rc == COHORT_ABORTED && s->sibling->is_aborted))
		stress_fail("%d: %s", rc, cohort_last_error());
}

static void sum_begin(struct sum *s, void *stream)
{
	int rc = cohort_all_reduce(s->comm, &s->value, &s->value, 1, COHORT_I32,
	                           COHORT_SUM, stream, &s->ticket);

	check(s, rc);
}

static void sum_end(struct sum *s, int expected)
{
	int rc;

	if (!s->ticket)
		return;
	rc = cohort_wait(s->comm, s->ticket, RANKS_SOON);
	check(s, rc);
	if (cohort_wait(s->comm, s->ticket, 0) != rc)
		stress_fail("a ticket returned %d, then another status", rc);
	if (rc == COHORT_OK && s->value != expected)
		stress_fail("the sum is %d, not %d", s->value, expected);
	atomic_fetch_add(rc == COHORT_OK ? &s->sibling->done : &s->sibling->cut,
	                 1);
}

/*
 * Return whether the groups share their streams. Then an operation waits on its
 * stream for the other group's operations before it, and a thread that waits
 * for the operation keeps the other group from continuing. So both groups must
 * be aborted, and the second without waiting for its sums first.
 */
static bool is_shared(const struct round *round)
{
	return round->number % 3 == 0;
}

static void *stream_of(const struct round *round, int rank, int group)
{
	const struct sibling *s =
		&round->siblings[is_shared(round) ? 0 : group];

	return cohort_comm_stream(s->comms[rank]);
}

static void rank_main(void *arg, int rank)
{
	struct round *round = arg;
	int i, g;

	for (i = 0; i < SUMS; i++) {
		struct sum sums[GROUPS];

		for (g = 0; g < GROUPS; g++) {
			struct sibling *s = &round->siblings[g];

			sums[g] =
				(struct sum){ s, s->comms[rank], i + rank, 0 };
			sum_begin(&sums[g], stream_of(round, rank, g));
		}
		for (g = 0; g < GROUPS; g++)
			sum_end(&sums[g], RANKS * i + 1);
	}
}

/* ---- ends of the groups ----------------------------------------------- */

static void ender_main(void *arg, int g)
{
	struct round *round = arg;
	struct sibling *s = &round->siblings[g];
	const struct sibling *other = &round->siblings[!g];
	uint64_t seed = round->number << 8 | (unsigned)g;
	unsigned long n = stress_random(&seed) % (RANKS * SUMS);

	if (!s->is_aborted)
		return;
	while (atomic_load(&s->done) < n &&
	       !(is_shared(round) && atomic_load(&other->is_fired)))
		sched_yield();
	stress_spin(stress_random(&seed) % (1u << (8 + round->number % 8)));
	contest_fire(&s->contest, g);
	atomic_store(&s->is_fired, true);
}

/*
 * Close a group. Each group has its own thread for this, so that the closes
 * race as well.
 */
static void closer_main(void *arg, int g)
{
	struct round *round = arg;

	ranks_must(cohort_group_close(round->siblings[g].group), "close");
}

static void finish(struct sibling *s)
{
	if (contest_end(&s->contest) !=
	    (s->is_aborted ? COHORT_ABORTED : COHORT_OK))
		stress_fail("a group has the other group's cause");
	if (!s->is_aborted && s->done != RANKS * SUMS)
		stress_fail("%lu sums are done",
		            (unsigned long)atomic_load(&s->done));
}

static struct crew ranks, enders, closers;

static void one_round(struct round *round)
{
	struct sibling *s;
	int g;

	for (g = 0; g < GROUPS; g++) {
		s = &round->siblings[g];
		s->group = ranks_small(RANKS, s->comms);
		s->is_aborted = g == 0 || round->number % 4 || is_shared(round);
		contest_begin(&s->contest, s->comms[0]);
	}
	crew_begin(&ranks, round);
	crew_begin(&enders, round);
	crew_end(&ranks);
	crew_end(&enders);
	crew_begin(&closers, round);
	crew_end(&closers);
	for (g = 0; g < GROUPS; g++)
		finish(&round->siblings[g]);
	ledger_check();
}

int main(int argc, char **argv)
{
	unsigned long n, done = 0, cut = 0;
	int g;

	ledger_open();
	crew_start(&ranks, RANKS, rank_main);
	crew_start(&enders, GROUPS, ender_main);
	crew_start(&closers, GROUPS, closer_main);
	for (n = 0; stress_continue(argc, argv); n++) {
		struct round round = { .number = n };

		one_round(&round);
		for (g = 0; g < GROUPS; g++) {
			done += round.siblings[g].done;
			cut += round.siblings[g].cut;
		}
	}
	printf("%lu rounds, %lu tickets done, %lu cut short\n", n, done, cut);
	return 0;
}
