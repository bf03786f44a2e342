/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Publishes the calls of a clique's ranks to the other processes of the machine
 *
 * The words that the ranks of this process share (agree_words.h) are kept on
 * the process's page (peers.h), where the other processes read them.  A clique
 * keeps its place on the page until it is freed, because an abandoned thread
 * may still write to the words.
 */

#include "processes/remote_agreement.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "core/agree_words.h"
#include "core/remote.h"
#include "processes/peer_page.h"

struct remote_agreement {
	/* Constant: a reference to the peers, the place on the page, the number
	 * of the clique's ranks in other processes, and the words of this
	 * process. */
	struct peers *peers;
	int place;
	int ranks;
	struct call_words *own;

	/* Atomic; true if the words of all other processes' ranks have been
	 * found. */
	atomic_bool has_all;

	/* Atomic; for each process: its words, and whether it has closed its
	 * group. */
	struct {
		const struct call_words *_Atomic words;
		atomic_bool has_left;
	} of[];
};

/* ---- calls of other processes ------------------------------------------ */

const struct call_words *remote_agreement_words(const struct peers *p,
                                                uint64_t identity,
                                                unsigned slots, int i)
{
	const struct peer *x = &p->peers[i];
	const struct call_words *w;

	if (!x->page || x->is_far)
		return NULL;
	for (w = x->page->calls; w < x->page->calls + CALL_PLACES; w++)
		if (atomic_load_explicit(&w->identity, memory_order_acquire) ==
		            identity &&
		    (!slots || atomic_load(&w->slots) == slots))
			return w;
	return NULL;
}

/* Search for the words of processes that have not been found yet. */
static void find_more(const struct clique *q)
{
	struct remote_agreement *o = q->others;
	const struct call_words *w;
	int i, ranks = 0;

	for (i = 0; i < o->peers->processes; i++) {
		w = atomic_load(&o->of[i].words);
		if (!w) {
			w = remote_agreement_words(o->peers, q->identity,
			                           q->slots, i);
			/* Another thread may have found the same words and
			 * stored them. */
			if (w)
				atomic_store(&o->of[i].words, w);
		}
		ranks += w ? (int)atomic_load(&w->ranks) : 0;
	}
	if (ranks >= o->ranks)
		atomic_store(&o->has_all, true);
}

/* Return true if the calls of all ranks in other processes can be read. */
static bool find_all(const struct clique *q)
{
	if (!q->others)
		return false;
	/* The acquire makes the words of the other ranks visible. */
	if (!atomic_load_explicit(&q->others->has_all, memory_order_acquire))
		find_more(q);
	return atomic_load_explicit(&q->others->has_all, memory_order_acquire);
}

/* Read the word of process @i for collective @number, and the number of ranks
 * that @q has in that process.  Return false if the process publishes no such
 * word. */
static bool read_word(const struct clique *q, int i, uint64_t number,
                      uint64_t *word, int *ranks)
{
	const struct call_words *w = atomic_load_explicit(
		&q->others->of[i].words, memory_order_acquire);

	if (!w)
		return false;
	/* seq_cst, because it must be read after this process's own word was
	 * written. */
	*word = atomic_load(&w->words[agree_shared_slot(q->slots, number)]);
	*ranks = (int)atomic_load(&w->ranks);
	/* The two loads above make this check valid: if one of them has read a
	 * value of another clique, its acquire made the cleared identity
	 * visible.  The acquire of the load here orders later reads of the
	 * other members. */
	return atomic_load_explicit(&w->identity, memory_order_acquire) ==
	       q->identity;
}

static bool differs(const struct clique *q, uint64_t number, uint32_t digest)
{
	uint64_t word;
	int i, ranks;

	if (!q->others)
		return false;
	find_all(q);
	for (i = 0; i < q->others->peers->processes; i++)
		if (read_word(q, i, number, &word, &ranks) &&
		    agree_shared_differs(q, word, number, digest))
			return true;
	return false;
}

static void announce(const struct clique *q, uint64_t number, uint64_t now_ns)
{
	/* Relaxed, because the word that is written next publishes it. */
	if (q->others)
		atomic_store_explicit(
			&q->others->own->called_ns[agree_shared_slot(q->slots,
		                                                     number)],
			now_ns, memory_order_relaxed);
}

/* Return the number of the first collective that a rank of this process will
 * never call, or 0. */
static uint64_t first_never_called(const struct clique *q)
{
	const struct cohort_comm *c;
	uint64_t number, never = 0;

	for (c = q->comms; c < q->comms + q->size; c++) {
		number = atomic_load(&c->lock.closed) ? agree_called(c) + 1 : 0;
		if (number && (!never || number < never))
			never = number;
	}
	return never;
}

