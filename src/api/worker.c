/* SPDX-License-Identifier: Apache-2.0 */

/*
 * cohort_group_run(): a thread per rank
 *
 * All threads are started before any worker runs, so that a run either happens
 * on every rank or on none.  A worker that fails ends the clique before its
 * thread does, which unblocks the others.
 */

#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "api/group.h"
#include "base/process.h"
#include "base/status.h"
#include "base/thread.h"
#include "core/native.h"

struct run {
	/* Constant while threads run. */
	struct cohort_group *group;
	cohort_worker_fn fn;
	void *user;
	sigset_t signals; /* the caller's, for the workers */

	/* Guarded by lock. */
	pthread_mutex_t lock;
	pthread_cond_t decided; /* go != 0 */
	int go;                 /* 1: run; -1: a thread could not be started */
};

struct worker {
	struct run *run;
	struct cohort_comm *comm;
	pthread_t thread;
};

static bool worker_may_go(struct run *run)
{
	int go;

	pthread_mutex_lock(&run->lock);
	while (!run->go)
		pthread_cond_wait(&run->decided, &run->lock);
	go = run->go;
	pthread_mutex_unlock(&run->lock);
	return go > 0;
}

static void decide(struct run *run, int go)
{
	pthread_mutex_lock(&run->lock);
	run->go = go;
	pthread_cond_broadcast(&run->decided);
	pthread_mutex_unlock(&run->lock);
}

/* Bound, on its device, run the user's function. */
static void worker_run(struct cohort_comm *comm, struct run *run)
{
	const struct platform *p = comm->clique->platform;
	struct cohort_cause cause = { .rank = comm->rank };
	int rc =
		native_cuda(p, "cudaSetDevice", p->cudaSetDevice(comm->device));

	if (rc != COHORT_OK) {
		cause.status = rc;
		clique_fire(comm->clique, &cause, "rank %d: %s", comm->rank,
		            cohort_last_error());
		return;
	}
	cause.worker = run->fn(comm, run->user);
	if (!cause.worker)
		return;
	cause.status = COHORT_WORKER;
	clique_fire(comm->clique, &cause, "the worker of rank %d returned %d",
	            comm->rank, cause.worker);
}

/* Without an owner the rank cannot be run: its thread's end would not be seen. */
static bool worker_bind(struct cohort_comm *comm)
{
	struct cohort_cause cause = { .rank = comm->rank };

	/* BUSY: an intruder that will be gone in a moment. */
	do
		cause.status = cohort_comm_bind(comm);
	while (cause.status == COHORT_BUSY && sched_yield() == 0);
	if (cause.status >= COHORT_OK)
		return true;
	clique_fire(comm->clique, &cause, "rank %d: %s", comm->rank,
	            cohort_last_error());
	return false;
}

static void *worker_main(void *arg)
{
	struct worker *w = arg;

	if (!worker_may_go(w->run))
		return NULL;
	pthread_sigmask(SIG_SETMASK, &w->run->signals, NULL);
	if (worker_bind(w->comm))
		worker_run(w->comm, w->run);
	/* It has come back, so it is in no native call any more. */
	cohort_comm_native_leave(w->comm);
	while (cohort_comm_unbind(w->comm) == COHORT_BUSY)
		sched_yield();
	return NULL;
}

/* Start all threads, run on all or none, and join them. */
static int run_workers(struct run *run, struct worker *workers, int n)
{
	int started, err = 0;

	for (started = 0; started < n; started++) {
		workers[started].run = run;
		workers[started].comm = &run->group->clique->comms[started];
		err = thread_start(&workers[started].thread, worker_main,
		                   &workers[started], "%.9s/%d",
		                   run->group->clique->name, started);
		if (err)
			break;
	}
	decide(run, err ? -1 : 1);
	while (started--)
		pthread_join(workers[started].thread, NULL);
	if (err)
		return error_set(COHORT_SYSTEM,
		                 "cannot start the workers' threads: %s",
		                 strerror(err));
	return COHORT_OK;
}

static int run_all(struct cohort_group *group, cohort_worker_fn fn, void *user)
{
	struct run run = {
		.group = group,
		.fn = fn,
		.user = user,
		.lock = PTHREAD_MUTEX_INITIALIZER,
		.decided = PTHREAD_COND_INITIALIZER,
	};
	int n = group->clique->size, rc;
	struct worker *workers = calloc((size_t)n, sizeof(*workers));
	const struct cohort_cause *cause;

	if (!workers)
		return error_set(COHORT_NO_MEMORY, "no memory for %d workers",
		                 n);
	pthread_sigmask(SIG_SETMASK, NULL, &run.signals);
	rc = run_workers(&run, workers, n);
	free(workers);
	cause = clique_cause(group->clique);
	if (rc == COHORT_OK && cause)
		rc = error_set(cause->status, "%s", cause->text);
	return rc;
}

/* What keeps a rank from being run, NULL: nothing. */
static const char *obstacle(const struct cohort_comm *comm)
{
	return atomic_load(&comm->closed)        ? "closed"
	       : atomic_load(&comm->owner)       ? "bound to a thread"
	       : atomic_load(&comm->native_user) ? "in native calls"
	                                         : NULL;
}

/* Whether every rank can be run now. */
static int run_check(const struct cohort_group *group)
{
	const struct clique *q = group->clique;
	const struct cohort_cause *cause = clique_cause(q);
	const char *what;
	int i;

	if (cause)
		return error_set(COHORT_STATE, "the group has ended: %s",
		                 cause->text);
	for (i = 0; i < q->size; i++) {
		what = obstacle(&q->comms[i]);
		if (what)
			return error_set(COHORT_STATE,
			                 "the communicator of rank %d is %s", i,
			                 what);
	}
	return COHORT_OK;
}

int cohort_group_run(struct cohort_group *group, cohort_worker_fn worker,
                     void *user, struct cohort_cause *cause)
{
	bool was_split;
	int rc;

	if (!group || !worker)
		return error_set(COHORT_INVALID, "%s is NULL",
		                 group ? "worker" : "group");
	rc = process_check();
	if (rc != COHORT_OK)
		return rc;
	if (cause)
		cause_copy(group->clique, cause);
	if (atomic_exchange(&group->running, true))
		return error_set(COHORT_STATE,
		                 "another cohort_group_run() is under way");
	rc = run_check(group);
	if (rc == COHORT_OK) {
		was_split = atomic_exchange(&group->split, true);
		rc = run_all(group, worker, user);
		/* No worker has run: the group is as before. */
		if (rc != COHORT_OK && !clique_cause(group->clique))
			atomic_store(&group->split, was_split);
	}
	if (cause)
		cause_copy(group->clique, cause);
	atomic_store(&group->running, false);
	return rc;
}
