/* SPDX-License-Identifier: Apache-2.0 */

#include "cli/watch/observed.h"

#include <stdio.h>
#include <string.h>

#include "base/util.h"

/* ---- sends and receives -------------------------------------------------- */

/* A send or receive that is not done. */
struct transfer_call {
	struct record call;
	uint32_t number;
	bool has_peer; /* the peer has called its half, or was not seen */
};

static bool read_transfer(const struct watch *w, const struct observed *o,
                          int rank, uint64_t ticket, struct transfer_call *out)
{
	const struct shared_rank *e = observed_entry(w, o, rank), *peer;

	out->call = shared_record(e, ticket);
	if (!out->call.ticket || !op_has_peer(out->call.kind) ||
	    out->call.root < 0 || out->call.root >= o->ranks)
		return false;
	out->number = shared_transfer(e, ticket);
	peer = observed_entry(w, o, out->call.root);
	out->has_peer =
		!peer || shared_transfers(peer, out->call.kind == OP_RECV,
	                                  rank) >= out->number;
	return true;
}

/* Find the first send or receive of a rank that is not done, preferably one
 * whose peer has not called.  Return false if there is none, or if an older
 * collective is not done. */
static bool find_transfer(const struct watch *w, const struct observed *o,
                          int rank, struct transfer_call *out)
{
	const struct shared_rank *e = observed_entry(w, o, rank);
	const uint64_t undone = shared_undone(w->shared, e);
	const uint64_t last = undone <= shared_called(e)
	                              ? shared_ticket(e, undone) - 1
	                              : atomic_load(&e->last);
	uint64_t t = shared_last_done(w->shared, e) + 1;
	struct transfer_call x;
	bool is_found = false;

	for (; t <= last && last - t < SHARED_SLOTS; t++) {
		if (!read_transfer(w, o, rank, t, &x) ||
		    (is_found && x.has_peer))
			continue;
		*out = x;
		is_found = true;
		if (!x.has_peer)
			break;
	}
	return is_found;
}

/* Return the time since which @rank has been able to carry out its call @x: the
 * time of the call, or of the last progress of the rank's earlier calls. */
static uint64_t own_start(const struct observed *o,
                          const struct transfer_call *x, int rank)
{
	return MAX(x->call.submitted_ns, o->progress[rank].since_ns);
}

/* Return the progress of the peer's half of @x, which is a call of @rank.
 * Raise *@since_ns to the time since which the peer has been able to carry out
 * its half. */
static struct half peer_half(const struct watch *w, const struct observed *o,
                             const struct transfer_call *x, int rank,
                             uint64_t *since_ns)
{
	const struct shared_rank *e = observed_entry(w, o, x->call.root);
	uint64_t t = e ? shared_last_done(w->shared, e) + 1 : 1;
	const uint64_t last = e ? atomic_load(&e->last) : 0;
	struct record c;

	for (; t <= last && last - t < SHARED_SLOTS; t++) {
		c = shared_record(e, t);
		if (c.ticket && op_has_peer(c.kind) && c.kind != x->call.kind &&
		    c.root == rank && shared_transfer(e, t) == x->number) {
			*since_ns = MAX(MAX(*since_ns, c.submitted_ns),
			                o->progress[x->call.root].since_ns);
			return (struct half){ .in_call = c.outcome ==
				                         COHORT_TIMED_OUT };
		}
	}
	return (struct half){ .started = true, .done = true };
}

void observed_transfers(const struct watch *w, const struct observed *o,
                        struct snapshot *s)
{
	const struct transfer_snapshot former = s->transfer;
	struct transfer_snapshot *to = &s->transfer;
	struct transfer_call x;
	struct half other;
	uint64_t since_ns;

