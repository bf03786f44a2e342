/* SPDX-License-Identifier: Apache-2.0 */

#include "platform/host/even.h"

#include "base/backoff.h"
#include "base/type.h"
#include "platform/host/host.h"

/* With a core for each rank few pieces change hands, and each costs lines that both
 * write. */
#define EVEN_PIECE_BYTES (4 * PIECE_BYTES)

/* ---- words ------------------------------------------------------------ */

/* The low bits of a word: of pieces there are fewer than memory has.  The rest is the
 * low bits of a number, which come again after some 10^12 rounds. */
#define COUNT_BITS 24

static uint64_t word_make(uint64_t number, uint64_t count)
{
	return number << COUNT_BITS | count;
}

/* How many pieces the word says for round @number. */
static uint64_t word_count(uint64_t word, uint64_t number)
{
	const uint64_t count = word - word_make(number, 0);

	/* Another number is that of a round before. */
	return count >> COUNT_BITS ? 0 : count;
}

/* True if nobody has claimed the last piece of a share that has @pieces. */
static bool is_left(const struct even *e, uint64_t number, uint64_t pieces)
{
	return word_count(atomic_load_explicit(&e->claimed,
	                                       memory_order_relaxed),
	                  number) < pieces;
}

/* Claim the next piece of a share that has @pieces; false if there is none. */
static bool claim(struct even *e, uint64_t number, uint64_t pieces,
                  uint64_t *index_out)
{
	uint64_t word = atomic_load_explicit(&e->claimed, memory_order_relaxed);

	do {
		*index_out = word_count(word, number);
		if (*index_out >= pieces)
			return false;
	} while (!atomic_compare_exchange_weak_explicit(
		&e->claimed, &word, word_make(number, *index_out + 1),
		memory_order_relaxed, memory_order_relaxed));
	return true;
}

/* Acquire, too: who finds all finished sees what everybody wrote. */
static void finish(struct even *e, uint64_t number)
{
	uint64_t word =
		atomic_load_explicit(&e->finished, memory_order_relaxed);

	while (!atomic_compare_exchange_weak_explicit(
		&e->finished, &word,
		word_make(number, word_count(word, number) + 1),
		memory_order_acq_rel, memory_order_relaxed))
		;
}

/* ---- arriving --------------------------------------------------------- */

bool even_fits(const struct world *w, const struct launch *l)
{
	return w->evens && !strict_is_on() &&
	       call_bytes(w, line_call(l)) > pieces_at_once(w);
}

void even_arrive(const struct world *w, struct launch *l)
{
	const struct call *c = line_call(l);
	struct line *mine = line_next(w, l);

	mine->at.send = c->send;
	mine->at.recv = c->recv;
	mine->at.hash = 0;
	line_send(mine, l);
}

bool even_fits_run(const struct world *w, const struct launch *l)
{
	return w->evens && !strict_is_on() && l->call_count > 1 &&
	       !l->calls_done && l->calls->run == l->call_count && l->hash &&
	       l->bytes > pieces_at_once(w);
}

void even_bring_run(const struct world *w, struct launch *l)
{
	const struct call *last = &l->calls[l->call_count - 1];
	struct line *mine = line_next(w, l);
	struct call all = *l->calls;

	all.count = last->begin / type_size(all.type) + last->count;
	mine->what = call_what(&all);
	mine->at.send = all.send;
	mine->at.recv = all.recv;
	mine->at.hash = l->hash;
	line_send(mine, l);
}

bool even_is_run(const struct world *w, const struct launch *l)
{
	int r;

	for (r = 0; r < w->n; r++)
		if (line_of(w, l->line, r)->at.hash != l->hash)
			return false;
	return lines_are_one(w, l);
}

/* ---- the round -------------------------------------------------------- */

/* The round of a launch, cut when it is first looked at. */
static struct cut *cut_of(const struct world *w, const struct launch *l)
{
	struct cut *c = &w->evens[l->comm->rank].cut;
	const struct line *line;
	int r;

