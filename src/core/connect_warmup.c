/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Connecting: makes the connections that NCCL would otherwise make in the first
 * calls, and aborts ranks that are not connected in time
 *
 * NCCL connects the ranks for an algorithm in the first collective that uses
 * the algorithm, even in a group that it only simulates.  So this file
 * simulates each kind of collective, and varies everything on which NCCL's
 * choice of an algorithm depends (topoGetAlgoInfo() in its enqueue.cc): sizes
 * from small to large, few and many calls in a group, and reductions that a
 * network switch can and cannot compute.  This connects the ranks for every
 * algorithm without launching a kernel.  Only sends and receives connect pairs
 * of ranks, so each rank also sends an empty message to every other rank.
 */

#include "base/scoped_lock.h"
#include "base/thread.h"
#include "base/util.h"
#include "core/call.h"
#include "core/clique.h"
#include "core/connection.h"
#include "core/launch_lock.h"
#include "core/native.h"
#include "core/op.h"

/* The simulated element counts: from 1 up to LARGEST, each LARGER times the
 * previous one.  Groups of several calls take longer, so fewer counts are
 * simulated for them. */
#define LARGER 16
#define LARGER_IN_GROUPS 256
#define LARGEST ((size_t)1 << 28)

static bool takes_part(const struct connection *c, int i, int color)
{
	return c->native[i] && (!c->split || (c->split[i].color == color &&
	                                      c->split[i].size > 1));
}

/* Return the lowest color above @below of a participating rank, or -1.  All
 * processes that split handle the colors in this order, so that they never wait
 * for each other in a cycle. */
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

static const int group_sizes[] = { 1, 8, 64, 512 };

static const struct reduction {
	int type; /* enum cohort_type */
	ncclRedOp_t redop;
} reductions[] = {
	{ COHORT_F32, ncclSum },
	{ COHORT_F32, ncclAvg },
	{ COHORT_I32, ncclMax },
};

/* Make one rank's call.  Its buffer is neither read nor written. */
static ncclResult_t call(const struct connection *c, int i, enum op_kind kind,
                         const struct reduction *by, size_t count)
{
	const struct connected *r = &c->made[i];
	const struct op op = { .kind = kind, .stream = r->stream };
	const struct cohort_tensor t = { r->barrier, r->barrier, count,
		                         by->type };

	return call_native(c->platform, c->native[i], &op, by->redop, &t);
}

/* Simulate a group with @n collectives of each rank.  If the environment allows
 * no algorithm for them, return COHORT_OK, because a program cannot call them
 * either. */
static int simulate(const struct connection *c, int color, enum op_kind kind,
                    const struct reduction *by, int n, size_t count)
{
	const struct platform *p = c->platform;
	ncclResult_t result = p->ncclGroupStart(), ended;
	const char *function = op_native_name(kind);
	int i, k;

	if (result != ncclSuccess)
		return native_set_nccl_error(p, "ncclGroupStart", NULL, result);
	for (i = 0; i < c->n; i++)
		for (k = 0;
		     takes_part(c, i, color) && k < n && result == ncclSuccess;
		     k++)
			result = call(c, i, kind, by, count);
	ended = native_simulate_end(p);
	if (result == ncclSuccess) {
		function = "ncclGroupSimulateEnd";
		result = ended;
	}
	return result == ncclInvalidUsage
	               ? COHORT_OK
	               : native_set_nccl_error(p, function, NULL, result);
}

/* Return true if NCCL has several algorithms for this kind of collective.  If
 * not, NCCL uses rings. */
static bool has_choice(enum op_kind kind)
{
	return kind != OP_BROADCAST && kind != OP_REDUCE;
}

/* Simulate a collective in groups of @n calls, for each count and reduction. */
static int connect_groups(const struct connection *c, int color,
                          enum op_kind kind, int n)
{
	const size_t ways = op_has_redop(kind) ? ARRAY_SIZE(reductions) : 1;
	const size_t larger = n > 1 ? LARGER_IN_GROUPS : LARGER;
	int rc = COHORT_OK;
	size_t count, k;

	for (k = 0; k < ways; k++)
		for (count = 1; count <= LARGEST && rc == COHORT_OK;
		     count *= larger)
			rc = simulate(c, color, kind, &reductions[k], n, count);
	return rc;
}

static int connect_collectives(const struct connection *c, int color)
{
	enum op_kind k;
	int rc = COHORT_OK;
	size_t i;

	for (k = OP_ALL_REDUCE; op_is_basic(k); k++)
		for (i = 0; i < ARRAY_SIZE(group_sizes) && rc == COHORT_OK; i++)
			if (group_sizes[i] == 1 || has_choice(k))
				rc = connect_groups(c, color, k,
				                    group_sizes[i]);
	return rc;
}

/* Send an empty message to every other rank, and receive one from it. */
static ncclResult_t exchange_with_all(const struct connection *c, int i)
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
			result = native_exchange_empty(c->platform,
			                               c->native[i], r->barrier,
			                               peer, r->stream);
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
			result = exchange_with_all(c, i);
	ended = p->ncclGroupEnd();
	rc = result == ncclSuccess
	             ? native_set_nccl_error(p, "ncclGroupEnd", NULL, ended)
	             : native_set_nccl_error(p, "ncclSend or ncclRecv", NULL,
	                                     result);
	if (result != ncclSuccess && !c->split)
		rc = connection_error_at(c, i - 1, rc);
	for (i = 0; i < c->n && rc == COHORT_OK; i++)
		if (takes_part(c, i, color))
			rc = NATIVE_CUDA(p, cudaStreamSynchronize,
			                 (c->made[i].stream));
	return rc;
}

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

/* Mark the connecting thread as being in NCCL, where an abort can unblock
 * it. */
static void mark_in_nccl(struct connection *c)
{
	SCOPED_LOCK(&c->lock);
	c->abortable = true;
}

/* Mark the thread as no longer in NCCL.  Return true if the communicators were
 * aborted, and so were freed. */
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

/* Connect the communicators that a split has created.  Until they are
 * connected, the parent's reaper owns them, and aborts them if the parent
 * ends. */
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
		mark_in_nccl(c);
		rc = connect_each(c);
		is_aborted = end_connecting(c);
		for (i = 0; is_aborted && i < c->n; i++)
			c->native[i] = NULL;
	}
	p->uncounted(false);
	set_connecting(c, NULL);
	return rc;
}

/* Raise the abort flags of all ranks, and free the communicators once the
 * connecting thread is out of NCCL. */
static void *abort_main(void *arg)
{
	struct connection *c = arg;
	const struct platform *p = c->platform;
	int i;

	p->ncclGroupStart();
	for (i = 0; i < c->n; i++)
		p->ncclCommAbort(c->native[i]);
	/* Set the device only after the flags are up, because cudaSetDevice()
	 * may wait for the connecting thread. */
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

/* If the aborter thread cannot start, the connecting thread stays blocked. */
void connection_abort_locked(struct connection *c)
{
	c->is_aborted = thread_start(&c->aborter, abort_main, c, "%.8s/abort",
	                             c->name) == 0;
}
