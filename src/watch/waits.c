/* SPDX-License-Identifier: Apache-2.0 */

#include "watch/waits.h"

#include <string.h>

#include "base/clock.h"
#include "base/pages.h"
#include "base/thread.h"
#include "base/util.h"
#include "core/clique_tree.h"
#include "core/pair.h"
#include "watch/stall.h"

/* Maximum number of nodes of a walk.  Further ranks are ignored. */
#define MAX_NODES COHORT_MAX_RANKS

/* A rank that another rank waits for, and the communicator in which it is
 * awaited. */
struct node {
	const struct clique *q;
	/* The rank's number in q; -1 for an unknown rank of another process. */
	int rank;
	/* NULL if the rank is in another process */
	const struct cohort_comm *c;
	/* Collective of q in which the rank is missing, or 0. */
	uint64_t number;
	/* Name of the operation in which the rank is missing. */
	const char *name;
	bool has_called; /* the rank has called, but not started */
	/* Another communicator, in which the rank's thread is inside a call or
	 * waits for one; or NULL. */
	const struct cohort_comm *elsewhere;
	/* If the rank has left, a clique in which it had waited and that had
	 * ended before it left; or NULL. */
	const struct clique *left_after;

	/* The clique for whose end the rank was blamed, or NULL; and the rank's
	 * number in the root group of that clique. */
	const struct clique *ended;
	int world;
	int kind; /* kind of the fault that the rank was blamed for */
	/* True if the node stands for ranks of another process in a cycle. */
	bool in_cycle;

	/* Number of the transfer half that the rank has not called or reached,
	 * or 0. */
	uint64_t half;
	int other;  /* the rank at the other end of the transfer, in q */
	bool sends; /* true if the rank's half is the send */

	/* True if rank @other waits for the rank in cohort_comm_subset(), and
	 * the rank is in another process. */
	bool in_subset;

	/* Index of the first node that this node waits for, or -1 if it waits
	 * for none. */
	int to;
	/* Doubt about the edge to .to, from 0 for none to 2.  1 if the rank's
	 * thread may wait for an operation that it has queued, or for another
	 * thread of the rank, which waits.  2 if another thread of the rank
	 * waits, but the rank's own thread is not asleep in a futex. */
	int doubt;
	/* Clique of the operation in which the node waits. */
	const struct clique *in;
	uint64_t in_number;
	const char *in_name;
	enum wait_way way;
};

/* State of a walk along the waits, from some ranks to the ranks that they wait
 * for. */
struct walk {
	const struct clique *all; /* first clique in the list of all cliques */
	struct waits *out;
	/* Snapshot whose front collective determines the first nodes, which are
	 * the ranks that the front waits for; or NULL. */
	struct snapshot *s;
	/* True if the first node is instead the rank that the transfer in that
	 * snapshot waits for. */
	bool is_transfer;
	/* First node if .s is NULL. */
	const struct cohort_comm *start;
	uint64_t number; /* the collective that .start has not called */
	const struct clique *here; /* clique of the snapshot, or of .start */
	bool with_queued;  /* also follow operations that no thread waits for */
	uint64_t since_ns; /* time at which the first rank called the front */
	int links;         /* number of nodes that wait for another */
	int n;
	struct node nodes[MAX_NODES];
};

/* ---- ranks in several communicators ------------------------------------ */

static int world_of(const struct node *x)
{
	if (x->c)
		return x->c->world_rank;
	if (x->ended)
		return x->world;
	return clique_is_child(x->q) ? -1 : x->rank;
}

/* Return true if both communicators belong to one node.  This is so if they are
 * the same rank in one family, or if one thread makes the calls of both.  The
 * thread that closes a communicator may not be the rank's. */
static bool is_same(const struct cohort_comm *a, const struct cohort_comm *b)
{
	const int t = comm_thread(a), u = comm_thread(b);

	if (a == b)
		return true;
	if (clique_tree_root(a->clique) != clique_tree_root(b->clique))
		return t && t == u;
	return a->world_rank == b->world_rank &&
	       (!t || !u || t == u || atomic_load(&a->lock.closed) ||
	        atomic_load(&b->lock.closed));
}

