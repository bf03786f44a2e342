/* SPDX-License-Identifier: Apache-2.0 */

#include "watch/notifier.h"

#include <string.h>

#include "base/clock.h"
#include "base/status.h"

/* How long a verdict waits for its files at most.  A dump takes some milliseconds
 * for each rank. */
#define DUMP_WAIT_NS UINT64_C(1000000000)

/* On a notifier's thread: its n->end. */
static _Thread_local const struct cohort_abort *telling;

const struct cohort_abort *notifier_telling(void)
{
	return telling;
}

/* Wait for a verdict and take it; false: stop. */
static bool next(struct notifier *n)
{
	bool is_waiting;

	pthread_mutex_lock(&n->lock);
	while ((!n->is_waiting || n->is_held) && !n->stop)
		pthread_cond_wait(&n->changed, &n->lock);
	is_waiting = n->is_waiting && !n->is_held;
	if (is_waiting) {
		verdict_copy(&n->told, &n->waiting);
		dumper_hold(n->dumper); /* until await_dump() */
	}
	n->told_number = n->number;
	n->is_waiting = false;
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

/* Call on_abort with the clique's cause, once, before the first verdict on the end. */
static void tell_cause(struct notifier *n)
{
	const struct cohort_cause *cause = cause_look(n->end);

	if (!cause || n->cause_is_told || !n->options->on_abort)
		return;
	n->cause_is_told = true;
	n->options->on_abort(cause, n->options->user);
}

static int call(struct notifier *n, const struct cohort_verdict *v)
{
	if (v->stage == COHORT_STAGE_SLOW)
		return n->options->on_slow
		               ? n->options->on_slow(v, n->options->user)
		               : 0;
	if (v->stage >= COHORT_STAGE_EXPIRED)
		log_verdict(&n->options->log, v);
	if (v->stage == COHORT_STAGE_ENDED)
		tell_cause(n);
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

static void *notifier_main(void *arg)
{
	struct notifier *n = arg;

	telling = n->end;
	while (next(n))
		tell(n);
	pthread_mutex_lock(&n->lock);
	n->has_ended = true;
	pthread_cond_broadcast(&n->changed);
	pthread_mutex_unlock(&n->lock);
	return NULL;
}

static void fini(struct notifier *n)
{
	verdict_fini(&n->waiting);
	verdict_fini(&n->told);
	pthread_cond_destroy(&n->changed);
	pthread_mutex_destroy(&n->lock);
	cause_put(n->end);
}

int notifier_start(struct notifier *n, const struct watch_options *options,
                   struct clique *q, struct dumper *dumper)
{
	const uint64_t half = q->deadlines.abort_ns / 2;
	int err;

	*n = (struct notifier){
		.options = options,
		.end = q->end,
		.dumper = dumper,
		.is_held = options->is_held,
		.dump_wait_ns = half < DUMP_WAIT_NS ? half : DUMP_WAIT_NS,
	};
	if (!options->on_verdict && !options->on_abort && !options->on_slow &&
	    !log_wants_verdicts(&options->log))
		return COHORT_OK;
	pthread_mutex_init(&n->lock, NULL);
	clock_cond_init(&n->changed);
	cause_get(n->end);
	/* Initialize both even if one fails, because fini() undoes both. */
	if (!verdict_init(&n->waiting, q->size) +
	    !verdict_init(&n->told, q->size)) {
		fini(n);
		return error_set(COHORT_NO_MEMORY, "no memory for verdicts");
	}
	err = thread_start(&n->thread, notifier_main, n, "%.8s/tell", q->name);
	if (err) {
		fini(n);
		return error_set(COHORT_SYSTEM,
		                 "cannot start the notifier's thread: %s",
		                 strerror(err));
	}
	n->is_started = true;
	return COHORT_OK;
}

uint64_t notifier_tell(struct notifier *n, const struct verdict *verdict)
{
	uint64_t number;

	if (!n->is_started)
		return 0;
	pthread_mutex_lock(&n->lock);
	if (!n->is_waiting || n->waiting.v.stage <= verdict->v.stage) {
		verdict_copy(&n->waiting, verdict);
		n->is_waiting = true;
		n->number++;
		pthread_cond_broadcast(&n->changed);
	}
	number = n->number;
	pthread_mutex_unlock(&n->lock);
	return number;
}

void notifier_release(struct notifier *n)
{
	if (!n->is_started)
		return;
	pthread_mutex_lock(&n->lock);
	n->is_held = false;
	pthread_cond_broadcast(&n->changed);
	pthread_mutex_unlock(&n->lock);
}

bool notifier_stop(struct notifier *n, uint64_t deadline_ns)
{
	struct timespec until = clock_timespec(deadline_ns);
	bool has_ended;
	int err = 0;

	if (!n->is_started)
		return true;
	pthread_mutex_lock(&n->lock);
	n->stop = true;
	pthread_cond_broadcast(&n->changed);
	while (!n->has_ended && !err)
		err = pthread_cond_timedwait(&n->changed, &n->lock, &until);
	has_ended = n->has_ended;
	n->is_waiting = false; /* from now on nothing is told */
	pthread_mutex_unlock(&n->lock);
	if (!has_ended) {
		pthread_detach(n->thread);
		return false;
	}
	pthread_join(n->thread, NULL);
	fini(n);
	return true;
}
