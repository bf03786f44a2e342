/* SPDX-License-Identifier: Apache-2.0 */

#include "watch/notifier.h"

#include "base/clock.h"
#include "base/status.h"

/* Maximum time that a verdict waits for its dump files.  A dump takes a few
 * milliseconds for each rank. */
#define DUMP_WAIT_NS UINT64_C(1000000000)

/* Cause block of the clique whose callbacks run on this thread, or NULL. */
static _Thread_local const struct cohort_abort *current_end;

const struct cohort_abort *notifier_current(void)
{
	return current_end;
}

/* Move the pending verdict to n->current.  Return false if none is pending. */
static bool take_pending(struct notifier *n)
{
	bool is_waiting;

	pthread_mutex_lock(&n->lock);
	is_waiting = n->is_waiting && !n->is_deferred;
	if (is_waiting) {
		verdict_copy(&n->current, &n->waiting);
		dumper_retain(n->dumper); /* released by await_dump() */
		n->current_number = n->number;
		n->is_waiting = false;
	}
	pthread_mutex_unlock(&n->lock);
	return is_waiting;
}

/* Wait until the dump files of the verdict in n->current are written, if it has
 * any. */
static void await_dump(struct notifier *n)
{
	const bool is_dumped = n->current.v.stage >= COHORT_STAGE_EXPIRED;

	dumper_await(n->dumper,
	             is_dumped ? clock_deadline(n->dump_wait_ns) : 0);
}

static int call(struct notifier *n, const struct cohort_verdict *v)
{
	if (v->stage >= COHORT_STAGE_EXPIRED)
		log_verdict(&n->options->log, v);
	return n->options->on_verdict
	               ? n->options->on_verdict(v, n->options->user)
	               : 0;
}

static void notify(struct notifier *n)
{
	const struct cohort_verdict *v = &n->current.v;
	const bool asks = n->options->policy == COHORT_POLICY_ASK &&
	                  v->stage == COHORT_STAGE_EXPIRED;
	struct cohort_cause cause;
	int answer = 0;

	await_dump(n);
	/* Do not ask whether to end a clique that has already ended. */
	if (!asks || !cause_peek(n->end)) {
		atomic_store(&n->since_ns, clock_now());
		answer = call(n, v);
		atomic_store(&n->since_ns, 0);
	}
	if (asks && answer) {
		cause = verdict_cause(&n->current);
		cause_set(n->end, &cause);
	}
	atomic_store(&n->answered, n->current_number);
}

static bool notify_pending(void *arg)
{
	struct notifier *n = arg;

	current_end = n->end;
	while (take_pending(n))
		notify(n);
	current_end = NULL;
	return true;
}

static void run(struct notifier *n)
{
	crew_run(&n->job, notify_pending, n, "%.8s/notify", n->name);
}

static void fini(struct notifier *n)
{
	verdict_fini(&n->waiting);
	verdict_fini(&n->current);
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
		.dumper = dumper,
		.is_deferred = options->is_deferred,
		.dump_wait_ns = half < DUMP_WAIT_NS ? half : DUMP_WAIT_NS,
	};
	if (!options->on_verdict && !log_wants_verdicts(&options->log))
		return COHORT_OK;
	pthread_mutex_init(&n->lock, NULL);
	cause_get(n->end);
	/* Initialize both even if one fails, because fini() undoes both. */
	if (!verdict_init(&n->waiting, q->size) +
	    !verdict_init(&n->current, q->size)) {
		fini(n);
		return error_set(COHORT_NO_MEMORY, "no memory for verdicts");
	}
	n->is_wanted = true;
	return COHORT_OK;
}

uint64_t notifier_post(struct notifier *n, const struct verdict *verdict)
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
	n->is_waiting = false; /* no callback is called from now on */
	pthread_mutex_unlock(&n->lock);
	is_done = is_done || crew_cancel(&n->job);
	if (is_done)
		fini(n);
	return is_done;
}
