/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Runs one process of a group whose ranks wait for each other in random splits,
 * for spread.sh. In the end, all of them wait for one rank.
 *
 *  maze DEVICES ROUNDS SEED COUNTERS
 *
 * In each round, the group is split several times at random. One rank, the
 * culprit, makes no call. Each other rank waits in one split, for ranks that
 * wait in other splits. Some of them have also made the call for which others
 * wait, but on a stream that does not reach this call. No verdict may blame
 * a rank other than the culprit, and nearly all verdicts must blame the
 * culprit.
 *
 * COUNTERS is a file of zeros, one word per round, which the processes share.
 */

#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#include <cohort/bootstrap.h>
#include <cohort/cohort.h>

#define MOST 64
#define SPLITS 4
#define MS UINT64_C(1000000)
#define SOON (20000 * MS)

static struct run {
	int rounds;
	unsigned seed;
	_Atomic uint32_t *waited; /* number of ranks with a verdict, by round */
	atomic_int verdicts, wrong, unnamed;
} run;

/* The call in which a rank waits, if it waits */
struct role {
	int split; /* split in which the rank waits, or -1 */
	int from;  /* group rank whose message it awaits, or -1 */
	int then;  /* split of its next call on the same stream, or -1 */
	uint64_t limit_ns;
};

struct plan {
	int size, culprit;
	int color[SPLITS][MOST];
	struct role roles[MOST];
};

static unsigned draw(unsigned *state, unsigned n)
{
	*state = *state * 1664525 + 1013904223;
	return (*state >> 8) % n;
}

static bool are_together(const struct plan *p, int split, int a, int b)
{
	return p->color[split][a] == p->color[split][b];
}

/*
 * Return a rank for which @rank can wait in @split, or -1 if there is none. The
 * returned rank waits in another split, and its wait leads to the culprit.
 */
static int guide_of(const struct plan *p, const bool *is_led, int split,
                    int rank)
{
	int i, guide = -1;

	for (i = 0; i < p->size; i++)
		if (is_led[i] && are_together(p, split, i, rank) &&
		    p->roles[i].split != split)
			guide = i;
	return guide;
}

static bool has_waiter(const struct plan *p, int split, int rank)
{
	int i = 0;

	while (i < p->size &&
	       (p->roles[i].split != split || !are_together(p, split, i, rank)))
		i++;
	return i < p->size;
}

/* Return a split in which other ranks wait in a collective for @rank, which
 * waits in another split. Return -1 if there is none. */
static int split_behind(const struct plan *p, int rank)
{
	int i, split;

	for (i = 0; i < p->size; i++) {
		split = p->roles[i].split;
		if (split >= 0 && split != p->roles[rank].split &&
		    p->roles[i].from < 0 && are_together(p, split, i, rank))
			return split;
	}
	return -1;
}

/* Make the plan, which is the same in all processes. */
static void make_plan(struct plan *p, unsigned state)
{
	bool is_led[MOST] = { false };
	int i, k, rank, guide, tries;

	for (i = 0; i < p->size; i++)
		p->roles[i] = (struct role){ -1, -1, -1, 0 };
	for (k = 0; k < SPLITS; k++) {
		const unsigned colors = 1 + draw(&state, (unsigned)p->size / 2);

		for (i = 0; i < p->size; i++)
			p->color[k][i] = (int)draw(&state, colors);
	}
	p->culprit = (int)draw(&state, (unsigned)p->size);
	is_led[p->culprit] = true;
	for (tries = 0; tries < 50 * p->size; tries++) {
		k = (int)draw(&state, SPLITS);
		rank = (int)draw(&state, (unsigned)p->size);
		guide = guide_of(p, is_led, k, rank);
		if (is_led[rank] || guide < 0)
			continue;
		if (!has_waiter(p, k, rank) && !draw(&state, 3)) {
			p->roles[rank] = (struct role){ k, guide, -1, 0 };
			is_led[rank] = true;
			continue;
		}
		/*
		 * Give this role to the whole part, so that no two ranks wait
		 * for each other.
		 */
		for (i = 0; i < p->size; i++) {
			if (is_led[i] || !are_together(p, k, i, rank))
				continue;
			p->roles[i].split = k;
			is_led[i] = true;
		}
	}
	for (i = 0; i < p->size; i++) {
		p->roles[i].limit_ns = (150 + draw(&state, 200)) * MS;
		if (p->roles[i].split >= 0 && draw(&state, 4))
			p->roles[i].then = split_behind(p, i);
	}
}

/* Return the number of the group's rank @rank in the split. */
static int rank_in(const struct plan *p, int split, int rank)
{
	int i, n = 0;

	for (i = 0; i < rank; i++)
		n += are_together(p, split, i, rank);
	return n;
}

static void print_plan(const struct plan *p)
{
	int i, k;

	for (i = 0; i < p->size; i++) {
		printf("  rank %d: colors", i);
		for (k = 0; k < SPLITS; k++)
			printf(" %d", p->color[k][i]);
		printf(", waits in split %d for %d, then in split %d\n",
		       p->roles[i].split, p->roles[i].from, p->roles[i].then);
	}
}

/* Return true if the wait of @rank may end: once the wait of a rank that it
 * waits for has ended in an error, that rank's stream reaches this call. */
static bool may_end(const struct plan *p, int rank)
{
	const int split = p->roles[rank].split;
	int i = 0;

	while (i < p->size &&
	       (p->roles[i].then != split || !are_together(p, split, i, rank)))
		i++;
	return i < p->size;
}

