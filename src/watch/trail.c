/* SPDX-License-Identifier: Apache-2.0 */

#include "watch/trail.h"

#include <string.h>

#include "base/clock.h"
#include "base/pages.h"
#include "core/agree_words.h"
#include "core/clique_tree.h"
#include "watch/render.h"
#include "watch/stall.h"
#include "watch/waits.h"

/* Operations on a trail; a longer one is not followed to its end. */
#define MAX_STEPS 16

struct steps {
	struct missing at[MAX_STEPS];
	int links[MAX_STEPS]; /* how many there were before */
	int n;
};

/* ---- this process ------------------------------------------------------- */

struct lookup {
	uint64_t identity;
	struct clique *q; /* with a reference */
};

static void look_up(const struct clique *first, void *arg)
{
	struct lookup *l = arg;
	const struct clique *q = first;

	while (q && (q->identity != l->identity || cause_any(q->end)))
		q = q->next_entered;
	if (!q)
		return;
	l->q = (struct clique *)(uintptr_t)q;
	clique_get(l->q);
}

/* The clique of that identity, if it has not ended, with a reference to be put; else
 * NULL. */
static struct clique *get_clique(uint64_t identity)
{
	struct lookup l = { .identity = identity };

	clique_tree_look_at_all(look_up, &l);
	return l.q;
}

static bool is_missing(const struct cohort_comm *c, const struct missing *m)
{
	return m->is_transfer ? c->rank == m->rank
	                      : agree_called(c) < m->number;
}

static bool ends_here(const struct waits *w)
{
	return w->culprit_count &&
	       (w->culprits->at.rank >= 0 || !w->culprits->in.identity);
}

/* What the ranks of this process that are missing in @m wait for: the first that waits for
 * nobody, or else the last.  False: none is missing. */
static bool look_here(const struct missing *m, struct waits *out)
{
	struct clique *q = get_clique(m->identity);
	bool has_any = false;
	int i;

	for (i = 0; q && i < q->size && !(has_any && ends_here(out)); i++) {
		if (!is_missing(&q->comms[i], m))
			continue;
		waits_of(&q->comms[i], m->is_transfer ? 0 : m->number, out);
		has_any |= out->culprit_count || out->is_cycle;
	}
	if (q)
		clique_put(q);
	return has_any;
}

/* ---- other processes ---------------------------------------------------- */

/* How sure it is that the rank is at fault: a rank that may still call is not to blame if
 * another can not. */
static int guilt(const struct remote_rank *x)
{
	if (x->waits)
		return 0;
	return x->kind == COHORT_VERDICT_LEFT ||
	                       x->kind == COHORT_VERDICT_THREAD_EXITED ||
	                       x->kind == COHORT_VERDICT_PROCESS_STOPPED
	               ? 2
	               : 1;
}

/* The rank to follow; NULL: none is missing. */
static const struct remote_rank *choose(const struct remote_rank *x, int n)
{
	const struct remote_rank *end = x + n, *best = NULL;

	for (; x < end; x++)
		if (!x->joined && (!best || guilt(x) > guilt(best)))
			best = x;
	return best;
}

/* ---- the trail ---------------------------------------------------------- */

/* The ranks that the last links wait for are known now. */
static void fill_links(struct waits *w, int world)
{
	int i;

	for (i = 0; i < w->link_count; i++)
		if (w->links[i].for_world < 0)
			w->links[i].for_world = world;
}

static void add_link(struct waits *w, const struct remote_rank *x)
{
	struct wait_link *link = &w->links[w->link_count];
	const bool is_end = !x->waits_in.identity;
	const int world = is_end ? x->world : x->end;

	if (w->link_count == WAITS_LINKS)
		return;
	w->link_count++;
	*link = (struct wait_link){
		.for_world = is_end ? x->end : -1,
		.way = x->way == WAITS_FROM || x->way == WAITS_TO
		               ? (enum wait_way)x->way
		               : WAITS_FOR,
	};
	if (world >= 0)
		rank_set_add(link->worlds, world);
	memcpy(link->behind, x->waiters, sizeof(link->behind));
	text_set(link->call, sizeof(link->call), "%s", x->in);
}

/* The trail ends with rank @rank of its clique, and number @world of the group, which has not
 * called @call, because of @kind. */
static void end_with(struct waits *w, int world, int rank, int kind,
                     const char *call, const char *text)
{
	struct culprit *x = &w->culprits[w->culprit_count++];

	*x = (struct culprit){
		.world = world,
		.rank = rank,
		.at = { .rank = -1 },
		.kind = kind,
	};
	text_set(x->call, sizeof(x->call), "%s", call);
	text_set(x->text, sizeof(x->text), "%s", text);
	fill_links(w, world);
}

