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

/* The time from one look at the operations in flight to the next. */
#define LOOK_NS (25 * UINT64_C(1000000))

/* A thread whose question has had no answer for so long is replaced. */
#define HUNG_NS NS_PER_S

/* The thread. */
struct asker {
	struct job job;
	const struct platform *platform; /* it has made calls of; NULL: none */

	/* Guarded by lock. */
	struct prober *at;
	bool is_dismissed;
	bool is_replaced; /* nobody awaits it: it frees this */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Guarded by lock. */
static struct prober *probers;
static struct asker
	*current; /* the thread that asks; NULL: there are no probers */

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

	/* NCCL keeps only one text, whichever communicator it was for. */
	clique_fire(c->clique, &cause,
	            "%s: the native communicator has failed: %s (%d)%s%s%s",
	            clique_name_rank(c->clique, c->rank, name),
	            p->ncclGetErrorString(result), (int)result,
	            more && *more ? "; NCCL's last message, maybe from another "
	                            "call: \""
	                          : "",
	            more ? more : "", more && *more ? "\"" : "");
}

/* A lost device answers every query with the error that it was lost to.  The
 * event is never part of a capture, and it does not matter whether its work is
 * done. */
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

/* NCCL may find that a process has ended before this one is told, which says
 * more. */
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

/* Note that this thread is about to call @function. */
static void ask(struct prober *p, const char *function)
{
	atomic_store(&p->asking, function);
	atomic_store(&p->since_ns, clock_now());
}

/* Make the rank's device current: a lost device answers only for itself. */
static void go_to(struct asker *a, const struct cohort_comm *c)
{
	const struct platform *platform = c->clique->platform;

	if (a->platform == platform)
		platform->cudaSetDevice(c->device);
	else
		native_thread_init(platform, c->device);
	a->platform = platform;
}

/* Ask about one rank, unless the clique has ended: its communicator must not be
 * touched after that. */
static void probe_rank(struct asker *a, struct prober *p, struct cohort_comm *c)
{
	struct clique *q = p->clique;

	ask(p, "cudaSetDevice");
	/* seq_cst, see cause.h: first enter, then look at the cause. */
	atomic_store(&q->probing, c->rank + 1);
	if (!cause_or_closing(q->end)) {
		go_to(a, c);
		ask(p, "ncclCommGetAsyncError");
		ask_nccl(p, c);
		ask(p, "cudaEventQuery");
		ask_device(c);
	}
	atomic_store(&q->probing, 0);
	atomic_store(&p->since_ns, 0);
}

/* True if the oldest operation of @c has been the same for late_ns. */
static bool is_late(const struct prober *p, struct cohort_comm *c, uint64_t now)
{
	const uint64_t oldest = comm_oldest(c);

	if (oldest != c->oldest) {
		c->oldest = oldest;
		c->oldest_ns = now;
	}
	return oldest && now - c->oldest_ns >= p->late_ns;
}

/* Look at all ranks. */
static bool any_is_late(const struct prober *p)
{
	const uint64_t now = clock_now();
	bool any = false;
	int r;

	for (r = 0; r < p->clique->size; r++) {
		comm_see(&p->clique->comms[r], now);
		any |= is_late(p, &p->clique->comms[r], now);
	}
	return any;
}

/* ---- the thread ------------------------------------------------------- */

/* All of this thread's native calls, including the first, are made in
 * probe_rank(): prober_stop() has no deadline for anything done elsewhere. */
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

/* Go to a clique that this round has not been at; NULL: there is none. */
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
	/* Release: the prober, and its clique, may be freed from here on. */
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

/* Let another thread take the place of one that is in a question about @p. */
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

/* True if a native query may still be under way. */
static bool may_hang(struct clique *q)
{
	enum clique_state state = clique_update_state(q);

	return state < CLIQUE_QUIESCED || state == CLIQUE_WEDGED;
}

/* Wait until no thread is at the clique; false if one hangs there. */
static bool await_leave(const struct prober *p, uint64_t deadline_ns)
{
	struct backoff b = BACKOFF;

	/* The prober may enter again, see the cause and leave.  It can be in a
	 * native call only before QUIESCED, or in a wedged clique. */
	while (atomic_load_explicit(&p->is_taken, memory_order_acquire)) {
		if (clock_now() >= deadline_ns && may_hang(p->clique))
			return false;
		backoff_wait(&b, deadline_ns);
	}
	return true;
}

/* Give up the thread, which hangs at @p. */
static void leave_behind_locked(struct prober *p)
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

/* The thread, if there are no probers any more.  One that is at another clique
 * is for the caller that stops that one. */
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
		leave_behind_locked(p);
	last = dismiss_locked();
	pthread_mutex_unlock(&lock);
	free(p->replacement);
	p->replacement = NULL;
	if (last) {
		crew_poke();
		crew_await(&last->job, UINT64_MAX);
		free(last);
	}
	return has_left;
}
