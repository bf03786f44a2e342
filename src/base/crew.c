/* SPDX-License-Identifier: Apache-2.0 */

#include "base/crew.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/list.h"
#include "base/scoped_lock.h"
#include "base/status.h"
#include "base/thread.h"

/* Number of workers to keep idle: while one ends a clique, the other can call
 * on_verdict.  The crew starts with one more, which becomes the prober; see
 * crew_refill(). */
#define IDLE 2
#define AT_FIRST (IDLE + 1)

struct worker {
	pthread_t thread;

	/* The following members are guarded by lock. */
	bool has_begun;
	bool is_busy;
	bool is_tainted; /* has run a job with native calls */
	bool is_left;    /* abandoned; the worker frees this struct itself */
	bool is_extra;   /* not needed; ends unless a job is waiting */
	struct worker *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Signaled if there is a job for an idle worker, and when the crew ends. */
static pthread_cond_t wanted = PTHREAD_COND_INITIALIZER;

/* Signaled when a job is done, and when a worker starts or ends; initialized by
 * the first crew_get(). */
static pthread_cond_t done;

/* Posted to wake the thread in crew_refill(). */
static sem_t missing;

/* Guarded by lock. */
static struct job *first, **end = &first; /* waiting jobs */
static int waiting;                       /* number of waiting jobs */
static int idle;                          /* workers without a job */
static bool ends;
static struct worker *workers;  /* workers that may get a job */
static struct worker *finished; /* workers yet to be joined */

/* Held during crew_get() and crew_put().  Acquired before `lock`. */
static pthread_mutex_t life_lock = PTHREAD_MUTEX_INITIALIZER;
static int users; /* guarded by life_lock */

static struct job *take_locked(struct worker *w)
{
	struct job *job = first;

