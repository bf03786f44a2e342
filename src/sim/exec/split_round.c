/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Runs rounds for which every rank computes the division into shares by itself
 * (see split_round.h)
 */

#include "sim/exec/split_round.h"

#include "base/backoff.h"
#include "base/util.h"

/* Size of a piece, in bytes.  It is large because ranks seldom help each other
 * if every rank has a core, and because each claim writes a cache line that
 * another core might also write. */
#define SPLIT_PIECE_BYTES (4 * PIECE_BYTES)

/* ---- words ------------------------------------------------------------ */

/* Number of low bits in a word that hold a number of pieces, large enough for
 * any amount of memory.  The high bits hold the round's number, truncated: it
 * repeats after about 10^12 rounds. */
#define COUNT_BITS 24

/* Bit of split_round.claimed, set while the thread that drives the rank's
 * stream is inside the round. */
#define INSIDE (UINT64_C(1) << (COUNT_BITS - 1))

static uint64_t word_make(uint64_t number, uint64_t count)
{
	return number << COUNT_BITS | count;
}

/* Return the number of pieces that @word counts for round @number. */
static uint64_t word_count(uint64_t word, uint64_t number)
{
	const uint64_t count = (word & ~INSIDE) - word_make(number, 0);

	/* A word with another number belongs to an earlier round. */
	return count >> COUNT_BITS ? 0 : count;
}

/* Return true if a share with @pieces pieces has an unclaimed piece. */
static bool is_left(const struct split_round *e, uint64_t number,
                    uint64_t pieces)
{
	return word_count(load_relaxed(&e->claimed), number) < pieces;
}

/* Claim the next piece of a share with @pieces pieces.  Return false if none is
 * left.  @also is INSIDE if the share belongs to the rank whose stream this
 * thread drives, and 0 otherwise. */
static bool claim(struct split_round *e, uint64_t number, uint64_t pieces,
                  uint64_t also, uint64_t *index_out)
{
	uint64_t word = load_relaxed(&e->claimed);

	do {
		*index_out = word_count(word, number);
		if (*index_out >= pieces)
			return false;
		/* seq_cst, as in mark_inside(). */
	} while (!atomic_compare_exchange_weak(
		&e->claimed, &word,
		word_make(number, *index_out + 1) | (word & INSIDE) | also));
	return true;
}

/* Mark the rank's thread as inside, unless a claim has already marked it.
 * seq_cst, because this thread then checks whether the world is broken, and a
 * thread that has broken the world then checks for threads inside. */
static void mark_inside(struct split_round *e)
{
	if (!(load_relaxed(&e->claimed) & INSIDE))
		atomic_fetch_or(&e->claimed, INSIDE);
}

static void mark_outside(struct split_round *e)
{
	if (load_relaxed(&e->claimed) & INSIDE)
		atomic_fetch_and(&e->claimed, ~INSIDE);
}

/* Count one more piece, of any share, as finished by the rank's thread. */
static void finish(struct split_round *e, uint64_t number)
{
	uint64_t word = load_relaxed(&e->finished);

	/* The release publishes the results that this thread wrote. */
	store_release(&e->finished,
	              word_make(number, word_count(word, number) + 1));
}

/* ---- arriving --------------------------------------------------------- */

void split_round_arrive(const struct world *w, struct launch *l, bool is_one)
{
	const struct call *c = slot_call(l);
	struct slot *mine = slot_next(w, l, is_one);

	mine->at = (struct rank_buffers){
		.send = c->send,
		.recv = c->recv,
		.calls = c,
		.runs = l->runs,
	};
	slot_send(mine, l);
}

/* ---- the round -------------------------------------------------------- */

/* Turn all calls of a launch into one round. */
static void set_list(struct round *o, const struct world *w,
                     const struct launch *l)
{
	int r;

	o->calls = l->calls;
	o->span = l->call_count;
	o->is_joined = true;
	for (r = 0; r < w->n; r++)
		o->is_joined &= slot_of(w, l->slot, r)->at.runs == l->runs;
}

/* Return the size in bytes of the largest round that one thread processes
 * alone. */
static size_t most_at_once(const struct world *w)
{
	return w->is_crowded ? 16384 : 1024;
}

static bool is_at_once(const struct cut *c)
{
	return c->round.bytes <= most_at_once(c->round.world);
}

/* Return the number of pieces in the share of @rank, and store where the share
 * begins and ends. */
