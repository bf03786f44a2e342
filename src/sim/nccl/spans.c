/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Creates communicators whose ranks are in several processes (see spans.h)
 *
 * If ranks of such a communicator create another communicator, or a window,
 * they agree through cards in shared memory.  Each rank records its progress
 * in its own card:
 *
 * 	CAME -> AGREED -> DONE -> AWAY
 *
 * A rank that has read the cards of all expected ranks votes.  Votes are
 * counted on the first rank's card, together with a hash of all cards (the
 * view).  Once all ranks have voted for one view, the operation completes on
 * all of them, whatever happens to a rank afterwards.  A rank that leaves
 * before all have voted spoils the vote; if it enters again, the other ranks
 * read its card again.
 *
 * The first rank of each child allocates the child's area before it votes.  No
 * rank changes its card until all ranks have read it (DONE).  An aborted rank
 * waits for these reads at most one second.
 */

#include "sim/nccl/spans.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/backoff.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/list.h"
#include "base/scoped_lock.h"
#include "sim/nccl/buffers.h"
#include "sim/nccl/meeting.h"
#include "sim/nccl/root.h"

/* ---- worlds of this process ------------------------------------------- */

struct spanned {
	struct spanned *next;

	/* The following members are constant. */
	struct world *world;
	uint64_t number; /* number of the world */
	struct segment *segment;
	uint64_t area;
	struct span_shared *shared; /* the shared state in this process */
	int here;                   /* number of ranks in this process */

	/* Reference count: one for the world until it is freed, and one for
	 * each of its ranks that is creating another communicator, because the
	 * creation can outlast the world.  Guarded by lock. */
	int users;
};

/* Guards the list of worlds that span processes. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct spanned *spanned;

/* Return a reference to the world with @number, or NULL if there is none. */
static struct spanned *spanned_get(uint64_t number)
{
	struct spanned *s;

	SCOPED_LOCK(&lock);
	list_find(s, spanned, next, s->number == number);
	if (s)
		s->users++;
	return s;
}

static void spanned_put(struct spanned *s)
{
	int users;

	pthread_mutex_lock(&lock);
	users = --s->users;
	pthread_mutex_unlock(&lock);
	if (users)
		return;
	/* The last process to release its ranks frees the area.  If a process
	 * has died, no other process frees the area, which then lives as long
	 * as the segment. */
	if (atomic_fetch_add(&s->shared->released, s->here) + s->here ==
	    s->shared->n)
		segment_free_area(s->segment, s->area);
	segment_put(s->segment);
	free(s);
}

static int count_here(const struct segment *s, const struct span_shared *shared)
{
	const int self = segment_self(s);
	int r, n = 0;

	for (r = 0; r < shared->n; r++)
		n += shared->ranks[r].process == self;
	return n;
}

static struct spanned *create_locked(struct segment *segment, uint64_t area)
{
	struct span_shared *shared = segment_at(segment, area);
	struct spanned *s = calloc(1, sizeof(*s));
	const int here = count_here(segment, shared);
	struct world *w =
		s ? world_create(shared->n, here, segment->cores, shared)
		  : NULL;

	if (!w) {
		free(s);
		return NULL;
	}
	/* Groups queue their launches in this order, which must be identical in
	 * all processes, although processes might have created their worlds in
	 * different orders. */
	w->order =
		UINT64_C(1) << 63 | ((segment->id << 24) ^ (area / CACHE_LINE));
	w->windows = segment->windows;
	w->bounce = &buffers_bounce;
	segment_retain(segment);
	*s = (struct spanned){ .world = w,
		               .number = w->number,
		               .segment = segment,
		               .area = area,
		               .shared = shared,
		               .here = here,
		               .users = 1 };
	list_add(spanned, s, next);
	return s;
}

/* Add the communicator of @j to its world as rank @rank, and create the world
 * if it does not exist.  Return false if out of memory. */