	first = job->next;
	if (!first)
		end = &first;
	waiting--;
	idle--;
	w->is_busy = true;
	job->state = JOB_RUNS;
	return job;
}

static void set_name(const char *name)
{
	pthread_setname_np(pthread_self(), name);
}

static void queue_locked(struct job *job)
{
	job->state = JOB_WAITS;
	job->rerun = false;
	job->next = NULL;
	*end = job;
	end = &job->next;
	if (++waiting > idle)
		sem_post(&missing);
	pthread_cond_signal(&wanted);
}

/* Run the job.  The lock is released while the job runs. */
static void run_locked(struct worker *w, struct job *job)
{
	bool exists;

	w->is_tainted |= job->is_native;
	pthread_mutex_unlock(&lock);
	set_name(job->name);
	exists = job->fn(job->arg);
	set_name("cohort/spare");
	pthread_mutex_lock(&lock);
	w->is_busy = false;
	idle++;
	if (exists && job->rerun) {
		queue_locked(job);
	} else if (exists) {
		job->state = JOB_DONE;
		pthread_cond_broadcast(&done);
	}
}

/* Return true if the worker must not end after its job. */
static bool is_needed_locked(const struct worker *w)
{
	return !w->is_left && (first || idle <= (w->is_tainted ? 1 : IDLE));
}

/* Register a new worker as idle, so that its thread starts to take jobs.
 * Called by the thread that has created the worker. */
static void begin_locked(struct worker *w, int most)
{
	list_add(workers, w, next);
	idle++;
	w->is_extra = idle > most;
	w->has_begun = true;
	pthread_cond_broadcast(&done);
}

static void end_locked(struct worker *w)
{
	idle--;
	if (w->is_left)
		return;
	list_remove(workers, w, next);
	list_add(finished, w, next);
	pthread_cond_broadcast(&done);
}

static void *worker_main(void *arg)
{
	struct worker *w = arg;
	bool is_needed = true, is_left;

	/* The thread sets its own name, because setting another thread's name
	 * takes a file descriptor. */
	set_name("cohort/spare");
	pthread_mutex_lock(&lock);
	while (!w->has_begun)
		pthread_cond_wait(&done, &lock);
	while (is_needed) {
		if (first) {
			run_locked(w, take_locked(w));
			is_needed = is_needed_locked(w);
		} else if (ends || w->is_extra) {
			is_needed = false;
		} else {
			pthread_cond_wait(&wanted, &lock);
		}
	}
	is_left = w->is_left;
	end_locked(w);
	pthread_mutex_unlock(&lock);
	if (is_left)
		free(w);
	return NULL;
}

/* Start a worker.  If more than @most workers are then idle, the new one ends
 * unless a job is waiting.  Return 0 or an errno value. */
static int start_one(int most)
{
	struct worker *w = calloc(1, sizeof(*w));
	int err;

	if (!w)
		return ENOMEM;
	err = thread_start(&w->thread, worker_main, w, NULL);
	if (err) {
		free(w);
		return err;
	}
	pthread_mutex_lock(&lock);
	begin_locked(w, most);
	pthread_mutex_unlock(&lock);
	return 0;
}

static void prepare(void)
{
	clock_cond_init(&done);
	sem_init(&missing, 0, 0);
}

static void join_finished(void)
{
	struct worker *w, *next;

	pthread_mutex_lock(&lock);
	w = finished;
	finished = NULL;
	pthread_mutex_unlock(&lock);
	for (; w; w = next) {
		next = w->next;
		pthread_join(w->thread, NULL);
		free(w);
	}
}

/* End the idle workers and abandon the busy ones. */
static void stop(void)
{
	struct worker *w, *next;

	pthread_mutex_lock(&lock);
	ends = true;
	pthread_cond_broadcast(&wanted);
	for (w = workers; w; w = next) {
		next = w->next;
		if (!w->is_busy)
			continue;
		list_remove(workers, w, next);
		w->is_left = true;
		pthread_detach(w->thread);
	}
	while (workers)
		pthread_cond_wait(&done, &lock);
	pthread_mutex_unlock(&lock);
	join_finished();
}

static int start(void)
{
	int i, err = 0;

	ends = false; /* there are no workers now */
	for (i = 0; i < AT_FIRST && !err; i++)
		err = start_one(AT_FIRST);
	if (!err)
		return COHORT_OK;
	stop();
	return error_set(COHORT_SYSTEM,
	                 "cannot start the library's threads: %s",
	                 strerror(err));
}

int crew_get(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	int rc;

	pthread_once(&once, prepare);
	pthread_mutex_lock(&life_lock);
	rc = users ? COHORT_OK : start();
	users += rc == COHORT_OK;
	pthread_mutex_unlock(&life_lock);
	return rc;
}

void crew_put(void)
{
	SCOPED_LOCK(&life_lock);
	if (!--users)
		stop();
}

void crew_run(struct job *job, bool (*fn)(void *arg), void *arg,
              const char *format, ...)
{
	va_list args;

	SCOPED_LOCK(&lock);
	job->rerun = job->state == JOB_RUNS;
	if (job->state == JOB_DONE) {
		job->fn = fn;
		job->arg = arg;
		va_start(args, format);
		vsnprintf(job->name, sizeof(job->name), format, args);
		va_end(args);
		thread_sanitize_name(job->name);
		queue_locked(job);
	}
}

bool crew_cancel(struct job *job)
{
	struct job **at = &first;

	SCOPED_LOCK(&lock);
	if (job->state != JOB_WAITS)
		return job->state == JOB_DONE;
	while (*at != job)
		at = &(*at)->next;
	*at = job->next;
	if (end == &job->next)
		end = at;
	waiting--;
	job->state = JOB_DONE;
	return true;
}

bool crew_await(struct job *job, uint64_t deadline_ns)
{
	struct timespec until = clock_timespec(deadline_ns);
	int err = 0;

	SCOPED_LOCK(&lock);
	while (job->state != JOB_DONE && !err)
		err = pthread_cond_timedwait(&done, &lock, &until);
	return job->state == JOB_DONE;
}

void crew_wake_refill(void)
{
	sem_post(&missing);
}

void crew_fill(void)
{
	/* Held so that no other thread joins a worker that is still being
	 * started. */
	static pthread_mutex_t fill_lock = PTHREAD_MUTEX_INITIALIZER;
	int lacking, err = 0;

	if (pthread_mutex_trylock(&fill_lock))
		return; /* another thread is filling the crew */
	join_finished();
	pthread_mutex_lock(&lock);
	lacking = IDLE + waiting - idle;
	pthread_mutex_unlock(&lock);
	while (lacking-- > 0 && !err)
		err = start_one(IDLE);
	pthread_mutex_unlock(&fill_lock);
}

void crew_refill(uint64_t deadline_ns)
{
	clock_await(&missing, deadline_ns);
	while (!sem_trywait(&missing))
		continue;
	crew_fill();
}
