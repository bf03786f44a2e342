/* SPDX-License-Identifier: Apache-2.0 */

#include "watch/trail.h"

#include <string.h>

#include "base/clock.h"
#include "base/pages.h"
#include "core/agree_words.h"
#include "core/clique_tree.h"
#include "watch/stall.h"
#include "watch/waits.h"

/* Operations on a trail; a longer one is not followed to its end. */
#define MAX_STEPS 256

/* A trail takes as long as so many questions that one process does not answer. */
#define MAX_PATIENCES 5

/* ---- this process ------------------------------------------------------- */

struct lookup {
	const struct clique *root;
	uint64_t identity;
	struct clique *q; /* with a reference */
};

static void look_up(const struct clique *first, void *arg)
{
	struct lookup *l = arg;
	const struct clique *q = first;

	while (q &&
	       (q->identity != l->identity || clique_tree_root(q) != l->root))
		q = q->next_entered;
	if (!q)
		return;
	l->q = (struct clique *)(uintptr_t)q;
	clique_get(l->q);
}

/* The clique of that identity in the family of @root, with a reference to be put; NULL if there is
 * none here.  One that has just ended still shows who has not called. */
static struct clique *get_clique(const struct clique *root, uint64_t identity)
{
	struct lookup l = { .root = root, .identity = identity };

	clique_tree_look_at_all(look_up, &l);
	return l.q;
}

/* True if @c has not called what @m says, or, if @with_called, has called it and not come to
 * it. */
static bool is_missing(const struct cohort_comm *c, const struct missing *m,
                       bool with_called)
{
	struct rank_snapshot r;
	struct half h;

	if (m->is_transfer) {
		if (c->rank != m->rank || m->other < 0 ||
		    m->other >= c->clique->world)
			return false;
		if (!p2p_snapshot_half(c, m->sends, m->other, m->number, &h))
			return !with_called;
		return with_called && !h.done &&
		       (h.in_call ||
		        (c->clique->starts_are_marked && !h.started));
	}
	if (!with_called)
		return agree_called(c) < m->number;
	snapshot_part(&r, c, m->number);
	return r.joined && !r.done &&
	       (r.in_call || r.meets ||
	        (c->clique->starts_are_marked && !r.started));
}

static bool ends_here(const struct waits *w)
{
	return w->culprit_count &&
	       (w->culprits->at.rank >= 0 || !w->culprits->in.identity);
}

/* What the ranks of this process that are missing in @m wait for: the first that waits for
 * nobody, or else the last.  Returns false if none is missing. */
static bool look_here(const struct clique *root, const struct missing *m,
                      bool with_called, struct waits *out)
{
	struct clique *q = get_clique(root, m->identity);
	bool has_any = false;
	int i;

	for (i = 0; q && i < q->size && !(has_any && ends_here(out)); i++) {
		if (!is_missing(&q->comms[i], m, with_called))
			continue;
		waits_of(&q->comms[i], m->is_transfer ? 0 : m->number, out);
		has_any |= out->culprit_count || out->is_cycle;
	}
	if (q)
		clique_put(q);
	return has_any;
}

/* ---- other processes ---------------------------------------------------- */

/* The evidence against @x: 4 if it cannot call any more, 3 if it still may, 2 if it waits
 * itself, 1 if it has called and not started, 0 if it has done its part. */
static int evidence(const struct remote_rank *x)
{
	if (x->joined)
		return x->kind == COHORT_VERDICT_PROCESS_STOPPED ||
		       (x->kind == COHORT_VERDICT_NOT_STARTED && !x->is_behind);
	if (x->waits)
		return 2;
	return x->kind == COHORT_VERDICT_LEFT ||
	                       x->kind == COHORT_VERDICT_THREAD_EXITED ||
	                       x->kind == COHORT_VERDICT_PROCESS_STOPPED
	               ? 4
	               : 3;
}