	*to = (struct transfer_snapshot){ .number = 0 };
	for (struct rank_snapshot *r = s->ranks; r < s->ranks + s->size; r++) {
		/* Calls of a process that has ended would hide the ranks that
		 * wait for it. */
		if (r->closed || started_find(w->started, r->pid)->has_ended ||
		    !find_transfer(w, o, r->rank, &x))
			continue;
		other = (struct half){ .done = false };
		since_ns = own_start(o, &x, r->rank);
		if (x.has_peer)
			other = peer_half(w, o, &x, r->rank, &since_ns);
		since_ns = MAX(MIN(since_ns, s->now_ns), s->resumed_ns);
		/* Prefer a transfer whose peer has not called, because it may
		 * explain the others. */
		if (to->number &&
		    (to->met < x.has_peer ||
		     (to->met == x.has_peer && to->since_ns <= since_ns)))
			continue;
		*to = (struct transfer_snapshot){
			.number = x.number,
			.rank = r->rank,
			.peer = x.call.root,
			.sends = x.call.kind == OP_SEND,
			.count = x.call.count,
			.type = x.call.type,
			.is_local = observed_entry(w, o, x.call.root) != NULL,
			.met = x.has_peer,
			.ticket = x.call.ticket,
			.since_ns = since_ns,
			.allowed_ns = w->deadline_ns,
			.own.in_call = x.call.outcome == COHORT_TIMED_OUT,
			.other = other,
		};
	}
	if (former.number == to->number && former.rank == to->rank &&
	    former.peer == to->peer && former.sends == to->sends &&
	    former.met == to->met && former.since_ns >= to->since_ns)
		to->expired = former.expired;
}

/* ---- ranks that wait elsewhere ------------------------------------------- */

/* A rank that another rank waits for, and the call that it has not made. */
struct node {
	const struct observed *in; /* communicator in which it is missing */
	int rank;
	char call[WAITS_CALL]; /* name of the call that it has not made */
	/* The communicator of that call, and the rank's number there. */
	const struct observed *called_in;
	int called_rank;
	bool is_transfer;

	int to; /* index of the node that it waits for, or -1 */
	/* The call in which the rank itself waits, with its communicator, and
	 * the numbers there of the rank and of the rank that it waits for. */
	struct {
		const struct observed *in;
		int rank, for_rank;
		enum wait_way way;
		uint64_t number; /* number of the collective */
		struct record call;
		char name[WAITS_CALL];
		bool is_creation; /* the call creates the communicator */
	} wait;
};

/* Write the name of collective @number: "all_reduce 3 of "comm 1"". */
static void spell_collective(char text[WAITS_CALL], const struct observed *o,
                             const struct record *call, uint64_t number)
{
	snprintf(text, WAITS_CALL, "%s %llu of \"%s\"",
	         call->ticket ? record_name(call) : "collective",
	         (unsigned long long)number, o->name);
}

/* Write the name of the call that the peer has not made: the other half of @x,
 * a call of @rank. */
static void spell_half(char text[WAITS_CALL], const struct observed *o,
                       const struct transfer_call *x, int rank)
{
	snprintf(text, WAITS_CALL, "%s %u %s rank %d of \"%s\"",
	         x->call.kind == OP_SEND ? "recv" : "send", x->number,
	         x->call.kind == OP_SEND ? "from" : "to", rank, o->name);
}

/* Return true if @rank has not called collective @number. */
static bool is_missing(const struct watch *w, const struct observed *o,
                       int rank, uint64_t number)
{
	const struct shared_rank *e = observed_entry(w, o, rank);

	return e && shared_called(e) < number;
}

/* Find the first rank that has not called collective @number, or -1. */
static int first_missing(const struct watch *w, const struct observed *o,
                         uint64_t number)
{
	int r = 0;

	while (r < o->ranks && !is_missing(w, o, r, number))
		r++;
	return r < o->ranks ? r : -1;
}

/* If rank @rank of @o waits for another rank's call, store its own call in
 * @x->wait and the other rank in *@next, and return true. */
static bool waits_in(const struct watch *w, const struct observed *o, int rank,
                     struct node *x, struct node *next)
{
	const struct shared_rank *e = observed_entry(w, o, rank);
	const uint64_t number = shared_undone(w->shared, e);
	struct transfer_call t;

