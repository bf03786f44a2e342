/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The watchdog: a thread per clique that sleeps until a deadline may have passed, takes
 * a sample of memory, and tells what it sees
 *
 * It makes no native call, takes no lock that a hung call could hold, and calls nothing
 * that could hang.  A collective that is submitted does not wake it.  Instead it wakes
 * at least once within the shortest deadline, so it sees each collective before that
 * one's deadline, and then sleeps until exactly the deadline.
 */

#include "watch/watchdog.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/backoff.h"
#include "base/clock.h"
#include "base/thread.h"
#include "watch/cycle.h"
#include "watch/peers.h"
#include "watch/stall.h"
#include "watch/waits.h"

/* The time between samples once a rank has left, for which others may wait at any
 * time. */
#define LEFT_NS UINT64_C(5000000)

/* However short a deadline is, the watchdog does not spin. */
#define MIN_PERIOD_NS UINT64_C(100000)

/* Samples within the shortest deadline.  A queued collective's clock starts at the last
 * sample before it became the oldest, so its verdict is early by the time between two
 * samples at most. */
#define SAMPLES 8

/*
 * How late the watchdog has to wake up to conclude that the process, or the machine, did
 * not run.  A thread that mostly sleeps is woken within milliseconds on a busy machine,
 * and within tenths of a second on one with far more threads than cores: it has used so
 * little of its share that it goes first.
 *
 * A stop below the threshold counts against the deadline, which matters little for a
 * deadline of seconds.  For a short deadline the threshold is half of it, but no less
 * than a busy machine may need.  An oversleep that is wrongly taken for a stop moves a
 * deadline by as much, and does not lose it: see stops.h.
 */
#define GROSS_NS NS_PER_S
#define MIN_GROSS_NS (NS_PER_S / 10)

/* The longest sleep, so that any stop much longer than this shows as an oversleep. */
#define HEARTBEAT_NS NS_PER_S

/* The time that a verdict with stacks, and answers of other processes, may take. */
#define TELLING_NS NS_PER_S

/* ---- samples ---------------------------------------------------------- */

/* Add to the snapshot what is not in the clique. */
static void add_watch(const struct watch *g, struct snapshot *s)
{
	s->probing_since_ns = atomic_load(&g->prober.since_ns);
	if (!s->probing_since_ns)
		s->probing = -1; /* the prober has come back since */
	s->asking = atomic_load(&g->prober.asking);
	s->telling_since_ns = atomic_load(&g->notifier.since_ns);
}

static void forget_stacks(struct watch *g)
{
	g->stack_count = 0;
	g->subject = (struct subject){ .number = 0 };
}

/* Add the stack of the rank's thread, if it was taken. */
static void add_stack(const struct watch *g, struct rank_snapshot *r)
{
	int k;

	r->stack = NULL;
	for (k = 0; k < g->stack_count; k++)
		if (r->tid && g->stacks[k].tid == r->tid)
			r->stack = &g->stacks[k];
}

/* Add the stacks that were taken to the snapshot, if the rank still has the thread. */
static void add_stacks(const struct watch *g, struct snapshot *s)
{
	struct rank_snapshot *r;
	int i;

	for (r = s->ranks; r < s->ranks + s->size; r++)
		add_stack(g, r);
	for (i = 0; i < s->waits.culprit_count; i++)
		add_stack(g, &s->waits.culprits[i].at);
}

/* Have the thread of @r asked for its stack, as number @n. */
static void want_stack(struct watch *g, const struct rank_snapshot *r, int n)
{
	g->stacks[n].rank = r->rank;
	g->stacks[n].bound = r->bound;
	g->stacks[n].tid = r->tid;
}

