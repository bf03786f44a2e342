/* SPDX-License-Identifier: Apache-2.0 */

/* Rounds that every rank cuts for itself (see split_round.h) */

#include "sim/exec/split_round.h"

#include "base/backoff.h"
#include "base/util.h"

/* With a core for each rank few pieces change hands, and each costs cache lines
 * that two cores write. */
#define SPLIT_PIECE_BYTES (4 * PIECE_BYTES)

/* ---- words ------------------------------------------------------------ */

/* The low bits of a word hold a number of pieces, of which there are fewer than
 * memory has room for.  The other bits are the low bits of the round's number,
 * which come again after some 10^12 rounds. */
#define COUNT_BITS 24

/* A bit of the word of what is claimed: the driver of the rank's stream is
 * inside. */
#define INSIDE (UINT64_C(1) << (COUNT_BITS - 1))

static uint64_t word_make(uint64_t number, uint64_t count)
{
	return number << COUNT_BITS | count;
}

/* How many pieces the word says for round @number. */
static uint64_t word_count(uint64_t word, uint64_t number)
{
	const uint64_t count = (word & ~INSIDE) - word_make(number, 0);

	/* A word with another number is that of an earlier round. */
	return count >> COUNT_BITS ? 0 : count;
}

/* True if the last piece of a share, which has @pieces, is not claimed. */
static bool is_left(const struct split_round *e, uint64_t number,
                    uint64_t pieces)
{
	return word_count(load_relaxed(&e->claimed), number) < pieces;
}

/* Claim the next piece of a share that has @pieces; false if there is none.
 * @also is INSIDE for the driver of the share's rank, 0 for others. */
static bool claim(struct split_round *e, uint64_t number, uint64_t pieces,
                  uint64_t also, uint64_t *index_out)
{
	uint64_t word = load_relaxed(&e->claimed);

	do {
		*index_out = word_count(word, number);
		if (*index_out >= pieces)
			return false;
		/* seq_cst, see go_inside(). */
	} while (!atomic_compare_exchange_weak(
		&e->claimed, &word,
		word_make(number, *index_out + 1) | (word & INSIDE) | also));
	return true;
}

/* For the driver of the rank, unless a claim has done that.  seq_cst: then look
 * whether the world is broken; the thread that has broken it looks for threads
 * inside. */
static void go_inside(struct split_round *e)
{
	if (!(load_relaxed(&e->claimed) & INSIDE))
		atomic_fetch_or(&e->claimed, INSIDE);
}

static void go_outside(struct split_round *e)
{
	if (load_relaxed(&e->claimed) & INSIDE)
		atomic_fetch_and(&e->claimed, ~INSIDE);
}

/* Count one more piece, of whatever share, as finished by the driver of the
 * rank. */
static void finish(struct split_round *e, uint64_t number)
{
	uint64_t word = load_relaxed(&e->finished);

	/* Release: what was written. */
	store_release(&e->finished,
	              word_make(number, word_count(word, number) + 1));
}

/* ---- arriving --------------------------------------------------------- */

bool split_round_fits(const struct world *w, const struct launch *l)
{
	return w->split_rounds &&
	       call_bytes(w->n, slot_call(l)) > pieces_at_once(w);
}

void split_round_arrive(const struct world *w, struct launch *l)
{
	const struct call *c = slot_call(l);
	struct slot *mine = slot_next(w, l);

	mine->at.send = c->send;
	mine->at.recv = c->recv;
	split_round_list(w, l, mine);
	slot_send(mine, l);
}

bool split_round_fits_list(const struct world *w, const struct launch *l)
{
	return l->call_count > 1 && w->split_rounds && !l->calls_done &&
	       l->hash && l->bytes > pieces_at_once(w);
}

void split_round_list(const struct world *w, const struct launch *l,
                      struct slot *mine)
{
	if (mine->what != MANY_CALLS)
		return;
	mine->at.hash = split_round_fits_list(w, l) ? l->hash : 0;
	mine->at.runs = l->runs;
	mine->at.places = l->places;
}

bool split_round_is_list(const struct world *w, const struct launch *l)
{
	const struct slot *slot;
	int r;

	if (!split_round_fits_list(w, l))
		return false;
	/* The hash also covers counts and how many calls there are. */
	for (r = 0; r < w->n; r++) {
		slot = slot_of(w, l->slot, r);
		if (slot->what != MANY_CALLS || slot->at.hash != l->hash)
			return false;
	}
	return true;
}

/* ---- the round -------------------------------------------------------- */

/* Set the round to the one call that the slots bring.  True if it is cut like
 * the round before. */
static bool set_call(struct cut *c, const struct world *w,
                     const struct launch *l)
{
	const uint64_t what = c->round.is_single ? c->places->what : MANY_CALLS;
	const struct slot *slot;
	int r;

	for (r = 0; r < w->n; r++) {
		slot = slot_of(w, l->slot, r);
		c->places[r] = (struct place){
			.send = slot->at.send,
			.recv = slot->at.recv,
			.what = slot->what,
		};
	}
	c->round.places = c->places;
	c->round.span = 1;
	c->round.is_single = true;
	return c->places->what == what && round_keeps(&c->round);
}

/* Set the round to all calls of a launch.  Only slots are read, as a rank that
 * comes late does not find the launches of others. */
