/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Implements cohort_group_run(): runs a function on one thread per rank
 *
 * All threads are started before any worker runs, so that either every rank
 * runs or no rank does.  A worker that fails ends the clique before its thread
 * exits, which unblocks the other workers.  A worker that does not return after
 * an abort is abandoned: the memory of the run and of the clique stays
 * allocated until it returns.
 */

#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "api/communicator.h"
#include "api/group.h"
#include "base/clock.h"
#include "base/process.h"
#include "base/status.h"
#include "base/text.h"
#include "base/thread.h"
#include "core/batch.h"
#include "core/launch_lock.h"
#include "core/native.h"
#include "watch/gave_up.h"

/* Interval at which a run checks whether the clique has a cause. */
#define LOOK_NS (20 * UINT64_C(1000000))

/* Time to wait for workers after the clique has become WEDGED.  Workers that
 * wait inside the library get COHORT_WEDGED only then, and need a moment to
 * return. */
#define RETURN_NS (250 * UINT64_C(1000000))

struct worker {
	struct run *run;
	struct cohort_comm *comm;
	pthread_t thread;
	bool is_started;

	/* Guarded by the run's lock. */
	bool has_ended;
	bool is_abandoned; /* true if the run no longer waits for the worker */
};

/* State of one call of cohort_group_run().  The last thread that uses it frees
 * it: the caller or a worker. */
struct run {
	/* Constant while threads run. */
	struct clique *clique;
	cohort_worker_fn fn;
	void *user;
	sigset_t signals; /* signal mask of the caller, for the workers */

	/* The following members are guarded by lock. */
	pthread_mutex_t lock;
	pthread_cond_t changed; /* signaled when go or running changes */
	int go;                 /* 1 to run, -1 if a thread did not start */
	int running;            /* number of workers that have not returned */
	int users;              /* number of threads that use this memory */
	struct worker workers[];
};

static struct run *run_create(struct clique *q, cohort_worker_fn fn, void *user)
{
	struct run *run = calloc(
		1, sizeof(*run) + (size_t)q->size * sizeof(*run->workers));
	int i;

	if (!run)
		return NULL;
	run->clique = q;
	run->fn = fn;
	run->user = user;
	run->users = 1;
	pthread_sigmask(SIG_SETMASK, NULL, &run->signals);
	pthread_mutex_init(&run->lock, NULL);
	clock_cond_init(&run->changed);
	for (i = 0; i < q->size; i++) {
		run->workers[i].run = run;
		run->workers[i].comm = &q->comms[i];
	}
	return run;
}

/* Drop a reference to the run.  Releases the lock. */
static void run_put_locked(struct run *run)
{
	bool last = --run->users == 0;

	pthread_mutex_unlock(&run->lock);
	if (!last)
		return;
	pthread_cond_destroy(&run->changed);
	pthread_mutex_destroy(&run->lock);
	free(run);
}

static bool worker_await_start(struct run *run)
{
	int go;

	pthread_mutex_lock(&run->lock);
	while (!run->go)
		pthread_cond_wait(&run->changed, &run->lock);
	go = run->go;
	pthread_mutex_unlock(&run->lock);
	return go > 0;
}

static void start_workers(struct run *run, int go)
{
	pthread_mutex_lock(&run->lock);
	run->go = go;
	pthread_cond_broadcast(&run->changed);
	pthread_mutex_unlock(&run->lock);
}

/* End the clique because a worker has returned a value other than 0. */
static void worker_report_failure(struct cohort_comm *comm, int returned)
{
	struct cohort_cause cause = {
		.status = COHORT_WORKER,
		.kind = COHORT_VERDICT_WORKER,
		.rank = comm->rank,
		.worker = returned,
	};
	const bool is_answer = gave_up_is_answer(comm, returned);
	char how[64];

	text_set(how, sizeof(how), "its worker returned %s",
	         cohort_status_name(returned));
	if (gave_up(comm, returned, how, &cause))
		cause_set(comm->clique->end, &cause);
	else if (is_answer)
		clique_fire(comm->clique, &cause,
		            "the worker of rank %d returned %s: %s", comm->rank,
		            cohort_status_name(returned), cohort_last_error());
	else
		clique_fire(comm->clique, &cause,
		            "the worker of rank %d returned %d", comm->rank,
		            returned);
}

