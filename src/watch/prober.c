/* SPDX-License-Identifier: Apache-2.0 */

#include "watch/prober.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/backoff.h"
#include "base/clock.h"
#include "base/crew.h"
#include "base/list.h"
#include "base/status.h"
#include "core/native.h"

/* Interval between checks of the operations in flight. */
#define LOOK_NS (25 * UINT64_C(1000000))

/* Time after which a thread whose query has not returned is replaced. */
#define HUNG_NS NS_PER_S

/* A thread of the prober: the current one, or one that is ready to replace
 * it. */
struct asker {
	struct job job;
	/* The platform whose functions the thread has called, or NULL. */
	const struct platform *platform;

	/* The following members are guarded by lock. */
	struct prober *at; /* the clique that the thread is working on */
	/* The thread must end; prober_stop() waits for it and frees this
	 * structure. */
	bool is_dismissed;
	/* The thread hung and was abandoned; it frees this structure when it
	 * ends. */
	bool is_replaced;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* List of all probers.  Guarded by lock. */
static struct prober *probers;

/* The thread that probes, or NULL if there are no probers.  Guarded by lock. */
static struct asker *current;

static void fire(struct cohort_comm *c, ncclResult_t result)
{
	const struct platform *p = c->clique->platform;
	const char *more = p->ncclGetLastError(c->native);
	const struct cohort_cause cause = {
		.status = COHORT_NCCL,
		.kind = COHORT_VERDICT_ASYNC_ERROR,
		.rank = c->rank,
		.nccl = (int)result,
	};
	char name[RANK_NAME_SIZE];

	/* NCCL keeps only its last message, which may be about any
	 * communicator. */
	clique_fire(c->clique, &cause,
	            "%s: the native communicator has failed: %s (%d)%s%s%s",
	            clique_name_rank(c->clique, c->rank, name),
	            p->ncclGetErrorString(result), (int)result,
	            more && *more ? "; NCCL's last message, maybe from another "
	                            "call: \""
	                          : "",
	            more ? more : "", more && *more ? "\"" : "");
}

/* End the clique if the rank's device was lost.  Every query of a lost device
 * returns an error.  The queried event is never part of a capture, and it does
 * not matter whether its work is done. */
static void ask_device(struct cohort_comm *c)
{
	const struct platform *p = c->clique->platform;
	cudaError_t error = p->cudaEventQuery(c->after.event);
	const struct cohort_cause cause = {
		.status = COHORT_CUDA,
		.kind = native_verdict(error),
		.rank = c->rank,
		.cuda = (int)error,
	};
	char name[RANK_NAME_SIZE];

	if (error == cudaSuccess || error == cudaErrorNotReady ||
	    native_is_exit(error))
		return;
	clique_fire(c->clique, &cause, "%s: device %d has failed: %s (%d)",
	            clique_name_rank(c->clique, c->rank, name), c->device,
	            p->cudaGetErrorString(error), (int)error);
}

/* Return true if NCCL's error may only mean that another process has ended.  A
 * notification of that end with its reason will arrive soon, and makes a better
 * cause. */
static bool is_awaited(struct prober *p, ncclResult_t result)
{
	const uint64_t now = clock_now();

	if (result != ncclRemoteError ||
	    p->clique->world_size == p->clique->size)
		return false;
	if (!p->remote_ns)
		p->remote_ns = now;
	return now - p->remote_ns < NATIVE_REASON_NS;
}

static void ask_nccl(struct prober *p, struct cohort_comm *c)
{
	ncclResult_t result = ncclSuccess;

	if (c->clique->platform->ncclCommGetAsyncError(c->native, &result) ==
	            ncclSuccess &&
	    result != ncclSuccess && result != ncclInProgress &&
	    !is_awaited(p, result))
		fire(c, result);
}

/* Publish that this thread is about to call @function. */
static void publish_query(struct prober *p, const char *function)
{
	atomic_store(&p->asking, function);
	atomic_store(&p->since_ns, clock_now());
}

/* Make the rank's device current, because a lost device makes only its own
 * queries fail. */
static void make_device_current(struct asker *a, const struct cohort_comm *c)
{
	const struct platform *platform = c->clique->platform;

	if (a->platform == platform)
		platform->cudaSetDevice(c->device);
	else
		native_thread_init(platform, c->device);
	a->platform = platform;
}

/* Query one rank, unless the clique has ended, because then its communicator
 * may be freed. */
static void probe_rank(struct asker *a, struct prober *p, struct cohort_comm *c)
{
	struct clique *q = p->clique;

	publish_query(p, "cudaSetDevice");
	/* Store that a query runs, then load the cause, both seq_cst; see
	 * cause.h. */
	atomic_store(&q->probing, c->rank + 1);
	if (!cause_or_closing(q->end)) {
		make_device_current(a, c);
		publish_query(p, "ncclCommGetAsyncError");
		ask_nccl(p, c);
		publish_query(p, "cudaEventQuery");
		ask_device(c);
	}
	atomic_store(&q->probing, 0);
	atomic_store(&p->since_ns, 0);
}

/* Return true if the oldest operation of @c has not changed for late_ns. */
static bool is_late(const struct prober *p, struct cohort_comm *c, uint64_t now)
{
	const uint64_t oldest = comm_oldest(c);

	if (oldest != c->oldest) {
		c->oldest = oldest;
		c->oldest_ns = now;
	}
	return oldest && now - c->oldest_ns >= p->late_ns;
}

static bool any_is_late(const struct prober *p)
{
	const uint64_t now = clock_now();
	bool any = false;
	int r;

	for (r = 0; r < p->clique->size; r++) {
		comm_record_progress(&p->clique->comms[r], now);
		any |= is_late(p, &p->clique->comms[r], now);
	}
	return any;
}

/* ---- the thread ------------------------------------------------------- */

/* Query all ranks of a clique if the oldest operation of one of them is late.
 * The thread makes all its native calls in probe_rank(), even the first,
 * because prober_stop() has no deadline for calls made elsewhere. */
static void probe(struct asker *a, struct prober *p)
{
	struct clique *q = p->clique;
	int r;

	if (atomic_load(&p->stop) || cause_or_closing(q->end) ||
	    !any_is_late(p))
		return;
	for (r = 0; r < q->size; r++)
		probe_rank(a, p, &q->comms[r]);
}

/* Claim a clique that this round has not visited yet, so that no other thread
 * works on it.  Return NULL if there is none. */
static struct prober *enter_next(struct asker *a, unsigned round)
{
	struct prober *p;

