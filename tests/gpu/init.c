/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests an init that can never complete, because the second rank does not join
 *
 * NCCL's own init is aborted, and the library's init gives up at its deadline.
 * Afterwards the device and the library must still work.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/backoff.h"
#include "base/clock.h"
#include "gpu/must.h"
#include "support/ranks.h"

/* Time in seconds after which the program ends, even if it hangs */
#define MOST_SECONDS 120

/* Check that a group of one rank works, with its own memory. */
static void one_works(void)
{
	struct cohort_comm *comm;
	struct cohort_group *group = ranks_split(1, NULL, &comm);
	int32_t given = 7, got = 0;
	void *memory;

	must(cohort_alloc(comm, sizeof(given), &memory), "alloc");
	must(cohort_copy(comm, memory, &given, sizeof(given),
	                 cohort_comm_stream(comm)),
	     "copy");
	must(cohort_all_reduce(comm, memory, memory, 1, COHORT_I32, COHORT_SUM,
	                       cohort_comm_stream(comm), NULL),
	     "all_reduce");
	must(cohort_copy(comm, &got, memory, sizeof(got),
	                 cohort_comm_stream(comm)),
	     "copy back");
	must(cohort_synchronize(comm, RANKS_SOON), "synchronize");
	must(got != given, "the value");
	must(cohort_free(comm, memory), "free");
	must(cohort_group_close(group), "close");
}

/* Start a non-blocking init of rank 0 of two ranks, and abort it. */
static void abort_native(const struct platform *p)
{
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
	ncclResult_t state = ncclSuccess;
	struct backoff b = BACKOFF;
	uint64_t until = clock_deadline(NS_PER_S);
	ncclUniqueId id;
	ncclComm_t comm = NULL;
	int result;

	config.blocking = 0;
	must((int)p->cudaSetDevice(0), "cudaSetDevice");
	must((int)p->ncclGetUniqueId(&id), "ncclGetUniqueId");
	result = (int)p->ncclCommInitRankConfig(&comm, 2, id, 0, &config);
	must(result != ncclInProgress && result != ncclSuccess, "init");
	/* Polling must not end the init. */
	while (clock_now() < until) {
		must((int)p->ncclCommGetAsyncError(comm, &state), "async");
		must(state != ncclInProgress, "an init without its peer");
		backoff_wait(&b, until);
	}
	must((int)p->ncclCommAbort(comm), "ncclCommAbort");
	must((int)p->cudaDeviceSynchronize(), "cudaDeviceSynchronize");
}

/* Check that the library's init gives up if its peer is missing. */
static void give_up(void)
{
	struct cohort_group_options o;
	struct cohort_unique_id id;
	struct cohort_comm *comm;
	uint64_t from;

	place_choose();
	cohort_group_options_init(&o);
	o.platform = place_platform();
	o.deadlines.init_ns = NS_PER_S;
	must(cohort_unique_id(COHORT_PLATFORM_AUTO, &id), "unique id");
	from = clock_now();
	must(cohort_comm_join(&id, 2, 0, 0, &o, &comm) != COHORT_INIT_TIMEOUT,
	     "join without the peer");
	must(!strstr(cohort_last_error(), "rank 0 has joined;"),
	     "the error text");
	printf("given up after %llu ms: %s\n",
	       (unsigned long long)(clock_now() - from) / 1000000,
	       cohort_last_error());
}

int main(void)
{
	const struct platform *p = place_table();

	alarm(MOST_SECONDS);
	place_need_world(2);
	one_works();
	abort_native(p);
	one_works();
	give_up();
	one_works();
	return 0;
}
