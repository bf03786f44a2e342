/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Reports the state of ranks of other processes in a collective or a transfer:
 * one process asks, and the threads of the other processes check their ranks
 * and answer
 */

#include <unistd.h>

#include "base/backoff.h"
#include "base/clock.h"
#include "base/list.h"
#include "base/scoped_lock.h"
#include "base/thread.h"
#include "base/util.h"
#include "core/agree_words.h"
#include "core/clique_tree.h"
#include "processes/own_bootstrap.h"
#include "processes/peer_page.h"
#include "watch/crossing.h"
#include "watch/describe.h"
#include "watch/render.h"
#include "watch/stall.h"
#include "watch/waits.h"

/* ---- ranks from pages ------------------------------------------------- */

/* Return true if @kind is a kind of verdict that another process's answer may
 * contain. */
static bool is_kind(int kind)
{
	return (kind >= COHORT_VERDICT_NEVER_CALLED &&
	        kind <= COHORT_VERDICT_THREAD_EXITED) ||
	       kind == COHORT_VERDICT_ORDER || kind == COHORT_VERDICT_LEFT;
}

static int rank_or_none(int rank)
{
	return rank >= 0 && rank < COHORT_MAX_RANKS ? rank : -1;
}

/* Make the members of @x valid, which come from another process. */
static void make_valid(struct remote_rank *x)
{
	x->joined = !!x->joined;
	x->is_done = !!x->is_done;
	x->is_over = !!x->is_over;
	x->is_process = false;
	x->world = rank_or_none(x->world);
	x->from = rank_or_none(x->from);
	x->end = rank_or_none(x->end);
	if (!is_kind(x->end_kind))
		x->end_kind = COHORT_VERDICT_OUTSIDE;
	x->in[sizeof(x->in) - 1] = '\0';
	x->missed[sizeof(x->missed) - 1] = '\0';
	x->call[sizeof(x->call) - 1] = '\0';
	x->brief[sizeof(x->brief) - 1] = '\0';
	x->text[sizeof(x->text) - 1] = '\0';
}

/* If rank @x has left because of waits that are on @page, the page of its
 * process, add these waits to @x. */
static void add_parting(const struct page *page, struct remote_rank *x)
{
	const struct place_of_parting *place;
	struct remote_rank y;
	uint64_t number;
	int k;

	for (k = 0; page && k < ANSWERED_RANKS; k++) {
		place = &page->partings[k];
		number = atomic_load_explicit(&place->stamp.done,
		                              memory_order_acquire);
		if (!number ||
		    !get_stamped(&place->stamp, &y, place->words, number,
		                 WORDS(struct remote_rank)) ||
		    y.world != x->world || !y.waits)
			continue;
		make_valid(&y);
		y.rank = x->rank;
		y.kind = x->kind;
		y.is_process = x->is_process;
		y.is_closed = x->is_closed;
		memcpy(y.text, x->text, sizeof(y.text));
		*x = y;
		return;
	}
}

/* ---- answering -------------------------------------------------------- */

static struct clique *find_clique(const struct peers *p, uint64_t identity)
{
	const struct member *m;

	list_find(m, p->members, next, m->clique->identity == identity);
	return m ? m->clique : NULL;
}

/* Return the context for texts that go to another process.
 * @host: this process's host if the other process is far, otherwise "" */
static struct snapshot reporter(const struct cohort_comm *c, const char *host)
{
	return (struct snapshot){
		.group = c->clique->name,
		.is_child = clique_is_child(c->clique),
		.starts_are_marked = c->clique->starts_are_marked,
		.host = host,
		.pid = getpid(),
	};
}

/* If the rank waits in another communicator, report the rank that it waits for.
 * Otherwise store in @r what the rank's thread does in other communicators, and
 * return false. */
static bool report_waits(const struct cohort_comm *c, uint64_t collective,
                         uint64_t age_ns, const struct snapshot *s,
                         struct rank_snapshot *r, struct text *t,
                         struct remote_rank *out)
{
	const struct culprit *x;
	const struct wait_link *link;
	struct waits waits;
	int i;

