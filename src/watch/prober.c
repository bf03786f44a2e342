/* SPDX-License-Identifier: Apache-2.0 */

#include "watch/prober.h"

#include <string.h>

#include "base/backoff.h"
#include "base/clock.h"
#include "base/status.h"
#include "base/thread.h"
#include "core/native.h"

/* The time from one look at the operations in flight to the next. */
#define LOOK_NS (25 * UINT64_C(1000000))

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

	/* NCCL keeps only one text, whichever communicator it was for. */
	clique_fire(
		c->clique, &cause,
		"rank %d: the native communicator has failed: %s (%d)%s%s%s",
		c->rank, p->ncclGetErrorString(result), (int)result,
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
	cudaError_t error = p->cudaEventQuery(c->event);
	const struct cohort_cause cause = {
		.status = COHORT_CUDA,
		.kind = native_kind(error),
		.rank = c->rank,
		.cuda = (int)error,
	};

	if (error == cudaSuccess || error == cudaErrorNotReady ||
	    native_is_exit(error))
		return;
	clique_fire(c->clique, &cause, "rank %d: device %d has failed: %s (%d)",
	            c->rank, c->device, p->cudaGetErrorString(error),
	            (int)error);
}

/* NCCL may find that a process has ended before this one is told, which says more. */
static bool is_awaited(struct prober *p, ncclResult_t result)
{
	const uint64_t now = clock_now();

	if (result != ncclRemoteError || p->clique->world == p->clique->size)
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
static void go_to(struct prober *p, const struct cohort_comm *c)
{
	const struct platform *platform = p->clique->platform;

	if (p->has_begun)
		platform->cudaSetDevice(c->device);
	else
		native_thread(platform, c->device);
	p->has_begun = true;
}

/* Ask about one rank, unless the clique has ended: its communicator must not be touched
 * after that. */
static void probe_rank(struct prober *p, struct cohort_comm *c)
{
	struct clique *q = p->clique;

	ask(p, "cudaSetDevice");
	/* seq_cst, see cause.h: first enter, then look at the cause. */
	atomic_store(&q->probing, c->rank + 1);
	if (!cause_any(q->end)) {
		go_to(p, c);
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

/* All of this thread's native calls, including the first, are made in
 * probe_rank(): prober_stop() has no deadline for anything done elsewhere. */
static void *prober_main(void *arg)
{
	struct prober *p = arg;
	struct clique *q = p->clique;
	int r;

	while (!atomic_load(&p->stop) && !cause_any(q->end)) {
		clock_await(&p->wake, clock_deadline(LOOK_NS));
		if (!any_is_late(p))
			continue;
		for (r = 0; r < q->size; r++)
			probe_rank(p, &q->comms[r]);
	}
	return NULL;
}

int prober_start(struct prober *p, struct clique *q)
{
	int err;

	*p = (struct prober){ .clique = q, .late_ns = LOOK_NS };
	sem_init(&p->wake, 0, 0);
	err = thread_start(&p->thread, prober_main, p, "%.8s/probe", q->name);
	if (!err)
		return COHORT_OK;
	sem_destroy(&p->wake);
	return error_set(COHORT_SYSTEM, "cannot start the prober's thread: %s",
	                 strerror(err));
}

/* True if a native query may still be under way. */
static bool may_hang(struct clique *q)
{
	enum clique_state state = clique_look(q);

	return state < CLIQUE_QUIESCED || state == CLIQUE_WEDGED;
}

bool prober_stop(struct prober *p, uint64_t deadline_ns)
{
	struct backoff b = BACKOFF;

	atomic_store(&p->stop, true);
	sem_post(&p->wake);
	/* The prober may enter again, see the cause and leave.  It can be in a
	 * native call only before QUIESCED, or in a wedged clique. */
	while (atomic_load(&p->clique->probing)) {
		if (clock_now() >= deadline_ns && may_hang(p->clique)) {
			pthread_detach(p->thread);
			return false;
		}
		backoff_wait(&b, deadline_ns);
	}
	pthread_join(p->thread, NULL);
	sem_destroy(&p->wake);
	return true;
}