static bool join_world(const struct join *j, struct segment *segment,
                       uint64_t area, int rank)
{
	const struct span_shared *shared = segment_at(segment, area);
	struct spanned *s;

	SCOPED_LOCK(&lock);
	list_find(s, spanned, next, s->shared == shared);
	if (!s)
		s = create_locked(segment, area);
	if (s)
		meeting_place(j, s->world, rank);
	return s;
}

void spans_leave(struct world *w)
{
	struct spanned *s;

	pthread_mutex_lock(&lock);
	list_find(s, spanned, next, s->world == w);
	list_remove(spanned, s, next);
	pthread_mutex_unlock(&lock);
	spanned_put(s);
}

/* ---- joins by an id --------------------------------------------------- */

struct visit {
	struct join *join;
	bool has_begun;
	bool is_over;
	ncclResult_t result;
	const char *why;

	int fd; /* connection to the root, or -1 */
	bool has_left;

	/* Used only by a join in an existing communicator. */
	struct spanned *parent;
	struct card *mine;
	int first;      /* the first expected rank */
	uint64_t count; /* number of meetings entered, including this one */
	struct card_copy *of; /* copies of the ranks' cards */
	int present;          /* number of expected ranks */
	uint64_t view;        /* hash of the cards of all expected ranks */
	uint64_t made;   /* view for which this rank has allocated an area */
	uint64_t child;  /* area of the child communicator, or 0 */
	uint64_t cut_ns; /* deadline of an aborted rank, or 0 */
};

static void end(struct visit *v, ncclResult_t result, const char *why)
{
	v->is_over = true;
	v->result = result;
	v->why = why;
}

/* Maximum time that an aborted rank waits for other ranks, whose processes
 * might have ended. */
#define MOST_NS UINT64_C(1000000000)

static const char cut[] = "aborted while waiting for other ranks";

static void begin_by_id(struct visit *v)
{
	const struct join *j = v->join;
	const struct root_id id = { j->process, j->number };
	struct root_answer a;

	v->fd = root_connect(
		&id, j->n, j->rank, j->comm->member.device,
		hash_bytes(0, j->list, j->list_count * sizeof(*j->list)), &a);
	if (v->fd < 0)
		end(v, a.result, a.why);
}

/* End the roots of all ids except the first, because only the root of the first
 * id is used. */
static void dismiss(const struct join *j)
{
	struct root_id id;
	size_t i;

	for (i = 0; !j->rank && i + 1 < j->list_count; i += 2) {
		id.number = j->list[i];
		id.process = j->list[i + 1];
		root_dismiss(&id);
	}
}

static void step_by_id(struct visit *v, bool is_cut)
{
	struct root_answer a;

	if (!root_poll_reply(v->fd, &a)) {
		if (is_cut && !v->has_left)
			root_leave(v->fd);
		v->has_left |= is_cut;
		return;
	}
	end(v, a.result, a.why);
	if (a.result != ncclSuccess)
		return;
	dismiss(v->join);
	if (!join_world(v->join, a.segment, a.area, v->join->rank))
		end(v, ncclSystemError, "out of memory");
	segment_put(a.segment);
}

/* ---- joins in a communicator ------------------------------------------ */

/* A rank's progress in a meeting, stored in the low bits of its card's
 * state. */
enum { AWAY, CAME, AGREED, DONE, LEFT, STAGES = 8 };

struct card_copy {
	bool is_awaited; /* the meeting expects the rank */
	bool has_entered;
	bool is_in;
	int color, key;
	uint64_t count; /* number of meetings entered, including this one */
};

static uint64_t state_of(const struct card *c)
{
	return load_acquire(&c->state);
}

static void set_stage(const struct visit *v, int stage)
{
	/* The release publishes the card's other members.  The exchange is also
	 * an acquire: if another rank's second check of the state in
	 * read_card() has succeeded, that rank has read the card before this
	 * rank changes it. */
	atomic_exchange(&v->mine->state, v->count * STAGES + (unsigned)stage);
}

/* Bit of a vote word (card.votes) that is set if a rank has left.  The bits
 * above it identify the view, and the bits below it count the ranks that have
 * agreed. */