/* Take the stacks of the threads of the first few ranks in @set. */
static void take_stacks(struct watch *g, struct snapshot *s,
                        const uint64_t *set)
{
	int i, n = 0;

	forget_stacks(g);
	for (i = 0; g->options.stack_signal && i < s->size && n < STACK_RANKS;
	     i++) {
		if (!rank_set_has(set, s->ranks[i].rank) ||
		    s->ranks[i].alive != 1)
			continue;
		want_stack(g, &s->ranks[i], n++);
	}
	for (i = 0; g->options.stack_signal && i < s->waits.culprit_count &&
	            n < STACK_RANKS;
	     i++)
		if (s->waits.culprits[i].at.alive == 1)
			want_stack(g, &s->waits.culprits[i].at, n++);
	if (n)
		symbolizer_report(&g->symbolizer, g->stacks, n);
	g->stack_count = n;
	add_stacks(g, s);
}

/* The signal may have ended a sleep and by that a worker, whose rank is then bound to no
 * thread.  The verdict is about the thread as it was when it was asked. */
static void restore_bound(struct snapshot *s)
{
	struct rank_snapshot *r;

	for (r = s->ranks; r < s->ranks + s->size; r++)
		if (r->stack)
			r->bound |= r->stack->bound;
}

/* Take the watchdog's own snapshot. */
static void sample(struct watch *g)
{
	snapshot_take(&g->now, g->clique);
	observer_look(&g->observer, &g->now, g->clique);
}

/* Take the snapshot again, after some time, and keep what it has about threads. */
static void sample_again(struct watch *g, struct snapshot *s)
{
	if (s == &g->now)
		sample(g);
	else
		snapshot_take(s, g->clique);
	snapshot_awaited(s, g->clique);
	crossing_take(s, g->clique);
	waits_take(s, g->clique);
	snapshot_tags(s, g->clique);
	add_watch(g, s);
}