static bool is_node(const struct node *x, const struct clique *q, int rank,
                    const struct cohort_comm *c)
{
	if (x->c && c)
		return is_same(x->c, c);
	return x->q == q && x->rank == rank;
}

/* Return the index of @node in the walk, or -1 if there is no room.  Add the
 * node if it is new. */
static int find_or_add_node(struct walk *w, struct node node)
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

/* Add an edge from node @from to @node.  Node @from waits for @node in the
 * operation named @name, collective @number of clique @in.  Keep only the first
 * edge of a node. */
static void add_edge(struct walk *w, int from, struct node node,
                     const struct clique *in, uint64_t number, const char *name)
{
	int to = find_or_add_node(w, node);
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

/* Return true if @r has reached its operation, as far as the marks show. */
static bool is_at(const struct clique *q, const struct rank_snapshot *r)
{
	return r->started || r->in_call || r->meets || !q->starts_are_marked;
}

/* Return the name of collective @number of @c, or "call" if unknown. */
static const char *name_of(const struct cohort_comm *c, uint64_t number)
{
	struct record r;

	if (!number || !agree_has(c, number) ||
	    !recorder_read(&c->recorder,
	                   atomic_load(&agree_slot(c, number)->ticket), &r))
		return "call";
	return record_name(&r);
}

/* Return the name of the last operation of @c, or "call" if unknown. */
static const char *last_name(const struct cohort_comm *c)
{
	struct record r;

	return recorder_read(&c->recorder, atomic_load(&c->tickets.last), &r)
	               ? record_name(&r)
	               : "call";
}

static bool is_blocked(const struct cohort_comm *c)
{
	struct rank_snapshot r;

	snapshot_part(&r, c, snapshot_undone(c));
	return rank_is_blocked(&r);
}

/* Return true if @peer is one of the ranks that wait for the first nodes. */
static bool waits_for_start(const struct walk *w,
                            const struct cohort_comm *peer)
{
	const struct snapshot *s = w->s;
	const struct cohort_comm *c;
	int i;

	if (!s)
		return false;
	if (w->is_transfer) {
		c = clique_rank(w->here, s->transfer.rank);
		return c && w->nodes->c != c && is_same(c, peer) &&
		       is_blocked(c);
	}
	for (i = 0; i < s->size && !s->all_joined; i++)
		if (s->ranks[i].joined && rank_is_blocked(&s->ranks[i]) &&
		    is_same(&w->here->comms[i], peer))
			return true;
	return false;
}

/* Return true if @peer waits, perhaps through other ranks, for node @from. */
static bool waits_for_node(const struct walk *w, int from,
                           const struct cohort_comm *peer)
{
	int i, n, at;

	for (i = 0; i < w->n; i++) {
		if (!w->nodes[i].c || !is_same(w->nodes[i].c, peer))
			continue;
		for (at = w->nodes[i].to, n = 0; n < w->n && at >= 0; n++) {
			if (at == from)
				return true;
			at = w->nodes[at].to;
		}
	}
	return waits_for_start(w, peer);
}

/* Return true if @c waits for @peer in collective @number.  Store the state of
 * @peer in @p. */
static bool is_missing(const struct cohort_comm *peer,
                       const struct cohort_comm *c, uint64_t number,
                       struct rank_snapshot *p)
{
	if (peer == c)
		return false;
	snapshot_part(p, peer, number);
	return !p->joined || (!p->done && !is_at(c->clique, p));
}

/* Return true if the ranks that have called collective @number have waited for
 * the other ranks until their deadline. */
static bool is_overdue(const struct cohort_comm *c, uint64_t number)
{
	const struct clique *q = c->clique;
	uint64_t first_ns = UINT64_MAX;
	struct rank_snapshot r;
	int i;

	for (i = 0; i < q->size; i++) {
		snapshot_part(&r, &q->comms[i], number);
		if (r.joined)
			first_ns = MIN(first_ns, r.arrived_ns);
	}
	return clock_now() >=
	       clock_after(first_ns, comm_limits(c, false).join_ns);
}

static void set_rank(struct node *node, const struct cohort_comm *c,
                     const struct rank_snapshot *r)
{
	node->rank = c->rank;
	node->c = c;
	node->has_called = r->joined;
}

/* Add the edges of @c in collective @number, which is the oldest collective of
 * @c that is not done. */
static void add_collective(struct walk *w, int from,
                           const struct cohort_comm *c, uint64_t number)
{
	const struct clique *q = c->clique;
	const char *name = name_of(c, number);
	struct node node = { .q = q, .number = number, .name = name };
	const bool is_late = is_overdue(c, number);
	struct rank_snapshot p;
	int i, before = w->links;

	/* Ranks that wait for each other never continue.  Any other missing
	 * rank may just be slow, as long as the deadline has not passed. */
	for (i = 0; i < q->size && !is_late; i++)
		if (is_missing(&q->comms[i], c, number, &p) &&
		    waits_for_node(w, from, &q->comms[i])) {
			set_rank(&node, &q->comms[i], &p);
			add_edge(w, from, node, q, number, name);
			return;
		}
	for (i = 0; i < q->size; i++)
		if (is_missing(&q->comms[i], c, number, &p)) {
			set_rank(&node, &q->comms[i], &p);
			add_edge(w, from, node, q, number, name);
		}
	/* No rank of this process is missing, so a rank of another process may
	 * be. */
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

/* Return the node of the peer in transfer @number, which rank @rank of @q sends
 * to @peer or receives from it. */
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

/* Add the wait edges that @c's oldest unfinished operation with sends or
 * receives creates.  If @is_local, add only edges to ranks of this process,
 * otherwise only edges to ranks of other processes.  @number is the oldest
 * collective of @c that is not done. */
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

static struct node node_of_rank(const struct clique *q, int rank)
{
	return (struct node){ .q = q, .rank = rank, .c = clique_rank(q, rank) };
}

/* Return the node of rank @world of the root group: in @q if the rank is in
 * that clique, otherwise in the root group. */
static struct node node_of_world(const struct clique *q, int world)
{
	const struct cohort_comm *c = clique_rank_of_world(q, world);

	if (c)
		return node_of_rank(q, c->rank);
	return node_of_rank(clique_tree_root(q), world);
}

/* Return the ticket of the last operation of @c if that operation has
 * transfers, otherwise 0.  The operation's call may not have returned yet. */
static uint64_t last_transfers(const struct cohort_comm *c)
{
	struct transfer t;

	return pair_read(c, pair_count(c), &t) &&
	                       t.ticket >= atomic_load(&c->tickets.last)
	               ? t.ticket
	               : 0;
}

/* If the last operation of @c has a transfer with rank @x of its clique, make
 * @x the other half of that transfer and return true. */
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

/* Add an edge to the rank @node, which had not called @name when its clique
 * ended.  If the rank is in another process, the walk ends there without a
 * culprit. */
static void add_edge_in_cycle(struct walk *w, int from, struct node node,
                              const char *name)
{
	node.in_cycle = !node.c;
	add_edge(w, from, node, node.q, node.number, name);
}

/* Return true if the rank's last call is its collective in @r, or its last
 * transfer.  Its thread may wait for that operation in a function outside the
 * library, such as cudaStreamSynchronize(). */
static bool has_called_last(const struct cohort_comm *c,
                            const struct rank_snapshot *r)
{
	struct transfer t;

	return r->last.ticket &&
	       ((r->joined && r->last.ticket == r->call.ticket) ||
	        (pair_read(c, pair_count(c), &t) &&
	         t.ticket == r->last.ticket));
}

/* Add the edges of @c in a clique that has ended because of a cycle.  @c waited
 * for the ranks that had not called their part of its oldest operation. */
static void add_ended_cycle(struct walk *w, int from,
                            const struct cohort_comm *c)
{
	const struct clique *q = c->clique;
	const uint64_t number = agree_called(c);
	const char *name = name_of(c, number);
	struct node node;
	struct transfer t;
	uint64_t k, ticket = 0, of;
	int i;

	for (k = pair_count(c);
	     pair_read(c, k, &t) && !comm_ticket_was_done(c, t.ticket); k--)
		ticket = t.ticket;
	of = number && agree_has(c, number)
	             ? atomic_load(&agree_slot(c, number)->ticket)
	             : 0;
	if (comm_ticket_was_done(c, of))
		of = 0;
	for (k++;
	     (!of || ticket < of) && pair_read(c, k, &t) && t.ticket == ticket;
	     k++) {
		node = other_half(q, c->rank, t.sends, t.peer, t.number);
		if (!node.c ||
		    pair_number(node.c, !t.sends, c->rank) < t.number)
			add_edge_in_cycle(w, from, node, half_name(t.sends));
	}
	if (!of || (ticket && ticket < of))
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

/* Return true if @c waited when its clique ended, or may have waited. */
static bool has_waited(const struct walk *w, const struct cohort_comm *c)
{
	struct rank_snapshot r;

	clique_record_completions((struct clique *)(uintptr_t)c->clique);
	snapshot_part(&r, c, agree_called(c));
	return c->tickets.was_blocked ||
	       (w->with_queued && has_called_last(c, &r) &&
	        !comm_ticket_was_done(c, r.last.ticket));
}

/* Return the cause that ended the clique of @c at or after @after_ns while @c
 * waited, or NULL.  An earlier end cannot explain what the rank does. */
static const struct cohort_cause *
end_after(const struct walk *w, const struct cohort_comm *c, uint64_t after_ns)
{
	const struct cohort_cause *cause = clique_cause(c->clique);

	return cause && cause->time_ns >= after_ns && has_waited(w, c) ? cause
	                                                               : NULL;
}

/* Add an edge from @c, which waited when its clique ended, to the rank that was
 * blamed.  If a cycle was the cause, add edges to the next ranks in the cycle
 * instead. */
static void add_ended(struct walk *w, int from, const struct cohort_comm *c,
                      const struct cohort_cause *cause)
{
	const int world = cause->world_rank;
	const char *name;
	struct node node;

	if (cause->kind == COHORT_VERDICT_CYCLE)
		add_ended_cycle(w, from, c);
	if (world == c->world_rank ||
	    (world < 0 && cause->kind != COHORT_VERDICT_REMOTE))
		return;
	node = cause->rank >= 0 || world < 0
	               ? node_of_rank(c->clique, cause->rank)
	               : node_of_world(c->clique, world);
	/* The cause's collective number belongs to the clique of @c, not to the
	 * root group. */
	node.number = node.q == c->clique ? cause->collective : 0;
	node.name = name_of(c, cause->collective);
	name = cause->collective ? node.name : last_name(c);
	if (!node.number && find_last(c, &node))
		name = half_name(!node.sends);
	node.ended = c->clique;
	node.world = world;
	node.kind = cause->kind;
	add_edge(w, from, node, c->clique, cause->collective, name);
}

/* Add the edges of a rank that waits in cohort_comm_subset(), or that has made
 * no call since such a call timed out.  @called_ns is the time of its last
 * call. */
static void add_subset(struct walk *w, int from, const struct cohort_comm *c,
                       uint64_t called_ns)
{
	const bool has_failed = atomic_load(&c->subset.failed_ns) > called_ns;
	const struct clique *q = c->clique;
	uint64_t set[COHORT_RANK_WORDS];
	struct node node = { .q = q, .name = SUBSET, .other = c->rank };
	int i, r;

	for (i = 0; i < COHORT_RANK_WORDS; i++)
		set[i] = atomic_load(&c->subset.awaits[i]) |
		         (has_failed ? atomic_load(&c->subset.missed[i]) : 0);
	for (i = 0; i < q->size; i++) {
		node.c = &q->comms[i];
		node.rank = node.c->rank;
		if (rank_set_has(set, node.rank))
			add_edge(w, from, node, q, 0, SUBSET);
	}
	/* It is not known whether ranks of other processes have called, so add
	 * an edge to one of them only if there is no other edge. */
	node.c = NULL;
	node.in_subset = true;
	for (r = rank_set_next(set, -1); r >= 0 && w->nodes[from].to < 0;
	     r = rank_set_next(set, r)) {
		node.rank = r;
		add_edge(w, from, node, q, 0, SUBSET);
	}
}

/* Add the edges of node @from in its communicator @c.  @called_ns is the time
 * of the node's last call in any communicator.  If @with_helped, also add the
 * edges of another thread that waits for the rank. */
static void add_edges(struct walk *w, int from, const struct cohort_comm *c,
                      uint64_t called_ns, bool with_helped)
{
	/* An end explains the node's wait only if it came after the node's last
	 * call and after the first call of the front collective. */
	const struct cohort_cause *cause =
		end_after(w, c, MAX(w->since_ns, called_ns));
	const uint64_t number = snapshot_undone(c);
	struct node *x = &w->nodes[from];
	struct rank_snapshot r;
	bool is_blocked, is_first;

	if (cause)
		add_ended(w, from, c, cause);
	add_subset(w, from, c, called_ns);
	if (cause_or_closing(c->clique->end))
		return;
	snapshot_part(&r, c, number);
	is_blocked = rank_is_blocked(&r) || (with_helped && r.helped);
	if (!is_blocked && !(w->with_queued && has_called_last(c, &r)))
		return;
	is_first = x->to < 0;
	if (r.joined && !r.done && is_at(c->clique, &r))
		add_collective(w, from, c, number);
	add_transfers(w, from, c, number, true);
	if (x->to < 0)
		add_transfers(w, from, c, number, false);
	/* A thread can make further calls while its operation is queued, so
	 * this edge is doubtful. */
	if (is_first && x->to >= 0 && !is_blocked && !x->has_called)
		x->doubt = 1;
}

/* Return true if @c has waited for at least half of its deadline. */
static bool has_waited_long(const struct cohort_comm *c)
{
	const uint64_t limit_ns = comm_limits(c, false).join_ns;
	struct rank_snapshot r;

	snapshot_part(&r, c, snapshot_undone(c));
	return clock_now() >=
	       clock_after(r.joined ? r.arrived_ns : r.last.submitted_ns,
	                   limit_ns / 2);
}

/* Return true if thread @tid, to which another rank is bound, waits for a
 * ticket of @c. */
static bool is_helped_by(const struct cohort_comm *c, int tid)
{
	return atomic_load(&c->thread.helpers) &&
	       atomic_load(&c->thread.helper_tid) == tid;
}

/* Add the edges of node @from if its thread @tid waits for tickets of other
 * ranks. */
static void add_waits_for_others(struct walk *w, int from, int tid,
                                 uint64_t called_ns)
{
	const struct clique *q;
	int i;

	for (q = tid ? w->all : NULL; q; q = q->next_entered)
		for (i = 0; i < q->size; i++)
			if (is_helped_by(&q->comms[i], tid))
				add_edges(w, from, &q->comms[i], called_ns,
				          true);
}

/* Add the edges of other threads that call for the rank of node @from in other
 * communicators of the family.  These are the thread that the rank's own thread
 * is joining, and threads that have waited for long: one of them may be the
 * thread that will make the missing call. */
static void add_other_threads(struct walk *w, int from, uint64_t called_ns)
{
	const struct cohort_comm *c = w->nodes[from].c, *x;
	const int tid = comm_thread(c);
	const int awaited = tid ? thread_awaits(tid) : 0;
	const struct clique *root = clique_tree_root(c->clique), *q;
	bool is_other;
	int u;

	add_waits_for_others(w, from, tid, called_ns);
	if (w->nodes[from].to >= 0)
		return;
	for (q = tid ? w->all : NULL; q; q = q->next_entered) {
		x = clique_rank_of_world(q, c->world_rank);
		if (!x || clique_tree_root(q) != root)
			continue;
		u = comm_thread(x);
		is_other = (u && u != tid) || atomic_load(&x->thread.helpers);
		if (is_other && (u == awaited || is_helped_by(x, awaited) ||
		                 has_waited_long(x)))
			add_edges(w, from, x, called_ns, true);
	}
	if (w->nodes[from].to >= 0 && awaited <= 0)
		w->nodes[from].doubt = awaited ? 1 : 2;
}

static void follow(struct walk *w, int from)
{
	const struct cohort_comm *comms[MAX_NODES];
	const struct clique *q;
	const struct cohort_cause *cause;
	struct rank_snapshot r;
	uint64_t called_ns = 0;
	bool has_left;
	int i, n = 0;

	if (!w->nodes[from].c)
		return;
	snapshot_part(&r, w->nodes[from].c, 0);
	has_left = rank_has_left(&r);
	for (q = w->all; q; q = q->next_entered)
		for (i = 0; i < q->size && n < MAX_NODES; i++)
			if (q->platform == w->here->platform &&
			    is_same(w->nodes[from].c, &q->comms[i]))
				comms[n++] = &q->comms[i];
	for (i = 0; i < n; i++) {
		snapshot_part(&r, comms[i], 0);
		if (r.last.ticket && r.last.submitted_ns > called_ns)
			called_ns = r.last.submitted_ns;
		if (comms[i] != w->nodes[from].c &&
		    ((r.inside && !r.native) || r.waiting))
			w->nodes[from].elsewhere = comms[i];
	}
	for (i = 0; i < n && !has_left; i++)
		add_edges(w, from, comms[i], called_ns, false);
	/* A rank that has left will not call, no matter what its thread does,
	 * but another rank may be the reason why it left. */
	for (i = 0; i < n && has_left; i++) {
		cause = end_after(w, comms[i], called_ns);
		if (!cause || cause->world_rank == comms[i]->world_rank)
			continue;
		add_ended(w, from, comms[i], cause);
		w->nodes[from].left_after = comms[i]->clique;
	}
	if (w->nodes[from].to < 0 && !has_left)
		add_other_threads(w, from, called_ns);
}

/* If the walk from the first node leads to a cycle with doubtful edges, remove
 * the most doubtful one, and return 1: its node may be the culprit for which
 * the others wait.  If several are equally doubtful, remove the first one if
 * @any, and none otherwise. */
static int cut_cycle(struct walk *w, bool any)
{
	struct node *nodes = w->nodes;
	int i, at = 0, first, cut, equal = 0;

	for (i = 0; i < w->n && nodes[at].to >= 0; i++)
		at = nodes[at].to;
	if (nodes[at].to < 0)
		return 0;
	first = cut = at;
	do {
		if (nodes[at].doubt > nodes[cut].doubt)
			equal = 0;
		equal += nodes[at].doubt >= nodes[cut].doubt;
		if (nodes[at].doubt > nodes[cut].doubt ||
		    (nodes[at].doubt == nodes[cut].doubt && at < cut))
			cut = at;
		at = nodes[at].to;
	} while (at != first);
	if (!nodes[cut].doubt || (equal > 1 && !any))
		return 0;
	nodes[cut].to = -1;
	w->links--;
	return 1;
}

/* Visit all nodes that can be reached from the first @starts nodes.  Return the
 * number of nodes that wait for no rank and are not in a cycle. */
static int visit(struct walk *w, int starts, bool with_queued)
{
	int i, ends = 0;

	w->n = starts;
	w->with_queued = with_queued;
	w->links = 0;
	for (i = 0; i < starts; i++) {
		w->nodes[i].to = -1;
		w->nodes[i].doubt = 0;
	}
	for (i = 0; i < w->n; i++) {
		follow(w, i);
		ends += w->nodes[i].to < 0 && !w->nodes[i].in_cycle;
	}
	return ends ? ends : cut_cycle(w, !with_queued);
}

/* ---- results ------------------------------------------------------------ */

static void format_call(char *to, const char *name, uint64_t number,
                        const struct clique *q, const char *group)
{
	struct text t = { to, WAITS_CALL };

	text_add(&t, "%s", name);
	if (number)
		text_add(&t, " %llu", (unsigned long long)number);
	text_add(&t, " of %s\"%s\"", group, q->name);
}

/* Write the name of the operation that the culprit @x has not called. */
static void format_missing(char *to, const struct node *x)
{
	struct text t = { to, WAITS_CALL };
	const struct cohort_cause *cause =
		x->ended ? clique_cause(x->ended) : NULL;

	if (cause && cause->since_ns == x->ended->missed_since_ns)
		text_add(&t, "%s", x->ended->missed);
	else if (cause && !x->half && !x->number)
		text_add(&t, "its call in \"%s\", which has ended",
		         x->ended->name);
	else if (!x->half)
		format_call(to, x->name, x->number, x->q, "");
	else
		text_add(&t, "%s %llu %s rank %d of \"%s\"", x->name,
		         (unsigned long long)x->half, x->sends ? "to" : "from",
		         x->other, x->q->name);
}

/* Return the number in clique @q of the rank of node @x, or -1 if it has
 * none. */
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
	/* The node may be a rank of another process that was blamed for the end
	 * of a clique. */
	return !x->c && x->ended && !clique_is_child(q) &&
	                       clique_tree_root(x->ended) == q
	               ? x->world
	               : -1;
}

/* Write what the node's thread does in another communicator. */
static void format_elsewhere(char *to, const struct node *x)
{
	const struct cohort_comm *c = x->elsewhere;
	struct rank_snapshot r;

	if (!c)
		return;
	snapshot_part(&r, c, 0);
	text_set(to, ELSEWHERE_SIZE, "%s %s of \"%s\"",
	         r.inside && !r.staged ? "is inside" : "waits in",
	         r.last.ticket ? record_name(&r.last) : "a call",
	         c->clique->name);
}

static uint64_t age_since(uint64_t since_ns)
{
	return since_ns && since_ns != UINT64_MAX ? clock_now() - since_ns : 0;
}

/* Describe the culprit with the start of the text of @cause, if that blames a
 * process that is stopped: "process 1 (pid 4711), which drives rank 3, is
 * stopped". */
static void add_stop(struct culprit *to, const struct cohort_cause *cause)
{
	const char *end = strstr(cause->text, " is stopped");

	end = end ? strstr(end, " (") : NULL;
	if (cause->kind == COHORT_VERDICT_PROCESS_STOPPED && end)
		text_set(to->text, sizeof(to->text), "%.*s",
		         (int)(end - cause->text), cause->text);
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
		.world = world_of(x),
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
	if (x->in_subset)
		to->in = missing_any(x->q->identity, x->rank, x->other,
		                     age_since(w->since_ns));
	/* The clique of this node has ended, so no process can be asked about
	 * the operation. */
	if (x->ended)
		to->in.identity = 0;
	if (x->ended && !x->c && clique_cause(x->ended))
		add_stop(to, clique_cause(x->ended));
	if (x->c)
		snapshot_part(&to->at, x->c, x->number);
	format_elsewhere(to->at.elsewhere, x);
	format_missing(to->call, x);
}

/* Add a link.  If there is a link with the same operation and awaited rank,
 * merge them. */
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
		.for_world = world_of(y),
		.way = x->way,
		.identity = x->in->identity,
		.number = x->in_number,
	};
	const int world = world_of(x);

	if (x->way == WAITS_FOR)
		format_call(link.call, x->in_name, x->in_number, x->in,
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

/* Add the links of the cycle that the walk from the first node leads to. */
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

/* Add the link from the transfer's rank to its peer. */
static void add_own(struct walk *w)
{
	const struct transfer_snapshot *x = &w->s->transfer;
	const struct clique *q = w->here;
	struct waits *out = w->out;
	struct wait_link *link = &out->links[out->link_count++];
	const struct node peer = node_of_rank(q, x->peer);

	*link = (struct wait_link){
		.for_world = world_of(&peer),
		.way = x->sends ? WAITS_TO : WAITS_FROM,
	};
	text_set(link->call, sizeof(link->call), "%s", half_name(x->sends));
	rank_set_add(link->worlds, clique_rank(q, x->rank)->world_rank);
}

/* Return true if every node waits for another, in which case there must be a
 * cycle. */
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
	const bool is_circular = is_closed(w);
	const struct node *x;

	if (is_circular)
		add_cycle(w);
	else if (w->is_transfer && w->nodes->rank != w->s->transfer.rank)
		add_own(w);
	for (x = w->nodes; !is_circular && x < w->nodes + w->n; x++)
		if (x->to >= 0)
			add_link(w, x);
		else if (!x->in_cycle)
			add_culprit(w, x);
	w->out->is_cycle = !w->out->culprit_count;
}

/* ---- the front ---------------------------------------------------------- */

/* Add the ranks that the front collective waits for as the first nodes. */
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
		find_or_add_node(w, (struct node){ .q = q,
		                                   .rank = r->rank,
		                                   .c = &q->comms[i],
		                                   .number = s->front,
		                                   .name = name,
		                                   .has_called = r->joined });
	}
}