	waits_of(c, collective, age_ns, &waits);
	x = waits.culprits;
	if (!waits.link_count) {
		memcpy(r->elsewhere, x->at.elsewhere, sizeof(r->elsewhere));
		out->kind = stall_kind(s, r);
		return false;
	}
	link = waits.links;
	while (!waits.is_cycle && link < waits.links + waits.link_count - 1 &&
	       x->at.rank < 0 && link->for_world != x->world)
		link++;
	out->waits = true;
	out->in_cycle = waits.is_cycle;
	for (i = 0; i < waits.link_count; i++)
		rank_set_add_all(out->waiters, waits.links[i].worlds);
	if (waits.is_cycle) {
		out->end = link->for_world;
	} else if (x->at.rank >= 0 || !x->in.identity) {
		out->end = x->world;
		out->end_kind = stall_kind_of_culprit(x);
	} else {
		out->end = -1;
		out->waits_in = x->in;
	}
	out->from = rank_set_next(link->worlds, -1);
	out->way = (int)link->way;
	text_set(out->in, sizeof(out->in), "%s", link->call);
	if (!waits.is_cycle)
		text_set(out->missed, sizeof(out->missed), "%s", x->call);
	describe_name_of(t, s, r);
	text_add(t, " waits in %s", waits.links[0].call);
	if (!waits.is_cycle && x->world >= 0)
		text_add(t, " for rank %d", x->world);
	return true;
}

/* Return true if a rank has called an operation that its stream has not
 * reached.
 * @in_call: true if the rank's thread has not launched the operation yet */
static bool is_queued(int kind, bool in_call)
{
	return kind == COHORT_VERDICT_NOT_STARTED && !in_call;
}

static void report(struct cohort_comm *c, uint64_t collective, uint64_t age_ns,
                   const char *host, struct remote_rank *out)
{
	const uint64_t front = snapshot_front(c->clique);
	struct snapshot s = reporter(c, host);
	struct text t = { out->text, sizeof(out->text) };
	struct text brief = { out->brief, sizeof(out->brief) };
	struct text call = { out->call, sizeof(out->call) };
	const uint64_t word = agree_word(c, collective);
	char other[256] = "";
	struct text elsewhere = { other, sizeof(other) };
	struct rank_snapshot r;
	bool is_held;

	snapshot_details(&r, c, collective);
	s.now_ns = clock_now();
	*out = (struct remote_rank){
		.rank = c->rank,
		.joined = r.joined,
		.is_behind = front && front < collective,
		.is_closed = r.closed,
		.world = c->world_rank,
		.kind = stall_kind(&s, &r),
	};
	is_held = crossing_holds(&r, c, collective, &elsewhere, out);
	if (out->kind == COHORT_VERDICT_ORDER ||
	    (r.joined && !is_queued(out->kind, r.in_call || r.meets)) ||
	    !report_waits(c, r.joined ? 0 : collective, age_ns, &s, &r, &t,
	                  out)) {
		if (is_held) {
			describe_name_of(&t, &s, &r);
			text_add(&t, " waits in %s instead", other);
		} else {
			render_brief(&brief, &s, &r);
			describe_rank(&t, &s, &r);
		}
	}
	if (!agree_word_is_of(word, collective))
		return;
	out->word = word;
	if (r.call.ticket)
		record_add(&call, &r.call);
}

/* Report the state of the rank that @asked is about, and of its half of the
 * transfer. */
static void report_half(struct cohort_comm *c, const struct missing *asked,
                        const char *host, struct remote_rank *out)
{
	struct snapshot s = reporter(c, host);
	struct text brief = { out->brief, sizeof(out->brief) };
	struct text t = { out->text, sizeof(out->text) };
	struct rank_snapshot r;
	struct half half = { .done = false };
	bool has_called;

	snapshot_details(&r, c, 0);
	s.now_ns = clock_now();
	has_called = p2p_snapshot_half(c, asked->sends, asked->other,
	                               asked->number, &half);
	*out = (struct remote_rank){
		.rank = c->rank,
		.joined = has_called,
		.is_done = half.done,
		.kind = has_called ? stall_half_kind(&s, &half)
		                   : stall_kind(&s, &r),
		.is_closed = r.closed,
		.world = c->world_rank,
	};
	if ((!has_called || is_queued(out->kind, half.in_call)) &&
	    report_waits(c, 0, asked->age_ns, &s, &r, &t, out))
		return;
	if (!has_called)
		render_brief(&brief, &s, &r);
	describe_half(&t, &s, &r, asked->sends, has_called ? &half : NULL);
}

