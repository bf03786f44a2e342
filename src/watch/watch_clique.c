/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Does the watchdog's work for one clique: takes a sample of memory, decides
 * whether a deadline has passed, and reports it
 *
 * The watchdog makes no native call, takes no lock that a hung call could hold,
 * and calls no function that could hang.  If a verdict needs more than memory,
 * jobs of the crew gather it while the watchdog checks other cliques.
 *
 * A collective call does not wake the watchdog.  Instead the watchdog wakes
 * several times within the shortest deadline.  So it sees each collective
 * before that collective's deadline, and then sleeps until exactly the
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
#include "core/launch_lock.h"
#include "core/remote.h"
#include "watch/crossing.h"
#include "watch/render.h"
#include "watch/stall.h"
#include "watch/waits.h"

/* Interval between samples once a rank will make no further call, because
 * another rank may start to wait for it at any time. */
#define LEFT_NS UINT64_C(5000000)

/* Minimum time to sleep, even with a very short deadline, so that the watchdog
 * does not spin. */
#define MIN_PERIOD_NS UINT64_C(100000)

/* Number of samples within the shortest deadline.  The clock of a queued
 * collective starts at the last sample before the collective became the oldest,
 * so a verdict is early by at most the time between two samples. */
#define SAMPLES 8

/*
 * Threshold for stops: if the watchdog wakes this late, it assumes that the
 * process, or the machine, did not run.  On a busy machine, a thread that
 * mostly sleeps is woken within milliseconds, because the scheduler prefers
 * threads that have used little CPU time.  With far more threads than cores,
 * it is woken within tenths of a second.
 *
 * A stop below the threshold counts against the deadline, which matters little
 * for a deadline of seconds.  For a short deadline the threshold is half of the
 * deadline, but at least MIN_GROSS_NS.  If a late wakeup is mistaken for a
 * stop, the deadline moves by that delay, but is not lost: see stops.h.
 */
#define GROSS_NS NS_PER_S
#define MIN_GROSS_NS (NS_PER_S / 10)

/* Maximum time to sleep, so that a much longer stop shows as a late wakeup. */
#define HEARTBEAT_NS NS_PER_S

/* Maximum time to prepare a verdict with stacks and replies of other
 * processes, see trail_follow(). */
#define TELLING_NS (3 * NS_PER_S)

/* Maximum time to wait until a worker starts to gather stacks and replies.  On
 * a busy machine, even an idle worker may take hundreds of milliseconds. */
#define BEGIN_NS NS_PER_S

/* Maximum time to postpone a verdict while the rank that it blames still
 * changes or makes progress; see is_settled(). */
#define SETTLE_NS (8 * UINT64_C(1000000))

/* ---- samples ---------------------------------------------------------- */

/* Add to the snapshot what the prober and the notifier are doing. */
static void add_helper_threads(const struct watch *g, struct snapshot *s)
{
	s->section_tid = memory_section_thread();
	s->probing_since_ns = atomic_load(&g->prober.since_ns);
	if (!s->probing_since_ns)
		s->probing = -1; /* the prober has returned in the meantime */
	s->asking = atomic_load(&g->prober.asking);
	s->callback_since_ns = atomic_load(&g->notifier.since_ns);
}

static void forget_stacks(struct watch *g)
{
	g->stack_count = 0;
	g->subject = (struct subject){ .number = 0 };
}

/* Add the stack of the rank's thread to @r, if it was taken. */
static void add_stack(const struct watch *g, struct rank_snapshot *r)
{
	int k;

	r->stack = NULL;
	for (k = 0; k < g->stack_count; k++)
		if (r->tid && g->stacks[k].tid == r->tid)
			r->stack = &g->stacks[k];
}

/* Add the stacks that were taken, for ranks that still have the same thread. */
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

static void request_stack(struct watch *g, const struct rank_snapshot *r, int n)
{
	g->stacks[n].rank = r->rank;
	g->stacks[n].bound = r->bound;
	g->stacks[n].tid = r->tid;
}