static void worker_run(struct cohort_comm *comm, struct run *run)
{
	const struct platform *p = comm->clique->platform;
	struct cohort_cause cause = {
		.kind = COHORT_VERDICT_NATIVE_ERROR,
		.rank = comm->rank,
	};
	cudaError_t error = p->cudaSetDevice(comm->device);
	int returned;

	if (error != cudaSuccess) {
		cause.status = native_set_cuda_error(p, "cudaSetDevice", error);
		cause.kind = native_verdict(error);
		cause.cuda = (int)error;
		if (!native_is_exit(error))
			clique_fire(comm->clique, &cause, "rank %d: %s",
			            comm->rank, cohort_last_error());
		return;
	}
	error_forget(); /* error of a failed attempt to bind */
	atomic_store(&comm->thread.is_run_over, false);
	returned = run->fn(comm, run->user);
	if (returned) {
		worker_report_failure(comm, returned);
		return;
	}
	atomic_store(&comm->thread.returned, true);
	watch_wake_all(comm->clique);
}

/* Bind the rank to this thread.  Do not run a rank that cannot be bound,
 * because the library would not notice the exit of its thread. */
static bool worker_bind(struct cohort_comm *comm)
{
	struct cohort_cause cause = {
		.kind = COHORT_VERDICT_WORKER,
		.rank = comm->rank,
	};

	/* COHORT_BUSY means that another thread is in a call on the rank.  That
	 * thread may return in a moment, or hang. */
	do
		cause.status = cohort_comm_bind(comm);
	while (cause.status == COHORT_BUSY && !clique_cause(comm->clique) &&
	       sched_yield() == 0);
	if (cause.status >= COHORT_OK)
		return true;
	clique_fire(comm->clique, &cause, "rank %d: %s", comm->rank,
	            cohort_last_error());
	return false;
}

/* Drop the thread's open batch, if any.  If there is none, keep the thread's
 * last error: it may be why the worker has called pthread_exit(). */
static void leave_batch(struct cohort_comm *comm)
{
	if (batch_is_open(comm) && batch_check(comm) == COHORT_OK)
		batch_drop(comm);
}

/* Count a worker as ended, after it has returned or called pthread_exit(). */
static void worker_cleanup(void *arg)
{
	struct worker *w = arg;
	struct run *run = w->run;
	struct clique *q = run->clique;
	bool is_abandoned;

	/* A thread that was canceled or has called pthread_exit() has skipped
	 * worker_leave(). */
	deadlines_reset(w->comm);
	leave_batch(w->comm);
	pthread_mutex_lock(&run->lock);
	is_abandoned = w->is_abandoned;
	w->has_ended = true;
	run->running--;
	pthread_cond_broadcast(&run->changed);
	run_put_locked(run);
	if (is_abandoned)
		clique_put_abandoned(q);
}

/* Clean up after the user's function: leave native calls, undo pushed deadlines
 * and pauses, and unbind the rank. */
static void worker_leave(struct cohort_comm *comm)
{
	cohort_comm_native_leave(comm);
	while (deadlines_reset(comm) == COHORT_BUSY)
		sched_yield();
	while (cohort_comm_unbind(comm) == COHORT_BUSY)
		sched_yield();
}

static void *worker_main(void *arg)
{
	struct worker *w = arg;

	pthread_cleanup_push(worker_cleanup, w);
	if (worker_await_start(w->run)) {
		pthread_sigmask(SIG_SETMASK, &w->run->signals, NULL);
		if (worker_bind(w->comm)) {
			/* The user's function may set another signal stack, so
			 * have the stack checked again. */
			thread_recheck_signal_stack();
			worker_run(w->comm, w->run);
		}
		worker_leave(w->comm);
	}
	pthread_cleanup_pop(1);
	return NULL;
}

/* Start all threads, then let all of them run.  If one could not be started,
 * let none run.  Return 0 or an errno value. */
static int start_all(struct run *run)
{
	struct worker *w = run->workers;
	int i, err = 0;

	for (i = 0; i < run->clique->size && !err; i++, w++) {
		pthread_mutex_lock(&run->lock);
		run->users++;
		run->running++;
		pthread_mutex_unlock(&run->lock);
		err = thread_start(&w->thread, worker_main, w, "%.9s/%d",
		                   run->clique->name, w->comm->rank);
		w->is_started = !err;
	}
	if (err) {
		pthread_mutex_lock(&run->lock);
		run->users--;
		run->running--;
		pthread_mutex_unlock(&run->lock);
	}
	start_workers(run, err ? -1 : 1);
	return err;
}

/* Return the time at which a run stops waiting for its workers, or UINT64_MAX
 * if there is no cause. */
static uint64_t run_deadline(struct clique *q)
{
	const struct cohort_cause *cause = clique_cause(q);
	uint64_t ns = q->deadlines.abort_ns;

	if (!cause || ns > UINT64_MAX - cause->time_ns - RETURN_NS)
		return UINT64_MAX;
	return cause->time_ns + ns +
	       (clique_update_state(q) == CLIQUE_WEDGED ? RETURN_NS : 0);
}

/* Wait until all workers have returned.  After an abort, wait only until
 * run_deadline(). */
