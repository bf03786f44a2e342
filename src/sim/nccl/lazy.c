/* SPDX-License-Identifier: Apache-2.0 */

#include "sim/nccl/lazy.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/backoff.h"
#include "base/status.h"
#include "sim/strict/strict.h"

/* Atomic; written by lazy_init().  Relaxed: a constant after that. */
static atomic_bool is_on;

/* What one rank has come to do with another. */
enum {
	SENDS = 1,
	RECEIVES = 2,
};

/* All of it is guarded by the world's lock. */
struct connections {
	int come; /* ranks that have come to their first collective */
	unsigned char pairs[]; /* of each rank, by peer */
};

int lazy_init(void)
{
	const char *text = getenv("COHORT_HOST_CONNECT");
	const bool first = text && strcmp(text, "first") == 0;

	if (!first && text && *text && strcmp(text, "init") != 0)
		return error_set(COHORT_INVALID,
		                 "COHORT_HOST_CONNECT is \"%s\", not init or "
		                 "first",
		                 text);
	atomic_store_explicit(&is_on, first, memory_order_relaxed);
	return COHORT_OK;
}

bool lazy_is_on(void)
{
	return atomic_load_explicit(&is_on, memory_order_relaxed);
}

void lazy_free(struct world *w)
{
	free(w->connections);
}

/* ---- coming ----------------------------------------------------------- */

static unsigned char *pair(const struct world *w, int rank, int peer)
{
	return &w->connections->pairs[rank * w->n + peer];
}

static unsigned direction(const struct transfer *t)
{
	return t->is_send ? SENDS : RECEIVES;
}

/* False without memory. */
static bool prepare_locked(struct world *w)
{
	if (!w->connections)
		w->connections = calloc(1, sizeof(*w->connections) +
		                                   (size_t)w->n * (size_t)w->n);
	return w->connections;
}

static bool needs_all(const struct launch *l)
{
	return l->call_count && !comm_of(l->member)->connected;
}

static bool come_locked(const struct launch *l, bool simulated)
{
	struct world *w = l->member->world;
	const struct transfer *t;
	size_t i;

	if (!prepare_locked(w))
		return false;
	w->connections->come += needs_all(l);
	for (i = 0; i < l->transfer_count && !simulated; i++) {
		t = &l->transfers[i];
		*pair(w, l->member->rank, t->peer) |= direction(t);
	}
	return true;
}

static bool come(const struct launch *l, bool simulated)
{
	struct world *w = l->member->world;
	bool ok;

	pthread_mutex_lock(&w->lock);
	ok = come_locked(l, simulated);
	pthread_mutex_unlock(&w->lock);
	return ok;
}

/* ---- waiting ---------------------------------------------------------- */

/* True if @rank has come to a send only and @peer, too, or both to a receive
 * only. */
static bool is_crossed(const struct world *w, int rank, int peer)
{
	const unsigned char one = *pair(w, rank, peer);

	return (one == SENDS || one == RECEIVES) && *pair(w, peer, rank) == one;
}

/* True if a transfer's other end has come. */
static bool has_come_locked(const struct launch *l, const struct transfer *t)
{
	const struct world *w = l->member->world;
	const int rank = l->member->rank;
	const unsigned other = t->is_send ? RECEIVES : SENDS;

	if (t->peer == rank || *pair(w, t->peer, rank) & other)
		return true;
	if (strict_is_on() && is_crossed(w, rank, t->peer))
		member_die(t->is_send ? "ncclSend" : "ncclRecv", l->member,
		           "its first message with rank %d goes the other way: "
		           "NCCL takes one's connection for the other's",
		           t->peer);
	return false;
}

static bool all_have_come(const struct launch *l, bool simulated)
{
	struct world *w = l->member->world;
	bool all;
	size_t i;

	pthread_mutex_lock(&w->lock);
	all = !needs_all(l) || w->connections->come == w->n;
	for (i = 0; i < l->transfer_count && all && !simulated; i++)
		all = has_come_locked(l, &l->transfers[i]);
	pthread_mutex_unlock(&w->lock);
	return all;
}

static ncclResult_t await(const struct launch *l, bool simulated)
{
	struct backoff b = BACKOFF;

	while (!all_have_come(l, simulated)) {
		if (member_is_aborted(l->member))
			return comm_error(ncclInternalError,
			                  "aborted while the ranks were being "
			                  "connected");
		backoff_wait(&b, UINT64_MAX);
	}
	return ncclSuccess;
}

/* Once all of a group's launches have come: a rank's thread may have come for
 * others. */
ncclResult_t lazy_connect(const struct launch *first, bool simulated)
{
	ncclResult_t result = ncclSuccess;
	const struct launch *l;

	if (!lazy_is_on())
		return ncclSuccess;
	for (l = first; l; l = l->next)
		if (!come(l, simulated))
			return comm_error(ncclSystemError, "out of memory");
	for (l = first; l && result == ncclSuccess; l = l->next)
		result = await(l, simulated);
	for (l = first; l; l = l->next)
		comm_of(l->member)->connected |= l->call_count != 0;
	return result;
}
