/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Takes snapshots while ranks call, and during an abort and a respawn
 *
 * Ranks sum numbers, on a device and on the host. Two threads constantly take
 * snapshots of the group and of a communicator, while the group is aborted and
 * continues without a rank. Checks that every snapshot succeeds, has every rank
 * once, describes it in complete sentences, and says only what the rank has
 * really done.
 */

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "support/ranks.h"
#include "support/stress.h"

#define RANKS 3

static struct cohort_group *group;
static struct cohort_comm *comms[RANKS];
static atomic_bool stop;
static atomic_ulong looks;

static void *call(void *arg)
{
	struct cohort_comm *c = arg;
	int32_t value = 1;
	int rc;

	do {
		rc = ranks_sum_wait(c, &value);
		if (rc == COHORT_OK)
			rc = cohort_all_reduce_host(c, &value, 1, COHORT_I32,
			                            COHORT_MAX, COHORT_FOREVER);
		if (rc == COHORT_OK)
			rc = cohort_tag(c, value % 2 ? "odd" : "even");
	} while (rc == COHORT_OK);
	return NULL;
}

static void check(const struct cohort_rank_report *reports)
{
	const struct cohort_rank_report *r = reports;
	char name[16];

	for (; r < reports + RANKS && r->rank >= 0; r++) {
		snprintf(name, sizeof(name), "rank %d (", (int)(r - reports));
		if (r->rank != r - reports ||
		    strncmp(r->text, name, strlen(name)) != 0)
			stress_fail("report %d: rank %d, \"%s\"",
			            (int)(r - reports), r->rank, r->text);
		if (r->done > r->started || r->started > r->joined)
			stress_fail("\"%s\" is done, but never arrived",
			            r->text);
	}
	if (r < reports + RANKS - 1)
		stress_fail("%d ranks have reports", (int)(r - reports));
	atomic_fetch_add(&looks, 1);
}

static void *take_snapshots(void *comm)
{
	struct cohort_rank_report reports[RANKS];
	int rc;

	while (!atomic_load(&stop)) {
		rc = comm ? cohort_comm_snapshot(comm, reports, RANKS,
		                                 sizeof(reports[0]))
		          : cohort_group_snapshot(group, reports, RANKS,
		                                  sizeof(reports[0]));
		if (rc != COHORT_OK)
			stress_fail("snapshot: %s", cohort_last_error());
		check(reports);
	}
	return NULL;
}

/* Let @n ranks call until they are stopped. */
static void live(int n, uint64_t *seed)
{
	pthread_t threads[RANKS];
	int i;

	for (i = 0; i < n; i++)
		pthread_create(&threads[i], NULL, call, comms[i]);
	usleep((useconds_t)(stress_random(seed) % 3000));
	cohort_group_abort(group, "enough");
	for (i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
}

static void run_round(uint64_t *seed)
{
	pthread_t by_group, by_comm;
	const int lost = 1;

	atomic_store(&stop, false);
	group = ranks_small(RANKS, comms);
	pthread_create(&by_group, NULL, take_snapshots, NULL);
	pthread_create(&by_comm, NULL, take_snapshots, comms[2]);
	live(RANKS, seed);
	ranks_must(cohort_group_respawn(group, &lost, 1), "respawn");
	ranks_must(cohort_group_split(group, comms), "split");
	live(RANKS - 1, seed);
	atomic_store(&stop, true);
	pthread_join(by_group, NULL);
	pthread_join(by_comm, NULL);
	if (cohort_group_close(group) != COHORT_OK)
		stress_fail("close: %s", cohort_last_error());
}

int main(int argc, char **argv)
{
	uint64_t seed = 1;
	int rounds = 0;

	while (stress_continue(argc, argv)) {
		run_round(&seed);
		rounds++;
	}
	printf("%d rounds, %lu snapshots\n", rounds, atomic_load(&looks));
	return 0;
}