/* The rank to follow; NULL: none is missing. */
static const struct remote_rank *choose(const struct remote_rank *x, int n)
{
	const struct remote_rank *end = x + n, *best = NULL;
	int most = 0;

	for (; x < end; x++)
		if (evidence(x) > most) {
			most = evidence(x);
			best = x;
		}
	return best;
}

/* Ask about the next operation on the trail. */
static int ask(struct peers *p, const struct clique *root,
               const struct missing *m, struct remote_rank *out,
               uint64_t end_ns)
{
	struct clique *q = get_clique(root, m->identity);
	const uint64_t deadline_ns = clock_deadline(peers_patience_ns(p));
	char none[1] = "";
	struct text silent = { none, sizeof(none) };
	const int n =
		peers_ask(p, q, m, out, COHORT_MAX_RANKS,
	                  deadline_ns < end_ns ? deadline_ns : end_ns, &silent);

	if (q)
		clique_put(q);
	return n;
}

/* ---- the trail ---------------------------------------------------------- */

/* A trail, and where it has come. */
struct walk {
	const struct clique *root; /* of the family */
	struct trail *t;
	struct waits *w;       /* its */
	struct missing m;      /* the operation that it has come to, */
	char call[WAITS_CALL]; /* which is this */
	struct {
		struct missing m;
		int links; /* how many there were before */
	} steps[MAX_STEPS];
	int n;
};

static void put_link(struct waits *w, const struct wait_link *link)
{
	if (w->link_count < WAITS_LINKS) {
		w->links[w->link_count++] = *link;
		return;
	}
	rank_set_add_all(w->links[WAITS_LINKS - 1].behind, link->worlds);
	rank_set_add_all(w->links[WAITS_LINKS - 1].behind, link->behind);
}

/* The wait of the rank @x, or of the last one that it waits for in its process. */
static void add_link(struct waits *w, const struct remote_rank *x)
{
	const bool is_end = !x->waits_in.identity;
	const int world = is_end ? x->world : x->end;
	struct wait_link link = {
		.for_world = is_end ? x->end : -1,
		.way = x->way == WAITS_FROM || x->way == WAITS_TO
		               ? (enum wait_way)x->way
		               : WAITS_FOR,
		.identity = x->waits_in.identity,
		.number = x->waits_in.number,
	};

	if (world >= 0)
		rank_set_add(link.worlds, world);
	memcpy(link.behind, x->waiters, sizeof(link.behind));
	text_set(link.call, sizeof(link.call), "%s", x->in);
	put_link(w, &link);
}

/* The trail ends with rank @rank of its clique, and number @world of the group, which is at
 * fault for @kind in the last operation. */
static struct culprit *end_with(struct walk *k, int world, int rank, int kind,
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

/* The trail has come back to step @i.  What leads there is not part of the cycle. */
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
	k->t->is_crossing = !i && k->n == 2 && !m->is_transfer &&
	                    !k->steps[1].m.is_transfer &&
	                    m->identity != k->steps[1].m.identity;
}

/* Note that the trail has come to an operation.  Returns false if it is over, because it has
 * been there, or is too long. */
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

/* Add the waits @here of ranks of this process that are missing in the operation, and go on to
 * what they wait for in other processes.  Returns false if the trail is over. */
static bool take(struct walk *k, const struct waits *here, bool with_called)
{
	const struct culprit *from = here->culprits;
	struct culprit *x;
	int i;

	if (here->link_count)
		waits_fill(k->w, &k->m, rank_set_next(here->links->worlds, -1));
	if (here->is_cycle)
		k->w->link_count = 0;
	for (i = 0; i < here->link_count; i++)
		put_link(k->w, &here->links[i]);
	k->w->is_cycle = here->is_cycle;
	if (here->is_cycle)
		return false;
	if (here->link_count)
		text_set(k->call, WAITS_CALL, "%s", from->call);
	if (ends_here(here)) {
		x = end_with(k, from->world, from->rank, from->kind, "");
		x->at = from->at;
		x->has_called =
			here->link_count ? from->has_called : with_called;
		return false;
	}
	k->m = from->in;
	return true;
}