static void fill_answer(struct clique *q, const struct missing *asked,
                        const char *host, struct answer *out)
{
	int r;

	for (r = 0; r < q->size; r++) {
		if (!asked->is_transfer && out->ranks < ANSWERED_RANKS)
			report(&q->comms[r], asked->number, asked->age_ns, host,
			       &out->of[out->ranks++]);
		else if (asked->is_transfer && q->comms[r].rank == asked->rank)
			report_half(&q->comms[r], asked, host,
			            &out->of[out->ranks++]);
	}
	for (r = 0; r < (int)out->ranks; r++)
		out->of[r].is_over |= clique_cause(q) != NULL;
}

/* Return true if the numbers in a question are valid.  They come from another
 * process and are untrusted. */
static bool is_valid_question(const struct clique *q,
                              const struct missing *asked)
{
	return !asked->is_transfer ||
	       (asked->other >= 0 && asked->other < q->world_size &&
	        !clique_rank(q, asked->other));
}

static void answer_one(struct peers *p, int i, int k, uint64_t number)
{
	const struct peer *x = &p->peers[i];
	struct answer *a = &p->answer;
	struct remote_rank *of;
	struct missing asked;
	struct clique *q;
	struct place *place = &p->page->answers[i][k];

	*a = (struct answer){ .ranks = 0 };
	get_words(&asked, x->page->asks[k].question, WORDS(struct missing));
	q = find_clique(p, asked.identity);
	if (q && is_valid_question(q, &asked))
		fill_answer(q, &asked, x->is_far ? p->host : "", a);
	for (of = a->of; of < a->of + a->ranks; of++)
		if (of->is_closed && !of->joined && !of->waits)
			add_parting(p->page, of);
	if (x->is_far)
		peers_send(p, i, MESSAGE_ANSWER, k, number, a,
		           offsetof(struct answer, of[a->ranks]));
	else
		put_stamped(&place->stamp, place->words, number, a,
		            WORDS(struct answer));
}

void peers_answer(struct peers *p, int i)
{
	struct peer *x = &p->peers[i];
	uint64_t number;
	int k;

	for (k = 0; p->page && x->page && k < QUESTIONS; k++) {
		number = atomic_load_explicit(&x->page->asks[k].number,
		                              memory_order_acquire);
		if (number == x->answered[k])
			continue;
		x->answered[k] = number;
		answer_one(p, i, k, number);
	}
}

/* ---- leaving ---------------------------------------------------------- */

/* What a rank did in all communicators of its family. */
struct history {
	const struct cohort_comm *c;
	uint64_t called_ns; /* time of its last call, or 0 */
	uint64_t ended_ns;  /* time of the last end of a communicator, or 0 */
};

static void find_history(const struct clique *first, void *arg)
{
	struct history *h = arg;
	const struct clique *root = clique_tree_root(h->c->clique), *q;
	const struct cohort_cause *cause;
	const struct cohort_comm *c;
	struct record r;

	for (q = first; q; q = q->next_entered) {
		c = clique_tree_root(q) == root
		            ? clique_rank_of_world(q, h->c->world_rank)
		            : NULL;
		if (!c)
			continue;
		if (recorder_read(&c->recorder, atomic_load(&c->tickets.last),
		                  &r))
			h->called_ns = MAX(h->called_ns, r.submitted_ns);
		cause = clique_cause(q);
		if (cause)
			h->ended_ns = MAX(h->ended_ns, cause->time_ns);
	}
}

/* Publish @x as the parting of rank @i of this process.  Called under lock. */
static void publish_parting(struct peers *p, int i, const struct remote_rank *x)
{
	put_parting(p->page, i, x);
	peers_send(p, -1, MESSAGE_PARTING, i, 0, x, sizeof(*x));
}