static void await_locked(struct run *run)
{
	uint64_t deadline, look;
	struct timespec until;

	while (run->running) {
		deadline = run_deadline(run->clique);
		/* Use ">", because the clique becomes WEDGED only after the
		 * deadline, which then moves. */
		if (clock_now() > deadline &&
		    deadline == run_deadline(run->clique))
			return;
		/* Poll for a cause.  A new cause cannot wake this thread,
		 * because a signal handler may have set the cause. */
		look = clock_deadline(LOOK_NS);
		until = clock_timespec(deadline < look ? deadline : look);
		pthread_cond_timedwait(&run->changed, &run->lock, &until);
	}
}

static void abandon_locked(struct worker *w)
{
	w->is_abandoned = true;
	atomic_store(&w->comm->thread.abandoned, true);
	clique_get_abandoned(w->run->clique);
	pthread_detach(w->thread);
}

static void end_all(struct run *run)
{
	struct worker *w;
	int i;

	pthread_mutex_lock(&run->lock);
	await_locked(run);
	for (i = 0, w = run->workers; i < run->clique->size; i++, w++)
		if (w->is_started && !w->has_ended)
			abandon_locked(w);
	pthread_mutex_unlock(&run->lock);
	for (i = 0, w = run->workers; i < run->clique->size; i++, w++)
		if (w->is_started && !w->is_abandoned) {
			pthread_join(w->thread, NULL);
			/* The run is over, so another thread or the next run
			 * may make calls for the rank again. */
			atomic_store(&w->comm->thread.is_run_over,
			             atomic_exchange(&w->comm->thread.returned,
			                             false));
		}
}

static int run_all(struct clique *q, cohort_worker_fn fn, void *user)
{
	struct run *run = run_create(q, fn, user);
	int err;

	if (!run)
		return error_set(COHORT_NO_MEMORY, "no memory for %d workers",
		                 q->size);
	err = start_all(run);
	end_all(run);
	pthread_mutex_lock(&run->lock);
	run_put_locked(run);
	if (err)
		return error_set(COHORT_SYSTEM,
		                 "cannot start the workers' threads: %s",
		                 strerror(err));
	return clique_error(q);
}

/* Return the reason why a rank cannot be run, or NULL if it can. */
static const char *obstacle(const struct cohort_comm *comm)
{
	return atomic_load(&comm->lock.closed) ? "closed"
	       : batch_is_open(comm) ? "in an open batch: end it first"
	       : atomic_load(&comm->lock.owner)
	               ? "bound to a thread: call cohort_comm_unbind() on that "
	                 "thread first"
	       : atomic_load(&comm->lock.native_user)
	               ? "in use by a thread between "
	                 "cohort_comm_native_enter() and "
	                 "cohort_comm_native_leave()"
	               : NULL;
}

/* Check that every rank can be run now.  With several processes, another
 * process may end the group just before this one runs it.  Report such an end
 * in the same way as an end during the run. */
static int run_check(const struct cohort_group *group, struct clique *q)
{
	const struct cohort_cause *cause = clique_explained_cause(q);
	const char *what;
	int i;

	if (cause)
		return error_set(group->processes ? cause->status
		                                  : COHORT_STATE,
		                 "the group has ended: %s", cause->text);
	for (i = 0; i < q->size; i++) {
		what = obstacle(&q->comms[i]);
		if (what)
			return error_set(COHORT_STATE,
			                 "the communicator of rank %d is %s",
			                 q->comms[i].rank, what);
	}
	return COHORT_OK;
}

int cohort_group_run(struct cohort_group *group, cohort_worker_fn worker,
                     void *user, struct cohort_cause *cause)
{
	struct clique *q;
	bool was_split;
	int rc;

	if (!group || !worker)
		return error_set(COHORT_INVALID, "%s is NULL",
		                 group ? "worker" : "group");
	rc = process_check_closely();
	if (rc == COHORT_OK)
		rc = memory_section_check("group_run");
	if (rc != COHORT_OK)
		return rc;
	q = group_clique(group);
	if (cause)
		cause_copy(q, cause);
	if (atomic_exchange(&group->running, true))
		return error_set(COHORT_STATE,
		                 "another cohort_group_run(), or "
		                 "cohort_group_respawn(), is in progress");
	q = group_clique(group);
	rc = run_check(group, q);
	if (rc == COHORT_OK) {
		was_split = atomic_exchange(&group->split, true);
		rc = run_all(q, worker, user);
		/* No worker has run, so restore the state before the call. */
		if (rc != COHORT_OK && !clique_cause(q))
			atomic_store(&group->split, was_split);
	}
	if (cause)
		cause_copy(q, cause);
	atomic_store(&group->running, false);
	return rc;
}
