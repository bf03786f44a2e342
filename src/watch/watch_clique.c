/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The watchdog's work for one clique: take a sample of memory, decide which
 * deadline has passed, and report it
 *
 * The watchdog makes no native call, takes no lock that a hung call could hold,
 * and calls nothing that could hang.  What a verdict needs beyond memory is
 * gathered by jobs of the crew, while the watchdog looks at other cliques.
 *
 * A collective that is submitted does not wake the watchdog.  Instead the
 * watchdog wakes at least once within the shortest deadline, so it sees each
 * collective before that one's deadline, and then sleeps until exactly the
 * deadline.
 */

#include "watch/watch_clique.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/backoff.h"
#include "base/clock.h"
#include "base/thread.h"
#include "base/util.h"
#include "core/remote.h"
#include "watch/cycle.h"
#include "watch/stall.h"
#include "watch/waits.h"

/* The time between samples once a rank has left, for which others may wait at
 * any time. */
#define LEFT_NS UINT64_C(5000000)

/* However short a deadline is, the watchdog does not spin. */
#define MIN_PERIOD_NS UINT64_C(100000)

/* Samples within the shortest deadline.  A queued collective's clock starts at
 * the last sample before it became the oldest, so its verdict is early by the
 * time between two samples at most. */
#define SAMPLES 8

/*
 * How late the watchdog has to wake up to conclude that the process, or the
 * machine, did not run.  A thread that mostly sleeps is woken within
 * milliseconds on a busy machine, and within tenths of a second on one with far
 * more threads than cores: it has used so little of its share that it goes
 * first.
 *
 * A stop below the threshold counts against the deadline, which matters little
 * for a deadline of seconds.  For a short deadline the threshold is half of it,
 * but no less than a busy machine may need.  An oversleep that is wrongly taken
 * for a stop moves a deadline by as much, and does not lose it: see stops.h.
 */
#define GROSS_NS NS_PER_S
#define MIN_GROSS_NS (NS_PER_S / 10)

/* The longest sleep, so that any stop much longer than this shows as an
 * oversleep. */
#define HEARTBEAT_NS NS_PER_S

/* The time that a verdict with stacks, and answers of other processes, may
 * take. */
#define TELLING_NS NS_PER_S

/* How long to wait for a worker that begins to gather these: on a busy machine,
 * an idle one takes its time. */
#define BEGIN_NS (100 * UINT64_C(1000000))

/* ---- samples ---------------------------------------------------------- */