static void publish_closed_rank(const struct clique *q)
{
	uint64_t never;

	do { /* another rank may be closed at the same time */
		never = first_never_called(q);
		atomic_store(&q->others->own->never, never);
	} while (first_never_called(q) != never);
	peers_request_wake(q->others->peers);
}

static void publish_event(const struct cohort_comm *c, enum remote_event event)
{
	const struct clique *q = c->clique;
	struct call_words *own = q->others ? q->others->own : NULL;

	if (event == REMOTE_NOTED)
		peers_publish_noted(peers_of(q), q);
	/* A rank that could not be closed has not left. */
	if (event == REMOTE_LEAVING ||
	    (event == REMOTE_CLOSED && atomic_load(&c->lock.closed)))
		peers_part(peers_of(q), c);
	if (!own)
		return;
	switch (event) {
	case REMOTE_LEAVING:
	case REMOTE_NOTED:
		break;
	case REMOTE_CLOSED:
		publish_closed_rank(q);
		break;
	case REMOTE_PAUSED:
		atomic_fetch_add(&own->paused, 1);
		break;
	case REMOTE_RESUMED:
		/* Stored in this order, so that other processes that see the
		 * rank resumed also see the new time. */
		atomic_store(&own->resumed_ns, atomic_load(&q->resumed_ns));
		atomic_fetch_sub(&own->paused, 1);
		break;
	}
}

/* Return true if process @i has closed its group before all its ranks had
 * called collective @number. */
static bool has_left_before(const struct clique *q, int i, uint64_t number)
{
	uint64_t word;
	int ranks;

	return atomic_load(&q->others->of[i].has_left) &&
	       read_word(q, i, number, &word, &ranks) &&
	       agree_shared_count(q->slots, word, number, ranks) < ranks;
}

/* Return the number of the first collective that a closed rank of process @i
 * has not called, or 0. */
static uint64_t first_never_called_by(const struct clique *q, int i)
{
	const struct call_words *w = atomic_load(&q->others->of[i].words);
	const uint64_t never = w ? atomic_load(&w->never) : 0;

	return w && atomic_load(&w->identity) == q->identity ? never : 0;
}

/* Return the time at which the last rank of process @i called collective
 * @number. */
static uint64_t time_of(const struct clique *q, int i, uint64_t number)
{
	const struct call_words *w = atomic_load(&q->others->of[i].words);

	return atomic_load_explicit(
		&w->called_ns[agree_shared_slot(q->slots, number)],
		memory_order_relaxed);
}

/* Return the number of ranks of other processes that have called collective
 * @number, and store the time of the last of these calls. */
static int count_called(const struct clique *q, uint64_t number,
                        uint64_t *last_ns)
{
	uint64_t word, ns;
	int i, ranks, n = 0, count;

	*last_ns = 0;
	for (i = 0; i < q->others->peers->processes; i++) {
		if (!read_word(q, i, number, &word, &ranks))
			continue;
		count = agree_shared_count(q->slots, word, number, ranks);
		n += count < ranks ? count : ranks;
		ns = count ? time_of(q, i, number) : 0;
		*last_ns = ns > *last_ns ? ns : *last_ns;
	}
	return n;
}

static void add_state(const struct clique *q, int i, uint64_t number,
                      uint64_t now, struct remote_state *s)
{
	const struct call_words *w = atomic_load(&q->others->of[i].words);
	const bool has_left = atomic_load(&q->others->of[i].has_left);
	const uint64_t never = first_never_called_by(q, i);
	uint64_t paused, ns;

	s->has_left |=
		(never && never <= number) || has_left_before(q, i, number);
	s->has_closed |= never || has_left;
	if (!w || has_left)
		return;
	paused = atomic_load(&w->paused);
	ns = atomic_load(&w->resumed_ns);
	if (atomic_load(&w->identity) != q->identity)
		return;
	s->is_paused |= paused > 0;
	if (ns > s->resumed_ns && ns <= now)
		s->resumed_ns = ns;
}

static struct remote_state get_state(const struct clique *q, uint64_t number)
{
	struct remote_state s = { .called = -1 };
	const uint64_t now = clock_now();
	const bool has_all = find_all(q);
	int i;

	if (has_all && number)
		s.called = count_called(q, number, &s.last_ns);
	for (i = 0; q->others && i < q->others->peers->processes; i++)
		add_state(q, i, number, now, &s);
	return s;
}

int remote_agreement_world(const struct call_words *w, int rank)
{
	uint64_t members[COHORT_RANK_WORDS];
	int r = -1, place = -1, world;

	get_words(members, w->members, COHORT_RANK_WORDS);
	if (!rank_set_has(members, rank))
		return -1;
	do {
		r = rank_set_next(members, r);
		place++;
	} while (r != rank);
	world = atomic_load(&w->worlds[place]);
	return world < COHORT_MAX_RANKS ? world : -1;
}