void peers_part(struct peers *p, const struct cohort_comm *c)
{
	const struct clique *root = clique_tree_root(c->clique);
	const long i = clique_rank_of_world(root, c->world_rank) - root->comms;
	const uint64_t next = agree_called(c) + 1;
	struct snapshot s = reporter(c, "");
	struct history h = { .c = c };
	struct remote_rank x = { .world = c->world_rank,
		                 .kind = COHORT_VERDICT_LEFT };
	struct text t = TEXT_NONE;
	struct rank_snapshot r;

	if (!p->page || i >= ANSWERED_RANKS)
		return;
	clique_tree_call_all(find_history, &h);
	if (h.ended_ns > h.called_ns) {
		snapshot_part(&r, c, next);
		report_waits(c, next, 0, &s, &r, &t, &x);
	}
	SCOPED_LOCK(&p->lock);
	/* A communicator that was closed before this one may be freed.  So if
	 * the rank has made no call since, what was published then is valid,
	 * and if its last call was made there, what is known now is not. */
	if (h.called_ns < p->called_ns[i] ||
	    (h.called_ns == p->called_ns[i] && !x.waits))
		return;
	p->called_ns[i] = h.called_ns;
	x.world = x.waits ? x.world : -1;
	publish_parting(p, (int)i, &x);
}

void peers_forget_partings(struct peers *p)
{
	const struct remote_rank none = { .world = -1 };
	int i;

	for (i = 0; p->page && i < ANSWERED_RANKS; i++) {
		if (p->called_ns[i])
			publish_parting(p, i, &none);
		p->called_ns[i] = 0;
	}
}

/* ---- asking ----------------------------------------------------------- */

/* Return true if the rank may belong to another process, and is not among the
 * @n ranks in @out. */
static bool is_others(const struct clique *q, const struct remote_rank *x,
                      const struct remote_rank *out, int n)
{
	if (x->rank < 0 || x->rank >= (q ? q->world_size : COHORT_MAX_RANKS) ||
	    (q && clique_rank(q, x->rank)))
		return false;
	while (n && out[n - 1].rank != x->rank)
		n--;
	return !n;
}

/* Append the valid ranks of an answer to the @n ranks in @out.  The numbers in
 * the answer are untrusted.  Return the new number of ranks. */
static int add_answer(const struct clique *q, const struct answer *a,
                      struct remote_rank *out, int n, int room)
{
	const struct remote_rank *x = a->of;

	for (; x < a->of + ANSWERED_RANKS && x < a->of + a->ranks; x++) {
		if (n == room || !is_kind(x->kind) || !is_others(q, x, out, n))
			continue;
		out[n] = *x;
		make_valid(&out[n++]);
	}
	return n;
}

/* Reserve an index for a question.  Return -1 if all indexes are in use. */
static int reserve_question(struct peers *p)
{
	int k = 0;

	while (k < QUESTIONS && atomic_exchange(&p->is_asking[k], true))
		k++;
	return k < QUESTIONS ? k : -1;
}

/* Publish a question at index @k, and wake the other processes.  This thread
 * wakes them itself, because on a busy machine another thread may run only much
 * later.  Return the number of the question. */
static uint64_t put_question(struct peers *p, int k,
                             const struct missing *question)
{
	SCOPED_LOCK(&p->lock);
	const uint64_t number = atomic_load_explicit(&p->page->asks[k].number,
	                                             memory_order_relaxed) +
	                        1;

	put_words(p->page->asks[k].question, question, WORDS(struct missing));
	atomic_store_explicit(&p->page->asks[k].number, number,
	                      memory_order_release);
	peers_wake_all(p);
	peers_send(p, -1, MESSAGE_QUESTION, k, number, question,
	           sizeof(*question));
	return number;
}

/* Time to wait for the answer of a stopped process.  A debugger may have
 * stopped it only for a moment. */
#define STOPPED_NS UINT64_C(5000000)

/* Return the reason why a process does not answer: it is stopped or has left.
 * Return NULL if the reason is not known. */
static const char *reason_for_silence(const struct peer *x)
{
	if (atomic_load(&x->state) == PEER_LEFT)
		return "has closed the group";
	return x->is_far ? NULL : thread_process_stop(x->pid);
}

bool peers_add_stop(const struct peers *p, int i, struct text *t)
{
	const struct peer *x = &p->peers[i];

	return !x->is_far && bootstrap_add_stop(i, x->pid, t);
}