/* Return true if the stack of the rank's thread may show why the rank makes no
 * progress.  It does not if the rank has left. */
static bool stack_is_useful(const struct rank_snapshot *r)
{
	return r->alive == 1 && (r->inside || !rank_has_left(r));
}

/* Choose the threads whose stacks are taken: threads of the first few ranks in
 * @set, and of culprits. */
static void choose_threads(struct watch *g, const uint64_t *set)
{
	const struct snapshot *s = &g->now;
	int i, n = 0;

	forget_stacks(g);
	if (!g->options.stack_signal)
		return;
	for (i = 0; i < s->size && n < STACK_RANKS; i++) {
		if (!rank_set_has(set, s->ranks[i].rank) ||
		    !stack_is_useful(&s->ranks[i]))
			continue;
		request_stack(g, &s->ranks[i], n++);
	}
	for (i = 0; i < s->waits.culprit_count && n < STACK_RANKS; i++)
		if (stack_is_useful(&s->waits.culprits[i].at))
			request_stack(g, &s->waits.culprits[i].at, n++);
	g->stack_count = n;
}

/*
 * Show each rank as bound to the thread that it was bound to when the stacks
 * were taken.  The signal may have ended a thread's sleep and, as a result, its
 * worker; the rank is then bound to no thread.
 */
static void restore_bound(struct snapshot *s)
{
	struct rank_snapshot *r;

	for (r = s->ranks; r < s->ranks + s->size; r++)
		if (r->stack)
			r->bound |= r->stack->bound;
}

static void sample(struct watch *g)
{
	snapshot_take(&g->now, g->clique);
	observer_update(&g->observer, &g->now, g->clique);
}

/* Take the snapshot again, but keep its information about threads.  Add
 * everything else that a verdict needs, except stacks and waits. */
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

/* Take a snapshot with all that a text needs except stacks.  Read the ranks'
 * progress last, because querying the system about threads takes time. */
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

/* Return the shortest deadline that the rank has pushed for its next call or a
 * call in flight. */
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

/* Return the shortest deadline that applies to calls in flight, the next calls
 * or the prober. */
static uint64_t shortest(const struct watch *g)
{
	const struct cohort_deadlines *d = &g->clique->deadlines;
	uint64_t ns = earlier(d->join_ns, d->exec_ns);
	int r;

	/* The prober's queries have this deadline, see judge_prober(). */
	ns = earlier(ns, d->abort_ns);
	if (g->options.adaptive.factor)
		ns = earlier(ns, g->options.adaptive.floor_ns);
	for (r = 0; r < g->clique->size; r++)
		ns = earlier(ns, shortest_own(g, r));
	return ns;
}

/* Return the time between samples. */
static uint64_t period(const struct watch *g)
{
	uint64_t ns = shortest(g);

	if (ns == COHORT_FOREVER && !g->options.slow_ns)
		return ns;
	ns /= SAMPLES;
	if (g->now.has_left)
		ns = earlier(ns, LEFT_NS);
	/* Report a slow operation soon after it becomes slow. */
	if (g->options.slow_ns)
		ns = earlier(ns, g->options.slow_ns);
	if (g->options.adaptive.factor)
		ns = earlier(ns, earlier(OBSERVE_NS,
		                         g->options.adaptive.floor_ns / 4));
	return MAX(ns, MIN_PERIOD_NS);
}

/* ---- stops ------------------------------------------------------------ */

/* Interval between readings of the process's activity; shorter than any stop
 * that counts. */
#define ACTIVITY_NS (MIN_GROSS_NS / 10)

static void read_activity(struct watch *g, uint64_t now_ns)
{
	g->activity.cpu_ns = clock_read(CLOCK_PROCESS_CPUTIME_ID);
	g->activity.delayed_ns = thread_delayed_ns();
	g->activity_ns = now_ns;
}