static uint64_t share_of(const struct cut *c, int rank, size_t *begin,
                         size_t *end)
{
	round_share(&c->round, rank, begin, end);
	return (*end - *begin + SPLIT_PIECE_BYTES - 1) / SPLIT_PIECE_BYTES;
}

static void count_pieces(struct cut *c)
{
	size_t begin, end;
	int r;

	c->pieces = 0;
	for (r = 0; r < c->round.world->n; r++)
		c->pieces += share_of(c, r, &begin, &end);
}

/* Return the launch's round, cut into shares.  The first call for a round cuts
 * it.  Read only slots, because the launches of other ranks might no longer
 * exist when a late rank calls this function. */
static struct cut *cut_of(const struct world *w, const struct launch *l)
{
	struct cut *c = &w->split_rounds[l->member->rank].cut;
	const struct slot *first = slot_of(w, l->slot, 0);
	struct round *o = &c->round;
	const size_t bytes = o->bytes;

	if (c->number == l->slot)
		return c;
	c->number = l->slot;
	o->world = w;
	o->ranks = &first->at;
	o->stride = sizeof(*first);
	if (call_what_is_list(first->what)) {
		set_list(o, w, l);
	} else if (c->what != first->what) {
		o->only = *slot_call(l);
		o->span = 1;
	}
	c->what = first->what;
	round_cut(o);
	if (o->bytes != bytes)
		count_pieces(c);
	return c;
}

/* ---- shares ----------------------------------------------------------- */

/* The shares from which a thread takes pieces. */
enum reach {
	REACH_OWN,
	REACH_NEAR, /* its own share and the shares of ranks on the same core */
	REACH_ALL,
};

/* Number of times that a waiting thread checks a round before it takes pieces
 * from all other shares. */
#define PATIENCE 4

/* If ranks share cores: number of times that a waiting thread checks a round
 * before it takes pieces from the shares of ranks on other cores. */
#define PATIENCE_CROWDED 16

/* Choose the shares from which this thread takes pieces.  For a while, these
 * are the share of its rank or, if ranks share cores, the shares of all ranks
 * on its core: each core then keeps its part of the buffers in its caches. */
static enum reach reach_of(const struct cut *c, struct launch *l,
                           const struct drive *d)
{
	const bool is_near = c->round.world->seats;

	if (d->effort == EFFORT_OWN)
		return REACH_ALL;
	if (d->effort == EFFORT_ENQUEUE)
		return REACH_OWN;
	if (++l->patience > (is_near ? PATIENCE_CROWDED : PATIENCE))
		return REACH_ALL;
	return is_near ? REACH_NEAR : REACH_OWN;
}

/* Return the core on which @rank last arrived.  Relaxed, because it is only a
 * hint. */
static int core_of(const struct world *w, int rank)
{
	return load_relaxed(&w->seats[rank].core);
}

static bool is_in(enum reach reach, const struct world *w, int rank, int other)
{
	return reach == REACH_ALL ||
	       (reach == REACH_NEAR && core_of(w, other) == core_of(w, rank));
}

/* Process the unclaimed pieces of the share of rank @share, for the thread that
 * drives @rank and has processed @n pieces so far.  Return the new number of
 * processed pieces. */
static size_t share_do(const struct cut *c, int rank, int share, size_t n,
                       const struct drive *d)
{
	const struct world *w = c->round.world;
	struct split_round *mine = &w->split_rounds[rank],
			   *e = &w->split_rounds[share];
	size_t begin, end, at;
	const uint64_t pieces = share_of(c, share, &begin, &end);
	uint64_t i;

	while (is_left(e, c->number, pieces) && !(n && drive_is_late(d))) {
		if (share != rank)
			mark_inside(mine);
		if (!claim(e, c->number, pieces, share == rank ? INSIDE : 0,
		           &i))
			break;
		at = begin + i * SPLIT_PIECE_BYTES;
		if (!round_do(&c->round, at, MIN(at + SPLIT_PIECE_BYTES, end)))
			break;
		finish(mine, c->number);
		n++;
	}
	return n;
}

/* Process pieces, for the thread that drives @rank.  On return, the thread is
 * still marked as inside. */
static void do_pieces(const struct cut *c, int rank, enum reach reach,
                      const struct drive *d)
{
	const struct world *w = c->round.world;
	size_t n = share_do(c, rank, rank, 0, d);
	int r, other;

	for (r = 1; reach != REACH_OWN && r < w->n; r++) {
		other = (rank + r) % w->n;
		if (is_in(reach, w, rank, other))
			n = share_do(c, rank, other, n, d);
	}
}

