/* SPDX-License-Identifier: Apache-2.0 */

#include "watch/trail.h"

#include <string.h>

#include "base/backoff.h"
#include "base/clock.h"
#include "base/pages.h"
#include "core/agree_words.h"
#include "core/clique_tree.h"
#include "core/remote.h"
#include "watch/stall.h"
#include "watch/waits.h"

/* Maximum length of a trail of waits, in operations. */
#define MAX_STEPS 256

/* Maximum time to follow a trail.  The last question may take a second longer,
 * see remote->ask(). */
#define TRAIL_NS NS_PER_S

/* Maximum number of attempts to follow a trail that leads to no rank at fault,
 * or whose first replies come from a communicator that has ended. */
#define MAX_TRIES 5

/* Time after which there is no further attempt to follow a trail. */
#define TRIES_NS UINT64_C(200000000)

/* Time between two attempts to follow a trail. */
#define RETRY_NS UINT64_C(5000000)

/* ---- this process ------------------------------------------------------- */

/* A search for a clique, and for ranks that are missing in one of its
 * operations. */
struct lookup {
	const struct clique *root;
	uint64_t identity;
	const struct missing *m; /* the operation, or NULL */
	/* True to find ranks that have called but not started, instead of ranks
	 * that have not called. */
	bool with_called;
	struct clique *q;                    /* the clique, with a reference */
	uint64_t missing[COHORT_RANK_WORDS]; /* indexes into q->comms */
};

/* Return true if @c has not called operation @m.  If @with_called, return true
 * instead if @c has called it but its stream has not reached it. */
static bool is_missing(const struct cohort_comm *c, const struct missing *m,
                       bool with_called)
{
	const struct clique *q = c->clique;
	struct rank_snapshot r;
	struct half h;
	uint64_t front;

	if (m->is_transfer) {
		if (c->rank != m->rank || m->other < 0 ||
		    m->other >= q->world_size)
			return false;
		if (!p2p_snapshot_half(c, m->sends, m->other, m->number, &h))
			return !with_called;
		return with_called && !h.done &&
		       (h.in_call || (q->starts_are_marked && !h.started));
	}
	if (!with_called)
		return agree_called(c) < m->number;
	front = snapshot_front(q);
	snapshot_part(&r, c, m->number);
	return r.joined && !r.done && (!front || front >= m->number) &&
	       (r.in_call || r.meets || (q->starts_are_marked && !r.started));
}

static void look_up_clique(const struct clique *first, void *arg)
{
	struct lookup *l = arg;
	const struct clique *q = first;
	int i;

	while (q &&
	       (q->identity != l->identity || clique_tree_root(q) != l->root))
		q = q->next_entered;
	if (!q)
		return;
	l->q = (struct clique *)(uintptr_t)q;
	clique_get(l->q);
	for (i = 0; l->m && i < q->size; i++)
		if (is_missing(&q->comms[i], l->m, l->with_called))
			rank_set_add(l->missing, i);
}

/* Return a reference to the clique with @identity in the family of @root, or
 * NULL if this process has none.  A clique that has just ended still shows
 * which ranks have not called. */
static struct clique *get_clique(const struct clique *root, uint64_t identity)
{
	struct lookup l = { .root = root, .identity = identity };

	clique_tree_call_all(look_up_clique, &l);
	return l.q;
}

static bool ends_here(const struct waits *w)
{
	return w->culprit_count &&
	       (w->culprits->at.rank >= 0 || !w->culprits->in.identity);
}

/* Follow the waits of this process's ranks that are missing in @m.  Store in
 * @out the first chain that ends in this process or, if none does, the chain of
 * the last missing rank.  Return false if the stored chain has neither a
 * culprit nor a cycle. */
static bool find_local_waits(const struct clique *root, const struct missing *m,
                             bool with_called, struct waits *out)
{
	struct lookup l = {
		.root = root,
		.identity = m->identity,
		.m = m,
		.with_called = with_called,
	};
	int i;

	memset(out, 0, sizeof(*out));
	clique_tree_call_all(look_up_clique, &l);
	for (i = rank_set_next(l.missing, -1); i >= 0 && !ends_here(out);
	     i = rank_set_next(l.missing, i))
		waits_of(&l.q->comms[i], m->is_transfer ? 0 : m->number,
		         m->age_ns, out);
	if (l.q)
		clique_put(l.q);
	return out->culprit_count || out->is_cycle;
}

/* ---- other processes ---------------------------------------------------- */