static bool is_same(const struct missing *a, const struct missing *b)
{
	return a->identity == b->identity && a->number == b->number &&
	       a->is_transfer == b->is_transfer &&
	       (!a->is_transfer ||
	        (a->sends == b->sends && a->rank == b->rank &&
	         a->other == b->other));
}

/* Note that the trail comes to @m.  False: it has been there, or is too long. */
static bool add_step(struct steps *steps, const struct missing *m,
                     struct waits *w)
{
	int i, k;

	for (i = 0; i < steps->n && !is_same(&steps->at[i], m); i++)
		;
	if (i < steps->n) {
		/* What leads to the cycle is not part of it. */
		k = steps->links[i];
		w->link_count -= k;
		memmove(w->links, w->links + k,
		        (size_t)w->link_count * sizeof(*w->links));
		w->is_cycle = true;
		w->is_crossing = !i && steps->n == 2;
	}
	if (i == MAX_STEPS || i < steps->n)
		return false;
	steps->links[i] = w->link_count;
	steps->at[i] = *m;
	steps->n++;
	return true;
}

/* Add the waits of ranks of this process that are missing in *@m, which is @call, and go on
 * to what they wait for in other processes.  False: the trail is over. */
static bool pass_here(struct steps *steps, struct missing *m,
                      char call[WAITS_CALL], struct waits *w)
{
	struct waits here;
	int i;

	while (add_step(steps, m, w)) {
		if (!look_here(m, &here))
			return true;
		if (here.link_count)
			fill_links(w, rank_set_next(here.links->worlds, -1));
		for (i = 0; i < here.link_count && w->link_count < WAITS_LINKS;
		     i++)
			w->links[w->link_count++] = here.links[i];
		w->is_cycle = here.is_cycle;
		if (here.is_cycle)
			return false;
		if (here.link_count)
			text_set(call, WAITS_CALL, "%s", here.culprits->call);
		if (ends_here(&here)) {
			end_with(w, here.culprits->world, here.culprits->rank,
			         here.culprits->kind, call, "");
			w->culprits->at = here.culprits->at;
			w->culprits->has_called = here.culprits->has_called;
			return false;
		}
		*m = here.culprits->in;
	}
	return false;
}

/* Follow the waits of the @n ranks at @x, which have answered @from. */
static void follow(struct trail *t, struct peers *p, const struct missing *from,
                   const struct remote_rank *x, int n)
{
	const uint64_t deadline_ns = clock_deadline(peers_patience_ns(p));
	const size_t bytes = COHORT_MAX_RANKS * sizeof(*x);
	struct remote_rank *answers = pages_alloc(bytes);
	struct waits *w = &t->waits;
	struct steps steps = { .n = 0 };
	struct missing m = *from;
	char call[WAITS_CALL] = "", none[1] = "";
	struct text silent = { none, sizeof(none) };

	t->from = *from;
	t->world = -1;
	x = choose(x, n);
	if (x)
		t->world = x->world;
	add_step(&steps, &m, w);
	while (answers && x) {
		fill_links(w, x->world);
		if (!x->waits) {
			end_with(w, x->world, x->rank, x->kind, call,
			         remote_words(x));
			break;
		}
		add_link(w, x);
		text_set(call, sizeof(call), "%s", x->missed);
		m = x->waits_in;
		if (!m.identity) {
			end_with(w, x->end, -1, x->end_kind, call, "");
			break;
		}
		if (!pass_here(&steps, &m, call, w))
			break;
		n = peers_ask(p, NULL, &m, answers, COHORT_MAX_RANKS,
		              deadline_ns, &silent);
		x = choose(answers, n);
	}
	pages_free(answers, bytes);
	if (w->link_count && !w->culprit_count && !w->is_cycle)
		end_with(w, -1, -1, COHORT_VERDICT_REMOTE, call, "");
	if (w->is_cycle)
		fill_links(w, t->world);
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
	*question = peers_question(s, is_transfer);
	question->identity = q->identity;
	return TRAIL_FRONT;
}

int trail_follow(struct trail *t, struct peers *p,
                 const struct missing *question, struct remote_rank *out,
                 int room, struct text *silent)
{
	struct clique *q = get_clique(question->identity);
	int n = 0;

	memset(t, 0, sizeof(*t));
	if (!q)
		return 0;
	n = peers_ask(p, q, question, out, room,
	              clock_deadline(peers_patience_ns(p)), silent);
	follow(t, p, question, out, n);
	clique_put(q);
	return n;
}