/* Return how long the process was certainly not stopped since the watchdog last
 * ran, according to the kernel.  Return 0 if the watchdog ran just now or no
 * deadline is running. */
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
 * Record a stop if the watchdog runs much later than @asked_ns, when it was due
 * to run.  Call this between each reading of the clock and the decision that
 * uses the reading.  Otherwise a stop just before the reading would count
 * against a deadline.
 */
static void detect_stop(struct watch *g, uint64_t asked_ns)
{
	uint64_t now = clock_now();
	uint64_t gross = earlier(GROSS_NS, shortest(g) / 2);
	uint64_t active = active_ns(g, now);

	gross = MAX(gross, MIN_GROSS_NS);
	/* Treat the active time as if the thread had spent it running, and had
	 * slept only afterward. */
	if (stops_record(&g->now.stops, g->ran_ns + active,
	                 clock_after(asked_ns, active), now, gross))
		count_up(&g->clique->counts.stops);
	else if (now > asked_ns && now - asked_ns > gross)
		count_up(&g->clique->counts.starved);
	g->ran_ns = now;
}

/* Return the time at which the process has run for @ns since @since_ns. */
static uint64_t due_after(const struct watch *g, uint64_t since_ns, uint64_t ns)
{
	return clock_after(stops_shift(&g->now.stops, since_ns), ns);
}

/* ---- reports ---------------------------------------------------------- */

/* Count a verdict for cohort_stats().  Verdicts are counted only here. */
static void count(struct watch *g, int stage, int kind)
{
	struct clique_counts *n = &g->clique->counts;

	if (stage == COHORT_STAGE_SLOW)
		count_up(&n->slow);
	else
		count_up(&n->verdicts[kind % COUNTED_KINDS]);
}

/* Count the verdict and pass it to the dumper and the notifier.  Return its
 * number, see notifier_post(). */
static uint64_t post_verdict(struct watch *g)
{
	count(g, g->verdict.v.stage, g->verdict.v.kind);
	if (g->verdict.v.stage >= COHORT_STAGE_EXPIRED)
		dumper_post(g->dumper, &g->verdict.v,
		            g->stack_count ? &g->symbolizer.traces : NULL);
	return notifier_post(&g->notifier, &g->verdict);
}

/* ---- acting ----------------------------------------------------------- */

static unsigned expirations(const struct snapshot *s, const struct expiry *due)
{
	uint64_t n = due->deadline_ns
	                     ? (s->now_ns - due->since_ns) / due->deadline_ns
	                     : 1;

	return n < UINT_MAX ? (unsigned)n : UINT_MAX;
}

static void apply_policy(struct watch *g, const struct expiry *due)
{
	struct clique *q = g->clique;
	struct cohort_cause cause;
	uint64_t number;

	if (due->is_transfer)
		g->now.transfer.expired = expirations(&g->now, due);
	else
		g->now.expired = expirations(&g->now, due);
	if (g->options.policy == COHORT_POLICY_ABORT) {
		cause = verdict_cause(&g->verdict);
		memcpy(q->missed, g->verdict.call, sizeof(q->missed));
		q->missed_since_ns = cause.since_ns;
		/* This wakes the watchdog, which then starts the reaper and
		 * reports the verdict: see check_all() and report_end(). */
		cause_set(q->end, &cause);
		return;
	}
	number = post_verdict(g);
	if (g->options.policy != COHORT_POLICY_ASK || g->question)
		return;
	g->question = number;
	g->asked_ns = clock_now();
	g->asked = verdict_cause(&g->verdict);
}

