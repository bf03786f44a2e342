/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Connecting: the connections that NCCL would make in the first calls, and the
 * abort of ranks that do not come to be connected
 *
 * NCCL connects the ranks for an algorithm in the first collective that takes
 * it, also in a group that it only simulates.  So each kind of collective is
 * simulated with all that NCCL chooses by (topoGetAlgoInfo() in its
 * enqueue.cc): sizes from small to large, few and many in a group, and
 * reductions that a switch can do and others.  Then the algorithms are
 * connected, and nothing is launched.  Pairs are connected by messages only.
 */

#include "base/status.h"
#include "base/thread.h"
#include "base/util.h"
#include "core/clique.h"
#include "core/connection.h"
#include "core/launch_lock.h"
#include "core/native.h"

/* Counts of elements: from 1 up to LARGEST, each LARGER times the one before;
 * groups take longer, and have fewer counts. */
#define LARGER 16
#define LARGER_IN_GROUPS 256
#define LARGEST ((size_t)1 << 28)

/* ---- which ranks ------------------------------------------------------ */

/* Return true if rank @i connects with @color. */
static bool takes_part(const struct connection *c, int i, int color)
{
	return c->native[i] && (!c->split || (c->split[i].color == color &&
	                                      c->split[i].size > 1));
}

/* The lowest color above @below of a rank that takes part, -1: there is none.
 * Processes that split go by colors, so that none waits for another in a
 * circle. */
static int next_color(const struct connection *c, int below)
{
	int lowest = -1, i;

	for (i = 0; i < c->n; i++) {
		const int its = c->split[i].color;

		if (its > below && (lowest < 0 || its < lowest) &&
		    takes_part(c, i, its))
			lowest = its;
	}
	return lowest;
}

/* ---- collectives ------------------------------------------------------ */

/* Numbers of calls in a simulated group. */
static const int group_sizes[] = { 1, 8, 64, 512 };

static const struct reduction {
	ncclDataType_t type;
	ncclRedOp_t redop;
} reductions[] = {
	{ ncclFloat32, ncclSum },
	{ ncclFloat32, ncclAvg },
	{ ncclInt32, ncclMax },
};

enum collective {
	ALL_REDUCE,
	BROADCAST,
	REDUCE,
	ALL_GATHER,
	REDUCE_SCATTER,
	COLLECTIVES,
};

/* One rank's call; its buffer is neither read nor written. */
static ncclResult_t call(const struct connection *c, int i,
                         enum collective collective, const struct reduction *by,
                         size_t count)
{
	const struct platform *p = c->platform;
	const struct connected *r = &c->made[i];
	const ncclDataType_t type = by->type;
	void *buffer = r->barrier;

	switch (collective) {
	case ALL_REDUCE:
		return p->ncclAllReduce(buffer, buffer, count, type, by->redop,
		                        c->native[i], r->stream);
	case BROADCAST:
		return p->ncclBroadcast(buffer, buffer, count, type, 0,
		                        c->native[i], r->stream);
	case REDUCE:
		return p->ncclReduce(buffer, buffer, count, type, by->redop, 0,
		                     c->native[i], r->stream);
	case ALL_GATHER:
		return p->ncclAllGather(buffer, buffer, count, type,
		                        c->native[i], r->stream);
	default:
		return p->ncclReduceScatter(buffer, buffer, count, type,
		                            by->redop, c->native[i], r->stream);
	}
}

/* Simulate @n collectives of all ranks in a group.  If no algorithm can do it,
 * by the environment's choice, a program cannot call it either: that is no
 * error. */