static bool pass_here(struct walk *k)
{
	struct waits here;

	while (add_step(k)) {
		if (!look_here(k->root, &k->m, false, &here))
			return true;
		if (!take(k, &here, false))
			return false;
	}
	return false;
}

/* No rank is missing where the trail has come to: one here may have called and not started. */
static void end_late(struct walk *k)
{
	struct waits here;

	if (!look_here(k->root, &k->m, true, &here) || take(k, &here, true))
		end_with(k, -1, -1, COHORT_VERDICT_REMOTE, "");
}

/* Go on from the rank @x of another process.  Returns false if the trail is over. */
static bool pass(struct walk *k, const struct remote_rank *x)
{
	waits_fill(k->w, &k->m, x->world);
	if (!x->waits) {
		end_with(k, x->world, x->rank, x->kind, remote_words(x));
		return false;
	}
	if (x->in_cycle)
		k->w->link_count = 0;
	add_link(k->w, x);
	if (x->in_cycle) {
		k->w->is_cycle = true;
		return false;
	}
	text_set(k->call, sizeof(k->call), "%s", x->missed);
	k->m = x->waits_in;
	if (k->m.identity)
		return pass_here(k);
	end_with(k, x->end, -1, x->end_kind, "");
	return false;
}

/* Follow the waits of the @n ranks at @x, which have answered about @t->from, which is
 * @call. */
static void follow(struct trail *t, const char *call, struct peers *p,
                   const struct clique *root, const struct remote_rank *x,
                   int n)
{
	const uint64_t end_ns =
		clock_deadline(MAX_PATIENCES * peers_patience_ns(p));
	const size_t bytes = COHORT_MAX_RANKS * sizeof(*x);
	struct remote_rank *answers = pages_alloc(bytes);
	struct walk *k = pages_alloc(sizeof(*k));
	bool is_open = answers && k;

	x = choose(x, n);
	if (is_open) {
		k->root = root;
		k->t = t;
		k->w = &t->waits;
		k->m = t->from;
		text_set(k->call, sizeof(k->call), "%s", call);
		t->world = x ? x->world : -1;
		add_step(k);
	}
	while (is_open && x) {
		is_open = pass(k, x);
		if (!is_open)
			break;
		n = ask(p, root, &k->m, answers, end_ns);
		x = choose(answers, n);
		if (!x)
			end_late(k);
	}
	pages_free(k, sizeof(*k));
	pages_free(answers, bytes);
}

/* ---- asking ------------------------------------------------------------- */

enum trail_start trail_start(const struct snapshot *s, const struct clique *q,
                             bool is_transfer, struct missing *question)
{
	const struct culprit *x = s->waits.culprits;

	if (s->waits.culprit_count && x->at.rank < 0 && x->in.identity &&
	    (x->rank < 0 || x->in.is_transfer)) {
		*question = x->in;
		return TRAIL_ELSEWHERE;
	}
	if (!stall_is_remote(s, is_transfer) &&
	    (is_transfer || !stall_may_be_minority(s)))
		return TRAIL_NONE;
	*question = waits_question(s, q, is_transfer);
	return TRAIL_FRONT;
}

int trail_follow(struct trail *t, struct peers *p, const struct clique *of,
                 const struct missing *question, const char *call,
                 struct remote_rank *out, int room, struct text *silent)
{
	const struct clique *root = clique_tree_root(of);
	struct clique *q = get_clique(root, question->identity);
	int n = 0;

	memset(t, 0, sizeof(*t));
	t->from = *question;
	t->world = -1;
	if (!q)
		return 0;
	n = peers_ask(p, q, question, out, room,
	              clock_deadline(peers_patience_ns(p)), silent);
	follow(t, call, p, root, out, n);
	clique_put(q);
	return n;
}
