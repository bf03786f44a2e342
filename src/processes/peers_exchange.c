/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Exchanges among the processes that have not ended
 */

#include "base/backoff.h"
#include "base/clock.h"
#include "processes/peer_page.h"

static bool has_brought(const struct page *page, uint64_t exchange)
{
	return atomic_load_explicit(&page->exchange, memory_order_acquire) >=
	       exchange;
}

/* True if process @i will not bring anything any more; what it brought before
 * that is then there to see. */
static bool is_gone(const struct peer *x)
{
	const int state = atomic_load(&x->state);

	return state == PEER_ENDED || state == PEER_LEFT;
}

/* Wait for what process @i brings: COHORT_OK, COHORT_ALREADY if it never does,
 * COHORT_TIMED_OUT or COHORT_ABORTED. */
static int await_brought(const struct peer *x, uint64_t exchange,
                         const struct patience *patience, uint64_t deadline_ns)
{
	struct backoff b = BACKOFF;
	bool gone;

	for (;;) {
		gone = is_gone(x); /* before the last look */
		if (has_brought(x->page, exchange))
			return COHORT_OK;
		if (gone)
			return COHORT_ALREADY;
		if (patience_is_aborted(patience))
			return COHORT_ABORTED;
		if (clock_now() >= deadline_ns)
			return COHORT_TIMED_OUT;
		backoff_wait(&b, deadline_ns);
	}
}

int peers_gather(struct peers *p, const void *mine, size_t bytes, void *out,
                 uint64_t *came, const struct patience *patience)
{
	const uint64_t deadline_ns = clock_deadline(patience->timeout_ns);
	const uint64_t n = ++p->exchange;
	const size_t words = bytes / sizeof(uint64_t);
	const struct page *page;
	int i, rc = COHORT_OK, one;

	put_words(p->page->brought[n % 2], mine, words);
	atomic_store_explicit(&p->page->exchange, n, memory_order_release);
	peers_send(p, -1, MESSAGE_RECORD, 0, n, mine, bytes);
	memset(came, 0, COHORT_RANK_WORDS * sizeof(*came));
	for (i = 0; i < p->processes; i++) {
		page = i == p->process ? p->page : p->peers[i].page;
		one = i == p->process ? COHORT_OK
		                      : await_brought(&p->peers[i], n, patience,
		                                      deadline_ns);
		if (one == COHORT_TIMED_OUT || one == COHORT_ABORTED)
			rc = one;
		if (one != COHORT_OK)
			continue;
		get_words((char *)out + (size_t)i * bytes, page->brought[n % 2],
		          words);
		rank_set_add(came, i);
	}
	return rc;
}