static void mark_as_slow(struct snapshot *s, const struct expiry *due)
{
	*(due->is_transfer ? &s->transfer.slow : &s->slow) = true;
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

/* Return true if the subject still makes no progress in @s. */
static bool is_stuck(const struct subject *what, const struct snapshot *s)
{
	if (what->rank < 0)
		return what->number == s->front;
	return s->transfer.number && what->rank == s->transfer.rank &&
	       what->number == s->transfer.index;
}

/* Return true if it is still open whether the ranks that have left or the ranks
 * that wait are to blame: a rank has left, less than half of the ranks have
 * called, and the other ranks may still call or leave. */
static bool may_all_leave(const struct snapshot *s,
                          const struct cohort_verdict *v)
{
	const struct rank_snapshot *r;
	const struct remote_rank *x;
	int joined = 0, others = 0;

	if (v->kind != COHORT_VERDICT_LEFT ||
	    s->size + s->remote_count < s->world)
		return false;
	for (r = s->ranks; r < s->ranks + s->size; r++) {
		joined += r->joined;
		others += !r->joined && !rank_is_gone(r);
	}
	for (x = s->remote; x < s->remote + s->remote_count; x++) {
		joined += x->joined;
		others += !x->joined && x->kind != COHORT_VERDICT_LEFT;
	}
	return others && 2 * joined < s->world;
}

static struct suspect suspect_of(const struct snapshot *s,
                                 const struct cohort_verdict *v)
{
	const struct culprit *x = s->waits.culprits;
	const struct rank_snapshot *r =
		s->waits.culprit_count && x->at.rank >= 0
			? &x->at
			: snapshot_rank(s, v->rank);

	return (struct suspect){
		.rank = v->rank,
		.world = v->world_rank,
		.ticket = r ? r->last.ticket : 0,
		.waits = (r && !r->joined && (r->waiting || *r->elsewhere)) ||
		         may_all_leave(s, v),
	};
}

/* Return true if the verdict still blames the same rank as before the evidence
 * was gathered, and that rank has made no call since.  If a rank calls just at
 * its deadline, the ranks that wait for it continue one by one. */
static bool is_settled(const struct watch *g)
{
	const struct suspect now = suspect_of(&g->now, &g->verdict.v);

	if (g->ran_ns >= g->settles_ns)
		return true;
	/* If other processes were asked, the rank to blame was not known
	 * before. */
	return !now.waits && (g->asks || (now.rank == g->suspect.rank &&
	                                  now.world == g->suspect.world &&
	                                  now.ticket == g->suspect.ticket));
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
	/* The release publishes everything that was gathered. */
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

/*
 * Have the crew take the stacks of the ranks in @set and, if no rank of this
 * process is at fault for @due, ask the other processes.  If @due is NULL, the
 * other processes are not asked.  Return false if there is nothing to gather.
 */
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
		refuse_stacks(
			g, "names of earlier stacks are still being looked up");
	if (!g->takes_stacks && !g->asks)
		return false;
	g->evidence = EVIDENCE_GATHERING;
	g->evidence_due_ns = clock_deadline(BEGIN_NS);
	atomic_store_explicit(&g->is_gathered, false, memory_order_relaxed);
	crew_run(&g->gathering, gather, g, "%.8s/stacks", g->clique->name);
	return true;
}

/* Return true once the evidence is gathered, or if no worker was free to gather
 * it. */
static bool has_gathered(struct watch *g)
{
	if (atomic_load_explicit(&g->is_gathered, memory_order_acquire))
		return true;
	if (clock_now() < g->evidence_due_ns)
		return false;
	/* If the job has started, it ends soon and then wakes the watchdog, so
	 * no deadline is needed. */
	g->evidence_due_ns = UINT64_MAX;
	if (!crew_cancel(&g->gathering))
		return false;
	if (g->stack_count)
		refuse_stacks(g, "the library has no idle thread");
	g->asks = TRAIL_NONE;
	return true;
}

/* Return true once all evidence is complete, or its time has passed. */
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

/* Add the replies of other processes to the snapshot. */
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
	s->silent = g->silent[0] ? g->silent : NULL;
}

/* Act on the verdict, now that its evidence is complete.  If the ranks made
 * progress while the evidence was gathered, there is nothing to report. */
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
	    (due.is_transfer && p2p_snapshot_store_reply(&g->now, g->clique))) {
		forget_stacks(g);
		return;
	}
	waits_take(&g->now, g->clique, due.is_transfer);
	g->subject = subject_of(&g->now, &due);
	add_stacks(g, &g->now);
	restore_bound(&g->now);
	verdict_stalled(&g->now, &due, &g->verdict);
	if (is_settled(g))
		apply_policy(g, &due);
	else
		forget_stacks(g);
}