/* Take a snapshot with all that a text tells but stacks.  What ranks do is read last. */
static void sample_with_threads(struct watch *g, struct snapshot *s)
{
	snapshot_take(s, g->clique);
	snapshot_threads(s);
	sample_again(g, s);
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* The shortest deadline that the rank has pushed for a call in flight or for its next
 * one. */
static uint64_t shortest_own(const struct watch *g, int rank)
{
	const struct cohort_comm *c = &g->clique->comms[rank], *above;
	uint64_t ns = atomic_load(&c->pushed_shortest_ns);

	for (above = c->above; above; above = above->above)
		ns = earlier(ns, earlier(atomic_load(&above->pushed_shortest_ns),
		                         atomic_load(&above->popped_shortest_ns)));

	if (g->now.next[rank] <= atomic_load(&c->popped_last) ||
	    g->now.transfers[rank].next <= atomic_load(&c->popped_transfers))
		ns = earlier(ns, atomic_load(&c->popped_shortest_ns));
	return ns;
}

/* The shortest deadline that a call made since the last sample may have. */
static uint64_t shortest(const struct watch *g)
{
	const struct cohort_deadlines *d = &g->clique->deadlines;
	uint64_t ns = earlier(d->join_ns, d->exec_ns);
	int r;

	/* The prober's questions have one, too: see judge_prober(). */
	ns = earlier(ns, d->abort_ns);
	if (g->options.adaptive.factor)
		ns = earlier(ns, g->options.adaptive.floor_ns);
	for (r = 0; r < g->clique->size; r++)
		ns = earlier(ns, shortest_own(g, r));
	return ns;
}

/* The time between samples, so that a warning comes before the verdict. */
static uint64_t period(const struct watch *g)
{
	uint64_t ns = shortest(g);

	if (ns == COHORT_FOREVER && !g->options.slow_ns)
		return ns;
	ns = earlier(ns / 100 * g->options.warn_percent, ns / SAMPLES);
	if (g->now.has_left)
		ns = earlier(ns, LEFT_NS);
	/* What is slow is told of soon after it is. */
	if (g->options.slow_ns)
		ns = earlier(ns, g->options.slow_ns);
	if (g->options.adaptive.factor)
		ns = earlier(ns, earlier(OBSERVE_NS,
		                         g->options.adaptive.floor_ns / 4));
	return ns > MIN_PERIOD_NS ? ns : MIN_PERIOD_NS;
}

/* ---- stops ------------------------------------------------------------ */

/* How often the kernel is asked what the process does: more often than a stop may be
 * short. */
#define ACTIVITY_NS (MIN_GROSS_NS / 10)

/* The time since the last run in which, by the kernel, the process was not stopped; 0 if
 * that run was a moment ago. */
static uint64_t active_ns(struct watch *g, uint64_t now_ns)
{
	const struct activity before = g->activity;
	uint64_t ns;

	if (now_ns - g->activity_ns < ACTIVITY_NS)
		return 0;
	g->activity.cpu_ns = clock_process_cpu();
	g->activity.delayed_ns = thread_delayed_ns();
	g->activity_ns = now_ns;
	ns = stops_active_ns(&before, &g->activity, cpu_count());
	return earlier(ns, now_ns - g->ran_ns);
}

/*
 * Note that the watchdog runs now and meant to run by @asked_ns.  Between two calls no
 * other reading of the clock may decide anything: a stop just before such a reading
 * would count against a deadline.  It would be noted late, or never, if the next
 * @asked_ns is computed from that reading.
 */
static void run_again(struct watch *g, uint64_t asked_ns)
{
	uint64_t now = clock_now();
	uint64_t gross = earlier(GROSS_NS, shortest(g) / 2);
	uint64_t active = active_ns(g, now);

	if (gross < MIN_GROSS_NS)
		gross = MIN_GROSS_NS;
	/* As if the thread had run, and slept, for that much longer. */
	if (stops_note(&g->now.stops, g->ran_ns + active,
	               clock_after(asked_ns, active), now, gross))
		count_up(&g->clique->counts.stops);
	else if (now > asked_ns && now - asked_ns > gross)
		count_up(&g->clique->counts.starved);
	g->ran_ns = now;
}

/* The time @ns after @since_ns, where only time in which the process ran counts. */
static uint64_t due_after(const struct watch *g, uint64_t since_ns, uint64_t ns)
{
	uint64_t since = stops_shift(&g->now.stops, since_ns);

	return ns > UINT64_MAX - since ? UINT64_MAX : since + ns;
}

/* ---- telling ---------------------------------------------------------- */

/* Count a verdict for cohort_stats().  Verdicts are counted only here. */
static void count(struct watch *g, int stage, int kind)
{
	struct clique_counts *n = &g->clique->counts;

	if (stage == COHORT_STAGE_SLOW)
		count_up(&n->slow);
	else if (stage == COHORT_STAGE_WARNING)
		count_up(&n->warnings);
	else
		count_up(&n->verdicts[kind % COUNTED_KINDS]);
}

/* Tell the verdict.  Returns its number, see notifier_tell(). */
static uint64_t tell(struct watch *g)
{
	count(g, g->verdict.v.stage, g->verdict.v.kind);
	if (g->verdict.v.stage >= COHORT_STAGE_EXPIRED)
		dumper_tell(g->dumper, &g->verdict.v,
		            g->stack_count ? &g->symbolizer.traces : NULL);
	return notifier_tell(&g->notifier, &g->verdict);
}

/* ---- acting ----------------------------------------------------------- */

/* How often the deadline has passed. */
static unsigned expirations(const struct snapshot *s, const struct expiry *due)
{
	uint64_t n = due->deadline_ns ? (s->now_ns - due->since_ns) /
	                                        due->deadline_ns
	                              : 1;

	return n < UINT_MAX ? (unsigned)n : UINT_MAX;
}

static void act(struct watch *g, const struct expiry *due)
{
	struct cohort_cause cause;
	uint64_t number;

	if (due->is_transfer)
		g->now.transfer.expired = expirations(&g->now, due);
	else
		g->now.expired = expirations(&g->now, due);
	if (g->options.policy == COHORT_POLICY_ABORT) {
		cause = verdict_cause(&g->verdict);
		cause_set(g->clique->end, &cause); /* seen, and told, next */
		return;
	}
	number = tell(g);
	if (g->options.policy != COHORT_POLICY_ASK || g->question)
		return;
	g->question = number;
	g->asked_ns = clock_now();
	g->asked = verdict_cause(&g->verdict);
}

/* Remember that the front, or the transfer, was told of. */
static void remember(struct snapshot *s, const struct expiry *due)
{
	bool *slow = due->is_transfer ? &s->transfer.slow : &s->slow;
	bool *warned = due->is_transfer ? &s->transfer.warned : &s->warned;

	*(due->what == EXPIRY_SLOW ? slow : warned) = true;
}

static struct subject subject_of(const struct snapshot *s,
                                 const struct expiry *due)
{
	return (struct subject){
		.number = due->is_transfer ? s->transfer.index : s->front,
		.rank = due->is_transfer ? s->transfer.rank : -1,
		.since_ns = due->since_ns,
	};
}

/* True if the subject still does not go on in @s. */
static bool is_stuck(const struct subject *what, const struct snapshot *s)
{
	if (what->rank < 0)
		return what->number == s->front;
	return s->transfer.number && what->rank == s->transfer.rank &&
	       what->number == s->transfer.index;
}

static struct peer_question question_of(const struct snapshot *s,
                                        const struct expiry *due)
{
	const struct transfer_snapshot *x = &s->transfer;

	if (!due->is_transfer)
		return (struct peer_question){ .number = s->front };
	return (struct peer_question){
		.number = x->number,
		.is_transfer = true,
		.sends = !x->sends,
		.asked = x->peer,
		.asking = x->rank,
	};
}

/* If ranks here wait in another clique for ranks of other processes, ask for which.
 * False: they do not, and that has taken no time. */
static bool ask_elsewhere(struct watch *g)
{
	const struct culprit *x = g->now.waits.culprits;
	struct found_rank *f = &g->now.found;
	struct peer_question question = { .number = x->number };
	struct text silent = { g->silent, sizeof(g->silent) };
	struct clique *q;
	int i, n;

	if (!g->now.waits.culprit_count || x->at.rank >= 0 || x->rank >= 0)
		return false;
	*f = (struct found_rank){ .identity = x->identity,
		                  .number = x->number,
		                  .world = -1,
		                  .rank = -1 };
	q = waits_clique(x->identity);
	if (!q)
		return false;
	g->silent[0] = '\0';
	n = peers_ask(g->options.peers, q, &question, g->remote,
	              g->now.world - g->now.size,
	              clock_deadline(peers_patience_ns(g->options.peers)),
	              &silent);
	clique_put(q);
	for (i = 0; i < n && g->remote[i].joined; i++)
		;
	if (i == n)
		return true;
	f->rank = g->remote[i].rank;
	f->kind = g->remote[i].kind;
	f->world = g->remote[i].waits_for >= 0 ? g->remote[i].waits_for
	                                       : g->remote[i].world;
	text_set(f->text, sizeof(f->text), "%s", g->remote[i].text);
	return true;
}

/* What ranks of other processes wait for in cliques of which this process has ranks. */
static void resolve_waits(struct remote_rank *x, int n)
{
	for (; n--; x++)
		if (!x->joined && x->waits_in)
			x->waits_for =
				waits_resolve(x->waits_in, x->waits_number);
}

/* Ask the other processes what their ranks do, if no rank here is at fault.  False: that
 * has taken no time. */
static bool ask_others(struct watch *g, const struct expiry *due)
{
	struct snapshot *s = &g->now;
	struct text silent = { g->silent, sizeof(g->silent) };
	struct peer_question question;
	uint64_t deadline;

	if (g->remote && ask_elsewhere(g))
		return true;
	if (!g->remote || !stall_is_remote(s, due->is_transfer))
		return false;
	question = question_of(s, due);
	g->silent[0] = '\0';
	deadline = clock_deadline(peers_patience_ns(g->options.peers));
	s->remote_count =
		peers_ask(g->options.peers, g->clique, &question, g->remote,
	                  s->world - s->size, deadline, &silent);
	s->remote = g->remote;
	if (!due->is_transfer)
		resolve_waits(g->remote, s->remote_count);
	s->kept.exists = false;
	if (due->is_transfer && s->remote_count)
		p2p_snapshot_keep(s, clique_rank(g->clique, s->transfer.rank),
		                  s->remote);
	s->silent = g->silent[0] ? g->silent : NULL;
	return true;
}

/* Take the stacks for the verdict on what is due.  That takes its time: false if the
 * ranks have gone on meanwhile and there is nothing to tell. */
static bool add_evidence(struct watch *g, struct expiry *due)
{
	struct subject subject = subject_of(&g->now, due);
	uint64_t suspects[COHORT_RANK_WORDS];

	stall_suspects(&g->now, &g->verdict.v, suspects);
	take_stacks(g, &g->now, suspects);
	if (!ask_others(g, due) && !g->stack_count)
		return true;
	sample_again(g, &g->now);
	run_again(g, g->ran_ns + TELLING_NS);
	*due = expiry_next(&g->now);
	if (due->what != EXPIRY_VERDICT ||
	    due->is_transfer != (subject.rank >= 0) ||
	    !is_stuck(&subject, &g->now)) {
		forget_stacks(g);
		return false;
	}
	g->subject = subject_of(&g->now, due);
	add_stacks(g, &g->now);
	restore_bound(&g->now);
	verdict_stalled(&g->now, due, &g->verdict);
	return true;
}

/* Tell what is due about the front or a transfer.  Returns when to look again. */
static uint64_t judge(struct watch *g)
{
	struct expiry due = expiry_next(&g->now);

	if (due.what == EXPIRY_NOTHING)
		return due.next_ns;
	/* The ranks may go on meanwhile, so the snapshot that is told of also
	 * decides. */
	sample_with_threads(g, &g->now);
	run_again(g, g->ran_ns);
	due = expiry_next(&g->now);
	if (due.what == EXPIRY_NOTHING)
		return due.next_ns;
	g->now.remote_count = 0; /* of an earlier verdict */
	g->now.silent = NULL;
	verdict_stalled(&g->now, &due, &g->verdict);
	if (due.what == EXPIRY_VERDICT) {
		if (!add_evidence(g, &due))
			return 0; /* something else may be due */
		act(g, &due);
	} else {
		remember(&g->now, &due);
		tell(g);
	}
	return expiry_next(&g->now).next_ns;
}

/* Tell, once, of a prober that does not come back.  Returns when to look again. */
static uint64_t judge_prober(struct watch *g)
{
	uint64_t since = atomic_load(&g->prober.since_ns), due;

	if (!since || g->prober_is_told)
		return UINT64_MAX;
	due = due_after(g, since, g->clique->deadlines.abort_ns);
	if (g->ran_ns < due)
		return due;
	sample_with_threads(g, &g->now);
	if (g->now.probing < 0)
		return UINT64_MAX;
	g->prober_is_told = true;
	verdict_prober(&g->now, &g->verdict);
	tell(g);
	return UINT64_MAX;
}

/* End the clique if on_verdict was asked and has not answered in time.  Returns when to
 * look again. */
static uint64_t judge_question(struct watch *g)
{
	uint64_t due = due_after(g, g->asked_ns, g->clique->deadlines.abort_ns);
	size_t used = strlen(g->asked.text);

	if (atomic_load(&g->notifier.answered) >= g->question)
		g->question = 0;
	if (!g->question)
		return UINT64_MAX;
	if (g->ran_ns < due)
		return due;
	text_add(&(struct text){ g->asked.text + used,
	                         sizeof(g->asked.text) - used },
	         "; on_verdict has not answered in time");
	cause_set(g->clique->end, &g->asked);
	return 0;
}

/* ---- the thread ------------------------------------------------------- */

/* Take a sample and act on it.  Returns when to take the next one. */
static uint64_t sample_and_judge(struct watch *g)
{
	uint64_t next = clock_deadline(earlier(period(g), HEARTBEAT_NS)), soon;

	sample(g);
	run_again(g, g->ran_ns);
	judge_question(g); /* before judge() asks the next one */
	next = earlier(next, judge(g));
	next = earlier(next, judge_prober(g));
	next = earlier(next, judge_question(g));
	/* A stop from now on makes the watchdog wake after the time it returns. */
	run_again(g, g->ran_ns);
	soon = g->ran_ns + MIN_PERIOD_NS;
	return next > soon ? next : soon;
}

/* True if the stacks that were taken last are evidence for the end: they are of the
 * verdict that caused it, or of a subject that still does not go on. */
static bool has_evidence(const struct watch *g,
                         const struct cohort_cause *cause)
{
	return cause->since_ns == g->subject.since_ns ||
	       is_stuck(&g->subject, &g->now);
}

void log_end(struct watch *g, unsigned event)
{
	struct clique *q = g->clique;

	if (!(atomic_fetch_or(&g->log_state, event) & ~event) ||
	    log_wants_verdicts(&g->options.log))
		return;
	log_line(&g->options.log, "group \"%s\" (generation %d) ended: %s",
	         q->name, q->generation, clique_whole_cause(q)->text);
}

/* Tell that the clique has ended. */
static void tell_end(struct watch *g)
{
	const struct cohort_cause *cause = clique_whole_cause(g->clique);

	if (!cause)
		return;
	if (g->options.peers)
		peers_tell(g->options.peers, g->clique, cause);
	log_end(g, WATCH_HAS_ENDED);
	if (!g->notifier.is_started && !g->dumper) {
		count(g, COHORT_STAGE_ENDED, cause->kind);
		return;
	}
	sample_with_threads(g, &g->now);
	if (!has_evidence(g, cause))
		forget_stacks(g);
	add_stacks(g, &g->now);
	verdict_ended(&g->now, cause, &g->verdict);
	tell(g);
}

static bool has_come_to_end(struct clique *q)
{
	return clique_look(q) >= CLIQUE_RECLAIMED &&
	       clique_look(q) != CLIQUE_WEDGED;
}

/* Tell if the end does not complete in time. */
static void watch_end(struct watch *g)
{
	struct clique *q = g->clique;
	uint64_t ns = q->deadlines.abort_ns, began = cause_any(q->end)->time_ns;
	uint64_t due = ns < UINT64_MAX - began ? began + ns + 1 : UINT64_MAX;

	/* The reaper wakes the watchdog once all is freed, or cannot be. */
	while (clique_look(q) < CLIQUE_RECLAIMED && clock_now() < due)
		clock_await(&q->end->watch, due);
	if (has_come_to_end(q))
		return;
	sample_with_threads(g, &g->now);
	verdict_wedged(&g->now, &g->verdict);
	take_stacks(g, &g->now, g->verdict.v.missing);
	if (has_come_to_end(q))
		return;
	verdict_wedged(&g->now, &g->verdict);
	tell(g);
}

void *watchdog_main(void *arg)
{
	struct watch *g = arg;
	struct clique *q = g->clique;
	uint64_t next;

	active_ns(g, g->ran_ns); /* from here on it is counted */
	next = sample_and_judge(g);
	while (!cause_any(q->end)) {
		clock_await(&q->end->watch, next);
		run_again(g, next);
		next = sample_and_judge(g);
	}
	tell_end(g);
	watch_end(g);
	return NULL;
}

void watch_explain(struct watch *g, char *text, size_t size)
{
	/* Without stacks, which are the watchdog's. */
	sample_with_threads(g, &g->closing);
	verdict_wedged(&g->closing, &g->explanation);
	snprintf(text, size, "%s", g->explanation.text);
}
