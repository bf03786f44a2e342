/* SPDX-License-Identifier: Apache-2.0 */

/* Connections that are made late (see lazy.h) */

#include "sim/nccl/lazy.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/backoff.h"
#include "base/scoped_lock.h"
#include "base/status.h"
#include "sim/cuda/sync.h"
#include "sim/strict/strict.h"

/* Atomic; written by lazy_init().  Relaxed: a constant after that. */
static atomic_bool is_on;

/* What one rank does with another; and the two steps to connect it, as far to
 * the left in a pair's bits. */
enum {
	SENDS = 1,
	RECEIVES = 2,
};

enum step_of_pair {
	COMES = 0, /* the rank has come to its first such message */
	MAKES = 2, /* and has made its side of the connection */
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
	store_relaxed(&is_on, first);
	return COHORT_OK;
}

bool lazy_is_on(void)
{
	return load_relaxed(&is_on);
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

/* True if NCCL makes the call of messages between the ranks. */
static bool is_of_messages(const struct call *c)
{
	return c->kind == CALL_ALL_TO_ALL || c->kind == CALL_GATHER ||
	       c->kind == CALL_SCATTER;
}

/* The messages of a call with @peer, of SENDS and RECEIVES. */
static unsigned of_call(const struct call *c, int rank, int peer)
{
	const int from = c->kind == CALL_GATHER ? peer : rank;
	const int to = c->kind == CALL_GATHER ? rank : peer;

	if (!is_of_messages(c))
		return 0;
	if (c->kind == CALL_ALL_TO_ALL)
		return SENDS | RECEIVES;
	return (from == c->root ? SENDS : 0) | (to == c->root ? RECEIVES : 0);
}

/* The messages of a launch with @peer. */
static unsigned messages(const struct launch *l, int peer)
{
	const int rank = l->member->rank;
	unsigned found = 0;
	size_t i;

	if (peer == rank)
		return 0;
	for (i = 0; i < l->call_count; i++)
		found |= of_call(&l->calls[i], rank, peer);
	for (i = 0; i < l->transfer_count; i++)
		if (l->transfers[i].peer == peer)
			found |= l->transfers[i].is_send ? SENDS : RECEIVES;
	return found;
}

/* True if a launch has a collective that is not made of messages, and its ranks
 * are not connected for such. */
static bool needs_all(const struct launch *l)
{
	size_t i;

	for (i = 0; i < l->call_count; i++)
		if (!is_of_messages(&l->calls[i]))
			return !comm_of(l->member)->connected;
	return false;
}

/* False without memory.  Stores whether a pair is new. */
static bool come(const struct launch *l, bool simulated, bool *is_new)
{
	struct world *w = l->member->world;
	unsigned char *known;
	unsigned come;
	int peer;

	SCOPED_LOCK(&w->lock);
	if (!w->connections)
		w->connections = calloc(1, sizeof(*w->connections) +
		                                   (size_t)w->n * (size_t)w->n);
	if (!w->connections)
		return false;
	w->connections->come += needs_all(l);
	for (peer = 0; peer < w->n && !simulated; peer++) {
		come = messages(l, peer);
		known = pair(w, l->member->rank, peer);
		*is_new |= (come & ~(unsigned)*known) != 0;
		*known |= (unsigned char)come;
	}
	return true;
}

/* ---- waiting ---------------------------------------------------------- */

/* True if @rank has come to a send only and @peer, too, or both to a receive
 * only. */
static bool is_crossed(const struct world *w, int rank, int peer)
{
	const unsigned char one = *pair(w, rank, peer);

	return (one == SENDS || one == RECEIVES) && *pair(w, peer, rank) == one;
}

/* Whichever of the two ranks finds it, the line is the same. */
__attribute__((noreturn)) static void
die_of_crossing(const struct world *w, int rank, int peer, bool is_send)
{
	member_die(is_send ? "ncclSend" : "ncclRecv", w->members[rank],
	           "its first message with rank %d goes the same way as that "
	           "rank's: NCCL takes one's connection for the other's",
	           peer);
}

/* True if @peer has done its side of a step of all messages with it. */
static bool has_done_locked(const struct launch *l, int peer,
                            enum step_of_pair step)
{
	const struct world *w = l->member->world;
	const unsigned mine = messages(l, peer);
	const unsigned its = *pair(w, peer, l->member->rank) >> step;
	const int rank = l->member->rank;

	if ((!(mine & SENDS) || its & RECEIVES) &&
	    (!(mine & RECEIVES) || its & SENDS))
		return true;
	if (strict_is_on() && is_crossed(w, rank, peer))
		die_of_crossing(w, rank < peer ? rank : peer,
		                rank < peer ? peer : rank, mine & SENDS);
	return false;
}

static bool all_have_done(const struct launch *l, bool simulated,
                          enum step_of_pair step)
{
	struct world *w = l->member->world;
	int peer;

	if (w->span)
		return true;
	SCOPED_LOCK(&w->lock);
	if (step == COMES && needs_all(l) && w->connections->come != w->n)
		return false;
	for (peer = 0; peer < w->n && !simulated; peer++)
		if (!has_done_locked(l, peer, step))
			return false;
	return true;
}

static ncclResult_t await(const struct launch *l, bool simulated,
                          enum step_of_pair step)
{
	struct backoff b = BACKOFF;

	while (!all_have_done(l, simulated, step)) {
		if (member_is_aborted(l->member))
			return comm_error(ncclInternalError,
			                  "aborted while the ranks were being "
			                  "connected");
		backoff_wait(&b, UINT64_MAX);
	}
	return ncclSuccess;
}

/* Connect what is new of a launch's messages.  NCCL allocates for it. */
static void make(const struct launch *l)
{
	struct world *w = l->member->world;
	int peer;

	if (w->span)
		return;
	sync_memory();
	SCOPED_LOCK(&w->lock);
	for (peer = 0; peer < w->n; peer++)
		*pair(w, l->member->rank, peer) |=
			(unsigned char)(messages(l, peer) << MAKES);
}

/* Once all of a group's launches have come: a rank's thread may have come for
 * others.  Ranks of several processes are connected from the start. */
ncclResult_t lazy_connect(const struct launch *first, bool simulated)
{
	ncclResult_t result = ncclSuccess;
	const struct launch *l;
	bool is_new = false;

	if (!lazy_is_on())
		return ncclSuccess;
	for (l = first; l; l = l->next)
		if (!l->member->world->span && !come(l, simulated, &is_new))
			return comm_error(ncclSystemError, "out of memory");
	for (l = first; l && result == ncclSuccess; l = l->next)
		result = await(l, simulated, COMES);
	for (l = first; l && is_new && result == ncclSuccess; l = l->next)
		make(l);
	for (l = first; l && is_new && result == ncclSuccess; l = l->next)
		result = await(l, simulated, MAKES);
	for (l = first; l; l = l->next)
		comm_of(l->member)->connected |= needs_all(l);
	return result;
}