static int simulate(const struct connection *c, int color,
                    enum collective collective, const struct reduction *by,
                    int n, size_t count)
{
	const struct platform *p = c->platform;
	ncclResult_t result = p->ncclGroupStart(), ended;
	int i, k;

	if (result != ncclSuccess)
		return native_set_nccl_error(p, "ncclGroupStart", NULL, result);
	for (i = 0; i < c->n; i++)
		for (k = 0;
		     takes_part(c, i, color) && k < n && result == ncclSuccess;
		     k++)
			result = call(c, i, collective, by, count);
	ended = native_simulate_end(p);
	if (result == ncclSuccess)
		result = ended;
	return result == ncclInvalidUsage
	               ? COHORT_OK
	               : native_set_nccl_error(p, "ncclGroupSimulateEnd", NULL,
	                                       result);
}

static bool reduces(enum collective collective)
{
	return collective == ALL_REDUCE || collective == REDUCE ||
	       collective == REDUCE_SCATTER;
}

/* NCCL has only rings for the others. */
static bool has_choice(enum collective collective)
{
	return collective != BROADCAST && collective != REDUCE;
}

/* Simulate a collective in groups of @n. */
static int connect_groups(const struct connection *c, int color,
                          enum collective collective, int n)
{
	const size_t ways = reduces(collective) ? ARRAY_SIZE(reductions) : 1;
	const size_t larger = n > 1 ? LARGER_IN_GROUPS : LARGER;
	int rc = COHORT_OK;
	size_t count, k;

	for (k = 0; k < ways; k++)
		for (count = 1; count <= LARGEST && rc == COHORT_OK;
		     count *= larger)
			rc = simulate(c, color, collective, &reductions[k], n,
			              count);
	return rc;
}

static int connect_collectives(const struct connection *c, int color)
{
	enum collective k;
	int rc = COHORT_OK;
	size_t i;

	for (k = ALL_REDUCE; k < COLLECTIVES; k++)
		for (i = 0; i < ARRAY_SIZE(group_sizes) && rc == COHORT_OK; i++)
			if (group_sizes[i] == 1 || has_choice(k))
				rc = connect_groups(c, color, k,
				                    group_sizes[i]);
	return rc;
}

/* ---- pairs ------------------------------------------------------------ */

/* An empty message to every other rank, and one from it. */
static ncclResult_t greet(const struct connection *c, int i)
{
	const struct connected *r = &c->made[i];
	int size = c->size ? c->size : c->n, rank = c->first + i, peer;
	ncclResult_t result = ncclSuccess;

	if (c->split) {
		size = c->split[i].size;
		rank = c->split[i].rank;
	}
	for (peer = 0; peer < size && result == ncclSuccess; peer++)
		if (peer != rank)
			result = native_greet(c->platform, c->native[i],
			                      r->barrier, peer, r->stream);
	return result;
}

static int connect_pairs(const struct connection *c, int color)
{
	const struct platform *p = c->platform;
	ncclResult_t result = p->ncclGroupStart(), ended;
	int i, rc;

	if (result != ncclSuccess)
		return native_set_nccl_error(p, "ncclGroupStart", NULL, result);
	for (i = 0; i < c->n && result == ncclSuccess; i++)
		if (takes_part(c, i, color))
			result = greet(c, i);
	ended = p->ncclGroupEnd();
	rc = result == ncclSuccess
	             ? native_set_nccl_error(p, "ncclGroupEnd", NULL, ended)
	             : native_set_nccl_error(p, "ncclSend or ncclRecv", NULL,
	                                     result);
	if (result != ncclSuccess && !c->split)
		rc = connection_error_at(c, i - 1, rc);
	for (i = 0; i < c->n && rc == COHORT_OK; i++)
		if (takes_part(c, i, color))
			rc = native_set_cuda_error(
				p, "cudaStreamSynchronize",
				p->cudaStreamSynchronize(c->made[i].stream));
	return rc;
}

/* ---- connecting ------------------------------------------------------- */

static void set_connecting(struct connection *c, const char *function)
{
	atomic_store_explicit(&c->connecting, function, memory_order_relaxed);
}

