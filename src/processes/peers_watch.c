/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Causes and ends of other processes, and the thread that waits for them
 */

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/backoff.h"
#include "base/clock.h"
#include "base/list.h"
#include "base/status.h"
#include "base/text.h"
#include "base/thread.h"
#include "processes/peer_page.h"

/* ---- telling ---------------------------------------------------------- */

void peers_ring(const struct peers *p)
{
	const struct peer *x;

	for (x = p->peers; x < p->peers + p->processes; x++)
		if (peer_is_here(x))
			peer_ring(x->bell);
}

void peers_have_rung(struct peers *p)
{
	atomic_store(&p->must_ring, true);
	peer_ring(p->bell[1]);
}

static struct member *find_member(const struct peers *p, const struct clique *q)
{
	struct member *m;

	list_find(m, p->members, next, m->clique == q);
	return m;
}

/* Under lock. */
static void put_member(struct peers *p, uint64_t identity)
{
	if (!p->page)
		return;
	put_identity(&p->page->members, identity);
	peers_send(p, -1, MESSAGE_MEMBER, 0, 0, &identity, sizeof(identity));
}

/* Under lock. */
static void put_noted(struct peers *p, uint64_t identity)
{
	if (!p->page)
		return;
	put_identity(&p->page->noted, identity);
	peers_send(p, -1, MESSAGE_NOTED, 0, 0, &identity, sizeof(identity));
}

static bool all_have_noted(const struct peers *p, uint64_t identity)
{
	const struct peer *x;

	for (x = p->peers; x < p->peers + p->processes; x++)
		if (peer_is_here(x) &&
		    has_identity(&x->page->members, identity) &&
		    !has_identity(&x->page->noted, identity))
			return false;
	return true;
}

static void tell(struct peers *p, const struct clique *q,
                 const struct cohort_cause *cause)
{
	const struct told told = { .identity = q->identity, .cause = *cause };
	struct member *m;
	bool is_news;

	pthread_mutex_lock(&p->lock);
	m = find_member(p, q);
	/* With its parent's cause a child ends everywhere, but with its
	 * parent's close only here. */
	is_news = p->page && m && !m->was_told && !m->has_told &&
	          (!m->parent_end || !cause_look(m->parent_end));
	if (is_news) {
		m->has_told = true;
		put_told(p->page, &told);
		peers_ring(p);
		peers_send(p, -1, MESSAGE_CAUSE, 0, 0, &told, sizeof(told));
	}
	pthread_mutex_unlock(&p->lock);
}

void peers_note(struct peers *p, const struct clique *q, uint64_t deadline_ns)
{
	struct backoff b = BACKOFF;

	pthread_mutex_lock(&p->lock);
	put_noted(p, q->identity);
	pthread_mutex_unlock(&p->lock);
	while (!all_have_noted(p, q->identity) && clock_now() < deadline_ns)
		backoff_wait(&b, deadline_ns);
}

void peers_tell(const struct clique *q, const struct cohort_cause *cause,
                uint64_t deadline_ns)
{
	tell(peers_of(q), q, cause);
	if (deadline_ns)
		peers_note(peers_of(q), q, deadline_ns);
}

/* ---- what the others tell ---------------------------------------------- */

/* Read the cause behind the first @n; false: it is overwritten, or is none. */
static bool read_told(const struct page *page, uint64_t n, struct told *out)
{
	struct cohort_cause *c = &out->cause;

	if (!get_stamped(&page->causes[n % CAUSES].stamp, out,
	                 page->causes[n % CAUSES].words, n + 1,
	                 WORDS(struct told)))
		return false;
	c->text[sizeof(c->text) - 1] = '\0';
	if (c->rank < -1 || c->rank >= COHORT_MAX_RANKS)
		c->rank = -1;
	if (c->kind < 0 || c->kind >= COUNTED_KINDS)
		c->kind = COHORT_VERDICT_NONE;
	c->status = status_sanitize(c->status);
	return c->status != COHORT_OK;
}

