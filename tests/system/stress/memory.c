/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Changes memory between collectives, on devices that always wait for each
 * other's kernels
 *
 * The host platform is as strict as the devices of one process can be
 * (COHORT_HOST_SYNC=device), and the ranks launch together. In each round,
 * every rank pauses for a random time, allocates, frees and copies at random,
 * makes a call (a collective, a list, or a call on more and more host memory),
 * and changes its memory again before it waits. Sometimes all ranks split, and
 * each closes its child at any time, while this rank and others make calls on
 * the parent. Checks that there is no verdict and that all sums are right.
 *
 * The second argument is the longest pause of a rank, in microseconds.
 */

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "support/crew.h"
#include "support/ranks.h"
#include "support/stress.h"

#define RANKS 3
#define HELD 8 /* most allocations of each kind per rank */
#define COUNT 4096
#define LIST 5
#define HOST_MOST (256 * 1024)

static const struct platform *p;
static long most_late_us = 2000;

struct rank {
	uint64_t seed;
	struct cohort_comm *comm, *child;
	cudaStream_t stream;
	void *device[HELD], *pinned[HELD], *ours[HELD];
	char pageable[1024];
	int32_t *host;
	int32_t data[COUNT];
};

struct round {
	uint64_t seed; /* seed of the calls, the same for all ranks */
	unsigned long number;
	struct rank ranks[RANKS];
};

static void must(int failed, const char *what)
{
	if (failed)
		stress_fail("%s: %d: %s", what, failed, cohort_last_error());
}

static void arrive_late(struct rank *k)
{
	const long us = most_late_us ? (long)(stress_random(&k->seed) %
	                                      (uint32_t)most_late_us)
	                             : 0;
	const struct timespec t = { .tv_nsec = us * 1000 };

	clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL);
}

/* ---- memory ----------------------------------------------------------- */

static void change_device(struct rank *k, int i)
{
	if (k->device[i])
		must(p->cudaFree(k->device[i]), "cudaFree");
	k->device[i] = NULL;
	if (stress_random(&k->seed) % 2)
		must(p->cudaMalloc(&k->device[i], sizeof(k->pageable)),
		     "cudaMalloc");
}

static void change_pinned(struct rank *k, int i)
{
	if (k->pinned[i])
		must(p->cudaFreeHost(k->pinned[i]), "cudaFreeHost");
	k->pinned[i] = NULL;
	if (stress_random(&k->seed) % 2)
		must(p->cudaHostAlloc(&k->pinned[i], sizeof(k->pageable), 0),
		     "cudaHostAlloc");
}

static void change_ours(struct rank *k, int i)
{
	must(cohort_free(k->comm, k->ours[i]), "cohort_free");
	k->ours[i] = NULL;
	if (stress_random(&k->seed) % 2)
		must(cohort_alloc(k->comm, sizeof(k->pageable), &k->ours[i]),
		     "cohort_alloc");
}

static void copy(struct rank *k, int i)
{
	if (!k->device[i])
		return;
	if (stress_random(&k->seed) % 2)
		must(p->cudaMemcpy(k->device[i], k->pageable,
		                   sizeof(k->pageable), cudaMemcpyHostToDevice),
		     "cudaMemcpy");
	else
		must(p->cudaMemcpyAsync(k->pageable, k->device[i],
		                        sizeof(k->pageable),
		                        cudaMemcpyDeviceToHost, k->stream),
		     "cudaMemcpyAsync");
}

static void close_child(struct rank *k)
{
	if (!k->child)
		return;
	must(cohort_comm_close(k->child), "cohort_comm_close");
	k->child = NULL;
}

/* Make up to three memory operations. */
static void change_memory(struct rank *k)
{
	uint32_t n = stress_random(&k->seed) % 4;

	for (; n; n--) {
		const uint32_t what = stress_random(&k->seed);
		const int i = (int)(what >> 8) % HELD;

		switch (what % 5) {
		case 0:
			change_device(k, i);
			break;
		case 1:
			change_pinned(k, i);
			break;
		case 2:
			change_ours(k, i);
			break;
		case 3:
			copy(k, i);
			break;
		default:
			close_child(k);
			break;
		}
	}
}

/* ---- collectives ------------------------------------------------------ */

static void check_sum(const int32_t *data, size_t count, const char *what)
{
	if (data[0] != RANKS || data[count - 1] != RANKS)
		stress_fail("%s: the sums are %d to %d, not %d", what, data[0],
		            data[count - 1], RANKS);
}

static void fill(int32_t *data, size_t count)
{
	data[0] = data[count - 1] = 1;
}

static void wait_for(struct rank *k, uint64_t ticket, size_t count)
{
	arrive_late(k);
	change_memory(k);
	must(cohort_wait(k->comm, ticket, RANKS_SOON), "cohort_wait");
	check_sum(k->data, count, "a collective");
}

