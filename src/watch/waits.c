/* SPDX-License-Identifier: Apache-2.0 */

#include "watch/waits.h"

#include <string.h>

#include "base/clock.h"
#include "base/pages.h"
#include "core/clique_tree.h"
#include "core/pair.h"
#include "watch/cycle.h"
#include "watch/stall.h"

/* Nodes that a walk visits at most; the others count as reached. */
#define MAX_NODES COHORT_MAX_RANKS

/* A rank, as the communicator shows it in which another rank waits for it. */
struct node {
	const struct clique *q;
	int rank;                    /* in q */
	const struct cohort_comm *c; /* NULL if it is in another process */
	uint64_t number;  /* of q's collective that it is missing in, or 0 */
	const char *name; /* of that operation */
	bool has_called;
	bool has_ended; /* it was to blame for the end of that clique, */
	int kind;       /* at fault for this */
	bool in_cycle;  /* some rank of another process, in a cycle */

	/* If it is missing in a transfer: the number of its half, otherwise 0;
	 * the other rank, in q; and whether it is the half that sends. */
	uint64_t half;
	int other;
	bool sends;

	/* The first rank that it waits for, and the operation; to is -1 if it
	 * waits for nobody. */
	int to;
	const struct clique *in;
	uint64_t in_number;
	const char *in_name;
	enum wait_way way;
};

struct walk {
	const struct clique *all; /* the first of the list */
	struct waits *out;
	const struct snapshot *s; /* the ranks that its front, */
	/* Or its transfer, waits for are the starts; or NULL. */
	bool is_transfer;
	const struct cohort_comm *start; /* the only one, */
	uint64_t number;                 /* in this collective */
	const struct clique *here;
	bool with_queued;  /* follow operations that no thread waits for, too */
	uint64_t since_ns; /* when the first rank called the front */
	int links;         /* nodes that wait for another */
	int n;
	struct node nodes[MAX_NODES];
};

/* ---- ranks in several communicators ------------------------------------ */

static int world_of(const struct clique *q, const struct cohort_comm *c,
                    int rank)
{
	if (c)
		return c->world_rank;
	return clique_is_child(q) ? -1 : rank;
}

/* True if both are the same rank, and one thread calls for both. */
static bool is_same(const struct cohort_comm *a, const struct cohort_comm *b)
{
	const int t = atomic_load(&a->lock.tid), u = atomic_load(&b->lock.tid);

	if (a == b)
		return true;
	if (clique_tree_root(a->clique) != clique_tree_root(b->clique))
		return t && t == u;
	return a->world_rank == b->world_rank && (!t || !u || t == u);
}

static bool is_node(const struct node *x, const struct clique *q, int rank,
                    const struct cohort_comm *c)
{
	if (x->c && c)
		return is_same(x->c, c);
	return x->q == q && x->rank == rank;
}

/* The index of the node, which is added if it is new; -1 if there is no
 * room. */
static int reach(struct walk *w, struct node node)
{
	int i;

	for (i = 0; i < w->n; i++)
		if (is_node(&w->nodes[i], node.q, node.rank, node.c))
			return i;
	if (w->n == MAX_NODES)
		return -1;
	node.to = -1;
	w->nodes[w->n] = node;
	return w->n++;
}

/* ---- edges -------------------------------------------------------------- */

/* Add an edge from node @from to the rank @node, which it waits for in @name,
 * number @number of @in. */
static void add_edge(struct walk *w, int from, struct node node,
                     const struct clique *in, uint64_t number, const char *name)
{
	int to = reach(w, node);
	struct node *x = &w->nodes[from];

	if (to < 0 || to == from || x->to >= 0)
		return;
	w->links++;
	x->to = to;
	x->in = in;
	x->in_number = node.half ? node.half : number;
	x->in_name = name;
	x->way = !node.half ? WAITS_FOR : node.sends ? WAITS_FROM : WAITS_TO;
}

/* True if @r has reached its operation in its stream, as far as marks tell. */
static bool is_at(const struct clique *q, const struct rank_snapshot *r)
{
	return r->started || r->in_call || r->meets || !q->starts_are_marked;
}