	*next = (struct node){ .in = o, .rank = -1, .called_in = o };
	x->wait.is_creation = false;
	x->wait.in = o;
	x->wait.rank = rank;
	if (shared_state_of(e) == SHARED_CLOSED)
		return false;
	if (find_transfer(w, o, rank, &t)) {
		if (t.has_peer)
			return false;
		next->rank = t.call.root;
		next->is_transfer = true;
		spell_half(next->call, o, &t, rank);
		x->wait.way = t.call.kind == OP_SEND ? WAITS_TO : WAITS_FROM;
		x->wait.call = t.call;
		snprintf(x->wait.name, sizeof(x->wait.name), "%s of \"%s\"",
		         record_name(&t.call), o->name);
	} else if (number <= shared_called(e)) {
		next->rank = first_missing(w, o, number);
		x->wait.way = WAITS_FOR;
		x->wait.call = shared_record(e, shared_ticket(e, number));
		spell_collective(next->call, o, &x->wait.call, number);
		memcpy(x->wait.name, next->call, sizeof(x->wait.name));
	}
	x->wait.number = number;
	x->wait.for_rank = next->called_rank = next->rank;
	return next->rank >= 0;
}

/* Return whether the thread that made @own's last call is inside the call that
 * creates @e, rather than between that call and the end of its group. */
static bool is_creating(const struct shared_rank *own,
                        const struct shared_rank *e)
{
	return shared_state_of(e) == SHARED_OPENING &&
	       !atomic_load(&e->grouped) &&
	       atomic_load(&e->pid) == atomic_load(&own->pid) &&
	       atomic_load(&e->tid) == observed_caller(own);
}

/* If rank @rank of @o waits until other ranks create @o, store that in @x->wait
 * and the first of these ranks in *@next, and return true. */
static bool waits_to_create(const struct observed *o, int rank, struct node *x,
                            struct node *next)
{
	int missing = 0;

	while (missing < o->ranks && o->entries[missing])
		missing++;
	if (missing == o->ranks)
		return false;
	*next = (struct node){
		.in = o, .rank = missing, .called_in = o, .called_rank = missing
	};
	snprintf(next->call, sizeof(next->call), "ncclCommInitRank of \"%s\"",
	         o->name);
	x->wait.in = o;
	x->wait.rank = rank;
	x->wait.for_rank = missing;
	x->wait.way = WAITS_FOR;
	x->wait.is_creation = true;
	x->wait.number = 0;
	x->wait.call = (struct record){ .ticket = 0 };
	memcpy(x->wait.name, next->call, sizeof(x->wait.name));
	return true;
}

/* Find the call in which the rank of @x itself waits. */
static bool find_wait(const struct watch *w, struct node *x, struct node *next)
{
	const struct shared_rank *own = observed_entry(w, x->in, x->rank), *e;

	for (const struct observed *o = w->all; own && o; o = o->next)
		for (int r = 0; r < o->ranks; r++) {
			e = observed_entry(w, o, r);
			if (!e)
				continue;
			if (observed_is_same(own, e) &&
			    waits_in(w, o, r, x, next))
				return true;
			if (is_creating(own, e) &&
			    waits_to_create(o, r, x, next))
				return true;
		}
	return false;
}

static void add_link(const struct watch *w, struct waits *out,
                     const struct node *x)
{
	struct wait_link *l;

	if (out->link_count == WAITS_LINKS)
		return;
	l = &out->links[out->link_count++];
	*l = (struct wait_link){ .for_world = -1, .way = x->wait.way };
	if (x->wait.is_creation) {
		/* The new communicator's numbers differ from others. */
		rank_set_add(l->worlds, observed_world(w, x->in, x->rank));
	} else {
		rank_set_add(l->worlds,
		             observed_world(w, x->wait.in, x->wait.rank));
		l->for_world = observed_world(w, x->wait.in, x->wait.for_rank);
	}
	memcpy(l->call, x->wait.name, sizeof(l->call));
}

