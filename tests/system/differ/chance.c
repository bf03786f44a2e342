/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Scenes of random legal calls, which are the same on all ranks. Values are
 * small integers, so that sums do not depend on the order of additions.
 */

#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "differ.h"

#define STEPS 24

/* Random numbers. Each rank has its own copy, so all ranks draw the same. */
struct chance {
	unsigned seed;
	struct actor *a;
	ncclComm_t comm;
	int rank, ranks; /* rank and number of ranks of comm */
};

static unsigned take(struct chance *c, unsigned below)
{
	c->seed = c->seed * 1664525u + 1013904223u;
	return (c->seed >> 10) % below;
}

static ncclDataType_t type(struct chance *c)
{
	static const ncclDataType_t types[] = { ncclFloat, ncclInt, ncclUint32,
		                                ncclInt8, ncclUint8 };

	return types[take(c, 5)];
}

static ncclRedOp_t operation(struct chance *c)
{
	static const ncclRedOp_t ops[] = { ncclSum, ncclMax, ncclMin };

	return ops[take(c, 3)];
}

static void reduce(struct chance *c)
{
	struct actor *a = c->a;
	size_t count = take(c, FLOATS / MOST_ACTORS);
	ncclDataType_t t = type(c);
	ncclRedOp_t op = operation(c);
	int root = (int)take(c, (unsigned)c->ranks);

	switch (take(c, 3)) {
	case 0:
		CALL(a, ncclAllReduce(a->send, a->recv, count, t, op, c->comm,
		                      a->stream));
		break;
	case 1:
		CALL(a, ncclReduce(a->send, a->recv, count, t, op, root,
		                   c->comm, a->stream));
		break;
	default:
		CALL(a, ncclReduceScatter(a->send, a->recv, count, t, op,
		                          c->comm, a->stream));
	}
}

static void move(struct chance *c)
{
	struct actor *a = c->a;
	size_t count = take(c, FLOATS / MOST_ACTORS);
	ncclDataType_t t = type(c);
	int root = (int)take(c, (unsigned)c->ranks);

	switch (take(c, 5)) {
	case 0:
		CALL(a, ncclBroadcast(a->send, a->recv, count, t, root, c->comm,
		                      a->stream));
		break;
	case 1:
		CALL(a, ncclAllGather(a->send, a->recv, count, t, c->comm,
		                      a->stream));
		break;
	case 2:
		CALL(a, ncclGather(a->send, a->recv, count, t, root, c->comm,
		                   a->stream));
		break;
	case 3:
		CALL(a, ncclScatter(a->send, a->recv, count, t, root, c->comm,
		                    a->stream));
		break;
	default:
		CALL(a, ncclAlltoAll(a->send, a->recv, count, t, c->comm,
		                     a->stream));
	}
}

/* Send from each rank to the rank @by places after it. */
static void rotate(struct chance *c)
{
	int by = (int)take(c, (unsigned)c->ranks);
	size_t count = take(c, FLOATS);
	struct actor *a = c->a;

	CALL(a, ncclGroupStart());
	CALL(a, ncclSend(a->send, count, ncclFloat, (c->rank + by) % c->ranks,
	                 c->comm, a->stream));
	CALL(a, ncclRecv(a->recv, count, ncclFloat,
	                 (c->rank + c->ranks - by) % c->ranks, c->comm,
	                 a->stream));
	CALL(a, ncclGroupEnd());
}

/* Make a call that is refused, on one rank only. The other ranks are not
 * affected. */
static void refuse(struct chance *c)
{
	struct actor *a = c->a;

	switch (take(c, 3)) {
	case 0:
		CALL(a, ncclAllReduce(a->send, a->recv, 4,
		                      (ncclDataType_t)(12 + c->rank), ncclSum,
		                      c->comm, a->stream));
		break;
	case 1:
		CALL(a, ncclBroadcast(a->send, a->recv, 4, ncclFloat, c->ranks,
		                      c->comm, a->stream));
		break;
	default:
		CALL(a,
		     ncclSend(a->send, 4, ncclFloat, -1, c->comm, a->stream));
	}
}

static void look(struct chance *c)
{
	int count = -1, rank = -1;

	CALL(c->a, ncclCommCount(c->comm, &count));
	CALL(c->a, ncclCommUserRank(c->comm, &rank));
	note(c->a, " %d/%d", rank, count);
}

static void step(struct chance *c)
{
	unsigned kind = take(c, 10);

	if (kind < 4)
		reduce(c);
	else if (kind < 7)
		move(c);
	else if (kind == 7)
		rotate(c);
	else if (kind == 8)
		refuse(c);
	else
		look(c);
}

/*
 * Exchange an empty message with every rank. NCCL connects a pair in its first
 * message, and allocates memory for that. This allocation may wait for the
 * kernel of a connected rank, which in turn waits for this rank.
 */