static int world(const struct clique *q, int rank)
{
	const struct call_words *w;
	int i, found = -1;

	if (!q->others || rank < 0)
		return -1;
	find_all(q);
	for (i = 0; i < q->others->peers->processes && found < 0; i++) {
		w = atomic_load(&q->others->of[i].words);
		if (!w)
			continue;
		found = remote_agreement_world(w, rank);
		if (atomic_load(&w->identity) != q->identity)
			found = -1;
	}
	return found;
}

static int calls(const struct clique *q, uint64_t number,
                 struct remote_call *out, int room)
{
	const struct remote_agreement *o = q->others;
	struct remote_rank *all, *x;
	struct text silent = TEXT_NONE;
	const struct missing question = { .identity = q->identity,
		                          .number = number };
	int n, stored = 0;

	all = o ? calloc((size_t)o->ranks, sizeof(*all)) : NULL;
	if (!all)
		return 0;
	n = peers_ask(&o->peers->remote, q, &question, all, o->ranks, &silent);
	for (x = all; x < all + n && stored < room; x++) {
		if (!agree_word_is_of(x->word, number))
			continue;
		out[stored].rank = x->rank;
		out[stored].world = x->world;
		out[stored].word = x->word;
		memcpy(out[stored].call, x->call, sizeof(x->call));
		stored++;
	}
	free(all);
	return stored;
}

/* ---- calls of this process --------------------------------------------- */

bool remote_agreement_leave(const struct clique *q, int i)
{
	struct remote_agreement *o = q->others;

	if (!o)
		return false;
	find_all(q); /* the ranks of this process may have made no call yet */
	if (!atomic_load(&o->of[i].words))
		return false;
	atomic_store(&o->of[i].has_left, true);
	return true;
}

static void release(struct clique *q)
{
	struct remote_agreement *o = q->others;
	struct peers *p;

	if (!o) {
		peers_put(peers_of(q));
		return;
	}
	/* The words stay readable until another clique takes the place, because
	 * other processes may still need to read there that this process has
	 * called the collective they are waiting for. */
	p = o->peers;
	pthread_mutex_lock(&p->lock);
	p->has_calls[o->place] = false;
	pthread_mutex_unlock(&p->lock);
	free(o);
	q->others = NULL;
	q->agreed = NULL;
	peers_put(p);
}

static bool can_show(const struct peers *p, const struct clique *q)
{
	bool has_near = false;
	int i;

	for (i = 0; i < p->processes; i++)
		has_near |= p->peers[i].page && !p->peers[i].is_far;
	return has_near && q->world_size > q->size && q->agreed &&
	       q->slots <= CALL_WORDS;
}

/* Reserve a place on the page and initialize it for @q. */
static void fill(struct peers *p, struct clique *q, int place)
{
	struct call_words *w = &p->page->calls[place];
	uint64_t members[COHORT_RANK_WORDS] = { 0 };
	unsigned i;
	int r;

	/* The release makes a reader that sees a cleared word also see the
	 * cleared identity. */
	atomic_store(&w->identity, 0);
	for (i = 0; i < q->slots; i++)
		atomic_store_explicit(&w->words[i], 0, memory_order_release);
	atomic_store(&w->slots, q->slots);
	atomic_store(&w->ranks, (uint64_t)q->size);
	for (r = 0; r < q->size; r++) {
		rank_set_add(members, q->comms[r].rank);
		atomic_store(&w->worlds[r], (uint16_t)q->comms[r].world_rank);
	}
	put_words(w->members, members, COHORT_RANK_WORDS);
	atomic_store(&w->never, 0);
	atomic_store(&w->paused, 0);
	atomic_store(&w->resumed_ns, 0);
	free(q->agreed);
	q->agreed = w->words;
	p->has_calls[place] = true;
	atomic_store_explicit(&w->identity, q->identity, memory_order_release);
}

void remote_agreement_show(struct peers *p, struct clique *q)
{
	const size_t n = (size_t)p->processes;
	struct remote_agreement *o;
	int place = 0;

	while (place < CALL_PLACES && p->has_calls[place])
		place++;
	if (place == CALL_PLACES || !can_show(p, q))
		return;
	o = calloc(1, sizeof(*o) + n * sizeof(o->of[0]));
	if (!o)
		return;
	o->peers = p;
	o->place = place;
	o->ranks = q->world_size - q->size;
	o->own = &p->page->calls[place];
	fill(p, q, place);
	q->others = o;
}

const struct remote remote_near = {
	.patience_ns = NS_PER_S,
	.announce = announce,
	.differs = differs,
	.calls = calls,
	.get_state = get_state,
	.world = world,
	.publish_event = publish_event,
	.ask = peers_ask,
	.send_cause = peers_send_cause,
	.release = release,
};
