/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Nonblocking communicators: every call may remain in progress, and the program
 * polls until it is done
 */

#include <sched.h>

#include "program.h"

static struct rank ranks[MAX_RANKS];
static int n;

/* Poll until no rank has a call in progress. */
static void await(void)
{
	ncclResult_t state;
	int i;

	for (i = 0; i < n; i++) {
		do {
			NCCL(ncclCommGetAsyncError(ranks[i].comm, &state));
			if (state == ncclInProgress)
				sched_yield();
		} while (state == ncclInProgress);
		NCCL(state);
	}
}

/* Check the result of a call that may be in progress. */
static void may_take(ncclResult_t result)
{
	CHECK(result == ncclSuccess || result == ncclInProgress);
}

static void init(void)
{
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
	ncclUniqueId id;
	int i;

	config.blocking = 0;
	NCCL(ncclGetUniqueId(&id));
	NCCL(ncclGroupStart());
	for (i = 0; i < n; i++) {
		CUDA(cudaSetDevice(i));
		may_take(ncclCommInitRankConfig(&ranks[i].comm, n, id, i,
		                                &config));
	}
	may_take(ncclGroupEnd());
	await();
}

static void reduce(void)
{
	int i;

	NCCL(ncclGroupStart());
	for (i = 0; i < n; i++)
		may_take(ncclAllReduce(ranks[i].send, ranks[i].recv, COUNT,
		                       ncclFloat, ncclSum, ranks[i].comm,
		                       ranks[i].stream));
	may_take(ncclGroupEnd());
	await();
}

static void finish(void)
{
	int i;

	NCCL(ncclGroupStart());
	for (i = 0; i < n; i++)
		may_take(ncclCommFinalize(ranks[i].comm));
	may_take(ncclGroupEnd());
	await();
	for (i = 0; i < n; i++)
		NCCL(ncclCommDestroy(ranks[i].comm));
}

int main(void)
{
	int i, round;

	n = count_devices();
	for (i = 0; i < n; i++) {
		rank_open(&ranks[i], i, n);
		fill(&ranks[i], ranks[i].send, COUNT, 1, 1);
	}
	init();
	for (round = 0; round < 5; round++)
		reduce();
	for (i = 0; i < n; i++)
		expect(&ranks[i], ranks[i].recv, COUNT, (float)n, (float)n);
	finish();
	for (i = 0; i < n; i++)
		rank_close(&ranks[i]);
	puts("OK");
	return 0;
}