static void connect_all_peers(struct chance *c)
{
	int peer;

	ncclGroupStart();
	for (peer = 0; peer < c->ranks; peer++) {
		if (peer == c->rank)
			continue;
		ncclSend(c->a->send, 0, ncclInt8, peer, c->comm, c->a->stream);
		ncclRecv(c->a->recv, 0, ncclInt8, peer, c->comm, c->a->stream);
	}
	ncclGroupEnd();
}

/* Split by parity, or reorder all ranks. */
static void split(struct chance *c)
{
	ncclComm_t parent = c->comm, child = NULL;
	int color = take(c, 2) ? c->rank % 2 : 0;
	int turn = take(c, 2) ? -1 : 1;

	CALL(c->a, ncclCommSplit(parent, color, turn * c->rank, &child, NULL));
	must(child, "no child");
	if (parent != c->a->comm)
		CALL(c->a, ncclCommDestroy(parent));
	c->comm = child;
	ncclCommCount(child, &c->ranks);
	ncclCommUserRank(child, &c->rank);
	connect_all_peers(c);
}

static void end(struct chance *c)
{
	digest(c->a);
	if (take(c, 2))
		CALL(c->a, ncclCommFinalize(c->comm));
	CALL(c->a, ncclCommDestroy(c->comm));
	if (c->comm != c->a->comm)
		CALL(c->a, ncclCommDestroy(c->a->comm));
}

static unsigned first_seed;

static struct chance chance(struct actor *a)
{
	return (struct chance){ .seed = first_seed,
		                .a = a,
		                .comm = a->comm,
		                .rank = a->rank,
		                .ranks = a->stage->n };
}

static void part(struct actor *a)
{
	struct chance c = chance(a);
	int i;

	connect_all_peers(&c);
	for (i = 0; i < STEPS; i++) {
		if (i % 8 == 7)
			split(&c);
		step(&c);
		digest(a);
		fill(a);
	}
	end(&c);
}

void play(struct stage *g, unsigned seed)
{
	first_seed = seed * 2654435761u;
	connect_all(g);
	each(g, part);
}

/*
 * Make calls until the communicator is aborted. After the abort, calls may
 * return anything but must not hang. Rank 0 may stop calling earlier.
 */
static void part_to_abort(struct actor *a)
{
	struct chance c = chance(a);
	int i, most = a->rank ? INT_MAX : (int)(first_seed % 20);

	connect_all_peers(&c);
	for (i = 0; i < most && !atomic_load(&a->stage->is_aborted); i++) {
		step(&c);
		cudaStreamSynchronize(a->stream);
	}
}

static double now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void *abort_soon(void *user)
{
	const struct timespec soon = { 0, first_seed % 20000000 };
	struct stage *g = user;
	double begin, left;
	int i;

	nanosleep(&soon, NULL);
	begin = now_ms();
	must(ncclGroupStart() == ncclSuccess, "no group");
	for (i = 0; i < g->n; i++)
		must(ncclCommAbort(g->actors[i].comm) == ncclSuccess,
		     "no abort");
	atomic_store(&g->is_aborted, true);
	/* Wait until no rank uses the objects that are freed below. */
	sem_wait(&g->have_left);
	left = now_ms();
	must(ncclGroupEnd() == ncclSuccess, "the abort's group fails");
	g->leave_ms = left - begin;
	g->free_ms = now_ms() - left;
	return NULL;
}

void play_to_abort(struct stage *g, unsigned seed)
{
	pthread_t thread;

	first_seed = seed * 2654435761u;
	connect_all(g);
	atomic_store(&g->is_aborted, false);
	sem_init(&g->have_left, 0, 0);
	must(pthread_create(&thread, NULL, abort_soon, g) == 0, "no thread");
	each(g, part_to_abort);
	sem_post(&g->have_left);
	pthread_join(thread, NULL);
	sem_destroy(&g->have_left);
}

#define SEEDS(X)                                                               \
	X(1, 2)                                                                \
	X(2, 2)                                                                \
	X(3, 3)                                                                \
	X(4, 4)                                                                \
	X(5, 4)                                                                \
	X(6, 3)                                                                \
	X(7, 2)                                                                \
	X(8, 4)                                                                \
	X(9, 1)                                                                \
	X(10, 4)                                                               \
	X(11, 3)                                                               \
	X(12, 2)

#define RUN(seed, ranks)                                                       \
	static void run_##seed(struct stage *g)                                \
	{                                                                      \
		play(g, seed);                                                 \
	}

SEEDS(RUN)

#define SCENE(seed, ranks) { "random_" #seed, ranks, SECONDS, run_##seed },

const struct scene random_scenes[] = { SEEDS(SCENE){ .name = NULL } };
