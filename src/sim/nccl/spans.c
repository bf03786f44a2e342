/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Communicators whose ranks are in several processes (see spans.h)
 *
 * Ranks of such a communicator that make another one, or a window, meet by
 * their cards, of which each writes its own:
 *
 * 	CAME -> AGREED -> DONE -> AWAY
 *
 * A rank that has seen the cards of all that are to come agrees, by a vote that
 * is counted on the card of the first of them, with a hash of what all the
 * cards say.  If all have agreed, all go on, whatever happens to them then; a
 * rank that leaves before that spoils the vote, and if it comes again the
 * others read its card again.  The first rank of each child makes its area
 * before it agrees.  A rank does not change its card before all have read it,
 * which they say by DONE.  Once something of the rank was aborted, it waits for
 * that for a second at most.
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

/* A world that spans processes, and what it is part of. */
struct spanned {
	struct spanned *next;

	/* Constant. */
	struct world *world;
	uint64_t number; /* the world's */
	struct segment *segment;
	uint64_t area;
	struct span_shared *shared; /* the area */
	int here;                   /* ranks in this process */

	/* Guarded by lock: the world, until it is freed, and each of its ranks
	 * that is making another communicator, which may outlast the world. */
	int users;
};

/* Guards the list of the worlds that are not freed. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct spanned *spanned;

/* One more use of the world with that number, or NULL: there is none. */
static struct spanned *spanned_get(uint64_t number)
{
	struct spanned *s;

	SCOPED_LOCK(&lock);
	s = spanned;
	while (s && s->number != number)
		s = s->next;
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
	/* The ranks of a process that has died are never released, and their
	 * area goes with the segment. */
	if (atomic_fetch_add(&s->shared->released, s->here) + s->here ==
	    s->shared->n)
		segment_free_area(s->segment, s->area);
	segment_put(s->segment);
	free(s);
}

/* How many ranks are in this process. */
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
	/* Processes may make their worlds in different orders. */
	w->order =
		UINT64_C(1) << 63 | ((segment->id << 24) ^ (area / CACHE_LINE));
	w->windows = segment->windows;
	w->lender = &buffers_lender;
	segment_hold(segment);
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

/* Give the communicator of @j its place.  False without memory. */
static bool enter(const struct join *j, struct segment *segment, uint64_t area,
                  int rank)
{
	const struct span_shared *shared = segment_at(segment, area);
	struct spanned *s;

	SCOPED_LOCK(&lock);
	s = spanned;
	while (s && s->shared != shared)
		s = s->next;
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

/* ---- ranks that meet by an id ----------------------------------------- */

/* A rank that is on its way. */
struct visit {
	struct join *join;
	bool has_begun;
	bool is_over;
	ncclResult_t result;
	const char *why;

	int fd; /* to the root, or -1 */
	bool has_left;

	/* In a communicator: */
	struct spanned *parent;
	struct card *mine;
	int first;       /* the first rank that is to come */
	uint64_t count;  /* how often this one has come, with this */
	struct said *of; /* by rank */
	int present;     /* how many are to come */
	uint64_t view;   /* a hash of what they have said */
	uint64_t made;   /* the view that its card's area was made for */
	uint64_t child;  /* the area of its child, or 0 */
	uint64_t cut_ns; /* until when it waits for others all the same; or 0 */
};

static void end(struct visit *v, ncclResult_t result, const char *why)
{
	v->is_over = true;
	v->result = result;
	v->why = why;
}

/* How long a rank waits for others that may have ended. */
#define MOST_NS UINT64_C(1000000000)

static const char cut[] = "aborted while waiting for other ranks";

static void begin_by_id(struct visit *v)
{
	const struct join *j = v->join;
	const struct root_id id = { j->process, j->number };
	struct root_answer a;

	v->fd = root_come(
		&id, j->n, j->rank, j->comm->member.device,
		hash_bytes(0, j->list, j->list_count * sizeof(*j->list)), &a);
	if (v->fd < 0)
		end(v, a.result, a.why);
}

/* The roots of the further ids, which are not needed. */
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

	if (!root_ask(v->fd, &a)) {
		if (is_cut && !v->has_left)
			root_leave(v->fd);
		v->has_left |= is_cut;
		return;
	}
	end(v, a.result, a.why);
	if (a.result != ncclSuccess)
		return;
	dismiss(v->join);
	if (!enter(v->join, a.segment, a.area, v->join->rank))
		end(v, ncclSystemError, "out of memory");
	segment_put(a.segment);
}