	pthread_mutex_lock(&lock);
	list_find(p, a->is_replaced ? NULL : probers, next,
	          p->round != round && !atomic_load(&p->is_taken));
	if (p) {
		p->round = round;
		atomic_store(&p->is_taken, true);
	}
	a->at = p;
	pthread_mutex_unlock(&lock);
	return p;
}

static void leave(struct asker *a, struct prober *p)
{
	pthread_mutex_lock(&lock);
	a->at = NULL;
	pthread_mutex_unlock(&lock);
	/* This store is last, because the prober and its clique may be freed
	 * after it. */
	atomic_store_explicit(&p->is_taken, false, memory_order_release);
}

static bool is_dismissed(struct asker *a, bool *is_replaced)
{
	bool is;

	pthread_mutex_lock(&lock);
	*is_replaced = a->is_replaced;
	is = a->is_dismissed || a->is_replaced;
	pthread_mutex_unlock(&lock);
	return is;
}

static bool ask_all(void *arg)
{
	static atomic_uint rounds;
	struct asker *a = arg;
	struct prober *p;
	bool is_replaced;
	unsigned round;

	while (!is_dismissed(a, &is_replaced)) {
		crew_refill(clock_deadline(LOOK_NS));
		round = atomic_fetch_add(&rounds, 1) + 1;
		while ((p = enter_next(a, round))) {
			probe(a, p);
			leave(a, p);
		}
	}
	if (is_replaced)
		free(a);
	return !is_replaced;
}

static void begin_locked(struct asker *a)
{
	current = a;
	a->job.is_native = true;
	crew_run(&a->job, ask_all, a, "cohort/probe");
}

/* Replace the thread if it is in a query about @p. */
static void replace_locked(struct prober *p)
{
	struct asker *hung = current;

	if (!current || current->at != p || !p->replacement)
		return;
	hung->is_replaced = true;
	begin_locked(p->replacement);
	p->replacement = NULL;
}

uint64_t prober_check(struct prober *p)
{
	uint64_t since = atomic_load(&p->since_ns);

	if (!since)
		return UINT64_MAX;
	if (clock_now() - since < HUNG_NS)
		return since + HUNG_NS;
	pthread_mutex_lock(&lock);
	replace_locked(p);
	pthread_mutex_unlock(&lock);
	return UINT64_MAX;
}

/* ---- life ------------------------------------------------------------- */

int prober_start(struct prober *p, struct clique *q)
{
	struct asker *a = calloc(1, sizeof(*a));

	*p = (struct prober){ .clique = q,
		              .late_ns = LOOK_NS,
		              .replacement = calloc(1, sizeof(*a)) };
	if (!a || !p->replacement) {
		free(p->replacement);
		free(a);
		return error_set(COHORT_NO_MEMORY, "no memory for a prober");
	}
	pthread_mutex_lock(&lock);
	list_add(probers, p, next);
	if (!current) {
		begin_locked(a);
		a = NULL;
	}
	pthread_mutex_unlock(&lock);
	free(a);
	return COHORT_OK;
}

/* Return true if a native query may still be running. */
static bool may_hang(struct clique *q)
{
	enum clique_state state = clique_update_state(q);

	return state < CLIQUE_QUIESCED || state == CLIQUE_WEDGED;
}

/* Wait until no thread is working on the clique.  Return false if a thread
 * hangs there. */
static bool await_leave(const struct prober *p, uint64_t deadline_ns)
{
	struct backoff b = BACKOFF;

	/* After QUIESCED, the probing thread may take the clique again, but it
	 * sees the cause and makes no native call.  So it can hang only if it
	 * hung before, or if the clique is wedged. */
	while (atomic_load_explicit(&p->is_taken, memory_order_acquire)) {
		if (clock_now() >= deadline_ns && may_hang(p->clique))
			return false;
		backoff_wait(&b, deadline_ns);
	}
	return true;
}

/* Abandon the thread, which hangs while it works on @p. */
static void abandon_thread_locked(struct prober *p)
{
	if (!current || current->at != p)
		return;
	if (probers) {
		replace_locked(p);
		return;
	}
	current->is_replaced = true;
	current = NULL;
}

/* If there are no probers left, dismiss the thread and return it; otherwise
 * return NULL.  If the thread is still working on another clique, leave it to
 * the caller that stops that clique's prober. */
static struct asker *dismiss_locked(void)
{
	struct asker *last =
		probers || !current || current->at ? NULL : current;

	if (last) {
		last->is_dismissed = true;
		current = NULL;
	}
	return last;
}

bool prober_stop(struct prober *p, uint64_t deadline_ns)
{
	struct asker *last;
	bool has_left;

	atomic_store(&p->stop, true);
	pthread_mutex_lock(&lock);
	list_remove(probers, p, next);
	pthread_mutex_unlock(&lock);
	has_left = await_leave(p, deadline_ns);
	pthread_mutex_lock(&lock);
	if (!has_left)
		abandon_thread_locked(p);
	last = dismiss_locked();
	pthread_mutex_unlock(&lock);
	free(p->replacement);
	p->replacement = NULL;
	if (last) {
		crew_wake_refill();
		crew_await(&last->job, UINT64_MAX);
		free(last);
	}
	return has_left;
}