	if (c->number == l->line)
		return c;
	c->number = l->line;
	for (r = 0; r < w->n; r++) {
		line = line_of(w, l->line, r);
		c->places[r] = (struct place){
			.send = line->at.send,
			.recv = line->at.recv,
			.what = line->what,
		};
	}
	c->round.world = w;
	c->round.span = 1;
	c->round.is_single = true;
	c->round.places = c->places;
	round_cut(&c->round);
	for (r = 0; r < w->n; r++)
		c->shares[r].pieces =
			round_share(&c->round, r, EVEN_PIECE_BYTES,
		                    &c->shares[r].begin, &c->shares[r].end);
	return c;
}

/* Of one share, behind @n pieces of others; how many then are done.  From inside. */
static size_t share_do(struct cut *c, int rank, size_t n, const struct drive *d)
{
	const struct world *w = c->round.world;
	struct even *e = &w->evens[rank];
	size_t begin, end;
	uint64_t i;

	while (is_left(e, c->number, c->shares[rank].pieces) &&
	       !world_is_broken(w) && !(n && drive_is_late(d)) &&
	       claim(e, c->number, c->shares[rank].pieces, &i)) {
		begin = c->shares[rank].begin + i * EVEN_PIECE_BYTES;
		end = begin + EVEN_PIECE_BYTES;
		if (end > c->shares[rank].end)
			end = c->shares[rank].end;
		if (!round_do(&c->round, begin, end))
			break;
		finish(e, c->number);
		n++;
	}
	return n;
}

/* As the driver of @rank. */
static void work(struct cut *c, int rank, bool steals, const struct drive *d)
{
	const struct world *w = c->round.world;
	size_t n;
	int r;

	/* seq_cst: then look whether all is broken; who has broken it looks for
	 * those inside. */
	atomic_store(&w->evens[rank].inside, true);
	n = share_do(c, rank, 0, d);
	for (r = 1; steals && r < w->n; r++)
		n = share_do(c, (rank + r) % w->n, n, d);
	atomic_store(&w->evens[rank].inside, false);
}

/* True if all pieces are claimed, or if asked finished. */
static bool all_are(const struct cut *c, bool finished)
{
	const struct even *e;
	uint64_t word;
	int r;

	for (r = 0; r < c->round.world->n; r++) {
		e = &c->round.world->evens[r];
		word = atomic_load_explicit(finished ? &e->finished
		                                     : &e->claimed,
		                            memory_order_acquire);
		if (word_count(word, c->number) < c->shares[r].pieces)
			return false;
	}
	return true;
}

/* Look for a while whether the others have finished theirs. */
static void watch(const struct cut *c)
{
	int i;

	for (i = 0; i < 64 && !all_are(c, true); i++)
		cpu_pause();
}

/* True if a driver does the share of @rank: one that queues only a small one. */
static bool is_for(const struct cut *c, int rank, const struct drive *d)
{
	return d->effort != EFFORT_ENQUEUE ||
	       c->shares[rank].end - c->shares[rank].begin <= ENQUEUE_BYTES;
}

bool even_do(const struct world *w, const struct launch *l, bool steals,
             const struct drive *d, bool *left_out)
{
	struct cut *c = cut_of(w, l);
	const int rank = l->comm->rank;

	if (is_for(c, rank, d)) {
		work(c, rank, steals, d);
	} else if (is_left(&w->evens[rank], c->number,
	                   c->shares[rank].pieces)) {
		/* Without a look at the words of others, who write them. */
		*left_out = true;
		return false;
	}
	if (d->attends)
		watch(c);
	if (all_are(c, true))
		return true;
	*left_out = (d->effort == EFFORT_ENQUEUE || drive_is_late(d)) &&
	            !all_are(c, false);
	return false;
}

int even_inside(const struct world *w)
{
	int r, n = 0;

	for (r = 0; w->evens && r < w->n; r++)
		n += atomic_load(&w->evens[r].inside);
	return n;
}
