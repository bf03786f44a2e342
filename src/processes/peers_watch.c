/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Handles causes and ends of other processes, and runs the thread that waits
 * for them
 */

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/backoff.h"
#include "base/clock.h"
#include "base/list.h"
#include "base/scoped_lock.h"
#include "base/status.h"
#include "base/text.h"
#include "base/thread.h"
#include "processes/peer_page.h"

/* ---- sending causes --------------------------------------------------- */

void peers_wake_all(const struct peers *p)
{
	const struct peer *x;

	for (x = p->peers; x < p->peers + p->processes; x++)
		if (peer_is_here(x))
			peer_wake(x->wake_pipe);
}

void peers_request_wake(struct peers *p)
{
	atomic_store(&p->must_wake, true);
	peer_wake(p->wake_pipe[1]);
}

static struct member *find_member(const struct peers *p, const struct clique *q)
{
	struct member *m;

	list_find(m, p->members, next, m->clique == q);
	return m;
}

/* Publish that this process has the clique @identity.  Called under lock. */
static void put_member(struct peers *p, uint64_t identity)
{
	if (!p->page)
		return;
	put_identity(&p->page->members, identity);
	peers_send(p, -1, MESSAGE_MEMBER, 0, 0, &identity, sizeof(identity));
}

/* Publish that this process has recorded the completed operations of the clique
 * @identity, or no longer has the clique.  Called under lock. */
static void put_noted(struct peers *p, uint64_t identity)
{
	if (!p->page)
		return;
	put_identity(&p->page->noted, identity);
	peers_send(p, -1, MESSAGE_NOTED, 0, 0, &identity, sizeof(identity));
}

/* Time to wait for a stopped process to record its completed operations. */
#define SNAPSHOT_NS UINT64_C(200000000)

/* Return true if all processes have recorded their completed operations.
 * @skips_stopped: true to ignore processes that are stopped */
static bool all_have_noted(const struct peers *p, uint64_t identity,
                           bool skips_stopped)
{
	const struct peer *x;

	for (x = p->peers; x < p->peers + p->processes; x++)
		if (peer_is_here(x) &&
		    has_identity(&x->page->members, identity) &&
		    !has_identity(&x->page->noted, identity) &&
		    !(skips_stopped && !x->is_far &&
		      thread_process_stop(x->pid)))
			return false;
	return true;
}

static void send_cause(struct peers *p, const struct clique *q,
                       const struct cohort_cause *cause)
{
	const struct cause_entry entry = { .identity = q->identity,
		                           .cause = *cause };
	struct member *m;
	bool is_news;

	SCOPED_LOCK(&p->lock);
	m = find_member(p, q);
	/* A split clique ends with its parent.  If the parent has a cause, the
	 * split clique ends in every process, so there is nothing to publish.
	 * If the parent is merely closed, the split clique ends only in this
	 * process. */
	is_news = p->page && m && !m->is_from_peer && !m->is_published &&
	          (!m->parent_end || !cause_peek(m->parent_end));
	if (is_news) {
		m->is_published = true;
		put_cause_entry(p->page, &entry);
		peers_wake_all(p);
		peers_send(p, -1, MESSAGE_CAUSE, 0, 0, &entry, sizeof(entry));
	}
}

void peers_publish_noted(struct peers *p, const struct clique *q)
{
	SCOPED_LOCK(&p->lock);
	put_noted(p, q->identity);
}

void peers_await_noted(struct peers *p, const struct clique *q,
                       uint64_t deadline_ns)
{
	const uint64_t stopped_ns = clock_deadline(SNAPSHOT_NS);
	struct backoff b = BACKOFF;
	uint64_t now_ns;

	peers_publish_noted(p, q);
	do {
		now_ns = clock_now();
		if (all_have_noted(p, q->identity, now_ns >= stopped_ns))
			return;
		backoff_wait(&b, deadline_ns);
	} while (now_ns < deadline_ns);
}

void peers_send_cause(const struct clique *q, const struct cohort_cause *cause,
                      uint64_t deadline_ns)
{
	send_cause(peers_of(q), q, cause);
	if (deadline_ns)
		peers_await_noted(peers_of(q), q, deadline_ns);
}

/* ---- causes of other processes ----------------------------------------- */

/* Read the cause with the number @n + 1.  Return false if it was overwritten or
 * is not valid. */
static bool read_cause_entry(const struct page *page, uint64_t n,
                             struct cause_entry *out)
{
	struct cohort_cause *c = &out->cause;

	if (!get_stamped(&page->causes[n % CAUSES].stamp, out,
	                 page->causes[n % CAUSES].words, n + 1,
	                 WORDS(struct cause_entry)))
		return false;
	c->text[sizeof(c->text) - 1] = '\0';
	if (c->rank < -1 || c->rank >= COHORT_MAX_RANKS)
		c->rank = -1;
	if (c->kind < 0 || c->kind >= COUNTED_KINDS)
		c->kind = COHORT_VERDICT_NONE;
	c->status = status_sanitize(c->status);
	return c->status != COHORT_OK;
}