/* End a member with a cause of another process, which is not told again. */
static void end_member(struct member *m, const struct cohort_cause *cause)
{
	struct cohort_cause what = *cause;

	if (what.rank >= m->clique->world_size)
		what.rank = -1;
	if (what.world_rank < -1 || what.world_rank >= COHORT_MAX_RANKS)
		what.world_rank = -1;
	/* Before the lock is released, which peers_tell() waits for. */
	if (cause_set(m->clique->end, &what) == COHORT_OK)
		m->was_told = true;
}

void peers_name(const struct peers *p, int i, struct text *t)
{
	const struct peer *x = &p->peers[i];

	text_add(t, "process %d (", i);
	if (x->is_far && p->facts)
		text_add(t, "host %s, ", p->facts[i].host);
	text_add(t, "pid %lld)", (long long)x->pid);
}

/* The cause of process @i, as it is told here: with that process's name, unless
 * its text begins with one. */
static struct cohort_cause relayed(const struct peers *p, int i,
                                   const struct cohort_cause *from)
{
	struct cohort_cause cause = *from;
	struct text t = { cause.text, sizeof(cause.text) };

	if (strncmp(from->text, "process ", strlen("process ")) == 0)
		return cause;
	peers_name(p, i, &t);
	text_add(&t, ": %s", from->text);
	return cause;
}

/* Give the causes from @from on to @only, NULL: all members.  Under lock. */
static void take_causes(struct peers *p, int i, uint64_t from,
                        struct member *only)
{
	const struct page *page = p->peers[i].page;
	const uint64_t told =
		atomic_load_explicit(&page->causes_told, memory_order_acquire);
	struct cohort_cause cause;
	struct member *m;
	struct told t;
	uint64_t n;

	for (n = told > from + CAUSES ? told - CAUSES : from; n < told; n++) {
		if (!read_told(page, n, &t))
			continue;
		cause = relayed(p, i, &t.cause);
		for (m = p->members; m; m = m->next)
			if ((!only || m == only) &&
			    m->clique->identity == t.identity)
				end_member(m, &cause);
	}
	if (!only)
		p->peers[i].seen = told;
}

/* Give @m the end of process @i, if it has ranks in it.  That is told to
 * others, too, who may not watch the process.  Under lock. */
static void take_end(const struct peers *p, int i, struct member *m)
{
	const struct cohort_process *f = p->facts ? &p->facts[i] : NULL;
	struct cohort_cause cause = {
		.status = COHORT_PROCESS_EXITED,
		.kind = COHORT_VERDICT_PROCESS_EXITED,
	};
	struct text t = { cause.text, sizeof(cause.text) };
	int r;

	/* What was split from it ends with it. */
	if (!f || !f->ranks || m->parent_end)
		return;
	cause.rank = cause.world_rank = f->first_rank;
	for (r = 0; r < f->ranks; r++)
		rank_set_add(cause.missing, f->first_rank + r);
	peers_name(p, i, &t);
	text_add(&t, ", which drove rank%s ", f->ranks == 1 ? "" : "s");
	rank_set_spell(&t, cause.missing);
	text_add(&t, ", ");
	peers_add_end(p, i, &t);
	cause_set(m->clique->end, &cause);
}

static bool gave_up(const struct peer *x, uint64_t identity)
{
	return identity && x->page &&
	       atomic_load_explicit(&x->page->gave_up, memory_order_acquire) ==
	               identity;
}

/* Note whether it is in vain to connect to a process.  Under lock. */
static void note_vain(struct peers *p)
{
	bool is_vain = false;
	int i;

	for (i = 0; p->facts && i < p->processes; i++)
		is_vain |= p->facts[i].ranks &&
		           (atomic_load(&p->peers[i].state) == PEER_ENDED ||
		            gave_up(&p->peers[i], p->opening));
	atomic_store(&p->is_vain, is_vain);
}