static bool share_is_left(const struct cut *c, int rank)
{
	size_t begin, end;
	const uint64_t pieces = share_of(c, rank, &begin, &end);

	return is_left(&c->round.world->split_rounds[rank], c->number, pieces);
}

static bool any_is_left(const struct cut *c)
{
	int r;

	for (r = 0; r < c->round.world->n; r++)
		if (share_is_left(c, r))
			return true;
	return false;
}

static bool all_are_finished(const struct cut *c)
{
	const struct world *w = c->round.world;
	uint64_t word, n = 0;
	int r;

	for (r = 0; r < w->n; r++) {
		/* The acquire makes the results of the other ranks visible. */
		word = load_acquire(&w->split_rounds[r].finished);
		n += word_count(word, c->number);
	}
	return n == c->pieces;
}

/* Return true if all pieces are finished.  If @d allows polling, poll for a
 * while until they are. */
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

/* Return true if this thread may process the share of @rank.  A thread that
 * only enqueues may process only a small share. */
static bool may_do_share(const struct cut *c, int rank, const struct drive *d)
{
	size_t begin, end;

	if (d->effort != EFFORT_ENQUEUE)
		return true;
	share_of(c, rank, &begin, &end);
	return end - begin <= ENQUEUE_BYTES;
}

/* Set one of the world's words to the number of the round.  Return false if
 * another thread has done so. */
static bool set_number(_Atomic uint64_t *word, const struct launch *l)
{
	uint64_t before = load_relaxed(word);

	return before < l->slot &&
	       atomic_compare_exchange_strong(word, &before, l->slot);
}

/* If ranks share cores, record that the round has ended, and kick the streams
 * of the other ranks, because not all of them are running. */
static void note_end(struct world *w, const struct launch *l)
{
	if (w->is_crowded && set_number(&w->over, l))
		world_kick_others(w, l->member->rank);
}

/* Do the work of a round that can be done now.  Return true if the round has
 * ended. */
static bool do_shares(struct world *w, struct launch *l, const struct cut *c,
                      const struct drive *d, bool *left_out)
{
	const int rank = l->member->rank;
	struct split_round *mine = &w->split_rounds[rank];
	bool over;

	if (world_is_broken(w))
		return all_are_finished(c);
	if (may_do_share(c, rank, d)) {
		do_pieces(c, rank, reach_of(c, l, d), d);
	} else if (share_is_left(c, rank)) {
		/* Return without reading the words that other ranks are
		 * writing. */
		*left_out = true;
		return false;
	}
	over = finishes(c, d);
	/* Clear INSIDE only after the polling, because the atomic operation
	 * waits until the results have left this core. */
	mark_outside(mine);
	*left_out = !over &&
	            (d->effort == EFFORT_ENQUEUE || drive_is_late(d)) &&
	            any_is_left(c);
	if (over)
		note_end(w, l);
	return over;
}

static bool is_over(const struct world *w, const struct launch *l)
{
	return load_acquire(&w->over) >= l->slot;
}

/* Process the whole round, unless another thread does.  For a while, leave the
 * round to the last rank to arrive.  Return true if the round is over. */
static bool do_at_once(struct world *w, struct launch *l, const struct cut *c,
                       const struct drive *d)
{
	struct split_round *mine = &w->split_rounds[l->member->rank];
	bool watches;
	int i;

	if ((l->is_last || ++l->patience > PATIENCE) &&
	    set_number(&w->begun, l)) {
		mark_inside(mine);
		if (round_do(&c->round, 0, c->round.bytes)) {
			/* The release publishes the results. */
			store_release(&w->over, l->slot);
			if (w->is_crowded)
				world_kick_others(w, l->member->rank);
		}
		mark_outside(mine);
	}
	watches = !is_over(w, l) && world_may_watch(w, l->member->rank, d);
	for (i = 0; watches && i < 64 && !is_over(w, l); i++)
		cpu_pause();
	return is_over(w, l);
}

bool split_round_do(struct world *w, struct launch *l, const struct drive *d,
                    bool *left_out)
{
	const struct cut *c = cut_of(w, l);
	const bool over = is_at_once(c) ? do_at_once(w, l, c, d)
	                                : do_shares(w, l, c, d, left_out);

	/* Wake aborted ranks that wait until no thread is inside the round. */
	if (world_is_broken(w))
		world_kick_all(w);
	return over;
}

int split_round_inside(const struct world *w)
{
	int r, n = 0;

	for (r = 0; r < w->n; r++)
		n += atomic_load(&w->split_rounds[r].claimed) & INSIDE ? 1 : 0;
	return n;
}