/* Report the verdict that is due on the front collective or a transfer.  Return
 * the time at which to check again. */
static uint64_t judge(struct watch *g)
{
	struct expiry due = expiry_next(&g->now);
	uint64_t suspects[COHORT_RANK_WORDS];
	struct subject subject;

	if (due.what == EXPIRY_NOTHING)
		return due.next_ns;
	/* The ranks may have made progress, so decide again from the snapshot
	 * that the report will show. */
	sample_with_threads(g, &g->now);
	detect_stop(g, g->ran_ns);
	due = expiry_next(&g->now);
	if (due.what == EXPIRY_NOTHING)
		return due.next_ns;
	g->now.remote_count = 0; /* drop replies about an earlier verdict */
	g->now.trail = NULL;
	g->now.silent = NULL;
	g->now.traces = NULL;
	waits_take(&g->now, g->clique, due.is_transfer);
	verdict_stalled(&g->now, &due, &g->verdict);
	if (due.what == EXPIRY_SLOW) {
		mark_as_slow(&g->now, &due);
		post_verdict(g);
		return expiry_next(&g->now).next_ns;
	}
	subject = subject_of(&g->now, &due);
	if (subject.since_ns != g->asked_about.since_ns)
		g->settles_ns = clock_deadline(SETTLE_NS);
	g->asked_about = subject;
	g->suspect = suspect_of(&g->now, &g->verdict.v);
	stall_suspects(&g->now, &g->verdict.v, suspects);
	if (begin_evidence(g, suspects, &due))
		return g->evidence_due_ns;
	if (!is_settled(g))
		return g->ran_ns + SETTLE_NS / 8;
	/* If no stacks can be taken, the verdict gives the reason. */
	if (g->stack_count)
		judge_with_evidence(g);
	else
		apply_policy(g, &due);
	return expiry_next(&g->now).next_ns;
}

/* Report, once, a prober that does not return.  Return the time at which to
 * check again. */
static uint64_t judge_prober(struct watch *g)
{
	uint64_t since = atomic_load(&g->prober.since_ns), due;

	if (!since || g->prober_is_reported)
		return UINT64_MAX;
	due = due_after(g, since, g->clique->deadlines.abort_ns);
	if (g->ran_ns < due)
		return due;
	sample_with_threads(g, &g->now);
	if (g->now.probing < 0)
		return UINT64_MAX;
	g->prober_is_reported = true;
	verdict_prober(&g->now, &g->verdict);
	post_verdict(g);
	return UINT64_MAX;
}

/* End the clique if on_verdict was asked and has not returned in time.  Return
 * the time at which to check again. */
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
	         "; on_verdict has not returned in time");
	cause_set(g->clique->end, &g->asked);
	return 0;
}

/* ---- the end ---------------------------------------------------------- */

/* Return true if the stacks that were taken last are evidence for the end: they
 * were taken for the verdict that caused it, or for a subject that still makes
 * no progress. */
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

static void report_end(struct watch *g)
{
	const struct cohort_cause *cause = clique_explained_cause(g->clique);

	if (!cause)
		return;
	if (g->clique->remote)
		g->clique->remote->send_cause(g->clique, cause, 0);
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
	memcpy(g->verdict.call, g->clique->missed, sizeof(g->verdict.call));
	post_verdict(g);
}

static bool has_ended_or_leaked(struct clique *q)
{
	return clique_update_state(q) >= CLIQUE_RECLAIMED &&
	       clique_update_state(q) != CLIQUE_WEDGED;
}

/* Return the time at which to report an end that does not complete. */
static uint64_t end_due(const struct clique *q)
{
	uint64_t ns = q->deadlines.abort_ns,
		 began = cause_or_closing(q->end)->time_ns;

	return ns < UINT64_MAX - began ? began + ns + 1 : UINT64_MAX;
}

