/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Measures the cost of streams that wait for collectives, and of collectives
 * that wait for streams
 *
 * In each round, a rank sums on the communicator's own stream. Then 1, 8 or 40
 * other streams wait for the sum, and the next sum waits for all of them. The
 * program repeats this in a process with CUDA_DEVICE_MAX_CONNECTIONS=1, where
 * the streams share one queue of the device. If a wait is enqueued too early
 * there, it blocks the work that it waits for, and the program ends with an
 * error.
 */

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "gpu/must.h"
#include "platform/platform.h"
#include "support/place.h"
#include "support/ranks.h"

#define MOST_SECONDS 120
#define MOST_STREAMS 40
#define ROUNDS 200

static cudaStream_t streams[MOST_STREAMS];

static void make_round(struct cohort_comm *comm, void *memory, int n)
{
	uint64_t sum;
	int i;

	must(cohort_all_reduce(comm, memory, memory, 1, COHORT_F32, COHORT_SUM,
	                       cohort_comm_stream(comm), &sum),
	     "all_reduce");
	for (i = 0; i < n; i++)
		must(cohort_stream_after(comm, sum, streams[i]),
		     "stream_after");
	for (i = 0; i < n; i++)
		must(cohort_after_stream(comm, streams[i]), "after_stream");
}

/* Return the time of one round, in microseconds. */
static double time_rounds(struct cohort_comm *comm, void *memory, int n)
{
	uint64_t from;
	int i;

	must(cohort_synchronize(comm, RANKS_SOON), "synchronize");
	from = clock_now();
	for (i = 0; i < ROUNDS; i++)
		make_round(comm, memory, n);
	must(cohort_synchronize(comm, RANKS_SOON), "synchronize");
	return (double)(clock_now() - from) / 1e3 / ROUNDS;
}

static void time_all(void)
{
	static const int counts[] = { 0, 1, 8, MOST_STREAMS };
	const struct platform *p = place_table();
	struct cohort_comm *comm;
	struct cohort_group *group = ranks_split(1, NULL, &comm);
	void *memory;
	size_t k;
	int i;

	alarm(MOST_SECONDS);
	must((int)p->cudaSetDevice(0), "cudaSetDevice");
	for (i = 0; i < MOST_STREAMS; i++)
		must((int)p->cudaStreamCreateWithFlags(&streams[i],
		                                       cudaStreamNonBlocking),
		     "stream");
	must(cohort_alloc(comm, sizeof(float), &memory), "alloc");
	/* Warm up, because the first calls are slower. */
	time_rounds(comm, memory, MOST_STREAMS);
	for (k = 0; k < sizeof(counts) / sizeof(counts[0]); k++)
		printf("streams %2d: %8.1f us for a sum and its waits\n",
		       counts[k], time_rounds(comm, memory, counts[k]));
	must(cohort_free(comm, memory), "free");
	for (i = 0; i < MOST_STREAMS; i++)
		must((int)p->cudaStreamDestroy(streams[i]),
		     "cudaStreamDestroy");
	must(cohort_group_close(group), "close");
	exit(0);
}

/* Use a child process, because CUDA reads the variable only once. */
static void time_in_child(const char *connections)
{
	int status = 0;
	pid_t child = fork();

	if (child == 0 && connections)
		setenv("CUDA_DEVICE_MAX_CONNECTIONS", connections, 1);
	if (child == 0)
		time_all();
	must(child < 0 || waitpid(child, &status, 0) != child || status,
	     "a process");
}

int main(void)
{
	time_in_child(NULL);
	puts("with one connection:");
	fflush(stdout);
	time_in_child("1");
	return 0;
}