/* The name of collective @number of @c; "call" if it is not on record. */
static const char *name_of(const struct cohort_comm *c, uint64_t number)
{
	struct record r;

	if (!number || !agree_has(c, number) ||
	    !recorder_read(&c->recorder,
	                   atomic_load(&agree_slot(c, number)->ticket), &r))
		return "call";
	return record_name(&r);
}

/* The edges of @c in its oldest collective that is not done. */
static void add_collective(struct walk *w, int from,
                           const struct cohort_comm *c, uint64_t number)
{
	const struct clique *q = c->clique;
	const char *name = name_of(c, number);
	const struct cohort_comm *peer;
	struct rank_snapshot p;
	int i, before = w->links;

	for (i = 0; i < q->size; i++) {
		peer = &q->comms[i];
		if (peer == c)
			continue;
		snapshot_part(&p, peer, number);
		if (p.joined && (p.done || is_at(q, &p)))
			continue;
		add_edge(w, from,
		         (struct node){ .q = q,
		                        .rank = peer->rank,
		                        .c = peer,
		                        .number = number,
		                        .name = name,
		                        .has_called = p.joined },
		         q, number, name);
	}
	/* All here have called: some rank of another process may have not. */
	if (q->world_size > q->size && w->links == before &&
	    w->nodes[from].to < 0)
		add_edge(w, from,
		         (struct node){ .q = q,
		                        .rank = -1,
		                        .number = number,
		                        .name = name },
		         q, number, name);
}

static const char *half_name(bool sends)
{
	return sends ? "send" : "recv";
}

/* The other half of transfer @number that rank @rank of @q sends to @peer, or
 * receives from it. */
static struct node other_half(const struct clique *q, int rank, bool sends,
                              int peer, uint64_t number)
{
	return (struct node){ .q = q,
		              .rank = peer,
		              .c = clique_rank(q, peer),
		              .name = half_name(!sends),
		              .half = number,
		              .other = rank,
		              .sends = !sends };
}

/* The edges of @c, whose oldest collective that is not done is @number, in its
 * oldest operation with sends or receives: to ranks of this process, or to
 * others. */
static void add_transfers(struct walk *w, int from, const struct cohort_comm *c,
                          uint64_t number, bool is_local)
{
	const struct clique *q = c->clique;
	struct transfer_snapshot x = { .number = 0 };
	struct node node;

	while (p2p_snapshot_next(c, number, &x)) {
		node = other_half(q, c->rank, x.sends, x.peer, x.number);
		node.has_called = x.is_local && x.met;
		if (x.is_local == is_local)
			add_edge(w, from, node, q, 0, half_name(x.sends));
	}
}

/* The rank that has the number @world in the root of @q's family: in @q, if it
 * is one there, or in the root. */
static struct node node_of_world(const struct clique *q, int world)
{
	const struct cohort_comm *c = clique_rank_of_world(q, world);

	if (c)
		return (struct node){ .q = q, .rank = c->rank, .c = c };
	q = clique_tree_root(q);
	return (struct node){ .q = q,
		              .rank = world,
		              .c = clique_rank(q, world) };
}

/* The ticket of the last operation of @c, whose call may not have returned, if
 * it has transfers; or 0. */
static uint64_t last_transfers(const struct cohort_comm *c)
{
	struct transfer t;

	return pair_read(c, pair_count(c), &t) &&
	                       t.ticket >= atomic_load(&c->tickets.last)
	               ? t.ticket
	               : 0;
}

/* If the last operation of @c has a transfer with rank @x of its clique, make
 * @x the other half of that. */
static bool find_last(const struct cohort_comm *c, struct node *x)
{
	const uint64_t ticket = last_transfers(c);
	uint64_t k = pair_count(c);
	struct transfer t;

	for (; x->q == c->clique && pair_read(c, k, &t) && t.ticket == ticket;
	     k--) {
		if (t.peer != x->rank)
			continue;
		*x = other_half(x->q, c->rank, t.sends, t.peer, t.number);
		return true;
	}
	return false;
}

