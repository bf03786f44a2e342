/* SPDX-License-Identifier: Apache-2.0 */

#include "dump/dumper.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/crew.h"
#include "base/pages.h"
#include "base/scoped_lock.h"
#include "base/status.h"
#include "base/text.h"
#include "dump/dump.h"
#include "dump/trigger.h"
#include "watch/symbolizer.h"

/* Number of verdicts that get their own files.  Every further verdict
 * overwrites the last one's files. */
#define VERDICTS 16

/* A copy of a verdict with its text.  All other pointers of the copy are
 * NULL. */
struct saved_verdict {
	struct cohort_verdict v;
	char text[FLIGHT_TEXT_SIZE];
	struct stack_traces stacks;
};

/* Identity of a verdict.  Repeated reports of one stall are the same
 * verdict. */
struct topic {
	int stage, rank;
	uint64_t number; /* collective number, or since_ns of a transfer */
};

struct dumper {
	/* Constant after dumper_start(). */
	struct dump_options options;
	struct waker *waker;
	char name[16]; /* start of the group's name */
	struct job job;

	/* Used by the job only. */
	struct flight flight;
	struct saved_verdict saved_verdict;
	struct stack_traces taken;     /* stacks for a requested dump */
	struct topic topics[VERDICTS]; /* topics of the verdicts so far */
	unsigned topics_count;

	/* Held while the clique is copied.  `lock` may be acquired while
	 * clique_lock is held, but not vice versa. */
	pthread_mutex_t clique_lock;

	/* Guarded by clique_lock. */
	struct clique *clique; /* NULL once the clique must not be read */

	pthread_mutex_t lock;
	pthread_cond_t changed; /* signaled when a field below changes */

	/* The following members are guarded by lock. */
	struct saved_verdict waiting;
	bool is_waiting; /* a verdict is in @waiting */
	bool is_writing; /* the job is writing a verdict */
	bool stop;
	bool is_running;  /* the job runs, and will check is_left at its end */
	bool is_given_up; /* threads must stop waiting for dumps */
	bool is_left;     /* the dumper is abandoned; the job frees it */
	int holders; /* threads between dumper_retain() and dumper_await() */
};