/* Return the calls that process @i publishes for the clique that @asked is
 * about, or NULL.
 * @q: that clique, or NULL if this process does not have it */
static const struct call_words *calls_of(const struct peers *p,
                                         const struct clique *q,
                                         const struct missing *asked, int i)
{
	return remote_agreement_words(p, asked->identity, q ? q->slots : 0, i);
}

/* Store in @set the ranks of @q in process @i and, if known, their numbers in
 * the root group in @worlds.  Return true if all of them have called the
 * collective @asked, as far as the process's page shows.  Called under lock. */
static bool find_driven(const struct peers *p, const struct clique *q, int i,
                        const struct missing *asked, uint64_t *set,
                        uint64_t *worlds)
{
	const struct call_words *w = calls_of(p, q, asked, i);
	const struct member *m;
	unsigned slots;
	size_t slot;
	int r = -1, ranks, world;

	if (w) {
		get_words(set, w->members, COHORT_RANK_WORDS);
		while ((r = rank_set_next(set, r)) >= 0) {
			world = remote_agreement_world(w, r);
			if (world >= 0)
				rank_set_add(worlds, world);
		}
		ranks = (int)atomic_load(&w->ranks);
		slots = (unsigned)atomic_load(&w->slots);
		if (asked->is_transfer || !slots || slots & (slots - 1) ||
		    slots > CALL_WORDS)
			return false;
		slot = agree_shared_slot(slots, asked->number);
		return agree_shared_count(slots, atomic_load(&w->words[slot]),
		                          asked->number, ranks) >= ranks;
	}
	list_find(m, p->members, next, m->clique == q);
	/* These numbers of the root group differ from those in a split
	 * clique. */
	if (m && !m->parent_end)
		rank_set_add_all(set, p->peers[i].ranks);
	memcpy(worlds, set, COHORT_RANK_WORDS * sizeof(*worlds));
	return false;
}

/* Return the calls that process @i publishes for its ranks of @q although its
 * answer @a has none of these ranks, or NULL.  The process has closed these
 * ranks, or is opening or closing the clique. */
static const struct call_words *unanswered(const struct peers *p,
                                           const struct clique *q, int i,
                                           const struct missing *asked,
                                           const struct answer *a)
{
	const struct call_words *w = calls_of(p, q, asked, i);
	uint64_t members[COHORT_RANK_WORDS];

	if (a->ranks || !w)
		return NULL;
	get_words(members, w->members, COHORT_RANK_WORDS);
	return !asked->is_transfer || rank_set_has(members, asked->rank) ? w
	                                                                 : NULL;
}

/* Append answers for the ranks of process @i on behalf of that process, which
 * is stopped, or has closed these ranks or its group.  Return the new number of
 * ranks in @out.  Called under lock.
 * @how: the reason why the process does not answer: "is stopped" */
static int answer_for(const struct peers *p, const struct clique *q, int i,
                      const struct missing *asked, int kind, const char *how,
                      struct remote_rank *out, int n, int room)
{
	struct remote_rank x = {
		.kind = kind,
		.is_process = true,
		.is_closed = kind == COHORT_VERDICT_LEFT,
		.world = -1,
	};
	struct text t = { x.text, sizeof(x.text) };
	uint64_t set[COHORT_RANK_WORDS] = { 0 };
	uint64_t worlds[COHORT_RANK_WORDS] = { 0 };
	const struct call_words *w = calls_of(p, q, asked, i);

	x.joined = find_driven(p, q, i, asked, set, worlds);
	peers_name(p, i, &t);
	text_add(&t, ", which %s rank%s ",
	         kind == COHORT_VERDICT_LEFT ? "drove" : "drives",
	         rank_set_count(set) == 1 ? "" : "s");
	rank_set_format(&t, worlds);
	text_add(&t, ", %s", how);
	for (x.rank = 0; x.rank < COHORT_MAX_RANKS && n < room; x.rank++) {
		if (!rank_set_has(set, x.rank))
			continue;
		x.world = w ? remote_agreement_world(w, x.rank) : x.rank;
		if (!is_others(q, &x, out, n) ||
		    (asked->is_transfer && x.rank != asked->rank))
			continue;
		out[n] = x;
		if (x.is_closed && !x.joined && x.world >= 0)
			add_parting(p->peers[i].page, &out[n]);
		n++;
	}
	return n;
}