/* Add an edge to the rank @node, which had not called @name before its clique
 * ended.  In another process that is the end of the walk, and nobody is to
 * blame. */
static void add_edge_in_cycle(struct walk *w, int from, struct node node,
                              const char *name)
{
	node.in_cycle = !node.c;
	add_edge(w, from, node, node.q, node.number, name);
}

/* True if the rank has called nothing since the collective, or since its last
 * transfer: its thread may wait for that without the library's knowledge, in
 * cudaStreamSynchronize(). */
static bool has_called_last(const struct cohort_comm *c,
                            const struct rank_snapshot *r)
{
	struct transfer t;

	return r->last.ticket &&
	       ((r->joined && r->last.ticket == r->call.ticket) ||
	        (pair_read(c, pair_count(c), &t) &&
	         t.ticket == r->last.ticket));
}

/* @c waited for its last operation in a clique that has ended as part of a
 * cycle: for the ranks that had not called their part of it. */
static void add_ended_cycle(struct walk *w, int from,
                            const struct cohort_comm *c)
{
	const struct clique *q = c->clique;
	const uint64_t ticket = last_transfers(c), number = agree_called(c);
	const char *name = name_of(c, number);
	struct node node;
	struct transfer t;
	uint64_t k, of;
	int i;

	for (k = pair_count(c); pair_read(c, k, &t) && t.ticket == ticket &&
	                        !comm_ticket_was_done(c, ticket);
	     k--) {
		node = other_half(q, c->rank, t.sends, t.peer, t.number);
		if (!node.c ||
		    pair_number(node.c, !t.sends, c->rank) < t.number)
			add_edge_in_cycle(w, from, node, half_name(t.sends));
	}
	if (!number || !agree_has(c, number))
		return;
	of = atomic_load(&agree_slot(c, number)->ticket);
	if (of < atomic_load(&c->tickets.last) || comm_ticket_was_done(c, of))
		return;
	node = (struct node){ .q = q, .number = number, .name = name };
	for (i = 0; i < q->size; i++) {
		node.c = &q->comms[i];
		node.rank = node.c->rank;
		if (agree_called(node.c) < number)
			add_edge_in_cycle(w, from, node, name);
	}
	node.c = NULL;
	node.rank = -1;
	if (q->world_size > q->size && w->nodes[from].to < 0)
		add_edge_in_cycle(w, from, node, name);
}

/* True if @c waited for its last operation when its clique ended, or may
 * have. */
static bool has_waited(const struct walk *w, const struct cohort_comm *c)
{
	struct rank_snapshot r;

	clique_record_completions((struct clique *)(uintptr_t)c->clique);
	snapshot_part(&r, c, agree_called(c));
	return c->tickets.was_blocked ||
	       (w->with_queued && has_called_last(c, &r));
}

/* @c waited in a clique that has ended since the front was called, and since
 * its last call, at
 * @called_ns: for the rank that is to blame for that end, or on in a cycle. */
static void add_ended(struct walk *w, int from, const struct cohort_comm *c,
                      const struct cohort_cause *cause, uint64_t called_ns)
{
	const int world = cause->world_rank;
	const char *name;
	struct node node;

	if (cause->time_ns < w->since_ns || cause->time_ns < called_ns)
		return;
	if (cause->kind == COHORT_VERDICT_CYCLE && has_waited(w, c))
		add_ended_cycle(w, from, c);
	if (world < 0 || world == c->world_rank)
		return;
	node = node_of_world(c->clique, world);
	node.number = cause->collective;
	node.name = name_of(c, cause->collective);
	name = node.name;
	if (!node.number && find_last(c, &node))
		name = half_name(!node.sends);
	node.has_ended = true;
	node.kind = cause->kind;
	add_edge(w, from, node, c->clique, cause->collective, name);
}

/* The edges of node @from, which called last at @called_ns, in the communicator
 * @c. */