/* Evidence against a rank, from the weakest to the strongest. */
enum evidence {
	HAS_DONE_ITS_PART, /* the rank has done its part, as far as is known */
	HAS_NOT_STARTED,   /* the rank has called, but not started */
	WAITS_ITSELF,
	HAS_NOT_CALLED,
	CANNOT_CALL, /* the rank has left, or its process is stopped */
};

static enum evidence evidence_against(const struct remote_rank *x)
{
	if (x->joined && !x->waits)
		return stall_is_at_fault(x, true) ? HAS_NOT_STARTED
		                                  : HAS_DONE_ITS_PART;
	if (x->kind == COHORT_VERDICT_PROCESS_STOPPED)
		return CANNOT_CALL;
	if (x->waits)
		return WAITS_ITSELF;
	return stall_is_departure(x->kind) ? CANNOT_CALL : HAS_NOT_CALLED;
}

/* Replies of other processes about an operation. */
struct answers {
	struct remote_rank *of;
	int n;
	bool is_complete; /* true if there is a reply for every rank */
};

/* Return the rank whose waits to follow, or NULL if no rank is at fault.  Ranks
 * that have called but not started are at fault only if all ranks have called
 * and some have done their part.  If none has done its part, all ranks wait
 * alike, and none is at fault. */
static const struct remote_rank *choose(const struct answers *a)
{
	const struct remote_rank *x, *best = NULL;
	enum evidence most = HAS_DONE_ITS_PART, of;
	bool has_done = false;

	for (x = a->of; x < a->of + a->n; x++) {
		of = evidence_against(x);
		has_done |= of == HAS_DONE_ITS_PART;
		if (of > most) {
			most = of;
			best = x;
		}
	}
	return most == HAS_NOT_STARTED && !(a->is_complete && has_done) ? NULL
	                                                                : best;
}

/* Ask other processes about @m, an operation of @q.  @q is NULL if this process
 * does not have the operation's clique. */
static void ask_processes(const struct remote *remote, const struct clique *q,
                          const struct missing *m, int room,
                          struct text *silent, struct answers *a)
{
	const char *begin = silent->at;

	a->n = remote->ask(remote, q, m, a->of, room, silent);
	a->is_complete = silent->at == begin && silent->room &&
	                 (!q || a->n + q->size >= q->world_size);
}

static void ask_next(const struct clique *root, const struct missing *m,
                     struct answers *a)
{
	struct clique *q = get_clique(root, m->identity);
	char some[TEXT_LEAST];
	struct text silent = { some, sizeof(some) };

	ask_processes(root->remote, q, m, COHORT_MAX_RANKS, &silent, a);
	if (q)
		clique_put(q);
}

/* ---- the trail ---------------------------------------------------------- */

/* State of following a trail. */
struct walk {
	const struct clique *root; /* root of the family */
	struct trail *t;
	struct waits *w;       /* points to t->waits */
	struct missing m;      /* the operation that the trail has reached */
	char call[WAITS_CALL]; /* name of that operation */
	struct {
		struct missing m;
		int links; /* number of links before the current step */
	} steps[MAX_STEPS];
	int n;
};

static void append_link(struct waits *w, const struct wait_link *link)
{
	if (w->link_count < WAITS_LINKS) {
		w->links[w->link_count++] = *link;
		return;
	}
	rank_set_add_all(w->links[WAITS_LINKS - 1].behind, link->worlds);
	rank_set_add_all(w->links[WAITS_LINKS - 1].behind, link->behind);
}

/* Add the wait of rank @x, or of a rank in its process that it waits for. */
static void add_remote_link(struct waits *w, const struct remote_rank *x)
{
	struct wait_link link = {
		.for_world = x->end,
		.way = x->way == WAITS_FROM || x->way == WAITS_TO
		               ? (enum wait_way)x->way
		               : WAITS_FOR,
		.identity = x->waits_in.identity,
		.number = x->waits_in.number,
	};

	if (x->from >= 0)
		rank_set_add(link.worlds, x->from);
	memcpy(link.behind, x->waiters, sizeof(link.behind));
	text_set(link.call, sizeof(link.call), "%s", x->in);
	append_link(w, &link);
}

/* End the trail with a culprit: rank @rank of its clique, with the number
 * @world in the root group.  Its fault in the last operation is @kind. */
static struct culprit *end_trail(struct walk *k, int world, int rank, int kind,
                                 const char *text)
{
	struct culprit *x = &k->w->culprits[k->w->culprit_count++];

	*x = (struct culprit){
		.world = world,
		.rank = rank,
		.at = { .rank = -1 },
		.kind = kind,
		.has_called = kind == COHORT_VERDICT_NOT_STARTED,
	};
	text_set(x->call, sizeof(x->call), "%s", k->call);
	text_set(x->text, sizeof(x->text), "%s", text);
	waits_fill(k->w, &k->m, world);
	return x;
}