/* Add to the snapshot what is not in the clique. */
static void add_helper_threads(const struct watch *g, struct snapshot *s)
{
	s->probing_since_ns = atomic_load(&g->prober.since_ns);
	if (!s->probing_since_ns)
		s->probing = -1; /* the prober has come back since */
	s->asking = atomic_load(&g->prober.asking);
	s->telling_since_ns = atomic_load(&g->notifier.since_ns);
	s->telling = atomic_load(&g->notifier.calling);
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

/* Add the stacks that were taken to the snapshot, if the rank still has the
 * thread. */
static void add_stacks(const struct watch *g, struct snapshot *s)
{
	struct rank_snapshot *r;
	int i;

	for (r = s->ranks; r < s->ranks + s->size; r++)
		add_stack(g, r);
	for (i = 0; i < s->waits.culprit_count; i++)
		add_stack(g, &s->waits.culprits[i].at);
	s->traces = g->stack_count && g->symbolizer.all ? &g->symbolizer.traces
	                                                : NULL;
}

/* Have the thread of @r asked for its stack, as number @n. */
static void want_stack(struct watch *g, const struct rank_snapshot *r, int n)
{
	g->stacks[n].rank = r->rank;
	g->stacks[n].bound = r->bound;
	g->stacks[n].tid = r->tid;
}

/* True if the rank's thread may say why the rank does not go on, as that of a
 * rank that has left does not. */
static bool may_tell(const struct rank_snapshot *r)
{
	return r->alive == 1 && (r->inside || !rank_has_left(r));
}

/* Choose the threads of the first few ranks in @set. */
static void choose_threads(struct watch *g, const uint64_t *set)
{
	const struct snapshot *s = &g->now;
	int i, n = 0;

	forget_stacks(g);
	if (!g->options.stack_signal)
		return;
	for (i = 0; i < s->size && n < STACK_RANKS; i++) {
		if (!rank_set_has(set, s->ranks[i].rank) ||
		    !may_tell(&s->ranks[i]))
			continue;
		want_stack(g, &s->ranks[i], n++);
	}
	for (i = 0; i < s->waits.culprit_count && n < STACK_RANKS; i++)
		if (may_tell(&s->waits.culprits[i].at))
			want_stack(g, &s->waits.culprits[i].at, n++);
	g->stack_count = n;
}

/* The signal may have ended a sleep and by that a worker, whose rank is then
 * bound to no thread.  The verdict is about the thread as it was when it was
 * asked. */
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

/* Take the snapshot again, after some time, and keep what it has about
 * threads. */
static void sample_details(struct watch *g, struct snapshot *s)
{
	if (s == &g->now)
		sample(g);
	else
		snapshot_take(s, g->clique);
	snapshot_awaited(s, g->clique);
	crossing_take(s, g->clique);
	snapshot_tags(s, g->clique);
	add_helper_threads(g, s);
}

/* Take a snapshot with all that a text tells but stacks.  What ranks do is read
 * last. */
static void sample_with_threads(struct watch *g, struct snapshot *s)
{
	snapshot_take(s, g->clique);
	snapshot_threads(s);
	sample_details(g, s);
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* The shortest deadline that the rank has pushed for a call in flight or for
 * its next one. */
static uint64_t shortest_own(const struct watch *g, int rank)
{
	const struct cohort_comm *c = &g->clique->comms[rank], *above;
	uint64_t ns = atomic_load(&c->deadlines.shortest_ns);

	for (above = c->above; above; above = above->above)
		ns = earlier(
			ns,
			earlier(atomic_load(&above->deadlines.shortest_ns),
		                atomic_load(
					&above->deadlines.popped_shortest_ns)));

	if (g->now.next[rank] <= atomic_load(&c->deadlines.popped_last) ||
	    g->now.transfers[rank].next <=
	            atomic_load(&c->deadlines.popped_transfers))
		ns = earlier(ns, atomic_load(&c->deadlines.popped_shortest_ns));
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
	return MAX(ns, MIN_PERIOD_NS);
}

/* ---- stops ------------------------------------------------------------ */

/* How often the kernel is asked what the process does: more often than a stop
 * may be short. */
#define ACTIVITY_NS (MIN_GROSS_NS / 10)

static void read_activity(struct watch *g, uint64_t now_ns)
{
	g->activity.cpu_ns = clock_read(CLOCK_PROCESS_CPUTIME_ID);
	g->activity.delayed_ns = thread_delayed_ns();
	g->activity_ns = now_ns;
}

/* The time since the last run in which, by the kernel, the process was not
 * stopped; 0 if that run was a moment ago or no deadline is running. */
static uint64_t active_ns(struct watch *g, uint64_t now_ns)
{
	const struct activity before = g->activity;

	if (!g->activity_ns || now_ns - g->activity_ns < ACTIVITY_NS)
		return 0;
	read_activity(g, now_ns);
	return earlier(stops_active_ns(&before, &g->activity, cpu_count()),
	               now_ns - g->ran_ns);
}

/*
 * Note that the watchdog runs now and meant to run by @asked_ns.  Between two
 * calls no other reading of the clock may decide anything: a stop just before
 * such a reading would count against a deadline.  It would be noted late, or
 * never, if the next @asked_ns is computed from that reading.
 */
static void detect_stop(struct watch *g, uint64_t asked_ns)
{
	uint64_t now = clock_now();
	uint64_t gross = earlier(GROSS_NS, shortest(g) / 2);
	uint64_t active = active_ns(g, now);

	gross = MAX(gross, MIN_GROSS_NS);
	/* As if the thread had run, and slept, for that much longer. */
	if (stops_note(&g->now.stops, g->ran_ns + active,
	               clock_after(asked_ns, active), now, gross))
		count_up(&g->clique->counts.stops);
	else if (now > asked_ns && now - asked_ns > gross)
		count_up(&g->clique->counts.starved);
	g->ran_ns = now;
}

/* The time @ns after @since_ns, where only time in which the process ran
 * counts. */
static uint64_t due_after(const struct watch *g, uint64_t since_ns, uint64_t ns)
{
	return clock_after(stops_shift(&g->now.stops, since_ns), ns);
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
	uint64_t n = due->deadline_ns
	                     ? (s->now_ns - due->since_ns) / due->deadline_ns
	                     : 1;

	return n < UINT_MAX ? (unsigned)n : UINT_MAX;
}

static void apply_policy(struct watch *g, const struct expiry *due)
{
	struct cohort_cause cause;
	uint64_t number;

	if (due->is_transfer)
		g->now.transfer.expired = expirations(&g->now, due);
	else
		g->now.expired = expirations(&g->now, due);
	if (g->options.policy == COHORT_POLICY_ABORT) {
		cause = verdict_cause(&g->verdict);
		/* This wakes the watchdog: look_at_all() starts the reaper, and
		 * tell_end() reports the verdict. */
		cause_set(g->clique->end, &cause);
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

static bool gather(void *arg)
{
	struct watch *g = arg;
	struct text silent = { g->silent, sizeof(g->silent) };

	g->silent[0] = '\0';
	if (g->takes_stacks)
		symbolizer_take(&g->symbolizer, g->stacks, g->stack_count);
	if (g->asks)
		g->remote_count =
			trail_follow(&g->trail, g->clique, &g->questions,
		                     g->remote, COHORT_MAX_RANKS, &silent);
	/* Release: the above. */
	atomic_store_explicit(&g->is_gathered, true, memory_order_release);
	cause_wake();
	return true;
}

static void refuse_stacks(struct watch *g, const char *why)
{
	int i;

	g->takes_stacks = false;
	g->symbolizer.traces.n = 0;
	for (i = 0; i < g->stack_count; i++)
		symbolizer_refuse(&g->stacks[i], why);
}

/* Have the crew take the stacks of ranks in @set, and ask the other processes
 * if no rank here is at fault for what is due (NULL: do not ask).  False if
 * there is nothing to gather. */
static bool begin_evidence(struct watch *g, const uint64_t *set,
                           const struct expiry *due)
{
	choose_threads(g, set);
	g->takes_stacks = g->stack_count;
	g->asks = due && g->remote
	                  ? trail_start(&g->now, g->clique, due->is_transfer,
	                                &g->questions)
	                  : TRAIL_NONE;
	if (g->stack_count && !symbolizer_is_free(&g->symbolizer))
		refuse_stacks(g, "names are still being looked up");
	if (!g->takes_stacks && !g->asks)
		return false;
	g->evidence = EVIDENCE_GATHERING;
	g->evidence_due_ns = clock_deadline(BEGIN_NS);
	atomic_store_explicit(&g->is_gathered, false, memory_order_relaxed);
	crew_run(&g->gathering, gather, g, "%.8s/stacks", g->clique->name);
	return true;
}

/* True once the crew has gathered, or no worker has begun to. */
static bool has_gathered(struct watch *g)
{
	if (atomic_load_explicit(&g->is_gathered, memory_order_acquire))
		return true;
	if (clock_now() < g->evidence_due_ns)
		return false;
	g->evidence_due_ns = UINT64_MAX; /* the job ends soon, and wakes us */
	if (!crew_cancel(&g->gathering))
		return false;
	if (g->stack_count)
		refuse_stacks(g, "no thread of the library is free");
	g->asks = TRAIL_NONE;
	return true;
}

/* True once all evidence is here, or the time for it is over. */
static bool evidence_is_complete(struct watch *g)
{
	if (g->evidence == EVIDENCE_GATHERING) {
		if (!has_gathered(g))
			return false;
		g->evidence = EVIDENCE_NAMING;
		g->evidence_due_ns = clock_deadline(NAME_NS);
		if (g->takes_stacks)
			symbolizer_name_all(&g->symbolizer);
	}
	if (g->takes_stacks && !symbolizer_has_all(&g->symbolizer) &&
	    clock_now() < g->evidence_due_ns)
		return false;
	if (g->takes_stacks)
		symbolizer_collect(&g->symbolizer, g->stacks);
	g->evidence = EVIDENCE_NONE;
	return true;
}

/* Add the other processes' answers to the snapshot. */
static void add_answers(struct watch *g)
{
	struct snapshot *s = &g->now;

	if (!g->asks)
		return;
	s->trail = &g->trail;
	if (g->asks == TRAIL_ELSEWHERE)
		return;
	s->remote_count = g->remote_count;
	s->remote = g->remote;
	s->kept.exists = false;
	if (g->asked_about.rank >= 0 && s->remote_count)
		p2p_snapshot_keep(s, clique_rank(g->clique, s->transfer.rank),
		                  s->remote);
	s->silent = g->silent[0] ? g->silent : NULL;
}

/* Act on the verdict, for which there is evidence now.  That took its time: the
 * ranks may have gone on meanwhile, and there is nothing to report. */
static void judge_with_evidence(struct watch *g)
{
	struct expiry due;

	add_answers(g);
	sample_details(g, &g->now);
	detect_stop(g, g->ran_ns + TELLING_NS);
	due = expiry_next(&g->now);
	if (due.what != EXPIRY_VERDICT ||
	    due.is_transfer != (g->asked_about.rank >= 0) ||
	    !is_stuck(&g->asked_about, &g->now) ||
	    (due.is_transfer && p2p_snapshot_note(&g->now, g->clique))) {
		forget_stacks(g);
		return;
	}
	waits_take(&g->now, g->clique, due.is_transfer);
	g->subject = subject_of(&g->now, &due);
	add_stacks(g, &g->now);
	restore_bound(&g->now);
	verdict_stalled(&g->now, &due, &g->verdict);
	apply_policy(g, &due);
}

/* Report what is due about the front or a transfer.  Returns when to look
 * again. */
static uint64_t judge(struct watch *g)
{
	struct expiry due = expiry_next(&g->now);
	uint64_t suspects[COHORT_RANK_WORDS];

	if (due.what == EXPIRY_NOTHING)
		return due.next_ns;
	/* The ranks may go on meanwhile, so the snapshot that is reported also
	 * decides. */
	sample_with_threads(g, &g->now);
	detect_stop(g, g->ran_ns);
	due = expiry_next(&g->now);
	if (due.what == EXPIRY_NOTHING)
		return due.next_ns;
	g->now.remote_count = 0; /* of an earlier verdict */
	g->now.trail = NULL;
	g->now.silent = NULL;
	g->now.traces = NULL;
	waits_take(&g->now, g->clique, due.is_transfer);
	verdict_stalled(&g->now, &due, &g->verdict);
	if (due.what != EXPIRY_VERDICT) {
		remember(&g->now, &due);
		tell(g);
		return expiry_next(&g->now).next_ns;
	}
	g->asked_about = subject_of(&g->now, &due);
	stall_suspects(&g->now, &g->verdict.v, suspects);
	if (begin_evidence(g, suspects, &due))
		return g->evidence_due_ns;
	if (g->stack_count)
		judge_with_evidence(
			g); /* with the reason why there are no stacks */
	else
		apply_policy(g, &due);
	return expiry_next(&g->now).next_ns;
}

/* Tell, once, of a prober that does not come back.  Returns when to look
 * again. */
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

/* End the clique if on_verdict was asked and has not answered in time.  Returns
 * when to look again. */
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

/* ---- the end ---------------------------------------------------------- */

/* True if the stacks that were taken last are evidence for the end: they are of
 * the verdict that caused it, or of a subject that still does not go on. */
static bool has_evidence(const struct watch *g,
                         const struct cohort_cause *cause)
{
	return cause->since_ns == g->subject.since_ns ||
	       is_stuck(&g->subject, &g->now);
}

void watch_log_end(struct watch *g, unsigned event)
{
	struct clique *q = g->clique;

	if (!(atomic_fetch_or(&g->log_state, event) & ~event) ||
	    log_wants_verdicts(&g->options.log))
		return;
	log_line(&g->options.log, "group \"%s\" (generation %d) ended: %s",
	         q->name, q->generation, clique_explained_cause(q)->text);
}

/* Report that the clique has ended. */
static void tell_end(struct watch *g)
{
	const struct cohort_cause *cause = clique_explained_cause(g->clique);

	if (!cause)
		return;
	if (g->clique->remote)
		g->clique->remote->tell(g->clique, cause, 0);
	watch_log_end(g, WATCH_HAS_ENDED);
	if (!g->notifier.is_wanted && !g->dumper) {
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
	return clique_update_state(q) >= CLIQUE_RECLAIMED &&
	       clique_update_state(q) != CLIQUE_WEDGED;
}

/* When an end that does not complete is reported. */
static uint64_t end_due(const struct clique *q)
{
	uint64_t ns = q->deadlines.abort_ns,
		 began = cause_or_closing(q->end)->time_ns;

	return ns < UINT64_MAX - began ? began + ns + 1 : UINT64_MAX;
}

/* Report that the end did not complete in time, with the stacks of those who
 * keep it. */
static void tell_wedged(struct watch *g)
{
	if (has_come_to_end(g->clique))
		return;
	add_stacks(g, &g->now);
	verdict_wedged(&g->now, &g->verdict);
	tell(g);
}

/* The reaper wakes the watchdog once all is freed, or cannot be. */
static void watch_end(struct watch *g)
{
	struct clique *q = g->clique;

	g->next_ns = end_due(q);
	if (clique_update_state(q) < CLIQUE_RECLAIMED &&
	    clock_now() < g->next_ns)
		return;
	if (!has_come_to_end(q)) {
		sample_with_threads(g, &g->now);
		verdict_wedged(&g->now, &g->verdict);
		if (begin_evidence(g, g->verdict.v.missing, NULL)) {
			g->next_ns = g->evidence_due_ns;
			return;
		}
		tell_wedged(g);
	}
	g->phase = WATCH_OVER;
}

/* ---- looking ---------------------------------------------------------- */

/* Take a sample and act on it. */
static void sample_and_judge(struct watch *g)
{
	uint64_t next, due, soon;

	sample(g);
	/* The sample tells whether a rank has left. */
	next = clock_deadline(earlier(period(g), HEARTBEAT_NS));
	detect_stop(g, g->ran_ns);
	judge_question(g); /* before judge() asks the next one */
	due = judge(g);
	/* Reading the activity opens a file.  A program that closes all its
	 * descriptors could close that one and reuse its number, so do it only
	 * while a deadline is running. */
	if (due == UINT64_MAX)
		g->activity_ns = 0;
	else if (!g->activity_ns)
		read_activity(g, g->ran_ns);
	next = earlier(next, due);
	if (!g->evidence) {
		next = earlier(next, judge_prober(g));
		next = earlier(next, judge_question(g));
		/* A stop from now on makes the watchdog wake after this
		 * time. */
		detect_stop(g, g->ran_ns);
	}
	soon = g->ran_ns + MIN_PERIOD_NS;
	g->next_ns = MAX(next, soon);
}

/* Go on with a verdict whose evidence is complete. */
static void resume_verdict(struct watch *g)
{
	if (g->phase == WATCH_ENDING) {
		tell_wedged(g);
		g->phase = WATCH_OVER;
		return;
	}
	judge_with_evidence(g);
	g->next_ns = g->ran_ns + MIN_PERIOD_NS; /* something else may be due */
}

/* True if a communicator that this one was split from has a cause, which is
 * about to end this one. */
static bool parent_has_ended(const struct clique *q)
{
	const struct cohort_comm *above = q->comms->above;

	while (above && !cause_or_closing(above->clique->end))
		above = above->above;
	return above;
}

void watchdog_look(struct watch *g)
{
	const bool has_waited = g->evidence;

	if (has_waited && !evidence_is_complete(g)) {
		g->next_ns = g->evidence_due_ns;
	} else if (has_waited) {
		resume_verdict(g);
	} else if (g->phase == WATCH_LIVE &&
	           !cause_or_closing(g->clique->end) &&
	           parent_has_ended(g->clique)) {
		g->next_ns =
			clock_deadline(HEARTBEAT_NS); /* the end wakes us */
	} else if (g->phase == WATCH_LIVE &&
	           !cause_or_closing(g->clique->end)) {
		detect_stop(g, g->next_ns);
		sample_and_judge(g);
	} else {
		if (g->phase == WATCH_LIVE)
			tell_end(g);
		g->phase = WATCH_ENDING;
		watch_end(g);
	}
}

void watch_explain(struct watch *g, char *text, size_t size)
{
	/* Without stacks, which are the watchdog's. */
	sample_with_threads(g, &g->closing);
	verdict_wedged(&g->closing, &g->explanation);
	snprintf(text, size, "%s", g->explanation.text);
}