static void add_culprit(const struct watch *w, struct waits *out,
                        const struct node *x)
{
	const bool was_seen = observed_entry(w, x->in, x->rank);
	struct culprit *c;

	if (out->culprit_count == WAITS_CULPRITS)
		return;
	c = &out->culprits[out->culprit_count++];
	*c = (struct culprit){
		.world = -1,
		.rank = x->called_rank,
		.at.rank = -1,
		.kind = COHORT_VERDICT_NEVER_CALLED,
	};
	memcpy(c->call, x->call, sizeof(c->call));
	if (!was_seen)
		return;
	c->world = observed_world(w, x->called_in, x->called_rank);
	observed_rank(w, x->in, x->rank, &c->at);
	snapshot_thread(&c->at);
}

/* ---- the order of two communicators -------------------------------------- */

/* Return the time at which the rank has called collective @number, or 0. */
static uint64_t called_ns(const struct shared_rank *e, uint64_t number)
{
	return e && shared_called(e) >= number
	               ? shared_record(e, shared_ticket(e, number)).submitted_ns
	               : 0;
}

/* Return the entry of the same rank in @other, or NULL. */
static const struct shared_rank *find_same(const struct watch *w,
                                           const struct observed *other,
                                           const struct shared_rank *e)
{
	const struct shared_rank *x;

	for (int r = 0; r < other->ranks; r++) {
		x = observed_entry(w, other, r);
		if (x && observed_is_same(e, x))
			return x;
	}
	return NULL;
}

/* Store which ranks of @o have called its collective @number first, and which
 * have called x->collective of @other first.  A rank that was not seen may be
 * in both communicators. */
static void find_orders(const struct watch *w, const struct observed *o,
                        uint64_t number, const struct observed *other,
                        struct crossing *x)
{
	const struct shared_rank *e, *there;
	uint64_t here_ns, there_ns;

	for (int r = 0; r < o->ranks; r++) {
		e = observed_entry(w, o, r);
		there = e ? find_same(w, other, e) : NULL;
		if (!e || there)
			rank_set_add(x->members, r);
		if (!there)
			continue;
		here_ns = called_ns(e, number);
		there_ns = called_ns(there, x->collective);
		if (here_ns && (!there_ns || here_ns < there_ns))
			rank_set_add(x->here_first, r);
		else if (there_ns)
			rank_set_add(x->there_first, r);
	}
}

/* Record that two communicators are used in different orders, if @a waits for
 * @b in another communicator and @b waits for @a in the front of @o. */
static void set_crossing(const struct watch *w, struct observed *o,
                         const struct node *a, const struct node *b)
{
	const struct rank_snapshot *waiter;

	waiter = snapshot_rank(&o->now, b->wait.rank);
	if (b->wait.in != o || a->wait.in == o || a->wait.way != WAITS_FOR ||
	    b->wait.way != WAITS_FOR || !waiter)
		return;
	o->now.crossing = (struct crossing){
		.exists = true,
		.collective = a->wait.number,
		.first = { .rank = b->wait.rank,
		           .there = a->wait.for_rank,
		           .here_ns = waiter->arrived_ns },
		.second = { .rank = b->wait.for_rank,
		            .there = a->wait.rank,
		            .there_ns = a->wait.call.submitted_ns,
		            .call_there = a->wait.call },
	};
	snprintf(o->now.crossing.group, sizeof(o->now.crossing.group), "%s",
	         a->wait.in->name);
	find_orders(w, o, b->wait.number, a->wait.in, &o->now.crossing);
}

/* ---- following the waits ------------------------------------------------- */

/* Maximum number of nodes of a walk.  Further ranks are ignored. */
#define MAX_NODES 64

struct walk {
	const struct watch *w;
	int n;
	struct node nodes[MAX_NODES];
};

/* Return the index of the node, after adding it if it is new.  Return -1 if
 * there is no room.  If a rank is missing in two calls, keep the one that the
 * walk has reached last. */