/* End a trail that has returned to the operation of step @i.  Drop the links
 * that lead to the cycle. */
static void end_in_cycle(struct walk *k, int i)
{
	const struct missing *m = &k->steps[i].m;
	struct waits *w = k->w;
	const int before =
		k->steps[i].links < w->link_count ? k->steps[i].links : 0;
	const int world = before ? w->links[before - 1].for_world : k->t->world;

	w->link_count -= before;
	memmove(w->links, w->links + before,
	        (size_t)w->link_count * sizeof(*w->links));
	waits_fill(w, m, world);
	w->is_cycle = true;
	k->t->returns = !i;
}

/* Record the operation that the trail has reached.  Return false if the trail
 * ends here, because it has reached the operation before or is too long. */
static bool add_step(struct walk *k)
{
	int i = 0;

	while (i < k->n && !is_same_missing(&k->steps[i].m, &k->m))
		i++;
	if (i < k->n)
		end_in_cycle(k, i);
	if (i < k->n || i == MAX_STEPS)
		return false;
	k->steps[i].links = k->w->link_count;
	k->steps[i].m = k->m;
	k->n++;
	return true;
}

/* Add the waits @here of this process's ranks that are missing in the
 * operation, and continue with the operation that they wait for in other
 * processes.  Return false if the trail ends here. */
static bool add_local_waits(struct walk *k, const struct waits *here,
                            bool with_called)
{
	const struct culprit *from = here->culprits;
	struct culprit *x;
	int i;

	if (here->link_count)
		waits_fill(k->w, &k->m, rank_set_next(here->links->worlds, -1));
	if (here->is_cycle)
		k->w->link_count = 0;
	for (i = 0; i < here->link_count; i++)
		append_link(k->w, &here->links[i]);
	k->w->is_cycle = here->is_cycle;
	if (here->is_cycle)
		return false;
	if (here->link_count)
		text_set(k->call, WAITS_CALL, "%s", from->call);
	if (ends_here(here)) {
		x = end_trail(k, from->world, from->rank, from->kind, "");
		x->at = from->at;
		x->has_called =
			here->link_count ? from->has_called : with_called;
		return false;
	}
	k->m = from->in;
	return true;
}

/* Continue with the ranks of this process.  A half of a transfer that is called
 * but not started waits for earlier work on its stream.  Return false if the
 * trail ends here. */
static bool follow_local(struct walk *k)
{
	struct waits here;
	bool with_called;

	while (add_step(k)) {
		with_called = false;
		if (!find_local_waits(k->root, &k->m, false, &here)) {
			with_called = k->m.is_transfer;
			if (!with_called ||
			    !find_local_waits(k->root, &k->m, true, &here))
				return true;
		}
		if (!add_local_waits(k, &here, with_called))
			return false;
	}
	return false;
}

/* End a trail at an operation that every rank of the other processes has
 * called.  If all processes have replied, blame a rank of this process that has
 * called but not started, if there is one. */
static void end_late(struct walk *k, bool is_complete)
{
	struct waits here;

	if (!is_complete || !find_local_waits(k->root, &k->m, true, &here) ||
	    add_local_waits(k, &here, true))
		end_trail(k, -1, -1, COHORT_VERDICT_REMOTE, "");
}

/* Continue from rank @x of another process.  Return false if the trail ends
 * here. */
static bool follow_remote(struct walk *k, const struct remote_rank *x)
{
	waits_fill(k->w, &k->m, x->world);
	if (!x->waits) {
		end_trail(k, x->world, x->rank, x->kind, remote_words(x));
		return false;
	}
	if (x->in_cycle)
		k->w->link_count = 0;
	add_remote_link(k->w, x);
	if (x->in_cycle) {
		k->w->is_cycle = true;
		return false;
	}
	text_set(k->call, sizeof(k->call), "%s", x->missed);
	k->m = x->waits_in;
	if (k->m.identity)
		return follow_local(k);
	end_trail(k, x->end, -1, x->end_kind, "");
	return false;
}

/* Follow the waits of the ranks whose replies are in @first, about the
 * operation t->from with the name @call.  Stop once @of has a cause. */
