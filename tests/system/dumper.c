/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Dumps ranks repeatedly, and prints the duration of each dump in milliseconds
 *
 *  dumper FOLDER [RANKS [SLOTS [TIMES [CALLS]]]]
 *
 * The ranks have made CALLS sums (default: more than SLOTS). One rank does not
 * make the last call. If TIMES is 0, the program dumps until it is killed.
 */

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <cohort/cohort.h>

#define MAX_RANKS 64

static struct cohort_comm *comms[MAX_RANKS];
static float data[MAX_RANKS];
static float more[MAX_RANKS][2 * MAX_RANKS];

static void must(int rc)
{
	if (rc == COHORT_OK)
		return;
	fprintf(stderr, "%s\n", cohort_last_error());
	exit(1);
}

static double now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static void sum(int r)
{
	must(cohort_all_reduce(comms[r], &data[r], &data[r], 1, COHORT_F32,
	                       COHORT_SUM, cohort_comm_stream(comms[r]), NULL));
}

/* Make one call of each kind. Some calls wait for other ranks. */
static int call_all(struct cohort_comm *c, void *user)
{
	int r = cohort_comm_rank(c), ranks = cohort_comm_size(c);
	void *stream = cohort_comm_stream(c);
	float *from = more[r], *to = more[r] + MAX_RANKS;

	must(cohort_tag(c, "one of each \"kind\""));
	must(cohort_broadcast(c, from, to, 1, COHORT_F32, 0, stream, NULL));
	must(cohort_reduce(c, from, to, 1, COHORT_F32, COHORT_MAX, 0, stream,
	                   NULL));
	must(cohort_all_gather(c, from, to, 1, COHORT_F32, stream, NULL));
	must(cohort_reduce_scatter(c, from, to, 1, COHORT_F32, COHORT_AVG,
	                           stream, NULL));
	must(cohort_gather(c, from, to, 1, COHORT_F32, 0, stream, NULL));
	must(cohort_scatter(c, from, to, 1, COHORT_F32, 0, stream, NULL));
	must(cohort_all_to_all(c, from, to, 1, COHORT_F32, stream, NULL));
	must(cohort_copy(c, to, from, 4, stream));
	must(cohort_barrier(c, stream, NULL));
	(void)user;
	if (ranks % 2)
		return 0;
	must(r % 2 ? cohort_recv(c, to, 1, COHORT_F32, r - 1, stream, NULL)
	           : cohort_send(c, from, 1, COHORT_F32, r + 1, stream, NULL));
	must(cohort_batch_begin(c));
	must(cohort_send(c, from, 1, COHORT_F32, r ^ 1, NULL, NULL));
	must(cohort_recv(c, to, 1, COHORT_F32, r ^ 1, NULL, NULL));
	must(cohort_batch_end(c, stream, NULL));
	/* Use a batch on one rank, and single calls on the other. */
	if (r % 2) {
		must(cohort_recv(c, to, 1, COHORT_F32, r - 1, stream, NULL));
		must(cohort_recv(c, to, 1, COHORT_F32, r - 1, stream, NULL));
		return 0;
	}
	must(cohort_batch_begin(c));
	must(cohort_send(c, from, 1, COHORT_F32, r + 1, NULL, NULL));
	must(cohort_send(c, from, 1, COHORT_F32, r + 1, NULL, NULL));
	must(cohort_batch_end(c, stream, NULL));
	return 0;
}

/* Fill every rank's ring. Rank 0 does not make the last call. */
static void fill(struct cohort_group *group, int ranks, int calls)
{
	int i, r;

	for (i = 0; i < calls; i++) {
		for (r = 0; r < ranks; r++)
			sum(r);
		for (r = 0; i % 16 == 0 && r < ranks; r++)
			must(cohort_synchronize(comms[r], COHORT_FOREVER));
	}
	must(cohort_group_run(group, call_all, NULL, NULL));
	for (r = 1; r < ranks; r++)
		sum(r);
}

int main(int argc, char **argv)
{
	int ranks = argc > 2 ? atoi(argv[2]) : 4;
	int slots = argc > 3 ? atoi(argv[3]) : 64;
	int times = argc > 4 ? atoi(argv[4]) : 1, i;
	int calls = argc > 5 ? atoi(argv[5]) : slots + slots / 2;
	struct cohort_group_options options;
	struct cohort_group *group;
	double began;

	if (argc < 2 || ranks < 1 || ranks > MAX_RANKS)
		return 2;
	cohort_group_options_init(&options);
	options.name = "dumper";
	options.platform = COHORT_PLATFORM_HOST;
	options.recorder_slots = (unsigned)slots;
	must(cohort_group_open(NULL, ranks, &options, &group));
	must(cohort_group_split(group, comms));
	fill(group, ranks, calls);
	for (i = 0; i < times || !times; i++) {
		began = now_ms();
		must(cohort_dump(group, argv[1]));
		printf("%.1f\n", now_ms() - began);
		fflush(stdout);
	}
	cohort_group_abort(group, "done");
	cohort_group_close(group);
	return 0;
}