#define SPOILED (UINT64_C(1) << 15)
#define VIEW_BITS (~(SPOILED * 2 - 1))

static struct card *cards_of(const struct visit *v)
{
	return segment_cards(v->parent->shared);
}

static _Atomic uint64_t *votes_of(const struct visit *v)
{
	return &cards_of(v)[v->first].votes;
}

static bool is_excluded(const struct join *j, int rank)
{
	size_t i;

	for (i = 0; j->kind == JOIN_SHRINK && i < j->list_count; i++)
		if (j->list[i] == (uint64_t)rank)
			return true;
	return false;
}

static void begin_in_comm(struct visit *v)
{
	struct join *j = v->join;
	uint64_t what = hash_step(0, (uint64_t)j->kind);
	int r;

	v->first = -1;
	v->of = calloc((size_t)j->n, sizeof(*v->of));
	if (!v->of) {
		end(v, ncclSystemError, "out of memory");
		return;
	}
	for (r = 0; r < j->n; r++) {
		v->of[r].is_awaited = !is_excluded(j, r);
		v->present += v->of[r].is_awaited;
		if (v->of[r].is_awaited && v->first < 0)
			v->first = r;
	}
	what = hash_bytes(what, j->list, j->list_count * sizeof(*j->list));
	v->mine = &cards_of(v)[j->rank];
	v->count = state_of(v->mine) / STAGES + 1;
	v->mine->what = what;
	v->mine->color = j->color;
	v->mine->key = j->key;
	v->mine->is_in = j->comm;
	v->mine->child = 0;
	set_stage(v, CAME);
}

/* Return true if a rank with this state has a card that other ranks may
 * read. */
static bool has_card(uint64_t state)
{
	return state % STAGES == CAME || state % STAGES == AGREED;
}

static void read_card(struct visit *v, int r)
{
	struct card *c = &cards_of(v)[r];
	const uint64_t state = state_of(c);
	struct card_copy *m = &v->of[r];
	uint64_t again;

	m->has_entered = false;
	if (!has_card(state) || c->what != v->mine->what)
		return;
	m->color = c->color;
	m->key = c->key;
	m->is_in = c->is_in;
	m->count = state / STAGES;
	/* The rank might have left during the copy.  Reload the state by adding
	 * 0, which, unlike a load, cannot be reordered before the copy. */
	again = atomic_fetch_add(&c->state, 0);
	m->has_entered = has_card(again) && again / STAGES == m->count;
}

static bool read_all(struct visit *v)
{
	const struct card_copy *m;
	uint64_t view = 0;
	bool all = true;
	int r;

	for (r = 0; r < v->join->n; r++) {
		m = &v->of[r];
		if (!m->is_awaited)
			continue;
		read_card(v, r);
		all &= m->has_entered;
		view = hash_step(view, m->count);
		view = hash_step(view, m->is_in);
		view = hash_step(view, (uint64_t)m->color);
		view = hash_step(view, (uint64_t)m->key);
	}
	if (all)
		v->view = view & VIEW_BITS;
	return all;
}

static bool is_in_same_child(const struct visit *v, int r)
{
	return v->of[r].has_entered && v->of[r].is_in &&
	       v->of[r].color == v->join->color;
}

static int place_of(const struct visit *v, int r)
{
	const struct card_copy *s = v->of;
	int k, place = 0;

	for (k = 0; k < v->join->n; k++)
		place += is_in_same_child(v, k) &&
		         (s[k].key < s[r].key ||
		          (s[k].key == s[r].key && k < r));
	return place;
}

static int count_child(const struct visit *v)
{
	int r, n = 0;

	for (r = 0; r < v->join->n; r++)
		n += is_in_same_child(v, r);
	return n;
}

static void free_child(const struct visit *v)
{
	if (v->mine->child)
		segment_free_area(v->parent->segment, v->mine->child);
	v->mine->child = 0;
}

/* If this is the first rank of a child, allocate the child's area, unless the
 * child has one for the current view.  Return false if out of memory. */