/* Add the rank that the transfer waits for as the first node.  This is the
 * peer, unless the peer has called and the transfer's rank has not reached its
 * own half. */
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
		find_or_add_node(w, node);
}

static void follow_waits(const struct clique *all, void *arg)
{
	struct walk *w = arg;
	const struct clique *q = all;
	struct rank_snapshot *r;
	const struct node *x;
	int starts;

	/* If the clique has left the list, its memory may be freed. */
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
		find_or_add_node(w, (struct node){ .q = w->here,
		                                   .rank = w->start->rank,
		                                   .c = w->start,
		                                   .number = w->number,
		                                   .name = "call" });
	starts = w->n;
	if (!visit(w, starts, true))
		visit(w, starts, false);
	if (w->links || !w->s)
		add_all(w);
	for (x = w->nodes; w->s && x < w->nodes + starts; x++) {
		if (!x->c)
			continue;
		r = &w->s->ranks[x->c - q->comms];
		format_elsewhere(r->elsewhere, x);
		r->gave_up = x->left_after;
		if (x->left_after)
			text_set(r->elsewhere, sizeof(r->elsewhere),
			         "has left after \"%s\" had ended (%s)",
			         x->left_after->name,
			         cohort_verdict_text(
					 clique_cause(x->left_after)->kind));
	}
}

