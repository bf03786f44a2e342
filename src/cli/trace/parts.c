/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The ranks that the files describe: each rank is a part, and all parts make the trace
 */

#ifdef HAVE_JSON_C

#include "cli/trace/read.h"

#include <stdlib.h>
#include <string.h>

typedef struct json_object object;

void reader_add_entry(struct reader *r, object *o)
{
	struct part *p = &r->now;

	if (!r->has_part)
		return;
	if (p->rank.n == p->room) {
		p->room = p->room ? 2 * p->room : 256;
		p->rank.ops = trace_need(
			realloc(p->rank.ops, p->room * sizeof(*p->rank.ops)));
	}
	if (trace_entry(&r->values, &p->rank, o, &p->rank.ops[p->rank.n]))
		p->rank.n++;
	else
		r->left_out++;
}

void reader_add_entries(struct reader *r, object *o)
{
	object *list = value_list(&r->values, o, "entries"), *one;
	size_t i, n = list ? json_object_array_length(list) : 0;

	for (i = 0; i < n; i++) {
		one = value_object_at(&r->values, list, "entries", i);
		if (one)
			reader_add_entry(r, one);
		else
			r->left_out++;
	}
}

/* ---- ranks ------------------------------------------------------------ */

static struct part *find_part(struct reader *r, int rank)
{
	int i;

	for (i = 0; i < r->n; i++)
		if (r->parts[i].rank.rank == rank)
			return &r->parts[i];
	r->parts[r->n] = (struct part){ .rank = { .rank = rank } };
	return &r->parts[r->n++];
}

/* True if @p is to be taken from the file's dump.  If @p is from another dump already,
 * complain, and drop the worse of both. */
static bool choose_source(struct reader *r, struct part *p)
{
	const struct source *now = &r->source, *other = &p->source;
	bool is_it = strcmp(now->process, other->process) == 0 &&
	             source_is_better(now, other);

	if (!*other->name || strcmp(now->name, other->name) == 0)
		return true;
	reader_problem(r, "rank %d is from %s, not %s: %s left out",
	               p->rank.rank, now->name, other->name,
	               is_it ? "the latter is" : "it is");
	if (!is_it)
		return false;
	free(p->rank.ops);
	*p = (struct part){ .rank = { .rank = p->rank.rank } };
	return true;
}

void reader_begin_rank(struct reader *r, object *o)
{
	struct values *v = &r->values;
	int rank = value_rank(v, o, "rank", 0);

	if (rank < 0 || !choose_source(r, find_part(r, rank)))
		return;
	reader_take_facts(r);
	if (r->trace->flight.world && rank >= r->trace->flight.world)
		reader_problem(r, "is from rank %d, in a group of %d ranks",
		               rank, r->trace->flight.world);
	r->has_part = true;
	r->now = (struct part){
		.rank = {
			.rank = rank,
			.device = value_int(v, o, "device", -1, INT32_MAX, -1),
			.inside = value_bool(v, o, "inside"),
			.tid = value_int(v, o, "tid", 0, INT32_MAX, 0),
			.alive = value_int(v, o, "alive", -1, 1, -1),
			.lost = value_count(v, o, "lost"),
			.last_enqueued = value_uint(v, o, "last_enqueued", 0,
			                            VALUE_MOST, VALUE_MOST),
		},
		.recorded = value_count(v, o, "recorded"),
		.source = r->source,
	};
}

static int by_ticket(const void *a, const void *b)
{
	uint64_t x = ((const struct flight_op *)a)->r.ticket;
	uint64_t y = ((const struct flight_op *)b)->r.ticket;

	return (x > y) - (x < y);
}

/* Sort the operations by ticket, and drop duplicates. */
static void sort_rank(struct reader *r)
{
	struct flight_rank *rank = &r->now.rank;
	struct flight_op *ops = rank->ops;
	size_t i, kept = 0;

	if (rank->n)
		qsort(ops, rank->n, sizeof(*ops), by_ticket);
	for (i = 0; i < rank->n; i++)
		if (!kept || ops[kept - 1].r.ticket != ops[i].r.ticket)
			ops[kept++] = ops[i];
	if (kept < rank->n)
		reader_problem(r, "%zu operation%s of rank %d %s there twice",
		               rank->n - kept, trace_plural(rank->n - kept),
		               rank->rank, rank->n - kept == 1 ? "is" : "are");
	rank->n = kept;
}

/* If several files have a rank, the one with most of its operations counts. */
void reader_end_rank(struct reader *r)
{
	struct part *p;

	if (!r->has_part)
		return;
	r->has_part = false;
	sort_rank(r);
	if (r->is_whole && r->now.rank.n < r->now.recorded)
		reader_problem(r, "%zu of rank %d's %zu operations are missing",
		               r->now.recorded - r->now.rank.n,
		               r->now.rank.rank, r->now.recorded);
	p = find_part(r, r->now.rank.rank);
	if (*p->source.name && r->now.rank.n <= p->rank.n) {
		free(r->now.rank.ops);
		return;
	}
	free(p->rank.ops);
	*p = r->now;
}

/* ---- the trace -------------------------------------------------------- */

static int by_rank(const void *a, const void *b)
{
	return ((const struct part *)a)->rank.rank -
	       ((const struct part *)b)->rank.rank;
}

void reader_put_together(struct reader *r)
{
	struct flight *f = &r->trace->flight, facts = *f;
	struct flight_op *ops;
	size_t most = 1;
	int i;

	for (i = 0; i < r->n; i++)
		if (r->parts[i].rank.n > most)
			most = r->parts[i].rank.n;
	trace_need(flight_init(f, r->n, (unsigned)most) ? f->memory : NULL);
	facts.size = f->size;
	facts.slots = f->slots;
	facts.ranks = f->ranks;
	facts.meetings = f->meetings;
	facts.memory = f->memory;
	facts.bytes = f->bytes;
	*f = facts;
	qsort(r->parts, (size_t)r->n, sizeof(*r->parts), by_rank);
	for (i = 0; i < r->n; i++) {
		ops = f->ranks[i].ops;
		if (r->parts[i].rank.n)
			memcpy(ops, r->parts[i].rank.ops,
			       r->parts[i].rank.n * sizeof(*ops));
		f->ranks[i] = r->parts[i].rank;
		f->ranks[i].ops = ops;
	}
	flight_meet(f);
}

void reader_find_missing(struct reader *r)
{
	struct trace *t = r->trace;
	int rank, i;

	for (rank = 0; rank < t->flight.world && rank < COHORT_MAX_RANKS;
	     rank++)
		rank_set_add(t->missing, rank);
	for (i = 0; i < r->n; i++)
		t->missing[r->parts[i].rank.rank / 64] &=
			~(UINT64_C(1) << r->parts[i].rank.rank % 64);
}

#endif