/* True if process @i, which is watched, has closed its group.  Under lock. */
static bool take_leave(struct peers *p, int i)
{
	const struct peer *x = &p->peers[i];
	/* Before the causes, as it may tell one and leave in between. */
	const bool has_left =
		atomic_load_explicit(&x->page->has_left, memory_order_acquire);

	take_causes(p, i, x->seen, NULL);
	return has_left;
}

/* Let the cliques with ranks of process @i, which has closed its group, wait
 * for these no longer.  Under lock. */
static void note_left(const struct peers *p, int i)
{
	struct member *m;

	for (m = p->members; m; m = m->next)
		if (remote_agreement_leave(m->clique, i))
			atomic_store(&m->clique->is_shorter, true);
	cause_wake();
}

/* Have the watchdog look if ranks of other processes have closed their
 * communicators.  Under lock. */
static void note_closed(const struct peers *p)
{
	const struct member *m;
	bool has_any = false;

	for (m = p->members; m; m = m->next) {
		if (!p->remote.look(m->clique, 0).has_closed)
			continue;
		has_any = true;
		atomic_store(&m->clique->is_shorter, true);
	}
	if (has_any)
		cause_wake();
}

/* Look at process @i, which has ended if @is_over.  Under lock. */
static void look_at_peer(struct peers *p, int i, bool is_over)
{
	struct peer *x = &p->peers[i];
	struct member *m;

	if (!peer_may_end(x))
		return;
	if (peer_is_here(x) && take_leave(p, i)) {
		atomic_store(&x->state, PEER_LEFT);
		note_left(p, i);
	} else if (!peer_is_here(x) && atomic_load(&p->is_settled)) {
		atomic_store(&x->state, PEER_UNWATCHED);
	} else if (is_over) {
		x->end = thread_process_end(x->pid, x->pidfd);
		atomic_store(&x->state, PEER_ENDED);
		note_vain(p);
		for (m = p->members; m; m = m->next)
			take_end(p, i, m);
	}
}

/* ---- the thread ------------------------------------------------------- */

/* Ask which processes are over, one after the other.  Where the system does not
 * let the thread wait for all at once, this is done a hundred times a
 * second. */
static void ask_each(const struct peers *p, bool *over)
{
	struct pollfd polled[2];
	const struct peer *x;
	int i;

	poll(NULL, 0, 10);
	for (i = 0; i < p->processes; i++) {
		x = &p->peers[i];
		polled[0] = (struct pollfd){ .fd = x->bell };
		polled[1] = (struct pollfd){ .fd = x->pidfd, .events = POLLIN };
		over[i] = peer_may_end(x) && (atomic_load(&x->has_ended) ||
		                              (poll(polled, 2, 0) > 0 &&
		                               (polled[0].revents & POLLERR ||
		                                polled[1].revents & POLLIN)));
	}
}

/* Wait for the bell or an end.  Which processes are over is in @over. */
static void await_any(const struct peers *p, struct pollfd *polled, bool *over)
{
	const struct peer *x;
	char rung[64];
	int i, n = 1;

	polled[0] = (struct pollfd){ .fd = p->bell[0], .events = POLLIN };
	for (i = 0; i < p->processes; i++) {
		x = &p->peers[i];
		over[i] = false;
		if (!peer_may_end(x))
			continue;
		polled[n++] = (struct pollfd){ .fd = x->bell };
		if (x->pidfd >= 0)
			polled[n++] = (struct pollfd){ .fd = x->pidfd,
				                       .events = POLLIN };
	}
	if ((poll(polled, (nfds_t)n, -1) < 0 && errno != EINTR) ||
	    polled[0].revents & POLLNVAL) {
		ask_each(p, over);
		return;
	}
	/* Before the looks: whatever is not seen by them rings again. */
	while (read(p->bell[0], rung, sizeof(rung)) == (ssize_t)sizeof(rung))
		;
	for (i = 0, n = 1; i < p->processes; i++) {
		x = &p->peers[i];
		if (!peer_may_end(x))
			continue;
		over[i] = polled[n++].revents & POLLERR ||
		          atomic_load(&x->has_ended);
		if (x->pidfd >= 0)
			over[i] |= polled[n++].revents & POLLIN;
	}
}