/* End a clique with a cause from another process.  This process does not
 * publish the cause again. */
static void end_member(struct member *m, const struct cohort_cause *cause)
{
	struct cohort_cause what = *cause;

	if (what.rank >= m->clique->world_size)
		what.rank = -1;
	if (what.world_rank < -1 || what.world_rank >= COHORT_MAX_RANKS)
		what.world_rank = -1;
	/* peers_send_cause() sees is_from_peer, because it takes the lock that
	 * the caller holds. */
	if (cause_set(m->clique->end, &what) == COHORT_OK)
		m->is_from_peer = true;
}

void peers_name(const struct peers *p, int i, struct text *t)
{
	const struct peer *x = &p->peers[i];

	text_add(t, "process %d (", i);
	if (x->is_far && *x->host)
		text_add(t, "host %s, ", x->host);
	text_add(t, "pid %lld)", (long long)x->pid);
}

/* Return the cause of process @i, with the name of that process in front of the
 * text unless the text already begins with the name of a process. */
static struct cohort_cause relay_cause(const struct peers *p, int i,
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

/* Apply the causes of process @i with numbers above @from to @only or, if @only
 * is NULL, to all members.  Called under lock. */
static void apply_causes(struct peers *p, int i, uint64_t from,
                         struct member *only)
{
	const struct page *page = p->peers[i].page;
	const uint64_t published = atomic_load_explicit(&page->causes_published,
	                                                memory_order_acquire);
	struct cohort_cause cause;
	struct member *m;
	struct cause_entry t;
	uint64_t n;

	for (n = published > from + CAUSES ? published - CAUSES : from;
	     n < published; n++) {
		if (!read_cause_entry(page, n, &t))
			continue;
		cause = relay_cause(p, i, &t.cause);
		for (m = p->members; m; m = m->next)
			if ((!only || m == only) &&
			    m->clique->identity == t.identity)
				end_member(m, &cause);
	}
	if (!only)
		p->peers[i].seen = published;
}

/* End @m because process @i has ended, if @i has ranks in it.  This cause is
 * also published, because other processes may not watch @i.  Called under
 * lock. */
static void apply_end(const struct peers *p, int i, struct member *m)
{
	const uint64_t *ranks = p->peers[i].ranks;
	struct cohort_cause cause = {
		.status = COHORT_PROCESS_EXITED,
		.kind = COHORT_VERDICT_PROCESS_EXITED,
	};
	struct text t = { cause.text, sizeof(cause.text) };

	/* Skip cliques that were split from another, because they end with
	 * their parent. */
	if (rank_set_is_empty(ranks) || m->parent_end)
		return;
	cause.rank = cause.world_rank = rank_set_next(ranks, -1);
	rank_set_add_all(cause.missing, ranks);
	peers_name(p, i, &t);
	text_add(&t, ", which drove rank%s ",
	         rank_set_count(ranks) == 1 ? "" : "s");
	rank_set_format(&t, cause.missing);
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

/* Recompute is_futile, see struct peers.  Called under lock. */
static void update_is_futile(struct peers *p)
{
	bool is_futile = false;
	int i;

	for (i = 0; i < p->processes; i++)
		is_futile |= !rank_set_is_empty(p->peers[i].ranks) &&
		             (atomic_load(&p->peers[i].state) == PEER_ENDED ||
		              gave_up(&p->peers[i], p->opening));
	atomic_store(&p->is_futile, is_futile);
}

/* Return true if process @i, which is watched, has closed its group.  Called
 * under lock. */
static bool check_for_leave(struct peers *p, int i)
{
	const struct peer *x = &p->peers[i];
	/* Read before the causes, because the process may publish a cause and
	 * then leave. */
	const bool has_left =
		atomic_load_explicit(&x->page->has_left, memory_order_acquire);

	apply_causes(p, i, x->seen, NULL);
	return has_left;
}

/* Stop waiting for the ranks of process @i, which has closed its group.  Called
 * under lock. */
static void handle_leave(const struct peers *p, int i)
{
	struct member *m;

	for (m = p->members; m; m = m->next)
		if (remote_agreement_leave(m->clique, i))
			atomic_store(&m->clique->is_shorter, true);
	cause_wake();
}

/* Wake the watchdog if ranks of other processes have closed their
 * communicators.  Called under lock. */
static void wake_for_closed(const struct peers *p)
{
	const struct member *m;
	bool has_any = false;

	for (m = p->members; m; m = m->next) {
		if (!p->remote.get_state(m->clique, 0).has_closed)
			continue;
		has_any = true;
		atomic_store(&m->clique->is_shorter, true);
	}
	if (has_any)
		cause_wake();
}

/* Apply new causes of process @i, and handle that it has left or, if @is_over,
 * ended.  Called under lock. */
static void handle_peer(struct peers *p, int i, bool is_over)
{
	struct peer *x = &p->peers[i];
	struct member *m;

	if (!peer_may_end(x))
		return;
	if (peer_is_here(x) && check_for_leave(p, i)) {
		atomic_store(&x->state, PEER_LEFT);
		handle_leave(p, i);
	} else if (!peer_is_here(x) && atomic_load(&p->is_settled)) {
		atomic_store(&x->state, PEER_UNWATCHED);
	} else if (is_over) {
		x->end = thread_process_end(x->pid, x->pidfd);
		atomic_store(&x->state, PEER_ENDED);
		update_is_futile(p);
		for (m = p->members; m; m = m->next)
			apply_end(p, i, m);
	}
}

/* ---- the thread ------------------------------------------------------- */

/* Poll each process to find out whether it has ended.  Used a hundred times a
 * second if the system does not let the thread wait for all processes in one
 * poll(). */
static void ask_each(const struct peers *p, bool *over)
{
	struct pollfd polled[2];
	const struct peer *x;
	int i;

	poll(NULL, 0, 10);
	for (i = 0; i < p->processes; i++) {
		x = &p->peers[i];
		polled[0] = (struct pollfd){ .fd = x->wake_pipe };
		polled[1] = (struct pollfd){ .fd = x->pidfd, .events = POLLIN };
		over[i] = peer_may_end(x) && (atomic_load(&x->has_ended) ||
		                              (poll(polled, 2, 0) > 0 &&
		                               (polled[0].revents & POLLERR ||
		                                polled[1].revents & POLLIN)));
	}
}

/* Wait for the wake pipe or the end of a process.  Set @over for each process
 * that has ended. */
static void await_any(const struct peers *p, struct pollfd *polled, bool *over)
{
	const struct peer *x;
	char bytes_read[64];
	int i, n = 1;

	polled[0] = (struct pollfd){ .fd = p->wake_pipe[0], .events = POLLIN };
	for (i = 0; i < p->processes; i++) {
		x = &p->peers[i];
		over[i] = false;
		if (!peer_may_end(x))
			continue;
		polled[n++] = (struct pollfd){ .fd = x->wake_pipe };
		if (x->pidfd >= 0)
			polled[n++] = (struct pollfd){ .fd = x->pidfd,
				                       .events = POLLIN };
	}
	if ((poll(polled, (nfds_t)n, -1) < 0 && errno != EINTR) ||
	    polled[0].revents & POLLNVAL) {
		ask_each(p, over);
		return;
	}
	/* Drain the wake pipe before the checks, so that a change after them
	 * wakes the thread again. */
	while (read(p->wake_pipe[0], bytes_read, sizeof(bytes_read)) ==
	       (ssize_t)sizeof(bytes_read))
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
		if (atomic_exchange(&p->must_wake, false))
			peers_wake_all(p);
		pthread_mutex_lock(&p->lock);
		for (i = 0; i < p->processes; i++) {
			handle_peer(p, i, t->over[i]);
			peers_answer(p, i);
		}
		update_is_futile(p);
		wake_for_closed(p);
		pthread_mutex_unlock(&p->lock);
	}
	peers_wake_all(p);
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
		return error_set(COHORT_NO_MEMORY, "no memory for a group");
	m->clique = q;
	m->parent_end = parent_end;
	if (parent_end)
		cause_get(parent_end);
	SCOPED_LOCK(&p->lock);
	m->next = p->members;
	p->members = m;
	if (!q->remote)
		peers_get(p);
	q->remote = &p->remote;
	if (!clique_is_child(q))
		peers_forget_partings(p);
	remote_agreement_show(p, q);
	put_member(p, q->identity);
	/* Another process may have published its cause, left or ended before
	 * this clique was ready. */
	for (i = 0; i < p->processes; i++) {
		if (p->peers[i].page)
			apply_causes(p, i, 0, m);
		if (atomic_load(&p->peers[i].state) == PEER_LEFT)
			remote_agreement_leave(q, i);
		if (atomic_load(&p->peers[i].state) == PEER_ENDED)
			apply_end(p, i, m);
	}
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
	const struct cohort_process *f = facts;
	struct peer *x;
	int r;

	SCOPED_LOCK(&p->lock);
	for (x = p->peers; x < p->peers + p->processes; x++) {
		memset(x->ranks, 0, sizeof(x->ranks));
		for (r = 0; f && r < f->ranks; r++)
			rank_set_add(x->ranks, f->first_rank + r);
		if (f)
			text_copy(x->host, sizeof(x->host), f++->host);
	}
	update_is_futile(p);
}

void peers_open(struct peers *p, uint64_t identity)
{
	SCOPED_LOCK(&p->lock);
	p->opening = identity;
	update_is_futile(p);
}

void peers_give_up(struct peers *p, uint64_t identity)
{
	SCOPED_LOCK(&p->lock);
	if (p->page) {
		atomic_store_explicit(&p->page->gave_up, identity,
		                      memory_order_release);
		peers_request_wake(p);
		peers_send(p, -1, MESSAGE_GAVE_UP, 0, 0, &identity,
		           sizeof(identity));
	}
}

bool peers_is_futile(void *peers, bool is_native)
{
	const struct peers *p = peers;

	(void)is_native;
	return atomic_load(&p->is_futile);
}