static void add_edges(struct walk *w, int from, const struct cohort_comm *c,
                      uint64_t called_ns)
{
	const struct cohort_cause *cause = clique_cause(c->clique);
	const uint64_t number = snapshot_undone(c);
	struct rank_snapshot r;

	if (cause)
		add_ended(w, from, c, cause, called_ns);
	if (cause_or_closing(c->clique->end))
		return;
	snapshot_part(&r, c, number);
	if (!cycle_is_blocked(&r) &&
	    !(w->with_queued && has_called_last(c, &r)))
		return;
	if (r.joined && !r.done && is_at(c->clique, &r))
		add_collective(w, from, c, number);
	add_transfers(w, from, c, number, true);
	if (w->nodes[from].to < 0)
		add_transfers(w, from, c, number, false);
}

static void follow(struct walk *w, int from)
{
	const struct cohort_comm *comms[MAX_NODES];
	const struct clique *q;
	struct rank_snapshot r;
	uint64_t called_ns = 0;
	int i, n = 0;

	if (!w->nodes[from].c)
		return;
	/* Whatever a rank that has left does now, it will not call. */
	snapshot_part(&r, w->nodes[from].c, 0);
	if (rank_has_left(&r))
		return;
	for (q = w->all; q; q = q->next_entered)
		for (i = 0; i < q->size && n < MAX_NODES; i++)
			if (q->platform == w->here->platform &&
			    is_same(w->nodes[from].c, &q->comms[i]))
				comms[n++] = &q->comms[i];
	for (i = 0; i < n; i++) {
		snapshot_part(&r, comms[i], 0);
		if (r.last.ticket && r.last.submitted_ns > called_ns)
			called_ns = r.last.submitted_ns;
	}
	for (i = 0; i < n; i++)
		add_edges(w, from, comms[i], called_ns);
}

/* Visit all that can be reached from the first @starts nodes.  Returns how many
 * of them wait for nobody, and are in no cycle. */
static int visit(struct walk *w, int starts, bool with_queued)
{
	int i, ends = 0;

	w->n = starts;
	w->with_queued = with_queued;
	w->links = 0;
	for (i = 0; i < starts; i++)
		w->nodes[i].to = -1;
	for (i = 0; i < w->n; i++) {
		follow(w, i);
		ends += w->nodes[i].to < 0 && !w->nodes[i].in_cycle;
	}
	return ends;
}

/* ---- results ------------------------------------------------------------ */

static void spell_call(char *to, const char *name, uint64_t number,
                       const struct clique *q, const char *group)
{
	struct text t = { to, WAITS_CALL };

	text_add(&t, "%s", name);
	if (number)
		text_add(&t, " %llu", (unsigned long long)number);
	text_add(&t, " of %s\"%s\"", group, q->name);
}

/* What the culprit @x has not called. */
static void spell_missing(char *to, const struct node *x)
{
	struct text t = { to, WAITS_CALL };

	if (!x->half)
		spell_call(to, x->name, x->number, x->q, "");
	else
		text_add(&t, "%s %llu %s rank %d of \"%s\"", x->name,
		         (unsigned long long)x->half, x->sends ? "to" : "from",
		         x->other, x->q->name);
}

/* The rank that node @x is in the clique @q, -1 if it is none there. */
static int rank_in(const struct clique *q, const struct node *x)
{
	int i;

	if (x->q == q)
		return x->rank;
	for (i = 0; x->c && i < q->size; i++)
		if (is_same(x->c, &q->comms[i]) ||
		    (x->c->world_rank == q->comms[i].world_rank &&
		     clique_tree_root(x->q) == clique_tree_root(q)))
			return q->comms[i].rank;
	return -1;
}

static uint64_t age_since(uint64_t since_ns)
{
	return since_ns && since_ns != UINT64_MAX ? clock_now() - since_ns : 0;
}