/* Report that the end is late, with the stacks of the ranks that delay it. */
static void report_wedged(struct watch *g)
{
	if (has_ended_or_leaked(g->clique))
		return;
	add_stacks(g, &g->now);
	verdict_wedged(&g->now, &g->verdict);
	post_verdict(g);
}

/* Report the end if it does not complete in time.  The reaper wakes the
 * watchdog once all resources are freed, or cannot be freed. */
static void watch_end(struct watch *g)
{
	struct clique *q = g->clique;

	g->next_ns = end_due(q);
	if (clique_update_state(q) < CLIQUE_RECLAIMED &&
	    clock_now() < g->next_ns)
		return;
	if (!has_ended_or_leaked(q)) {
		sample_with_threads(g, &g->now);
		verdict_wedged(&g->now, &g->verdict);
		if (begin_evidence(g, g->verdict.v.missing, NULL)) {
			g->next_ns = g->evidence_due_ns;
			return;
		}
		report_wedged(g);
	}
	g->phase = WATCH_OVER;
}

/* ---- checking --------------------------------------------------------- */

static void sample_and_judge(struct watch *g)
{
	uint64_t next, due, soon;

	sample(g);
	/* period() needs the sample, which shows whether a rank has left. */
	next = clock_deadline(earlier(period(g), HEARTBEAT_NS));
	detect_stop(g, g->ran_ns);
	judge_question(g); /* before judge() asks the next question */
	due = judge(g);
	/* Reading the activity opens a file.  A program that closes all its
	 * descriptors could close this one and reuse its number, so read the
	 * activity only while a deadline is running. */
	if (due == UINT64_MAX)
		g->activity_ns = 0;
	else if (!g->activity_ns)
		read_activity(g, g->ran_ns);
	next = earlier(next, due);
	if (!g->evidence) {
		next = earlier(next, judge_prober(g));
		next = earlier(next, judge_question(g));
		/* A stop after this call will show as a late wakeup. */
		detect_stop(g, g->ran_ns);
	}
	soon = g->ran_ns + MIN_PERIOD_NS;
	g->next_ns = MAX(next, soon);
}

static void resume_verdict(struct watch *g)
{
	if (g->phase == WATCH_ENDING) {
		report_wedged(g);
		g->phase = WATCH_OVER;
		return;
	}
	judge_with_evidence(g);
	g->next_ns = g->ran_ns + MIN_PERIOD_NS; /* another report may be due */
}

/* Return true if a parent of @q, at any level, has a cause.  @q will then soon
 * get a cause as well. */
static bool parent_has_ended(const struct clique *q)
{
	const struct cohort_comm *above = q->comms->above;

	while (above && !cause_or_closing(above->clique->end))
		above = above->above;
	return above;
}

void watchdog_check(struct watch *g)
{
	const bool has_waited = g->evidence;

	if (has_waited && !evidence_is_complete(g)) {
		g->next_ns = g->evidence_due_ns;
	} else if (has_waited) {
		resume_verdict(g);
	} else if (g->phase == WATCH_LIVE &&
	           !cause_or_closing(g->clique->end) &&
	           parent_has_ended(g->clique)) {
		/* The end of this clique wakes the watchdog if it comes
		 * earlier. */
		g->next_ns = clock_deadline(HEARTBEAT_NS);
	} else if (g->phase == WATCH_LIVE &&
	           !cause_or_closing(g->clique->end)) {
		detect_stop(g, g->next_ns);
		sample_and_judge(g);
	} else {
		if (g->phase == WATCH_LIVE)
			report_end(g);
		g->phase = WATCH_ENDING;
		watch_end(g);
	}
}

void watch_explain(struct watch *g, char *text, size_t size)
{
	/* This sample has no stacks, because only the watchdog may collect
	 * them, and other threads call this function. */
	sample_with_threads(g, &g->closing);
	verdict_wedged(&g->closing, &g->explanation);
	snprintf(text, size, "%s", g->explanation.text);
}