static int connect_one(struct connection *c, int color)
{
	const struct platform *p = c->platform;
	int rc = COHORT_OK;

	set_connecting(c, "ncclGroupSimulateEnd, which connects the ranks,");
	if (platform_has(p, FUNCTION_ncclGroupSimulateEnd))
		rc = connect_collectives(c, color);
	if (rc == COHORT_OK && c->config.connect == COHORT_CONNECT_ALL) {
		set_connecting(c,
		               "ncclGroupEnd, which connects pairs of ranks,");
		connection_begin_alone(c);
		rc = connect_pairs(c, color);
		connection_end_alone(c);
	}
	return rc;
}

static int connect_each(struct connection *c)
{
	int color = -1, rc = COHORT_OK;

	if (!c->split)
		return (c->size ? c->size : c->n) > 1 ? connect_one(c, 0)
		                                      : COHORT_OK;
	/* Colors are not negative. */
	while (rc == COHORT_OK && (color = next_color(c, color)) >= 0)
		rc = connect_one(c, color);
	return rc;
}

/* The thread is connecting from here on. */
static void enter(struct connection *c)
{
	pthread_mutex_lock(&c->lock);
	c->abortable = true;
	pthread_mutex_unlock(&c->lock);
}

/* It is out of NCCL.  True if the communicators were aborted meanwhile, and
 * are gone. */
static bool end_connecting(struct connection *c)
{
	bool is_aborted;

	pthread_mutex_lock(&c->lock);
	c->abortable = false;
	is_aborted = c->is_aborted;
	pthread_cond_broadcast(&c->changed);
	pthread_mutex_unlock(&c->lock);
	if (is_aborted)
		pthread_join(c->aborter, NULL);
	return is_aborted;
}

/* Connect what a split has made, with the communicators left to the parent's
 * reaper meanwhile: when the parent ends, they are aborted, too. */
static int connect_children(struct connection *c)
{
	ncclComm_t *natives = c->native;
	int rc;

	if (!clique_leave_orphans(c->parent, natives))
		return clique_error(c->parent);
	rc = connect_each(c);
	if (clique_reclaim_orphans(c->parent, natives))
		return rc;
	c->native = NULL;
	return clique_error(c->parent);
}

int connection_warm_up(struct connection *c)
{
	const struct platform *p = c->platform;
	bool is_aborted;
	int i, rc;

	if (c->config.connect == COHORT_CONNECT_NONE || !p->connects_late())
		return COHORT_OK;
	atomic_store_explicit(&c->at, NULL, memory_order_relaxed);
	p->uncounted(true);
	if (c->parent) {
		rc = connect_children(c);
	} else {
		enter(c);
		rc = connect_each(c);
		is_aborted = end_connecting(c);
		for (i = 0; is_aborted && i < c->n; i++)
			c->native[i] = NULL;
	}
	p->uncounted(false);
	set_connecting(c, NULL);
	return rc;
}

/* ---- aborting --------------------------------------------------------- */

/* Raise the flags of all ranks, and free them once the thread is out of
 * NCCL. */
static void *abort_main(void *arg)
{
	struct connection *c = arg;
	const struct platform *p = c->platform;
	int i;

	p->ncclGroupStart();
	for (i = 0; i < c->n; i++)
		p->ncclCommAbort(c->native[i]);
	/* After the flags are up: cudaSetDevice() may wait for the thread that
	 * connects. */
	native_thread_init(p, c->devices[0]);
	pthread_mutex_lock(&c->lock);
	while (c->abortable)
		pthread_cond_wait(&c->changed, &c->lock);
	pthread_mutex_unlock(&c->lock);
	memory_section_begin();
	p->ncclGroupEnd();
	memory_section_end();
	return NULL;
}

/* Where no thread can be started the connection hangs as before. */
void connection_abort_locked(struct connection *c)
{
	c->is_aborted = thread_start(&c->aborter, abort_main, c, "%.8s/abort",
	                             c->name) == 0;
}