/* Follow the waits from the ranks that the front collective of @s waits for or,
 * if @is_transfer, the transfer of @s.  If @s is NULL, start at @start.  Store
 * nothing if out of memory. */
static void find(struct waits *out, struct snapshot *s, bool is_transfer,
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
	clique_tree_call_all(follow_waits, w);
	pages_free(w, sizeof(*w));
	/* Querying the system takes time, so this is done without the lock. */
	for (x = out->culprits; x < out->culprits + out->culprit_count; x++)
		if (x->at.rank >= 0)
			snapshot_thread(&x->at);
}

/* In links that wait for @from, replace the operation with @to, another
 * transfer of the same batch. */
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

static void drop_culprits(struct waits *w, int n)
{
	w->culprit_count -= n;
	memmove(w->culprits, w->culprits + n,
	        (size_t)w->culprit_count * sizeof(*w->culprits));
}

/* Return the index of the culprit at which the trail starts, or -1 if there is
 * none.  The culprits before this one have called. */
static int find_trail(const struct waits *w, const struct trail *t)
{
	int i;

	for (i = 0; i < w->culprit_count && w->culprits[i].at.rank < 0; i++)
		if (is_same_missing(&w->culprits[i].in, &t->from))
			return i;
	return -1;
}

/* Replace the first culprit, which stands for ranks of other processes, with
 * the trail.  The trail starts at the operation that this culprit has not
 * called. */
static void put_trail(struct waits *w, const struct trail *t)
{
	int i;

	if (t->waits.is_cycle && w->culprit_count > 1) {
		drop_culprits(w, 1); /* another culprit is to blame */
		return;
	}
	waits_fill(w, &t->from, t->world);
	w->is_cycle = t->waits.is_cycle;
	if (w->is_cycle)
		w->culprit_count = 0;
	else
		*w->culprits = *t->waits.culprits;
	/* The links so far lead to the cycle, but are not in it, so drop
	 * them. */
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

/* Add the trail of @s to the waits of @s, if it starts at one of two places:
 *
 *  - at a culprit, where the waits of this process end
 *  - without culprits, at the operation that the snapshot is about: the front
 *    collective, or the transfer if @is_transfer */
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
	} else if ((is_transfer || s->all_joined) && !w->culprit_count &&
	           !w->is_cycle && t->waits.link_count &&
	           is_same_missing(&here, &t->from) &&
	           !stall_first_different(s)) {
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