static void copy_verdict(struct saved_verdict *to,
                         const struct cohort_verdict *from,
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

/* Take the waiting verdict.  Return false if there is none. */
static bool take_verdict(struct dumper *d)
{
	SCOPED_LOCK(&d->lock);
	d->is_writing = d->is_waiting;
	if (d->is_waiting)
		copy_verdict(&d->saved_verdict, &d->waiting.v,
		             &d->waiting.stacks);
	d->is_waiting = false;
	return d->is_writing;
}

static void end_writing(struct dumper *d)
{
	SCOPED_LOCK(&d->lock);
	d->is_writing = false;
	pthread_cond_broadcast(&d->changed);
}

/* Copy the clique's flight recorders.  Return false if the clique must no
 * longer be read. */
static bool copy_recorders(struct dumper *d, const char *trigger,
                           const struct cohort_verdict *verdict)
{
	struct clique *q;

	SCOPED_LOCK(&d->clique_lock);
	q = d->clique;
	if (!q || !flight_init(&d->flight, q->size, q->slots))
		return false;
	flight_take_facts(&d->flight, q, trigger, verdict);
	flight_take_ranks(&d->flight, q);
	return true;
}

static bool is_same(const struct topic *a, const struct topic *b)
{
	return a->stage == b->stage && a->rank == b->rank &&
	       a->number == b->number;
}

/* Return the number of a verdict, from 1.  A verdict with the same topic as an
 * earlier verdict gets the number of the earlier one. */
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

/* Time without a call after which a rank counts as busy in the program. */
#define BUSY_NS NS_PER_S

static bool is_busy(const struct flight *f, const struct flight_rank *r)
{
	const uint64_t last_ns = r->n ? r->ops[r->n - 1].r.submitted_ns : 0;

	return r->tid && r->alive == 1 && !r->inside &&
	       f->now_ns > last_ns + BUSY_NS;
}

/* Take the stacks of ranks that are busy in the program, for a requested
 * dump. */
static void take_stacks(struct dumper *d)
{
	struct stack_report reports[STACK_RANKS];
	struct flight *f = &d->flight;
	int i, n = 0;

	for (i = 0; i < f->size && n < STACK_RANKS; i++)
		if (is_busy(f, &f->ranks[i]))
			reports[n++] = (struct stack_report){
				.rank = f->ranks[i].rank,
				.tid = f->ranks[i].tid,
			};
	if (n && d->options.stack_signal &&
	    d->options.take_stacks(d->options.stack_signal, reports, n,
	                           &d->taken))
		f->stacks = &d->taken;
}

/* Write a dump.  Ignore errors, because there is nowhere to report them. */
static void dump(struct dumper *d, const char *trigger,
                 const struct cohort_verdict *verdict)
{
	char what[DUMP_PATH];

	if (!copy_recorders(d, trigger, verdict))
		return;
	if (verdict) {
		d->flight.verdict_number = number_of(d, verdict);
		d->flight.stacks = &d->saved_verdict.stacks;
	} else {
		take_stacks(d);
	}
	dump_write(&d->flight, d->options.directory, what, sizeof(what));
	flight_fini(&d->flight);
}

static void handle_triggers(struct dumper *d, int triggers)
{
	if (take_verdict(d)) {
		dump(d, "verdict", &d->saved_verdict.v);
		end_writing(d);
	}
	if (triggers & TRIGGER_SIGNAL)
		dump(d, "signal", NULL);
	else if (triggers & TRIGGER_FIFO)
		dump(d, "fifo", NULL);
}

static void dumper_free(struct dumper *d)
{
	if (d->waker)
		waker_put(d->waker);
	pthread_cond_destroy(&d->changed);
	pthread_mutex_destroy(&d->lock);
	pthread_mutex_destroy(&d->clique_lock);
	free(d);
}

/* Return true if there is something to write, or a FIFO to wait for. */
static bool has_work(struct dumper *d)
{
	SCOPED_LOCK(&d->lock);
	return d->is_waiting || waker_was_woken(d->waker) ||
	       (*d->options.fifo && !d->stop);
}

static bool write_all(void *arg)
{
	struct dumper *d = arg;
	bool is_left;

	pthread_mutex_lock(&d->lock);
	d->is_running = true;
	pthread_mutex_unlock(&d->lock);
	while (has_work(d))
		handle_triggers(d, waker_wait(d->waker));
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

static struct dumper *dumper_alloc(struct clique *q,
                                   const struct dump_options *options)
{
	struct dumper *d = calloc(1, sizeof(*d));

	if (!d)
		return NULL;
	d->options = *options;
	text_copy(d->name, 9, q->name);
	d->clique = q;
	pthread_mutex_init(&d->clique_lock, NULL);
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

void dumper_post(struct dumper *d, const struct cohort_verdict *verdict,
                 const struct stack_traces *stacks)
{
	if (!d)
		return;
	pthread_mutex_lock(&d->lock);
	copy_verdict(&d->waiting, verdict, stacks);
	d->is_waiting = true;
	pthread_mutex_unlock(&d->lock);
	run(d);
}

void dumper_poll(struct dumper *d)
{
	if (d && waker_was_woken(d->waker))
		run(d);
}

void dumper_retain(struct dumper *d)
{
	if (!d)
		return;
	SCOPED_LOCK(&d->lock);
	d->holders++;
}

void dumper_await(struct dumper *d, uint64_t deadline_ns)
{
	struct timespec until = clock_timespec(deadline_ns);
	int err = 0;

	if (!d)
		return;
	SCOPED_LOCK(&d->lock);
	while ((d->is_waiting || d->is_writing) && !d->is_given_up && !err)
		err = pthread_cond_timedwait(&d->changed, &d->lock, &until);
	d->holders--;
	pthread_cond_broadcast(&d->changed);
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

/* Wait until all dumps are written.  At the deadline, keep the job from reading
 * the clique, abandon it, and return false. */
static bool await_end(struct dumper *d, uint64_t deadline_ns)
{
	bool is_done = crew_await(&d->job, deadline_ns), is_left;

	pthread_mutex_lock(&d->clique_lock);
	d->clique = NULL;
	pthread_mutex_unlock(&d->clique_lock);
	pthread_mutex_lock(&d->lock);
	d->is_given_up = true;
	pthread_cond_broadcast(&d->changed);
	while (d->holders)
		pthread_cond_wait(&d->changed, &d->lock);
	while (!is_done && !crew_cancel(&d->job) && !d->is_running) {
		/* The job is about to start, or has just ended. */
		pthread_mutex_unlock(&d->lock);
		is_done = crew_await(&d->job, clock_deadline(1000000));
		pthread_mutex_lock(&d->lock);
	}
	is_left = !is_done && d->is_running;
	if (is_left) {
		leak_on_purpose(d);
		d->is_left = true; /* the job now owns the dumper */
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
