/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Ranks in their own processes, which the first process forks before any of
 * them uses CUDA
 *
 * The argument is the number of ranks.
 */

#include <sys/wait.h>
#include <unistd.h>

#include "program.h"

#define ROUNDS 5

/* Sum the ranks' numbers, send them around, and gather them. */
static void work(struct rank *r)
{
	const int next = (r->rank + 1) % r->ranks;
	const int last = (r->rank + r->ranks - 1) % r->ranks;
	int i, round;

	for (round = 0; round < ROUNDS; round++) {
		fill(r, r->send, COUNT, (float)(r->rank + round), 1);
		NCCL(ncclAllReduce(r->send, r->recv, COUNT, ncclFloat, ncclSum,
		                   r->comm, r->stream));
		expect(r, r->recv, COUNT,
		       (float)(r->ranks * round +
		               r->ranks * (r->ranks - 1) / 2),
		       (float)r->ranks);
		NCCL(ncclGroupStart());
		NCCL(ncclSend(r->send, COUNT, ncclFloat, next, r->comm,
		              r->stream));
		NCCL(ncclRecv(r->recv, COUNT, ncclFloat, last, r->comm,
		              r->stream));
		NCCL(ncclGroupEnd());
		expect(r, r->recv, COUNT, (float)(last + round), 1);
		NCCL(ncclAllGather(r->send, r->recv, COUNT, ncclFloat, r->comm,
		                   r->stream));
		for (i = 0; i < r->ranks; i++)
			expect(r, r->recv + (size_t)i * COUNT, COUNT,
			       (float)(i + round), 1);
	}
}

static int run_rank(const ncclUniqueId *id, int rank, int ranks)
{
	struct rank r;

	rank_open(&r, rank, ranks);
	NCCL(ncclCommInitRank(&r.comm, ranks, *id, rank));
	work(&r);
	NCCL(ncclCommFinalize(r.comm));
	NCCL(ncclCommDestroy(r.comm));
	rank_close(&r);
	return 0;
}

/* Run a rank in a child, which gets the id from rank 0 through a pipe. */
static int run_child(int from, int rank, int ranks)
{
	ncclUniqueId id;

	CHECK(read(from, &id, sizeof(id)) == sizeof(id));
	return run_rank(&id, rank, ranks);
}

int main(int argc, char **argv)
{
	const int ranks = argc > 1 ? atoi(argv[1]) : 2;
	int pipes[MAX_RANKS][2];
	int r, status, failures = 0;
	ncclUniqueId id;

	CHECK(ranks >= 1 && ranks <= MAX_RANKS);
	for (r = 1; r < ranks; r++) {
		CHECK(pipe(pipes[r]) == 0);
		if (fork() == 0)
			_exit(run_child(pipes[r][0], r, ranks));
	}
	NCCL(ncclGetUniqueId(&id));
	for (r = 1; r < ranks; r++)
		CHECK(write(pipes[r][1], &id, sizeof(id)) == sizeof(id));
	run_rank(&id, 0, ranks);
	while (wait(&status) > 0)
		failures += !WIFEXITED(status) || WEXITSTATUS(status);
	CHECK(failures == 0);
	puts("OK");
	return 0;
}
