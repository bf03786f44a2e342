/* SPDX-License-Identifier: Apache-2.0 */

#include "dump/dumper.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/crew.h"
#include "base/pages.h"
#include "base/status.h"
#include "base/text.h"
#include "dump/dump.h"
#include "dump/trigger.h"
#include "watch/symbolizer.h"

/* Verdicts with files of their own.  From the last of these on, each verdict
 * replaces the one before. */
#define VERDICTS 16

/* A verdict with its text, and without the rest of what it points to. */
struct told {
	struct cohort_verdict v;
	char text[FLIGHT_TEXT_SIZE];
	struct stack_traces stacks;
};

/* What tells verdicts apart.  A stall that is told again and again is one
 * verdict. */
struct topic {
	int stage, rank;
	uint64_t number; /* the collective's, or else since_ns */
};

struct dumper {
	/* Constant after the start. */
	struct dump_options options;
	struct waker *waker;
	char name[16]; /* the start of the group's */
	struct job job;

	/* Owned by the job. */
	struct flight flight;
	struct told told;
	struct topic topics[VERDICTS]; /* of the verdicts so far */
	unsigned topics_count;

	/* Held while the clique is copied.  The other lock may be taken inside
	 * it. */
	pthread_mutex_t looking;

	/* Guarded by looking. */
	struct clique *clique; /* NULL: it must not be read any more */

	pthread_mutex_t lock;
	pthread_cond_t changed; /* any of the following fields */

	/* Guarded by lock. */
	struct told waiting;
	bool is_waiting; /* a verdict waits */
	bool is_writing; /* one that waited is being written */
	bool stop;
	bool is_running;  /* the job has begun, and looks at is_left again */
	bool is_given_up; /* nobody may wait any longer */
	bool is_left;     /* no thread waits for the dumper: it frees itself */
	int holders;      /* threads from dumper_hold() to dumper_await() */
};

/* ---- the job ---------------------------------------------------------- */

static void keep(struct told *to, const struct cohort_verdict *from,
                 const struct stack_traces *stacks)
{
	if (stacks && stacks->n)
		to->stacks = *stacks;
	else
		to->stacks.n = 0;
	to->v = *from;
	text_copy(to->text, sizeof(to->text), from->text);
	to->v.group = NULL;
	to->v.ranks = NULL;
	to->v.text = to->text;
}

/* Take the verdict that waits; false: none does. */
static bool take_verdict(struct dumper *d)
{
	bool is_waiting;

	pthread_mutex_lock(&d->lock);
	is_waiting = d->is_waiting;
	if (is_waiting)
		keep(&d->told, &d->waiting.v, &d->waiting.stacks);
	d->is_waiting = false;
	d->is_writing = is_waiting;
	pthread_mutex_unlock(&d->lock);
	return is_waiting;
}

static void note_written(struct dumper *d)
{
	pthread_mutex_lock(&d->lock);
	d->is_writing = false;
	pthread_cond_broadcast(&d->changed);
	pthread_mutex_unlock(&d->lock);
}

/* Take a flight; false if the clique must not be read any more. */
static bool take(struct dumper *d, const char *trigger,
                 const struct cohort_verdict *verdict)
{
	struct clique *q;
	bool taken;

	pthread_mutex_lock(&d->looking);
	q = d->clique;
	taken = q && flight_init(&d->flight, q->size, q->slots);
	if (taken)
		flight_take(&d->flight, q, trigger, verdict);
	pthread_mutex_unlock(&d->looking);
	return taken;
}

static bool is_same(const struct topic *a, const struct topic *b)
{
	return a->stage == b->stage && a->rank == b->rank &&
	       a->number == b->number;
}

/* The number of a verdict, from 1.  A verdict with the topic of an earlier one
 * has its number. */
static unsigned number_of(struct dumper *d, const struct cohort_verdict *v)
{
	struct topic topic = { .stage = v->stage,
		               .rank = v->collective ? -1 : v->rank,
		               .number = v->collective ? v->collective
		                                       : v->since_ns };
	unsigned i;

	for (i = 0; i < d->topics_count; i++)
		if (v->stage == COHORT_STAGE_EXPIRED &&
		    is_same(&d->topics[i], &topic))
			return i + 1;
	if (d->topics_count < VERDICTS)
		d->topics_count++;
	d->topics[d->topics_count - 1] = topic;
	return d->topics_count;
}

/* Write a dump.  If that fails, there is nowhere to tell it. */
static void dump(struct dumper *d, const char *trigger,
                 const struct cohort_verdict *verdict)
{
	char what[DUMP_PATH];

	if (!take(d, trigger, verdict))
		return;
	if (verdict) {
		d->flight.verdict_number = number_of(d, verdict);
		d->flight.stacks = &d->told.stacks;
	}
	dump_write(&d->flight, d->options.directory, what, sizeof(what));
	flight_fini(&d->flight);
}

/* Write what the dumper was woken for. */
static void attend(struct dumper *d, int triggers)
{
	if (take_verdict(d)) {
		dump(d, "verdict", &d->told.v);
		note_written(d);
	}
	if (triggers & TRIGGER_SIGNAL)
		dump(d, "signal", NULL);
	else if (triggers & TRIGGER_FIFO)
		dump(d, "fifo", NULL);
}