/* ---- ranks of a communicator ------------------------------------------ */

/* How far a rank is with a meeting; a state has that in its low bits. */
enum { AWAY, CAME, AGREED, DONE, LEFT, STAGES = 8 };

/* What a rank's card said. */
struct said {
	bool is_awaited; /* it is to come */
	bool has_come;
	bool is_in;
	int color, key;
	uint64_t count; /* how often it has come, with this */
};

static uint64_t state_of(const struct card *c)
{
	return load_acquire(&c->state);
}

static void set_stage(const struct visit *v, int stage)
{
	/* Release: the card. */
	store_release(&v->mine->state, v->count * STAGES + (unsigned)stage);
}

/* What counts votes: bits of the view, above whether a rank has left and how
 * many have agreed. */
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

/* True if a rank in that state has a card that others may read. */
static bool has_card(uint64_t state)
{
	return state % STAGES == CAME || state % STAGES == AGREED;
}

/* Read the card of a rank, if it has come for this meeting. */
static void read_card(struct visit *v, int r)
{
	struct card *c = &cards_of(v)[r];
	const uint64_t state = state_of(c);
	struct said *m = &v->of[r];
	uint64_t again;

	m->has_come = false;
	if (!has_card(state) || c->what != v->mine->what)
		return;
	m->color = c->color;
	m->key = c->key;
	m->is_in = c->is_in;
	m->count = state / STAGES;
	/* It may have left meanwhile.  A change by nothing: what was read is
	 * read before it. */
	again = atomic_fetch_add(&c->state, 0);
	m->has_come = has_card(again) && again / STAGES == m->count;
}

/* Read all cards.  True if all have come. */
static bool read_all(struct visit *v)
{
	const struct said *m;
	uint64_t view = 0;
	bool all = true;
	int r;

	for (r = 0; r < v->join->n; r++) {
		m = &v->of[r];
		if (!m->is_awaited)
			continue;
		read_card(v, r);
		all &= m->has_come;
		view = hash_step(view, m->count);
		view = hash_step(view, m->is_in);
		view = hash_step(view, (uint64_t)m->color);
		view = hash_step(view, (uint64_t)m->key);
	}
	if (all)
		v->view = view & VIEW_BITS;
	return all;
}

/* True if rank @r will be in the child of this one. */
static bool is_with(const struct visit *v, int r)
{
	return v->of[r].has_come && v->of[r].is_in &&
	       v->of[r].color == v->join->color;
}

/* The place of rank @r in the child; and how many ranks the child has. */
static int place_of(const struct visit *v, int r)
{
	const struct said *s = v->of;
	int k, place = 0;

	for (k = 0; k < v->join->n; k++)
		place += is_with(v, k) && (s[k].key < s[r].key ||
		                           (s[k].key == s[r].key && k < r));
	return place;
}

static int count_child(const struct visit *v)
{
	int r, n = 0;

	for (r = 0; r < v->join->n; r++)
		n += is_with(v, r);
	return n;
}

static void free_child(const struct visit *v)
{
	if (v->mine->child)
		segment_free_area(v->parent->segment, v->mine->child);
	v->mine->child = 0;
}

/* As the first rank of a child, make its area, unless there is one for this
 * view.  False without memory. */
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
		if (is_with(v, r)) {
			ranks[place_of(v, r)].process = old[r].process;
			ranks[place_of(v, r)].device = old[r].device;
		}
	return true;
}

