/* SPDX-License-Identifier: Apache-2.0 */

#include "core/agree.h"

#include "base/backoff.h"
#include "base/util.h"
#include "core/clique.h"
#include "core/mismatch.h"
#include "core/pair.h"
#include "core/remote.h"

/* Wait until @other has compared the call whose shared word this one's
 * replaces, and lower *@compared to the number that it has reached. */
static int await_rank(const struct cohort_comm *other, uint64_t number,
                      uint64_t *compared)
{
	struct clique *q = other->clique;
	struct backoff b = BACKOFF;
	uint64_t theirs;
	int rc;

	/* Acquire: pairs with the release at the end of agree(). */
	while ((theirs = atomic_load_explicit(&other->agreement.collectives,
	                                      memory_order_acquire)) +
	               q->slots <
	       number) {
		rc = clique_error(q);
		if (rc != COHORT_OK)
			return rc;
		backoff_wait(&b, UINT64_MAX);
	}
	*compared = MIN(*compared, theirs);
	return COHORT_OK;
}

/* Looks at the other ranks only when the numbers seen last do not suffice: they
 * change with every call. */
static int await_ranks(struct cohort_comm *c, uint64_t number)
{
	const struct clique *q = c->clique;
	uint64_t compared = number;
	int r, rc = COHORT_OK;

	if (number <= c->agreement.compared + q->slots)
		return COHORT_OK;
	for (r = 0; r < q->size && rc == COHORT_OK; r++)
		if (&q->comms[r] != c)
			rc = await_rank(&q->comms[r], number, &compared);
	if (rc == COHORT_OK)
		c->agreement.compared = compared;
	return rc;
}

int agree(struct cohort_comm *c, const struct op *op, uint32_t digest,
          uint64_t ticket, uint64_t now_ns, bool *comes_last)
{
	const struct remote *remote = c->clique->remote;
	const uint64_t number = agree_next(c);
	int rc = await_ranks(c, number);
	struct limits limits;
	bool differs;
	int called;

	if (rc != COHORT_OK)
		return rc;
	limits = comm_limits(c, pair_collective_connects(c, op, number));
	agree_publish(c, op, number, digest, ticket, now_ns, &limits);
	if (remote)
		remote->announce(c->clique, number, now_ns);
	called = agree_add_rank(c, number, digest, &differs);
	*comes_last = called == c->clique->size;
	if (called == 1 && remote)
		differs |= remote->differs(c->clique, number, digest);
	if (differs)
		return mismatch_end(c, number, ticket);
	/* Release: compared; the words may be taken for later numbers.  Pairs
	 * with the acquire in await_rank() and agree_called(). */
	atomic_store_explicit(&c->agreement.collectives, number,
	                      memory_order_release);
	return COHORT_OK;
}