static bool make_child(struct visit *v)
{
	const struct span_rank *old = v->parent->shared->ranks;
	struct segment *s = v->parent->segment;
	struct span_rank *ranks;
	int r;

	if (v->mine->child && v->made == v->view)
		return true;
	free_child(v);
	if (!v->mine->is_in || place_of(v, v->join->rank) != 0)
		return true;
	v->mine->child = segment_area(s, count_child(v));
	v->made = v->view;
	if (!v->mine->child)
		return false;
	ranks = segment_at(s, v->mine->child)->ranks;
	for (r = 0; r < v->join->n; r++)
		if (is_in_same_child(v, r)) {
			ranks[place_of(v, r)].process = old[r].process;
			ranks[place_of(v, r)].device = old[r].device;
		}
	return true;
}

/* Vote for the current view.  Return false if the votes are for another view or
 * if a rank has spoiled the vote.  The release publishes this rank's card; it
 * pairs with the acquire in is_agreed(). */
static bool vote(const struct visit *v)
{
	uint64_t before = atomic_load(votes_of(v));

	/* Only the meeting's first rank starts the count for a new view. */
	if (v->first == v->join->rank && (before & VIEW_BITS) != v->view) {
		atomic_store(votes_of(v), v->view);
		before = v->view;
	}
	do
		if ((before & VIEW_BITS) != v->view || (before & SPOILED))
			return false;
	while (!atomic_compare_exchange_weak(votes_of(v), &before, before + 1));
	return true;
}

/* Return true if all ranks have agreed.  The acquire makes their cards visible;
 * it pairs with the release in vote(). */
static bool is_agreed(const struct visit *v)
{
	return atomic_load(votes_of(v)) == v->view + (uint64_t)v->present;
}

/* Spoil the vote, because this rank leaves.  Return false if all ranks have
 * already agreed. */
static bool spoil(const struct visit *v)
{
	uint64_t before = atomic_load(votes_of(v));

	do
		if (before == v->view + (uint64_t)v->present)
			return false;
	while ((before & VIEW_BITS) == v->view &&
	       !atomic_compare_exchange_weak(votes_of(v), &before,
	                                     before | SPOILED));
	return true;
}

/* Return true if the vote can no longer succeed, because it was restarted for
 * another view or because a rank has entered again. */
static bool cannot_succeed(const struct visit *v)
{
	int r;

	if ((atomic_load(votes_of(v)) & VIEW_BITS) != v->view)
		return true;
	for (r = 0; r < v->join->n; r++)
		if (v->of[r].is_awaited &&
		    state_of(&cards_of(v)[r]) / STAGES != v->of[r].count)
			return true;
	return false;
}

static void leave(struct visit *v, ncclResult_t result, const char *why)
{
	free_child(v);
	set_stage(v, LEFT);
	end(v, result, why);
}

/* Return true if all ranks have read all cards, so that this rank may change
 * its card. */
static bool all_are_done(const struct visit *v)
{
	uint64_t state;
	int r;

	for (r = 0; r < v->join->n; r++) {
		state = v->of[r].is_awaited ? state_of(&cards_of(v)[r]) : 0;
		if (v->of[r].is_awaited && state / STAGES == v->of[r].count &&
		    has_card(state))
			return false;
	}
	return true;
}

static void take_child(struct visit *v)
{
	int r;

	for (r = 0; r < v->join->n && v->mine->is_in; r++)
		if (is_in_same_child(v, r) && place_of(v, r) == 0)
			v->child = cards_of(v)[r].child;
	set_stage(v, DONE);
}

static void finish(struct visit *v)
{
	set_stage(v, AWAY);
	end(v, ncclSuccess, NULL);
	if (v->mine->is_in && !v->child)
		end(v, ncclInternalError, cut);
	if (v->child && !join_world(v->join, v->parent->segment, v->child,
	                            place_of(v, v->join->rank)))
		end(v, ncclSystemError, "out of memory");
}

