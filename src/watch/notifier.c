/* SPDX-License-Identifier: Apache-2.0 */

#include "watch/notifier.h"

#include "base/clock.h"
#include "base/status.h"

/* How long a verdict waits for its files at most.  A dump takes some
 * milliseconds for each rank. */
#define DUMP_WAIT_NS UINT64_C(1000000000)

/* On a notifier's thread: its n->end. */
static _Thread_local const struct cohort_abort *telling;

const struct cohort_abort *notifier_telling(void)
{
	return telling;
}

/* Take the verdict that waits; false if none does. */
static bool take(struct notifier *n)
{
	bool is_waiting;

	pthread_mutex_lock(&n->lock);
	is_waiting = n->is_waiting && !n->is_deferred;
	if (is_waiting) {
		verdict_copy(&n->told, &n->waiting);
		dumper_hold(n->dumper); /* until await_dump() */
		n->told_number = n->number;
		n->is_waiting = false;
	}
	pthread_mutex_unlock(&n->lock);
	return is_waiting;
}

/* Wait for the files of the verdict that was taken, if it has any. */
static void await_dump(struct notifier *n)
{
	const bool is_dumped = n->told.v.stage >= COHORT_STAGE_EXPIRED;

	dumper_await(n->dumper,
	             is_dumped ? clock_deadline(n->dump_wait_ns) : 0);
}

/* Call on_abort with the clique's cause, once, before the first verdict on the
 * end. */
static void tell_cause(struct notifier *n)
{
	const struct cohort_cause *cause = cause_look(n->end);

	if (!cause || n->cause_is_told || !n->options->on_abort)
		return;
	n->cause_is_told = true;
	atomic_store(&n->calling, "on_abort");
	n->options->on_abort(cause, n->options->user);
}

static int call(struct notifier *n, const struct cohort_verdict *v)
{
	if (v->stage == COHORT_STAGE_SLOW) {
		atomic_store(&n->calling, "on_slow");
		return n->options->on_slow
		               ? n->options->on_slow(v, n->options->user)
		               : 0;
	}
	if (v->stage >= COHORT_STAGE_EXPIRED)
		log_verdict(&n->options->log, v);
	if (v->stage == COHORT_STAGE_ENDED)
		tell_cause(n);
	atomic_store(&n->calling, "on_verdict");
	return n->options->on_verdict
	               ? n->options->on_verdict(v, n->options->user)
	               : 0;
}

static void tell(struct notifier *n)
{
	const struct cohort_verdict *v = &n->told.v;
	const bool asks = n->options->policy == COHORT_POLICY_ASK &&
	                  v->stage == COHORT_STAGE_EXPIRED;
	struct cohort_cause cause;
	int answer = 0;

	await_dump(n);
	/* A clique that has ended needs no question whether to end it. */
	if (!asks || !cause_look(n->end)) {
		atomic_store(&n->since_ns, clock_now());
		answer = call(n, v);
		atomic_store(&n->since_ns, 0);
	}
	if (asks && answer) {
		cause = verdict_cause(&n->told);
		cause_set(n->end, &cause);
	}
	atomic_store(&n->answered, n->told_number);
}

static bool tell_all(void *arg)
{
	struct notifier *n = arg;

	telling = n->end;
	while (take(n))
		tell(n);
	telling = NULL;
	return true;
}

static void run(struct notifier *n)
{
	crew_run(&n->job, tell_all, n, "%.8s/tell", n->name);
}

static void fini(struct notifier *n)
{
	verdict_fini(&n->waiting);
	verdict_fini(&n->told);
	pthread_mutex_destroy(&n->lock);
	cause_put(n->end);
}

int notifier_start(struct notifier *n, const struct watch_options *options,
                   struct clique *q, struct dumper *dumper)
{
	const uint64_t half = q->deadlines.abort_ns / 2;

	*n = (struct notifier){
		.options = options,
		.end = q->end,
		.name = q->name,
		.calling = "on_verdict",
		.dumper = dumper,
		.is_deferred = options->is_deferred,
		.dump_wait_ns = half < DUMP_WAIT_NS ? half : DUMP_WAIT_NS,
	};
	if (!options->on_verdict && !options->on_abort && !options->on_slow &&
	    !log_wants_verdicts(&options->log))
		return COHORT_OK;
	pthread_mutex_init(&n->lock, NULL);
	cause_get(n->end);
	/* Initialize both even if one fails, because fini() undoes both. */
	if (!verdict_init(&n->waiting, q->size) +
	    !verdict_init(&n->told, q->size)) {
		fini(n);
		return error_set(COHORT_NO_MEMORY, "no memory for verdicts");
	}
	n->is_wanted = true;
	return COHORT_OK;
}

uint64_t notifier_tell(struct notifier *n, const struct verdict *verdict)
{
	uint64_t number;

	if (!n->is_wanted)
		return 0;
	pthread_mutex_lock(&n->lock);
	if (!n->is_waiting || n->waiting.v.stage <= verdict->v.stage) {
		verdict_copy(&n->waiting, verdict);
		n->is_waiting = true;
		n->number++;
	}
	number = n->number;
	pthread_mutex_unlock(&n->lock);
	run(n);
	return number;
}

void notifier_release(struct notifier *n)
{
	if (!n->is_wanted)
		return;
	pthread_mutex_lock(&n->lock);
	n->is_deferred = false;
	pthread_mutex_unlock(&n->lock);
	run(n);
}

bool notifier_stop(struct notifier *n, uint64_t deadline_ns)
{
	bool is_done;

	if (!n->is_wanted)
		return true;
	is_done = crew_await(&n->job, deadline_ns);
	pthread_mutex_lock(&n->lock);
	n->is_waiting = false; /* from now on nothing is told */
	pthread_mutex_unlock(&n->lock);
	is_done = is_done || crew_cancel(&n->job);
	if (is_done)
		fini(n);
	return is_done;
}