static void set_list(struct cut *c, const struct world *w,
                     const struct launch *l)
{
	const struct slot *slot;
	int r;

	c->round.calls = l->calls;
	c->round.lists = c->lists;
	c->round.span = l->call_count;
	c->round.is_single = false;
	c->round.is_joined = true;
	for (r = 0; r < w->n; r++) {
		slot = slot_of(w, l->slot, r);
		c->lists[r] = slot->at.places;
		c->round.is_joined &= slot->at.runs == l->runs;
	}
}

static void cut_shares(struct cut *c)
{
	int r;

	c->pieces = 0;
	for (r = 0; r < c->round.world->n; r++) {
		c->shares[r].pieces =
			round_share(&c->round, r, SPLIT_PIECE_BYTES,
		                    &c->shares[r].begin, &c->shares[r].end);
		c->pieces += c->shares[r].pieces;
	}
}

/* The round of a launch, which is cut at the first look. */
static struct cut *cut_of(const struct world *w, const struct launch *l)
{
	struct cut *c = &w->split_rounds[l->member->rank].cut;
	const size_t bytes = c->round.bytes;

	if (c->number == l->slot)
		return c;
	c->number = l->slot;
	c->round.world = w;
	if (launch_way(l) == WAY_WHOLE)
		set_list(c, w, l);
	else if (set_call(c, w, l))
		return c;
	round_cut(&c->round);
	if (c->round.bytes != bytes)
		cut_shares(c);
	return c;
}

/* Do the @index-th piece of a share; false if a rank was aborted. */
static bool piece_do(const struct cut *c, int share, uint64_t index)
{
	const size_t begin = c->shares[share].begin + index * SPLIT_PIECE_BYTES;
	const size_t end = begin + SPLIT_PIECE_BYTES;

	return round_do(&c->round, begin, MIN(end, c->shares[share].end));
}

/* As the driver of @rank, do what is left of the share @share, with @n pieces
 * done before.  Returns how many are done then. */
static size_t share_do(const struct cut *c, int rank, int share, size_t n,
                       const struct drive *d)
{
	const struct world *w = c->round.world;
	const uint64_t pieces = c->shares[share].pieces;
	struct split_round *mine = &w->split_rounds[rank],
			   *e = &w->split_rounds[share];
	uint64_t i;

	while (is_left(e, c->number, pieces) && !(n && drive_is_late(d))) {
		if (share != rank)
			go_inside(mine);
		if (!claim(e, c->number, pieces, share == rank ? INSIDE : 0,
		           &i) ||
		    !piece_do(c, share, i))
			break;
		finish(mine, c->number);
		n++;
	}
	return n;
}

/* As the driver of @rank, do pieces.  Stays inside. */
static void work(const struct cut *c, int rank, bool steals,
                 const struct drive *d)
{
	const int ranks = c->round.world->n;
	size_t n = share_do(c, rank, rank, 0, d);
	int r;

	for (r = 1; steals && r < ranks; r++)
		n = share_do(c, rank, (rank + r) % ranks, n, d);
}

static bool all_are_claimed(const struct cut *c)
{
	const struct world *w = c->round.world;
	int r;

	for (r = 0; r < w->n; r++)
		if (is_left(&w->split_rounds[r], c->number,
		            c->shares[r].pieces))
			return false;
	return true;
}

static bool all_are_finished(const struct cut *c)
{
	const struct world *w = c->round.world;
	uint64_t word, n = 0;
	int r;

	for (r = 0; r < w->n; r++) {
		/* Acquire: what was written. */
		word = load_acquire(&w->split_rounds[r].finished);
		n += word_count(word, c->number);
	}
	return n == c->pieces;
}

/* True if all is finished.  A driver that attends looks for a while whether the
 * others finish their pieces. */
static bool finishes(const struct cut *c, const struct drive *d)
{
	int i;

	for (i = 0; d->attends && i < 64; i++) {
		if (all_are_finished(c))
			return true;
		cpu_pause();
	}
	return all_are_finished(c);
}

/* True if this driver does the share of @rank: one that only queues does a
 * small share. */
static bool is_for(const struct cut *c, int rank, const struct drive *d)
{
	return d->effort != EFFORT_ENQUEUE ||
	       c->shares[rank].end - c->shares[rank].begin <= ENQUEUE_BYTES;
}

bool split_round_do(const struct world *w, const struct launch *l, bool steals,
                    const struct drive *d, bool *left_out)
{
	const struct cut *c = cut_of(w, l);
	const int rank = l->member->rank;
	struct split_round *mine = &w->split_rounds[rank];
	bool over;

	if (is_for(c, rank, d)) {
		work(c, rank, steals, d);
	} else if (is_left(mine, c->number, c->shares[rank].pieces)) {
		/* Do not read the words of others, which those write. */
		*left_out = true;
		return false;
	}
	over = finishes(c, d);
	/* Only here, when what was written has left this core: the exchange
	 * waits for that. */
	go_outside(mine);
	*left_out = !over &&
	            (d->effort == EFFORT_ENQUEUE || drive_is_late(d)) &&
	            !all_are_claimed(c);
	return over;
}

bool split_round_is_over(const struct world *w, const struct launch *l)
{
	return all_are_finished(cut_of(w, l));
}

int split_round_inside(const struct world *w)
{
	int r, n = 0;

	for (r = 0; w->split_rounds && r < w->n; r++)
		n += atomic_load(&w->split_rounds[r].claimed) & INSIDE ? 1 : 0;
	return n;
}