static void follow_trail(struct trail *t, const char *call,
                         const struct clique *of, const struct answers *first)
{
	const struct clique *root = clique_tree_root(of);
	const uint64_t end_ns = clock_deadline(TRAIL_NS);
	const size_t bytes = COHORT_MAX_RANKS * sizeof(struct remote_rank);
	const struct remote_rank *x = choose(first);
	struct answers a = { .of = pages_alloc(bytes) };
	struct walk *k = pages_alloc(sizeof(*k));
	bool is_open = a.of && k && x;

	if (is_open) {
		k->root = root;
		k->t = t;
		k->w = &t->waits;
		k->m = t->from;
		text_set(k->call, sizeof(k->call), "%s", call);
		t->world = x->world;
		add_step(k);
	}
	while (is_open && x && !cause_or_closing(of->end)) {
		is_open = follow_remote(k, x);
		if (!is_open)
			break;
		a.n = 0;
		a.is_complete = false;
		if (clock_now() < end_ns)
			ask_next(root, &k->m, &a);
		x = choose(&a);
		if (!x)
			end_late(k, a.is_complete);
	}
	pages_free(k, sizeof(*k));
	pages_free(a.of, bytes);
}

/* ---- asking ------------------------------------------------------------- */

/* Return true if other processes can be asked about the culprit @x. */
static bool is_elsewhere(const struct culprit *x)
{
	return x->at.rank < 0 && x->in.identity &&
	       (x->rank < 0 || x->in.is_transfer);
}

enum trail_start trail_start(const struct snapshot *s, const struct clique *q,
                             bool is_transfer, struct trail_questions *out)
{
	const struct culprit *x = s->waits.culprits;
	/* The orders of the other processes' ranks are not known. */
	const bool is_crossing = s->crossing.exists && !is_transfer;
	const int others = s->world - s->size;
	struct trail_question *to;

	for (out->n = 0; !is_crossing && out->n < s->waits.culprit_count &&
	                 is_elsewhere(&x[out->n]);
	     out->n++) {
		to = &out->of[out->n];
		to->in = x[out->n].in;
		text_set(to->call, sizeof(to->call), "%s", x[out->n].call);
	}
	if (out->n)
		return TRAIL_ELSEWHERE;
	if (!stall_is_remote(s, is_transfer) &&
	    (is_transfer || others == 0 ||
	     (s->others_joined == others && !is_crossing)))
		return TRAIL_NONE;
	out->n = 1;
	out->of[0].in = waits_question(s, q, is_transfer);
	out->of[0].call[0] = '\0';
	return TRAIL_FRONT;
}

/* Return true if the waits lead to a rank about which no process has replied,
 * or if the communicator of a rank that has replied has ended. */
static bool is_lost(const struct waits *w, const struct answers *a)
{
	const struct remote_rank *x = a->of;

	while (x < a->of + a->n && !x->is_over)
		x++;
	return x < a->of + a->n ||
	       (w->culprit_count && w->culprits->kind == COHORT_VERDICT_REMOTE);
}

static void begin_trail(struct trail *t, const struct missing *from)
{
	memset(t, 0, sizeof(*t));
	t->from = *from;
	t->world = -1;
}

/* Ask other processes one question, and follow the trail from its replies; see
 * trail_follow(). */
static int follow_one(struct trail *t, const struct clique *of,
                      const struct missing *question, const char *call,
                      struct remote_rank *out, int room, struct text *silent)
{
	struct clique *q = get_clique(clique_tree_root(of), question->identity);
	const uint64_t until = clock_deadline(TRIES_NS);
	const char *begin = silent->at;
	struct answers a = { .of = out };
	struct backoff b = BACKOFF;
	int tries;

	begin_trail(t, question);
	if (!q)
		return 0;
	for (tries = 1;; tries++) {
		ask_processes(of->remote, q, question, room, silent, &a);
		follow_trail(t, call, of, &a);
		/* A clique on the trail may have just ended.  The ranks that
		 * waited in it will soon know which rank was to blame. */
		if (!is_lost(&t->waits, &a) || silent->at != begin ||
		    cause_or_closing(of->end) || clock_now() > until ||
		    tries == MAX_TRIES)
			break;
		backoff_wait(&b, clock_deadline(RETRY_NS));
		begin_trail(t, question);
	}
	clique_put(q);
	return a.n;
}

int trail_follow(struct trail *t, const struct clique *of,
                 const struct trail_questions *questions,
                 struct remote_rank *out, int room, struct text *silent)
{
	const struct trail_question *x = questions->of;
	const char *begin = silent->at;
	int n;

	/* If a trail leads to no rank at fault, the ranks in question have
	 * called and are not late, so ask the next question. */
	do
		n = follow_one(t, of, &x->in, x->call, out, room, silent);
	while (!t->waits.culprit_count && !t->waits.is_cycle &&
	       silent->at == begin && ++x < questions->of + questions->n);
	return n;
}