static void add_culprit(struct walk *w, const struct node *x)
{
	struct waits *out = w->out;
	const int here = rank_in(w->here, x);
	struct culprit *to;

	if (here >= 0)
		rank_set_add(out->here, here);
	if (out->culprit_count == WAITS_CULPRITS)
		return;
	to = &out->culprits[out->culprit_count++];
	*to = (struct culprit){
		.world = world_of(x->q, x->c, x->rank),
		.rank = x->rank,
		.at = { .rank = -1 },
		.has_called = x->has_called,
		.kind = x->c ? 0 : x->kind,
		.in = {
			.identity = x->q->identity,
			.number = x->half ? x->half : x->number,
			.is_transfer = !!x->half,
			.sends = x->sends,
			.rank = x->rank,
			.other = x->other,
			.age_ns = age_since(w->since_ns),
		},
	};
	/* Its clique has ended, so that nobody can be asked about it. */
	if (x->has_ended)
		to->in.identity = 0;
	if (x->c)
		snapshot_part(&to->at, x->c, x->number);
	spell_missing(to->call, x);
}

/* Add the link, or its ranks to that of the same operation. */
static void put_link(struct waits *out, const struct wait_link *link)
{
	struct wait_link *to = out->links, *end = to + out->link_count;

	while (to < end && (strcmp(to->call, link->call) != 0 ||
	                    to->for_world != link->for_world))
		to++;
	if (to < end) {
		rank_set_add_all(to->worlds, link->worlds);
		rank_set_add_all(to->behind, link->behind);
	} else if (out->link_count < WAITS_LINKS) {
		*to = *link;
		out->link_count++;
	}
}

static void add_link(struct walk *w, const struct node *x)
{
	const struct node *y = &w->nodes[x->to];
	struct wait_link link = {
		.for_world = world_of(y->q, y->c, y->rank),
		.way = x->way,
		.identity = x->in->identity,
		.number = x->in_number,
	};
	const int world = world_of(x->q, x->c, x->rank);

	if (x->way == WAITS_FOR)
		spell_call(link.call, x->in_name, x->in_number, x->in,
		           "group ");
	else
		text_set(link.call, sizeof(link.call), "%s", x->in_name);
	if (world >= 0)
		rank_set_add(link.worlds, world);
	put_link(w->out, &link);
}

void waits_fill(struct waits *w, const struct missing *m, int world)
{
	struct wait_link *l;

	for (l = w->links; l < w->links + w->link_count; l++)
		if (l->for_world < 0 && l->identity == m->identity &&
		    l->number == m->number &&
		    (l->way != WAITS_FOR) == (m->is_transfer != 0))
			l->for_world = world;
}

/* The links of the cycle that the walk from the first node ends in. */
static void add_cycle(struct walk *w)
{
	int i, first, at = 0;

	for (i = 0; i < w->n; i++)
		at = w->nodes[at].to;
	first = at;
	do {
		add_link(w, &w->nodes[at]);
		at = w->nodes[at].to;
	} while (at != first);
}

/* The link of the transfer's rank to its peer. */
static void add_own(struct walk *w)
{
	const struct transfer_snapshot *x = &w->s->transfer;
	const struct clique *q = w->here;
	struct waits *out = w->out;
	struct wait_link *link = &out->links[out->link_count++];

	*link = (struct wait_link){
		.for_world = world_of(q, clique_rank(q, x->peer), x->peer),
		.way = x->sends ? WAITS_TO : WAITS_FROM,
	};
	text_set(link->call, sizeof(link->call), "%s", half_name(x->sends));
	rank_set_add(link->worlds, clique_rank(q, x->rank)->world_rank);
}

/* True if the walk has come to no end. */
static bool is_closed(const struct walk *w)
{
	int i;

	for (i = 0; i < w->n; i++)
		if (w->nodes[i].to < 0)
			return false;
	return true;
}

static void add_all(struct walk *w)
{
	const bool goes_round = is_closed(w);
	const struct node *x;

	if (goes_round)
		add_cycle(w);
	else if (w->is_transfer && w->nodes->rank != w->s->transfer.rank)
		add_own(w);
	for (x = w->nodes; !goes_round && x < w->nodes + w->n; x++)
		if (x->to >= 0)
			add_link(w, x);
		else if (!x->in_cycle)
			add_culprit(w, x);
	w->out->is_cycle = !w->out->culprit_count;
}

