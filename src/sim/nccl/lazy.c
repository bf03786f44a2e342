/* SPDX-License-Identifier: Apache-2.0 */

/* Connects ranks at their first call (see lazy.h) */

#include "sim/nccl/lazy.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/backoff.h"
#include "base/scoped_lock.h"
#include "base/status.h"
#include "sim/cuda/sync.h"
#include "sim/strict/strict.h"

/* Atomic; set once, by lazy_init().  Relaxed, because it never changes
 * afterwards. */
static atomic_bool is_on;

/* Directions of the messages between a rank and a peer. */
enum {
	SENDS = 1,
	RECEIVES = 2,
};

enum step_of_pair {
	/* The rank has reached its first message to or from the peer.  (The
	 * value is the shift of the bits that record this step.) */
	NEEDED = 0,
	/* The rank has made its side of the connection. */
	MADE = 2,
};

/* The connections of a world.  Guarded by the world's lock. */
struct connections {
	int arrived; /* number of ranks that reached their first collective */
	unsigned char pairs[]; /* bits of completed steps, by rank and peer */
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

/* ---- arriving --------------------------------------------------------- */

static unsigned char *pair(const struct world *w, int rank, int peer)
{
	return &w->connections->pairs[rank * w->n + peer];
}

/* Return true if NCCL builds the collective from sends and receives. */
static bool is_of_messages(const struct call *c)
{
	return c->kind == CALL_ALL_TO_ALL || c->kind == CALL_GATHER ||
	       c->kind == CALL_SCATTER;
}

/* Return the directions (SENDS, RECEIVES) of the messages that a collective
 * exchanges with @peer. */
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

/* Return the directions (SENDS, RECEIVES) of the messages that a launch
 * exchanges with @peer. */
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

/* Return true if this is the rank's first launch with a collective that is not
 * built from messages. */
static bool needs_all(const struct launch *l)
{
	size_t i;

	for (i = 0; i < l->call_count; i++)
		if (!is_of_messages(&l->calls[i]))
			return !comm_of(l->member)->connected;
	return false;
}

/* Record the connections that the launch needs, and set *@is_new if any of them
 * is new.  Return false if out of memory. */
static bool add_connections(const struct launch *l, bool simulated,
                            bool *is_new)
{
	struct world *w = l->member->world;
	unsigned char *known;
	unsigned needed;
	int peer;

	SCOPED_LOCK(&w->lock);
	if (!w->connections)
		w->connections = calloc(1, sizeof(*w->connections) +
		                                   (size_t)w->n * (size_t)w->n);
	if (!w->connections)
		return false;
	w->connections->arrived += needs_all(l);
	for (peer = 0; peer < w->n && !simulated; peer++) {
		needed = messages(l, peer);
		known = pair(w, l->member->rank, peer);
		*is_new |= (needed & ~(unsigned)*known) != 0;
		*known |= (unsigned char)needed;
	}
	return true;
}

/* ---- waiting ---------------------------------------------------------- */

/* Return true if both ranks have started with a send to the other rank, or both
 * with a receive, so that neither message finds its partner. */
static bool is_crossed(const struct world *w, int rank, int peer)
{
	const unsigned char one = *pair(w, rank, peer);

	return (one == SENDS || one == RECEIVES) && *pair(w, peer, rank) == one;
}

/* End the program because of two crossed messages.  The error message does not
 * depend on which of the two ranks finds them. */
__attribute__((noreturn)) static void
die_of_crossing(const struct world *w, int rank, int peer, bool is_send)
{
	member_abort_program(
		is_send ? "ncclSend" : "ncclRecv", w->members[rank],
		"this rank and rank %d both start with a send, or both with "
		"a receive: NCCL would mistake one connection for the other",
		peer);
}

/* Return true if @peer has done its part of @step for every message that @l
 * exchanges with @peer. */
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
	if (step == NEEDED && needs_all(l) && w->connections->arrived != w->n)
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

/* Make this rank's side of the connections that a launch's messages need.  Wait
 * as for an allocation, because NCCL allocates memory for connections. */
static void make_connections(const struct launch *l)
{
	struct world *w = l->member->world;
	int peer;

	if (w->span)
		return;
	sync_memory();
	SCOPED_LOCK(&w->lock);
	for (peer = 0; peer < w->n; peer++)
		*pair(w, l->member->rank, peer) |=
			(unsigned char)(messages(l, peer) << MADE);
}

/* Record all launches of the group before the first wait, because one thread
 * can act for several ranks.  Skip communicators that span several processes,
 * because their ranks are always connected. */
ncclResult_t lazy_connect(const struct launch *first, bool simulated)
{
	ncclResult_t result = ncclSuccess;
	const struct launch *l;
	bool is_new = false;

	if (!lazy_is_on())
		return ncclSuccess;
	for (l = first; l; l = l->next)
		if (!l->member->world->span &&
		    !add_connections(l, simulated, &is_new))
			return comm_error(ncclSystemError, "out of memory");
	for (l = first; l && result == ncclSuccess; l = l->next)
		result = await(l, simulated, NEEDED);
	for (l = first; l && is_new && result == ncclSuccess; l = l->next)
		make_connections(l);
	for (l = first; l && is_new && result == ncclSuccess; l = l->next)
		result = await(l, simulated, MADE);
	for (l = first; l; l = l->next)
		comm_of(l->member)->connected |= needs_all(l);
	return result;
}