static void step_in_comm(struct visit *v, bool is_cut)
{
	switch (state_of(v->mine) % STAGES) {
	case CAME:
		if (is_cut) {
			leave(v, ncclInternalError, cut);
		} else if (read_all(v)) {
			if (!make_child(v))
				leave(v, ncclSystemError, "out of memory");
			else if (vote(v))
				set_stage(v, AGREED);
		}
		break;
	case AGREED:
		if (is_agreed(v))
			take_child(v);
		else if (is_cut && spoil(v))
			leave(v, ncclInternalError, cut);
		else if (!is_cut && cannot_succeed(v) && !is_agreed(v))
			set_stage(v, CAME);
		break;
	case DONE:
		if (is_cut && !v->cut_ns)
			v->cut_ns = clock_deadline(MOST_NS);
		if (all_are_done(v) || (v->cut_ns && clock_now() >= v->cut_ns))
			finish(v);
		break;
	default:
		break;
	}
}

/* ---- groups ----------------------------------------------------------- */

static void visit_init(struct visit *v, struct join *j)
{
	*v = (struct visit){ .join = j, .fd = -1 };
	if (!j->parent)
		return;
	v->parent = spanned_get(j->number);
	/* NULL if the world was freed because all its ranks in this process
	 * were aborted. */
	if (!v->parent)
		end(v, ncclInternalError, cut);
}

static void visit_fini(struct visit *v)
{
	if (v->fd >= 0)
		close(v->fd);
	if (v->parent)
		spanned_put(v->parent);
	free(v->of);
}

/* Return true if the same rank has an unfinished join earlier in the group. */
static bool is_behind(const struct visit *v, const struct visit *all)
{
	for (; all < v; all++)
		if (v->parent && all->join->parent == v->join->parent &&
		    !all->is_over)
			return true;
	return false;
}

/* Advance a join.  @fails is true if another join of the group has failed. */
static void advance_join(struct visit *v, const struct visit *all, bool fails)
{
	const bool is_cut = fails || meeting_is_cut(v->join);

	if (v->is_over || is_behind(v, all))
		return;
	if (!v->has_begun && is_cut) {
		end(v, ncclInternalError, "aborted before it could join");
		return;
	}
	if (!v->has_begun && v->parent)
		begin_in_comm(v);
	else if (!v->has_begun)
		begin_by_id(v);
	v->has_begun = true;
	if (v->is_over)
		return;
	if (v->parent)
		step_in_comm(v, is_cut);
	else
		step_by_id(v, is_cut);
}

/* Prefer the cause of a failure to the error of a rank whose wait was cut
 * short. */
static ncclResult_t prefer_cause(ncclResult_t result, const struct visit *v)
{
	if (!v->is_over || v->result == ncclSuccess ||
	    (result != ncclSuccess && v->result == ncclInternalError))
		return result;
	return comm_error(v->result, v->why);
}

/* Run all joins until they have completed, or until one has failed and the
 * other ranks have left. */
static ncclResult_t run(struct visit *all, int n)
{
	ncclResult_t result = ncclSuccess;
	struct backoff b = BACKOFF;
	bool over = false;
	int i;

	while (!over) {
		for (i = 0; i < n; i++) {
			advance_join(&all[i], all, result != ncclSuccess);
			result = prefer_cause(result, &all[i]);
		}
		for (i = 0, over = true; i < n; i++)
			over &= all[i].is_over;
		if (!over)
			backoff_wait(&b, UINT64_MAX);
	}
	return result;
}

ncclResult_t spans_run(struct join *first)
{
	ncclResult_t result;
	struct visit *all;
	struct join *j;
	int i, n = 0;

	for (j = first; j; j = j->next)
		n++;
	all = calloc((size_t)n, sizeof(*all));
	if (!all)
		return comm_error(ncclSystemError, "out of memory");
	for (i = 0, j = first; j; j = j->next)
		visit_init(&all[i++], j);
	result = run(all, n);
	for (i = 0; i < n; i++)
		visit_fini(&all[i]);
	free(all);
	return result;
}