/* Append answers on behalf of the processes that are stopped, have closed the
 * group, or are in @closed.  Add to @t the names of other watched processes
 * that are not in @has.  Return the new number of ranks in @out. */
static int add_silent(struct peers *p, const struct clique *q,
                      const struct missing *asked, const uint64_t *has,
                      const uint64_t *closed, struct remote_rank *out, int n,
                      int room, struct text *t)
{
	const char *comma = "", *how;
	bool has_left;
	int i, before;

	SCOPED_LOCK(&p->lock);
	for (i = 0; i < p->processes; i++) {
		has_left = rank_set_has(closed, i);
		how = has_left ? "has closed the communicator"
		               : reason_for_silence(&p->peers[i]);
		if (rank_set_has(has, i) ||
		    (!how && !peer_is_here(&p->peers[i])))
			continue;
		has_left |= atomic_load(&p->peers[i].state) == PEER_LEFT;
		before = n;
		if (how)
			n = answer_for(p, q, i, asked,
			               has_left
			                       ? COHORT_VERDICT_LEFT
			                       : COHORT_VERDICT_PROCESS_STOPPED,
			               how, out, n, room);
		if (n > before)
			continue;
		text_add(t, "%s", comma);
		peers_name(p, i, t);
		if (how)
			text_add(t, ", which %s", how);
		comma = ", ";
	}
	return n;
}

int peers_ask(const struct remote *remote, const struct clique *q,
              const struct missing *question, struct remote_rank *out, int room,
              struct text *silent)
{
	struct peers *p = peers_of_remote(remote);
	struct missing asked = *question;
	int k = p->page ? reserve_question(p) : -1;
	uint64_t has[COHORT_RANK_WORDS] = { 0 }, number;
	uint64_t closed[COHORT_RANK_WORDS] = { 0 };
	const struct call_words *words;
	const struct place *place;
	struct backoff b = BACKOFF;
	struct answer a;
	const uint64_t since_ns = clock_now();
	const uint64_t deadline_ns = clock_after(since_ns, remote->patience_ns);
	uint64_t runs[COHORT_RANK_WORDS] = { 0 };
	int i, n = 0, awaited;

	while (p->page && k < 0 && clock_now() < deadline_ns) {
		backoff_wait(&b, deadline_ns);
		k = reserve_question(p);
	}
	if (k < 0)
		return 0;
	number = put_question(p, k, &asked);
	do {
		backoff_wait(&b, deadline_ns);
		for (i = awaited = 0; i < p->processes; i++) {
			if (rank_set_has(has, i) || rank_set_has(closed, i) ||
			    !peer_is_here(&p->peers[i]))
				continue;
			awaited++;
			place = &peer_answers(p, &p->peers[i])[k];
			if (!get_stamped(&place->stamp, &a, place->words,
			                 number, WORDS(struct answer))) {
				if (!rank_set_has(runs, i) &&
				    !reason_for_silence(&p->peers[i]))
					rank_set_add(runs, i);
				awaited -= !rank_set_has(runs, i) &&
				           clock_now() - since_ns > STOPPED_NS;
				continue;
			}
			/* A process that is closing the group has dropped its
			 * ranks, and says a moment later that it has left. */
			words = unanswered(p, q, i, &asked, &a);
			if (words && !atomic_load(&words->never)) {
				awaited -= clock_now() - since_ns > STOPPED_NS;
				continue;
			}
			n = add_answer(q, &a, out, n, room);
			rank_set_add(words ? closed : has, i);
			awaited--;
		}
		/* If the question is about a transfer, only one process has the
		 * rank. */
		if (n && asked.is_transfer)
			break;
	} while (awaited && clock_now() < deadline_ns &&
	         !(q && cause_or_closing(q->end)));
	atomic_store(&p->is_asking[k], false);
	if (n && asked.is_transfer)
		return n;
	return add_silent(p, q, &asked, has, closed, out, n, room, silent);
}