struct peers_thread {
	struct peers *peers;
	bool *over;
	struct pollfd polled[];
};

static void *peers_main(void *arg)
{
	struct peers_thread *t = arg;
	struct peers *p = t->peers;
	int i;

	while (!atomic_load(&p->stop)) {
		await_any(p, t->polled, t->over);
		if (atomic_exchange(&p->must_ring, false))
			peers_ring(p);
		pthread_mutex_lock(&p->lock);
		for (i = 0; i < p->processes; i++) {
			look_at_peer(p, i, t->over[i]);
			peers_answer(p, i);
		}
		note_vain(p);
		note_closed(p);
		pthread_mutex_unlock(&p->lock);
	}
	peers_ring(p);
	free(t->over);
	free(t);
	return NULL;
}

bool peers_start(struct peers *p)
{
	const size_t n = (size_t)p->processes;
	struct peers_thread *t =
		calloc(1, sizeof(*t) + (2 * n + 1) * sizeof(t->polled[0]));

	if (!t)
		return false;
	t->peers = p;
	t->over = calloc(n, sizeof(*t->over));
	if (t->over &&
	    !thread_start(&p->thread, peers_main, t, "%.8s/peers", p->group))
		return true;
	free(t->over);
	free(t);
	return false;
}

/* ---- members ---------------------------------------------------------- */

int peers_attach(struct peers *p, struct clique *q,
                 struct cohort_abort *parent_end)
{
	struct member *m = calloc(1, sizeof(*m));
	int i;

	if (!m)
		return error_set(COHORT_NO_MEMORY, "no memory for a watch");
	m->clique = q;
	m->parent_end = parent_end;
	if (parent_end)
		cause_get(parent_end);
	pthread_mutex_lock(&p->lock);
	m->next = p->members;
	p->members = m;
	if (!q->remote)
		peers_get(p);
	q->remote = &p->remote;
	remote_agreement_show(p, q);
	put_member(p, q->identity);
	/* Another process may have told its cause before this one was ready. */
	for (i = 0; i < p->processes; i++) {
		if (p->peers[i].page)
			take_causes(p, i, 0, m);
		if (atomic_load(&p->peers[i].state) == PEER_ENDED)
			take_end(p, i, m);
	}
	pthread_mutex_unlock(&p->lock);
	return COHORT_OK;
}

void peers_detach(struct peers *p, struct clique *q)
{
	struct member *m;

	pthread_mutex_lock(&p->lock);
	m = find_member(p, q);
	list_remove(p->members, m, next);
	put_noted(p, q->identity);
	pthread_mutex_unlock(&p->lock);
	if (m && m->parent_end)
		cause_put(m->parent_end);
	free(m);
}

void peers_set_ranks(struct peers *p, const struct cohort_process *facts)
{
	pthread_mutex_lock(&p->lock);
	p->facts = facts;
	note_vain(p);
	pthread_mutex_unlock(&p->lock);
}

void peers_open(struct peers *p, uint64_t identity)
{
	pthread_mutex_lock(&p->lock);
	p->opening = identity;
	note_vain(p);
	pthread_mutex_unlock(&p->lock);
}

void peers_give_up(struct peers *p, uint64_t identity)
{
	pthread_mutex_lock(&p->lock);
	if (p->page) {
		atomic_store_explicit(&p->page->gave_up, identity,
		                      memory_order_release);
		peers_have_rung(p);
		peers_send(p, -1, MESSAGE_GAVE_UP, 0, 0, &identity,
		           sizeof(identity));
	}
	pthread_mutex_unlock(&p->lock);
}

const atomic_bool *peers_is_vain(const struct peers *p)
{
	return &p->is_vain;
}
