/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Scenes made of random numbers: all ranks make the same legal calls, with
 * small whole numbers, of which every order of additions gives the same sums
 */

#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "differ.h"

#define STEPS 24

/* All ranks take the same numbers: each has its own copy. */
struct chance {
	unsigned seed;
	struct actor *a;
	ncclComm_t comm;
	int rank, ranks; /* in comm */
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

/* Each rank sends to one that is @by further on. */
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

/* One rank's call is refused; no other rank knows of it. */
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

/* An empty message each way with every rank.  NCCL connects a pair in its first
 * message and allocates for that, which may wait for the kernel of a rank that was
 * connected before, and that kernel for this rank. */
static void greet_all(struct chance *c)
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

/* Ranks with the same parity, or all, in another order. */
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
	greet_all(c);
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

	greet_all(&c);
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

/* Calls until the communicator is aborted, after which they may do anything but
 * hang; rank 0 may stop calling before. */
static void part_to_abort(struct actor *a)
{
	struct chance c = chance(a);
	int i, most = a->rank ? INT_MAX : (int)(first_seed % 20);

	greet_all(&c);
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
	/* What is freed must not be in use. */
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