/* ---- the front ---------------------------------------------------------- */

/* The ranks that the front waits for, as the first nodes. */
static void add_starts(struct walk *w, const struct clique *q)
{
	const struct snapshot *s = w->s;
	const struct record *call = snapshot_front_call(s);
	const char *name = call->ticket ? record_name(call) : "call";
	const struct rank_snapshot *r;
	int i;

	for (i = 0; i < q->size; i++) {
		r = &s->ranks[i];
		if (r->joined && r->arrived_ns < w->since_ns)
			w->since_ns = r->arrived_ns;
		if (s->all_joined ? r->done || is_at(q, r) : r->joined)
			continue;
		reach(w, (struct node){ .q = q,
		                        .rank = r->rank,
		                        .c = &q->comms[i],
		                        .number = s->front,
		                        .name = name,
		                        .has_called = r->joined });
	}
}

/* The rank that the transfer waits for, as the first node: the peer, or the
 * rank itself if that has not come to its half. */
static void add_transfer_start(struct walk *w, const struct clique *q)
{
	const struct transfer_snapshot *x = &w->s->transfer;
	const bool is_own = x->met && w->s->starts_are_marked &&
	                    !x->own.started && !x->own.in_call;
	const int rank = is_own ? x->rank : x->peer;
	struct node node = other_half(q, is_own ? x->peer : x->rank,
	                              x->sends != is_own, rank, x->number);

	w->since_ns = x->since_ns;
	node.has_called = x->met;
	if (node.c && !(x->met && !is_own && x->other.done))
		reach(w, node);
}

static void take(const struct clique *all, void *arg)
{
	struct walk *w = arg;
	const struct clique *q = all;
	int starts;

	/* The memory of its words may go once it has left the list. */
	while (q && q != w->here)
		q = q->next_entered;
	if (!q)
		return;
	w->all = all;
	if (w->is_transfer)
		add_transfer_start(w, w->here);
	else if (w->s)
		add_starts(w, w->here);
	else
		reach(w, (struct node){ .q = w->here,
		                        .rank = w->start->rank,
		                        .c = w->start,
		                        .number = w->number,
		                        .name = "call" });
	starts = w->n;
	if (!visit(w, starts, true))
		visit(w, starts, false);
	if (w->links || !w->s)
		add_all(w);
}

/* Walk from the ranks that the front of @s, or its transfer, waits for, or from
 * @start if @s is NULL.  Without memory nothing is found. */
static void find(struct waits *out, const struct snapshot *s, bool is_transfer,
                 const struct clique *here, const struct cohort_comm *start,
                 uint64_t number, uint64_t age_ns)
{
	struct walk *w = pages_alloc(sizeof(*w));
	struct culprit *x;

	memset(out, 0, sizeof(*out));
	if (!w)
		return;
	w->out = out;
	w->s = s;
	w->is_transfer = is_transfer;
	w->here = here;
	w->start = start;
	w->number = number;
	w->since_ns = s ? UINT64_MAX : age_ns ? clock_now() - age_ns : 0;
	clique_tree_look_at_all(take, w);
	pages_free(w, sizeof(*w));
	/* Asking the system takes time, so it is done without the lock. */
	for (x = out->culprits; x < out->culprits + out->culprit_count; x++)
		if (x->at.rank >= 0)
			snapshot_thread(&x->at);
}

/* The wait for @from is one for @to, in the same batch. */
static void change_links(struct waits *w, const struct culprit *from,
                         const struct missing *to)
{
	struct wait_link *l;

	for (l = w->links; l < w->links + w->link_count; l++) {
		if (l->way == WAITS_FOR || l->for_world != from->world ||
		    l->identity != from->in.identity ||
		    l->number != from->in.number)
			continue;
		l->way = to->sends ? WAITS_FROM : WAITS_TO;
		l->number = to->number;
		l->for_world = -1; /* see waits_fill() */
		text_set(l->call, WAITS_CALL, "%s", half_name(!to->sends));
	}
}

