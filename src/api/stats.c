/* SPDX-License-Identifier: Apache-2.0 */

/* Counters of ranks and groups, read without a lock */

#include "api/communicator.h"
#include "base/sized.h"
#include "base/status.h"
#include "core/pair.h"

static uint64_t load(const _Atomic uint64_t *count)
{
	return atomic_load_explicit(count, memory_order_relaxed);
}

/* Return the number of records that the flight recorder has overwritten. */
static uint64_t lost_of(const struct cohort_comm *c)
{
	uint64_t last = load(&c->tickets.last), slots = c->clique->slots;

	return last > slots ? last - slots : 0;
}

static void fill(const struct cohort_comm *c, struct cohort_stats *s)
{
	const struct clique *q = c->clique;
	int i;

	s->operations = load(&c->tickets.last);
	s->collectives = load(&c->agreement.collectives);
	s->transfers = pair_count(c);
	s->bytes = load(&c->recorder.bytes);
	s->waits = load(&c->thread.waits);
	s->captured = load(&c->captured);
	s->lost_records = lost_of(c);
	s->slow = load(&q->counts.slow);
	s->aborts = clique_cause(q) != NULL;
	s->stops = load(&q->counts.stops);
	s->starved = load(&q->counts.starved);
	for (i = 0; i < COUNTED_KINDS; i++)
		s->verdicts[i] = load(&q->counts.verdicts[i]);
}

int cohort_stats(struct cohort_comm *comm, struct cohort_stats *stats)
{
	struct cohort_stats all = { .size = 0 };
	int rc = comm_check(comm);

	if (rc != COHORT_OK)
		return rc;
	if (!stats)
		return error_set(COHORT_INVALID, "stats is NULL");
	rc = sized_check("stats", stats->size,
	                 offsetof(struct cohort_stats, bytes),
	                 "was it set to sizeof(*stats)?");
	if (rc != COHORT_OK)
		return rc;
	fill(comm, &all);
	all.size = stats->size;
	sized_fill(stats, stats->size, &all, sizeof(all));
	return COHORT_OK;
}