static void wait_in(struct cohort_comm **parts, const struct plan *p, int rank,
                    void *memory, unsigned seed)
{
	const struct role *role = &p->roles[rank];
	struct cohort_comm *part = parts[role->split];
	const struct cohort_deadlines limits = {
		.join_ns = role->limit_ns,
		.exec_ns = role->limit_ns,
	};
	struct cohort_stream *stream = cohort_comm_stream(part);
	struct cohort_cause cause;
	uint64_t ticket;
	int rc = cohort_deadline_push(part, &limits);

	if (rc == COHORT_OK)
		rc = role->from < 0
		             ? cohort_all_reduce(part, memory, memory, 1,
		                                 COHORT_I32, COHORT_SUM, stream,
		                                 &ticket)
		             : cohort_recv(part, memory, 1, COHORT_I32,
		                           rank_in(p, role->split, role->from),
		                           stream, &ticket);
	/* The split of this call may have ended already. */
	if (rc == COHORT_OK && role->then >= 0)
		cohort_all_reduce(parts[role->then], memory, memory, 1,
		                  COHORT_I32, COHORT_SUM, stream, NULL);
	if (rc == COHORT_OK)
		rc = cohort_wait(part, ticket, SOON);
	if (rc == COHORT_OK && may_end(p, rank))
		return;
	cohort_comm_cause(part, &cause);
	atomic_fetch_add(&run.verdicts, 1);
	if (rc == COHORT_STALLED && cause.world_rank == p->culprit)
		return;
	/* This rank may have continued, and does not call again. */
	if (rc == COHORT_STALLED && cause.world_rank >= 0 &&
	    may_end(p, cause.world_rank))
		return;
	if (rc == COHORT_STALLED && cause.world_rank < 0) {
		atomic_fetch_add(&run.unnamed, 1);
		return;
	}
	printf("seed %u: rank %d, status %d: it is %d, not %d: %s\n", seed,
	       rank, rc, p->culprit, cause.world_rank, cause.text);
	if (!atomic_fetch_add(&run.wrong, 1))
		print_plan(p);
}

static int meet(struct cohort_comm *comm)
{
	uint64_t ticket;
	int rc = cohort_barrier(comm, cohort_comm_stream(comm), &ticket);

	return rc == COHORT_OK ? cohort_wait(comm, ticket, SOON) : rc;
}

static int play(struct cohort_comm *comm, int round, void *memory)
{
	const int rank = cohort_comm_rank(comm);
	const unsigned seed = run.seed + (unsigned)round;
	struct plan p = { .size = cohort_comm_size(comm) };
	struct cohort_comm *parts[SPLITS];
	int k, rc = COHORT_OK;

	make_plan(&p, seed);
	for (k = 0; rc == COHORT_OK && k < SPLITS; k++)
		rc = cohort_comm_split(comm, p.color[k][rank], 0, &parts[k]);
	if (rc == COHORT_OK)
		rc = meet(comm);
	if (rc != COHORT_OK)
		return rc;
	if (p.roles[rank].split >= 0)
		wait_in(parts, &p, rank, memory, seed);
	/* Wait without the library, because its waits are for all ranks. */
	if (rank != p.culprit)
		atomic_fetch_add(&run.waited[round], 1);
	while (atomic_load(&run.waited[round]) < (uint32_t)p.size - 1)
		nanosleep(&(struct timespec){ 0, 1000000 }, NULL);
	rc = meet(comm);
	for (k = 0; k < SPLITS; k++)
		cohort_comm_close(parts[k]);
	return rc;
}

static int work(struct cohort_comm *comm, void *unused)
{
	void *memory;
	int round, rc = cohort_alloc(comm, sizeof(int32_t), &memory);

	(void)unused;
	for (round = 0; rc == COHORT_OK && round < run.rounds; round++)
		rc = play(comm, round, memory);
	return rc;
}

int main(int argc, char **argv)
{
	const struct cohort_bootstrap bootstrap = {
		.size = sizeof(bootstrap),
		.kind = COHORT_BOOTSTRAP_AUTO,
	};
	struct cohort_group_options options;
	struct cohort_group *group;
	int devices[MOST], i, n, fd, failed;

	if (argc != 5)
		return 2;
	n = atoi(argv[1]) < MOST ? atoi(argv[1]) : MOST;
	run.rounds = atoi(argv[2]);
	run.seed = (unsigned)strtoul(argv[3], NULL, 10);
	fd = open(argv[4], O_RDWR);
	run.waited = mmap(NULL, (size_t)run.rounds * sizeof(*run.waited),
	                  PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (run.waited == MAP_FAILED)
		return 2;
	for (i = 0; i < n; i++)
		devices[i] = atoi(getenv("COHORT_PROCESS")) * n + i;
	cohort_group_options_init(&options);
	options.bootstrap = &bootstrap;
	if (cohort_group_open(devices, n, &options, &group) != COHORT_OK) {
		fprintf(stderr, "%s\n", cohort_last_error());
		return 1;
	}
	failed = cohort_group_run(group, work, NULL, NULL) != COHORT_OK;
	if (failed)
		printf("%s\n", cohort_last_error());
	failed |= atomic_load(&run.wrong) > 0;
	printf("%d verdicts, of which %d name nobody\n",
	       atomic_load(&run.verdicts), atomic_load(&run.unnamed));
	/*
	 * If two splits end at the same moment, the verdict on one may be made
	 * before the end of the other is visible, and then blames no rank.
	 */
	failed |=
		atomic_load(&run.unnamed) > 1 + atomic_load(&run.verdicts) / 20;
	return cohort_group_close(group) != COHORT_OK || failed;
}