static void sum_one(struct rank *k, size_t count)
{
	uint64_t ticket;

	fill(k->data, count);
	must(cohort_all_reduce(k->comm, k->data, k->data, count, COHORT_I32,
	                       COHORT_SUM, k->stream, &ticket),
	     "cohort_all_reduce");
	wait_for(k, ticket, count);
}

static void sum_list(struct rank *k)
{
	struct cohort_tensor list[LIST];
	uint64_t ticket;
	int i;

	for (i = 0; i < LIST; i++)
		list[i] = (struct cohort_tensor){ k->data + i * 100,
			                          k->data + i * 100, 100,
			                          COHORT_I32 };
	fill(k->data, LIST * 100);
	must(cohort_all_reduce_many(k->comm, list, LIST, COHORT_SUM, k->stream,
	                            &ticket),
	     "cohort_all_reduce_many");
	wait_for(k, ticket, LIST * 100);
}

static void sum_host(struct rank *k, size_t count)
{
	fill(k->host, count);
	must(cohort_all_reduce_host(k->comm, k->host, count, COHORT_I32,
	                            COHORT_SUM, RANKS_SOON),
	     "cohort_all_reduce_host");
	check_sum(k->host, count, "a call with host memory");
}

static void use_child(struct rank *k)
{
	int32_t value = 1;
	uint64_t ticket;

	close_child(k);
	must(cohort_comm_split(k->comm, 0, 0, &k->child), "cohort_comm_split");
	must(cohort_all_reduce(k->child, &value, &value, 1, COHORT_I32,
	                       COHORT_SUM, cohort_comm_stream(k->child),
	                       &ticket),
	     "cohort_all_reduce of a child");
	must(cohort_wait(k->child, ticket, RANKS_SOON), "cohort_wait");
	check_sum(&value, 1, "a child");
}

static void run_rank(void *arg, int i)
{
	struct round *r = arg;
	struct rank *k = &r->ranks[i];
	uint64_t seed = r->seed;
	const uint32_t what = stress_random(&seed);
	const size_t size = stress_random(&seed);

	must(p->cudaSetDevice(cohort_comm_device(k->comm)), "cudaSetDevice");
	arrive_late(k);
	change_memory(k);
	/* Creating children takes long, so do it rarely. */
	if (r->number % 16 == 0)
		use_child(k);
	switch (what % 3) {
	case 0:
		sum_one(k, 1 + size % COUNT);
		break;
	case 1:
		sum_list(k);
		break;
	default:
		/*
		 * Use more and more memory from round to round, so that the
		 * library must enlarge its own.
		 */
		sum_host(k, 1 + size % (1 + 64 * r->number) % HOST_MOST);
		break;
	}
}

/* ---- rounds ----------------------------------------------------------- */

static struct cohort_group *set_up(struct round *r)
{
	struct cohort_comm *comms[RANKS];
	struct cohort_group_options o;
	struct cohort_group *group;
	int i;

	cohort_group_options_init(&o);
	o.launch = COHORT_LAUNCH_TOGETHER;
	o.recorder_slots = 16;
	group = ranks_split(RANKS, &o, comms);
	p = place_table();
	for (i = 0; i < RANKS; i++) {
		r->ranks[i].comm = comms[i];
		r->ranks[i].seed = (uint64_t)i + 7;
		r->ranks[i].stream = cohort_comm_stream(comms[i]);
		r->ranks[i].host = calloc(HOST_MOST, sizeof(int32_t));
		must(!r->ranks[i].host, "calloc");
	}
	return group;
}

static void give_back(struct rank *k)
{
	int i;

	for (i = 0; i < HELD; i++) {
		p->cudaFree(k->device[i]);
		p->cudaFreeHost(k->pinned[i]);
		cohort_free(k->comm, k->ours[i]);
	}
	free(k->host);
}

int main(int argc, char **argv)
{
	static struct round r = { .seed = 1 };
	static struct crew crew;
	struct cohort_group *group;
	int i;

	place_need_host("devices that always wait for each other");
	if (argc > 2)
		most_late_us = strtol(argv[2], NULL, 10);
	setenv("COHORT_HOST_SYNC", "device", 1);
	group = set_up(&r);
	crew_start(&crew, RANKS, run_rank);
	for (; stress_continue(argc, argv); r.number++) {
		stress_random(&r.seed);
		crew_begin(&crew, &r);
		crew_end(&crew);
	}
	for (i = 0; i < RANKS; i++)
		give_back(&r.ranks[i]);
	must(cohort_group_close(group), "cohort_group_close");
	printf("%lu rounds\n", r.number);
	return 0;
}
