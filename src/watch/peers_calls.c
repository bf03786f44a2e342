/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What the ranks of a clique call, shown to the other processes of the machine
 *
 * The words that the ranks of this process share move into its page, where the others
 * read them.  A place there is a clique's until that is freed: a thread that was left
 * behind may still write to its words.
 */

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "core/agree_words.h"
#include "watch/peer_page.h"

struct shown {
	struct peers *peers; /* a reference */
	int place;
	struct others o;
};

static struct shown *shown_of(struct others *o)
{
	return (struct shown *)((char *)o - offsetof(struct shown, o));
}

struct peers *peers_of(const struct clique *q)
{
	return q->others ? shown_of(q->others)->peers : NULL;
}

/* ---- what the others show ---------------------------------------------- */

const struct call_words *
peers_calls_of(const struct peers *p, uint64_t identity, unsigned slots, int i)
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

static const struct call_words *find(struct others *o, const struct clique *q,
                                     int i)
{
	return peers_calls_of(shown_of(o)->peers, q->identity, q->slots, i);
}

static int ask(struct others *o, const struct clique *q, uint64_t number,
               struct voice *out, int room)
{
	struct remote_rank *all = calloc((size_t)o->ranks, sizeof(*all)), *x;
	char none[1] = "";
	struct text silent = { none, sizeof(none) };
	const struct missing question = { .identity = q->identity,
		                          .number = number };
	struct peers *p = shown_of(o)->peers;
	int n, told = 0;

	if (!all)
		return 0;
	n = peers_ask(p, q, &question, all, o->ranks,
	              clock_deadline(peers_patience_ns(p)), &silent);
	for (x = all; x < all + n && told < room; x++) {
		if (!agree_word_is_of(x->word, number))
			continue;
		out[told].rank = x->rank;
		out[told].world = x->world;
		out[told].word = x->word;
		memcpy(out[told].call, x->call, sizeof(x->call));
		told++;
	}
	free(all);
	return told;
}

/* ---- what this process shows ------------------------------------------- */

static void ring(struct others *o)
{
	peers_have_rung(shown_of(o)->peers);
}

static void release(struct others *o)
{
	struct shown *shown = shown_of(o);
	struct peers *p = shown->peers;

	/* The words stay readable until another clique takes the place: other processes
	 * may still have to see that this one has called what they wait for. */
	pthread_mutex_lock(&p->lock);
	p->has_calls[shown->place] = false;
	pthread_mutex_unlock(&p->lock);
	free(shown);
	peers_put(p);
}

static bool can_show(const struct peers *p, const struct clique *q)
{
	bool has_near = false;
	int i;

	for (i = 0; i < p->processes; i++)
		has_near |= p->peers[i].page && !p->peers[i].is_far;
	return has_near && q->world > q->size && q->agreed &&
	       q->slots <= CALL_WORDS;
}

/* Take a place, and fill it with the words of @q. */
static void fill(struct peers *p, struct clique *q, int place)
{
	struct call_words *w = &p->page->calls[place];
	uint64_t members[COHORT_RANK_WORDS] = { 0 };
	uint64_t worlds[COHORT_RANK_WORDS] = { 0 };
	bool is_ordered = true;
	unsigned i;
	int r;

	/* Release: a reader that finds a word cleared also finds the identity cleared. */
	atomic_store(&w->identity, 0);
	for (i = 0; i < q->slots; i++)
		atomic_store_explicit(&w->words[i], 0, memory_order_release);
	atomic_store(&w->slots, q->slots);
	atomic_store(&w->ranks, (uint64_t)q->size);
	for (r = 0; r < q->size; r++) {
		rank_set_add(members, q->comms[r].rank);
		rank_set_add(worlds, q->comms[r].world);
		is_ordered &= !r || q->comms[r].world > q->comms[r - 1].world;
	}
	if (!is_ordered)
		memset(worlds, 0, sizeof(worlds));
	put_words(w->members, members, COHORT_RANK_WORDS);
	put_words(w->worlds, worlds, COHORT_RANK_WORDS);
	atomic_store(&w->never, 0);
	atomic_store(&w->paused, 0);
	atomic_store(&w->resumed_ns, 0);
	free(q->agreed);
	q->agreed = w->words;
	p->has_calls[place] = true;
	atomic_store_explicit(&w->identity, q->identity, memory_order_release);
}

void peers_show_calls(struct peers *p, struct clique *q)
{
	const size_t n = (size_t)p->processes;
	struct shown *shown;
	int place = 0;

	while (place < CALL_PLACES && p->has_calls[place])
		place++;
	if (place == CALL_PLACES || !can_show(p, q))
		return;
	shown = calloc(1, sizeof(*shown) + n * sizeof(shown->o.of[0]));
	if (!shown)
		return;
	shown->peers = p;
	peers_get(p);
	shown->place = place;
	shown->o.processes = p->processes;
	shown->o.ranks = q->world - q->size;
	shown->o.own = &p->page->calls[place];
	shown->o.find = find;
	shown->o.ask = ask;
	shown->o.ring = ring;
	shown->o.release = release;
	fill(p, q, place);
	q->others = &shown->o;
}
