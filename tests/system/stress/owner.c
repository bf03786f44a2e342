/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Uses one communicator from several threads
 *
 * Four threads submit to the one rank of a group, and bind and unbind it.
 * Checks that every call returns OK, BUSY or OWNER, and that the tickets are 1,
 * 2, 3, ... without a gap or a repetition.
 */

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "support/ranks.h"
#include "support/stress.h"

#define THREADS 4
#define CALLS 500

static struct cohort_comm *comm;
static atomic_ulong tickets, ticket_sum, busy, owned;
static atomic_ulong seed;

static void submit_once(void)
{
	uint64_t ticket;
	int rc = cohort_barrier(comm, cohort_comm_stream(comm), &ticket);

	switch (rc) {
	case COHORT_OK:
		atomic_fetch_add(&tickets, 1);
		atomic_fetch_add(&ticket_sum, ticket);
		break;
	case COHORT_BUSY:
		atomic_fetch_add(&busy, 1);
		break;
	case COHORT_OWNER:
		atomic_fetch_add(&owned, 1);
		break;
	default:
		stress_fail("barrier: %d: %s", rc, cohort_last_error());
	}
}

static void *thread(void *arg)
{
	uint64_t state = atomic_fetch_add(&seed, 1) << 32;
	bool bound = false;
	int i;

	(void)arg;
	for (i = 0; i < CALLS; i++) {
		if (stress_random(&state) % 8 == 0 && !bound)
			bound = cohort_comm_bind(comm) == COHORT_OK;
		submit_once();
		if (bound && stress_random(&state) % 4 == 0)
			bound = cohort_comm_unbind(comm) != COHORT_OK;
	}
	while (bound)
		bound = cohort_comm_unbind(comm) != COHORT_OK;
	return NULL;
}

int main(int argc, char **argv)
{
	struct cohort_group *group = ranks_split(1, NULL, &comm);
	pthread_t threads[THREADS];
	unsigned long n;
	int i;

	while (stress_continue(argc, argv)) {
		for (i = 0; i < THREADS; i++)
			pthread_create(&threads[i], NULL, thread, NULL);
		for (i = 0; i < THREADS; i++)
			pthread_join(threads[i], NULL);
	}
	ranks_must(cohort_synchronize(comm, RANKS_SOON), "synchronize");
	n = tickets;
	if (ticket_sum != n * (n + 1) / 2)
		stress_fail("%lu tickets whose sum is %lu", n,
		            (unsigned long)ticket_sum);
	ranks_must(cohort_group_close(group), "close");
	printf("%lu tickets, %lu busy, %lu owned\n", n, (unsigned long)busy,
	       (unsigned long)owned);
	return 0;
}