/* Agree to go on; false if not all have the same view.  Release: the card. */
static bool vote(const struct visit *v)
{
	uint64_t before = atomic_load(votes_of(v));

	/* Only this rank begins to count, for another view. */
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

/* True if all have agreed.  Acquire: their cards. */
static bool is_agreed(const struct visit *v)
{
	return atomic_load(votes_of(v)) == v->view + (uint64_t)v->present;
}

/* Leave before all have agreed; false if they have. */
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

/* This rank has agreed, and not all will: another count has begun, or a rank
 * has come again. */
static bool is_in_vain(const struct visit *v)
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

/* True if all have read all cards: what is on them may change. */
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

/* All have agreed: go on, come what may. */
static void take_child(struct visit *v)
{
	int r;

	for (r = 0; r < v->join->n && v->mine->is_in; r++)
		if (is_with(v, r) && place_of(v, r) == 0)
			v->child = cards_of(v)[r].child;
	set_stage(v, DONE);
}

static void finish(struct visit *v)
{
	set_stage(v, AWAY);
	end(v, ncclSuccess, NULL);
	if (v->mine->is_in && !v->child)
		end(v, ncclInternalError, cut);
	if (v->child && !enter(v->join, v->parent->segment, v->child,
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
		else if (!is_cut && is_in_vain(v) && !is_agreed(v))
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

bool spans_are_on(void)
{
	return arena_is_shared();
}

/* True if the rank is one that meets ranks of other processes. */
static bool visit_init(struct visit *v, struct join *j)
{
	*v = (struct visit){ .join = j, .fd = -1 };
	if (j->parent)
		v->parent = spanned_get(j->number);
	return v->parent || j->kind == JOIN_BY_ID;
}

static void visit_fini(struct visit *v)
{
	if (v->fd >= 0)
		close(v->fd);
	if (v->parent)
		spanned_put(v->parent);
	free(v->of);
}

/* True if another visit of @all, before this one, is by the same rank. */
static bool is_behind(const struct visit *v, const struct visit *all)
{
	for (; all < v; all++)
		if (v->parent && all->join->parent == v->join->parent &&
		    !all->is_over)
			return true;
	return false;
}

/* Go on.  @fails: another one of the group has not met. */
static void step(struct visit *v, const struct visit *all, bool fails)
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

/* Prefer the reason of a failure to the news that others were cut off. */
static ncclResult_t worse(ncclResult_t result, const struct visit *v)
{
	if (!v->is_over || v->result == ncclSuccess ||
	    (result != ncclSuccess && v->result == ncclInternalError))
		return result;
	return comm_error(v->result, v->why);
}

/* Go on until all have met, or one has not and the others have left. */
static ncclResult_t run(struct visit *all, int n)
{
	ncclResult_t result = ncclSuccess;
	struct backoff b = BACKOFF;
	bool over = false;
	int i;

	while (!over) {
		for (i = 0; i < n; i++) {
			step(&all[i], all, result != ncclSuccess);
			result = worse(result, &all[i]);
		}
		for (i = 0, over = true; i < n; i++)
			over &= all[i].is_over;
		if (!over)
			backoff_wait(&b, UINT64_MAX);
	}
	return result;
}

/* A group of joins, some of which may meet in this process. */
struct party {
	int n, visitors;
	struct visit *visits;
	struct join **all, **here; /* NULL for one that is a visit */
};

/* Let those meet that meet here. */
static ncclResult_t run_here(const struct party *p)
{
	ncclResult_t result = ncclSuccess;
	struct join *first = NULL;
	int i;

	for (i = p->n; i--;)
		if (p->here[i]) {
			p->here[i]->next = first;
			first = p->here[i];
		}
	if (first)
		result = meeting_run(first);
	for (i = 0; i < p->n; i++)
		p->all[i]->next = i + 1 < p->n ? p->all[i + 1] : NULL;
	return result;
}

static void invite(struct party *p, struct join *first)
{
	struct join *j;
	int i = 0;

	for (j = first; j; j = j->next, i++) {
		p->all[i] = j;
		if (visit_init(&p->visits[p->visitors], j))
			p->visitors++;
		else
			p->here[i] = j;
	}
}

ncclResult_t spans_run(struct join *first)
{
	ncclResult_t result;
	struct party p = { .n = 0 };
	struct join *j;
	int i;

	for (j = first; j; j = j->next)
		p.n++;
	p.visits = calloc((size_t)p.n, sizeof(*p.visits));
	p.all = calloc((size_t)p.n, sizeof(struct join *));
	p.here = calloc((size_t)p.n, sizeof(struct join *));
	if (p.visits && p.all && p.here) {
		invite(&p, first);
		result = run(p.visits, p.visitors);
		if (result == ncclSuccess)
			result = run_here(&p);
		for (i = 0; i < p.visitors; i++)
			visit_fini(&p.visits[i]);
	} else {
		result = comm_error(ncclSystemError, "out of memory");
	}
	free(p.visits);
	free(p.all);
	free(p.here);
	return result;
}
