/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What the ranks of other processes are doing about a collective: the one process asks,
 * and the threads of the others look at their ranks and answer
 */

#include <string.h>

#include "base/backoff.h"
#include "base/clock.h"
#include "watch/describe.h"
#include "watch/peer_page.h"
#include "watch/stall.h"

/* ---- answering -------------------------------------------------------- */

static struct clique *find_clique(const struct peers *p, uint64_t identity)
{
	const struct member *m = p->members;

	while (m && m->clique->identity != identity)
		m = m->next;
	return m ? m->clique : NULL;
}

static void report(struct cohort_comm *c, uint64_t collective, int64_t pid,
                   struct remote_rank *out)
{
	struct snapshot s = {
		.starts_are_marked = c->clique->platform->starts_are_marked,
		.pid = pid,
	};
	struct text t = { out->text, sizeof(out->text) };
	struct rank_snapshot r;

	snapshot_closely(&r, c, collective);
	s.now_ns = clock_now();
	*out = (struct remote_rank){
		.rank = c->rank,
		.joined = r.joined,
		.done = r.done,
		.kind = stall_kind(&s, &r),
	};
	describe_rank(&t, &s, &r);
}

/* Put an answer on the page. */
static void put_answer(struct page *page, const struct answer *a)
{
	const uint64_t n =
		atomic_load_explicit(&page->answers_done, memory_order_relaxed);

	/* Release: as in put_told(). */
	atomic_store_explicit(&page->answers_begun, n + 1,
	                      memory_order_relaxed);
	atomic_thread_fence(memory_order_release);
	put_words(page->answers[n % ANSWERS], a, WORDS(struct answer));
	atomic_store_explicit(&page->answers_done, n + 1, memory_order_release);
}

bool peers_answer(struct peers *p, int i)
{
	struct peer *x = &p->peers[i];
	struct answer *a = &p->answer;
	struct clique *q;
	uint64_t number;
	int r;

	if (!p->page || !x->page)
		return false;
	number = atomic_load_explicit(&x->page->question, memory_order_acquire);
	if (number == x->answered)
		return false;
	x->answered = number;
	*a = (struct answer){ .asker = (uint64_t)i, .number = number };
	get_words(&a->question, x->page->asked, WORDS(struct question));
	q = find_clique(p, a->question.identity);
	for (r = 0; q && r < q->size && r < ANSWERED_RANKS; r++, a->ranks++)
		report(&q->comms[r], a->question.collective, p->pid, &a->of[r]);
	put_answer(p->page, a);
	return true;
}

/* ---- asking ----------------------------------------------------------- */

/* Find the answer to question @number of process @asker; false: it is not there. */
static bool find_answer(const struct page *page, int asker, uint64_t number,
                        struct answer *out)
{
	const uint64_t done =
		atomic_load_explicit(&page->answers_done, memory_order_acquire);
	uint64_t n = done > ANSWERS ? done - ANSWERS : 0;

	for (; n < done; n++) {
		get_words(out, page->answers[n % ANSWERS],
		          WORDS(struct answer));
		/* Acquire, by a fence: the words above are read before. */
		atomic_thread_fence(memory_order_acquire);
		if (atomic_load_explicit(&page->answers_begun,
		                         memory_order_relaxed) <= n + ANSWERS &&
		    out->asker == (uint64_t)asker && out->number == number)
			return true;
	}
	return false;
}

static bool is_here(const struct peers *p, int i)
{
	return p->peers[i].page && atomic_load(&p->peers[i].state) == PEER_HERE;
}

/* Copy what fits of an answer, whose numbers may be anything.  Returns how many. */
static int take_answer(const struct answer *a, int world,
                       struct remote_rank *out, int room)
{
	int r, n = 0;

	for (r = 0; r < ANSWERED_RANKS && (uint64_t)r < a->ranks; r++) {
		if (n == room || a->of[r].rank < 0 || a->of[r].rank >= world)
			continue;
		out[n] = a->of[r];
		out[n].text[sizeof(out[n].text) - 1] = '\0';
		if (out[n].kind < 0 || out[n].kind >= COUNTED_KINDS)
			out[n].kind = COHORT_VERDICT_NONE;
		n++;
	}
	return n;
}

int peers_ask(struct peers *p, const struct clique *q, uint64_t collective,
              struct remote_rank *out, int room, uint64_t deadline_ns)
{
	const struct question asked = { q->identity, collective };
	struct backoff b = BACKOFF;
	uint64_t number;
	int i, n = 0;

	if (!p->page)
		return 0;
	pthread_mutex_lock(&p->asking);
	number =
		atomic_load_explicit(&p->page->question, memory_order_relaxed) +
		1;
	put_words(p->page->asked, &asked, WORDS(struct question));
	atomic_store_explicit(&p->page->question, number, memory_order_release);
	peers_ring(p);
	for (i = 0; i < p->processes; i++) {
		while (is_here(p, i) &&
		       !find_answer(p->peers[i].page, p->process, number,
		                    &p->found) &&
		       clock_now() < deadline_ns)
			backoff_wait(&b, deadline_ns);
		if (is_here(p, i) && find_answer(p->peers[i].page, p->process,
		                                 number, &p->found))
			n += take_answer(&p->found, q->world, out + n,
			                 room - n);
	}
	pthread_mutex_unlock(&p->asking);
	return n;
}