/* Forget the first @n culprits. */
static void drop_culprits(struct waits *w, int n)
{
	w->culprit_count -= n;
	memmove(w->culprits, w->culprits + n,
	        (size_t)w->culprit_count * sizeof(*w->culprits));
}

/* The culprit that the trail begins at: those before it have called.  -1: there
 * is none. */
static int find_trail(const struct waits *w, const struct trail *t)
{
	int i;

	for (i = 0; i < w->culprit_count && w->culprits[i].at.rank < 0; i++)
		if (is_same_missing(&w->culprits[i].in, &t->from))
			return i;
	return -1;
}

/* Put the trail, which begins at what the first culprit has not called, in the
 * place of that: it stands for ranks of other processes. */
static void put_trail(struct waits *w, const struct trail *t)
{
	int i;

	if (t->waits.is_cycle && w->culprit_count > 1) {
		drop_culprits(w, 1); /* another one is to blame */
		return;
	}
	waits_fill(w, &t->from, t->world);
	w->is_cycle = t->waits.is_cycle;
	if (w->is_cycle)
		w->culprit_count = 0;
	else
		*w->culprits = *t->waits.culprits;
	/* These links only lead to the cycle. */
	if (w->is_cycle && !t->returns)
		w->link_count = 0;
	for (i = 0; i < t->waits.link_count; i++)
		put_link(w, &t->waits.links[i]);
}

struct missing waits_question(const struct snapshot *s, const struct clique *q,
                              bool is_transfer)
{
	const struct transfer_snapshot *x = &s->transfer;
	uint64_t since_ns = is_transfer ? x->since_ns : UINT64_MAX;
	int i;

	for (i = 0; !is_transfer && i < s->size; i++)
		if (s->ranks[i].joined && s->ranks[i].arrived_ns < since_ns)
			since_ns = s->ranks[i].arrived_ns;

	if (!is_transfer)
		return (struct missing){
			.identity = q->identity,
			.number = s->front,
			.age_ns = age_since(since_ns),
		};
	return (struct missing){
		.identity = q->identity,
		.number = x->number,
		.is_transfer = true,
		.sends = !x->sends,
		.rank = x->peer,
		.other = x->rank,
		.age_ns = age_since(since_ns),
	};
}

/* Add the trail, if it begins where the waits of this process end, or at the
 * front, or the transfer. */
static void add_trail(struct snapshot *s, const struct clique *q,
                      bool is_transfer)
{
	const struct missing here = waits_question(s, q, is_transfer);
	const struct trail *t = s->trail;
	struct waits *w = &s->waits;
	int i, k;

	if (!t || (!t->waits.culprit_count && !t->waits.is_cycle))
		return;
	i = find_trail(w, t);
	if (i >= 0) {
		for (k = 0; k < i; k++)
			if (w->culprits[k].in.identity == t->from.identity &&
			    w->culprits[k].in.other == t->from.other)
				change_links(w, &w->culprits[k], &t->from);
		drop_culprits(w, i);
		put_trail(w, t);
	} else if (!w->culprit_count && !w->is_cycle && t->waits.link_count &&
	           is_same_missing(&here, &t->from) &&
	           !stall_has_different(s)) {
		*w = t->waits;
	} else {
		return;
	}
	memset(w->here, 0, sizeof(w->here));
	for (i = 0; i < s->world && w->culprit_count; i++)
		if (w->culprits->world >= 0 &&
		    snapshot_world(s, i) == w->culprits->world)
			rank_set_add(w->here, i);
}

void waits_take(struct snapshot *s, const struct clique *q, bool is_transfer)
{
	memset(&s->waits, 0, sizeof(s->waits));
	if (is_transfer ? !s->transfer.number : !s->front)
		return;
	find(&s->waits, s, is_transfer, q, NULL, 0, 0);
	add_trail(s, q, is_transfer);
}

void waits_of(const struct cohort_comm *c, uint64_t number, uint64_t age_ns,
              struct waits *out)
{
	find(out, NULL, false, c->clique, c, number, age_ns);
}