static int find_or_add_node(struct walk *k, const struct node *x)
{
	const struct shared_rank *e = observed_entry(k->w, x->in, x->rank);
	const struct shared_rank *other;
	struct node *at;
	int i;

	for (i = 0; i < k->n; i++) {
		at = &k->nodes[i];
		other = observed_entry(k->w, at->in, at->rank);
		if ((at->in != x->in || at->rank != x->rank) &&
		    (!e || !other || !observed_is_same(e, other)))
			continue;
		memcpy(at->call, x->call, sizeof(at->call));
		at->called_in = x->called_in;
		at->called_rank = x->called_rank;
		return i;
	}
	if (k->n == MAX_NODES)
		return -1;
	k->nodes[k->n] = *x;
	k->nodes[k->n].to = -1;
	return k->n++;
}

/* Return whether the rank of @x has called the front only after another call,
 * in which it waits for a rank of another communicator. */
static bool is_queued(const struct watch *w, struct node x)
{
	const struct rank_snapshot *r = snapshot_rank(&x.in->now, x.rank);
	struct node next;

	return r && r->joined && !r->done && find_wait(w, &x, &next) &&
	       x.wait.in != x.in && x.wait.call.stream == r->call.stream &&
	       x.wait.call.submitted_ns <= r->arrived_ns;
}

static void add_starts(struct walk *k, const struct observed *o,
                       bool is_transfer)
{
	const struct snapshot *s = &o->now;
	struct node x = { .in = o, .called_in = o };

	x.rank = x.called_rank = s->transfer.peer;
	if (is_transfer && !s->transfer.met)
		find_or_add_node(k, &x);
	spell_collective(x.call, o, snapshot_front_call(s), s->front);
	for (int r = 0; !is_transfer && r < o->ranks; r++) {
		x.rank = x.called_rank = r;
		if (s->all_joined ? is_queued(k->w, x)
		                  : is_missing(k->w, o, r, s->front))
			find_or_add_node(k, &x);
	}
}

/* Follow the waits of all nodes.  Return the number of nodes that wait for
 * another one. */
static int visit(struct walk *k)
{
	struct node next;
	int i, links = 0;

	for (i = 0; i < k->n; i++) {
		if (find_wait(k->w, &k->nodes[i], &next))
			k->nodes[i].to = find_or_add_node(k, &next);
		links += k->nodes[i].to >= 0;
	}
	return links;
}

/* Add the links of the cycle that the walk from the first node leads to.
 * Return their number. */
static int add_cycle(const struct walk *k, struct waits *out)
{
	int i, first, at = 0, n = 0;

	for (i = 0; i < k->n; i++)
		at = k->nodes[at].to;
	first = at;
	do {
		add_link(k->w, out, &k->nodes[at]);
		at = k->nodes[at].to;
		n++;
	} while (at != first);
	return n;
}

void observed_waits(const struct watch *w, struct observed *o, bool is_transfer)
{
	struct snapshot *s = &o->now;
	struct walk k = { .w = w };
	const struct node *x;
	int links;
	bool is_cycle;

	memset(&s->waits, 0, sizeof(s->waits));
	s->crossing.exists = false;
	add_starts(&k, o, is_transfer);
	links = visit(&k);
	if (!links)
		return;
	is_cycle = s->waits.is_cycle = links == k.n;
	if (is_cycle && add_cycle(&k, &s->waits) == 2 && k.nodes[0].in == o &&
	    k.nodes[k.nodes[0].to].to == 0 && !is_transfer)
		set_crossing(w, o, &k.nodes[0], &k.nodes[k.nodes[0].to]);
	if (s->crossing.exists)
		memset(&s->waits, 0, sizeof(s->waits));
	for (x = k.nodes; !is_cycle && x < k.nodes + k.n; x++) {
		if (x->to >= 0) {
			add_link(w, &s->waits, x);
			continue;
		}
		add_culprit(w, &s->waits, x);
		if (x->in == o)
			rank_set_add(s->waits.here, x->rank);
	}
}