/* ---- its end ---------------------------------------------------------- */

static void dumper_free(struct dumper *d)
{
	if (d->waker)
		waker_put(d->waker);
	pthread_cond_destroy(&d->changed);
	pthread_mutex_destroy(&d->lock);
	pthread_mutex_destroy(&d->looking);
	free(d);
}

/* True if there is something to write, or writes to a FIFO are to be waited
 * for. */
static bool has_work(struct dumper *d)
{
	bool has;

	pthread_mutex_lock(&d->lock);
	has = d->is_waiting || waker_was_woken(d->waker) ||
	      (*d->options.fifo && !d->stop);
	pthread_mutex_unlock(&d->lock);
	return has;
}

static bool write_all(void *arg)
{
	struct dumper *d = arg;
	bool is_left;

	pthread_mutex_lock(&d->lock);
	d->is_running = true;
	pthread_mutex_unlock(&d->lock);
	while (has_work(d))
		attend(d, waker_wait(d->waker));
	pthread_mutex_lock(&d->lock);
	is_left = d->is_left;
	d->is_running = false;
	pthread_mutex_unlock(&d->lock);
	if (is_left)
		dumper_free(d);
	return !is_left;
}

static void run(struct dumper *d)
{
	crew_run(&d->job, write_all, d, "%s/dump", d->name);
	waker_wake(d->waker);
}

/* ---- life ------------------------------------------------------------- */

static struct dumper *dumper_alloc(struct clique *q,
                                   const struct dump_options *options)
{
	struct dumper *d = calloc(1, sizeof(*d));

	if (!d)
		return NULL;
	d->options = *options;
	text_copy(d->name, 9, q->name);
	d->clique = q;
	pthread_mutex_init(&d->looking, NULL);
	pthread_mutex_init(&d->lock, NULL);
	clock_cond_init(&d->changed);
	return d;
}

int dumper_start(struct clique *q, const struct dump_options *options,
                 struct dumper **out)
{
	struct dumper *d;
	int rc;

	*out = NULL;
	if (!*options->directory)
		return COHORT_OK;
	d = dumper_alloc(q, options);
	if (!d)
		return error_set(COHORT_NO_MEMORY, "no memory for dumps");
	rc = waker_get(options->signal, options->fifo, &d->waker);
	if (rc != COHORT_OK) {
		dumper_free(d);
		return rc;
	}
	if (*options->fifo)
		run(d);
	*out = d;
	return COHORT_OK;
}

void dumper_tell(struct dumper *d, const struct cohort_verdict *verdict,
                 const struct stack_traces *stacks)
{
	if (!d)
		return;
	pthread_mutex_lock(&d->lock);
	keep(&d->waiting, verdict, stacks);
	d->is_waiting = true;
	pthread_mutex_unlock(&d->lock);
	run(d);
}

void dumper_poll(struct dumper *d)
{
	if (d && waker_was_woken(d->waker))
		run(d);
}

void dumper_hold(struct dumper *d)
{
	if (!d)
		return;
	pthread_mutex_lock(&d->lock);
	d->holders++;
	pthread_mutex_unlock(&d->lock);
}

void dumper_await(struct dumper *d, uint64_t deadline_ns)
{
	struct timespec until = clock_timespec(deadline_ns);
	int err = 0;

	if (!d)
		return;
	pthread_mutex_lock(&d->lock);
	while ((d->is_waiting || d->is_writing) && !d->is_given_up && !err)
		err = pthread_cond_timedwait(&d->changed, &d->lock, &until);
	d->holders--;
	pthread_cond_broadcast(&d->changed);
	pthread_mutex_unlock(&d->lock);
}

void dumper_end(struct dumper *d)
{
	if (!d)
		return;
	pthread_mutex_lock(&d->lock);
	d->stop = true;
	pthread_mutex_unlock(&d->lock);
	run(d);
}

/* Wait until all is written.  At the deadline keep the job from reading the
 * clique, and leave it behind; false then. */
static bool await_end(struct dumper *d, uint64_t deadline_ns)
{
	bool is_done = crew_await(&d->job, deadline_ns), is_left;

	pthread_mutex_lock(&d->looking);
	d->clique = NULL;
	pthread_mutex_unlock(&d->looking);
	pthread_mutex_lock(&d->lock);
	d->is_given_up = true;
	pthread_cond_broadcast(&d->changed);
	while (d->holders)
		pthread_cond_wait(&d->changed, &d->lock);
	while (!is_done && !crew_cancel(&d->job) && !d->is_running) {
		/* The job is about to begin, or has just ended. */
		pthread_mutex_unlock(&d->lock);
		is_done = crew_await(&d->job, clock_deadline(1000000));
		pthread_mutex_lock(&d->lock);
	}
	is_left = !is_done && d->is_running;
	if (is_left) {
		leak_on_purpose(d);
		d->is_left = true; /* from the unlock on the job owns it */
	}
	pthread_mutex_unlock(&d->lock);
	return !is_left;
}

void dumper_stop(struct dumper *d, uint64_t deadline_ns)
{
	if (!d)
		return;
	dumper_end(d);
	if (await_end(d, deadline_ns))
		dumper_free(d);
}
