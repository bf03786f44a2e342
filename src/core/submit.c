/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Submitting: check, enter the gate, record, call, mark, leave
 *
 * Nothing here allocates, formats or logs unless it fails, and no lock is held
 * that a hung call could keep.  Whatever can be refused is refused before any
 * rank has queued anything; once the native calls have begun, the other ranks
 * may be waiting for this one, so that a failure is the end of the clique.
 */

#include "core/submit.h"

#include <stdio.h>

#include "base/backoff.h"
#include "base/clock.h"
#include "base/status.h"
#include "base/thread.h"
#include "core/call.h"
#include "core/capture.h"
#include "core/gate.h"
#include "core/known.h"
#include "core/many.h"
#include "core/native.h"
#include "core/pair.h"
#include "core/redop.h"
#include "core/split.h"
#include "core/stream.h"
#include "core/together.h"
#include "core/window.h"

/* Of one rank or several: made for each, so that one does not loop over one. */
#define EACH static inline __attribute__((always_inline))

/* ---- the gates -------------------------------------------------------- */

EACH void leave_all(struct cohort_comm *comms, int n)
{
	while (n--)
		gate_leave(&comms[n]);
}

EACH int enter_all(struct cohort_comm *comms, int n)
{
	int i, rc;

	for (i = 0; i < n; i++) {
		rc = gate_enter(&comms[i], false);
		if (rc != COHORT_OK) {
			leave_all(comms, i);
			return rc;
		}
	}
	return COHORT_OK;
}

/* ---- before ----------------------------------------------------------- */

/* Wait until the slot of @ticket is free: its former operation is done. */
static int slot_await(struct cohort_comm *c, uint64_t ticket)
{
	struct clique *q = c->clique;
	uint64_t former = ticket - q->slots;
	struct backoff b;
	int rc;

	if (ticket <= q->slots || comm_ticket_done(c, former))
		return COHORT_OK;
	b = backoff_among(q->world);
	while (!comm_ticket_done(c, former)) {
		rc = clique_error(q);
		if (rc != COHORT_OK)
			return rc;
		comm_ticket_help(c, former, UINT64_MAX);
		backoff_wait(&b, UINT64_MAX);
	}
	return COHORT_OK;
}

EACH int slot_await_all(struct cohort_comm *comms, int n, uint64_t ticket)
{
	int i, rc = COHORT_OK;

	for (i = 0; i < n && rc == COHORT_OK; i++)
		rc = slot_await(&comms[i], ticket);
	return rc;
}

/* What only the communicators know, and have to have, with every gate held. */
EACH int check_inside(struct cohort_comm *comms, int n, const struct op *ops)
{
	int i, rc = COHORT_OK;

	for (i = 0; i < n && rc == COHORT_OK; i++) {
		if (op_is_plain(&ops[i]))
			continue;
		rc = redop_check(&comms[i], &ops[i]);
		if (rc == COHORT_OK)
			rc = pair_prepare(&comms[i], &ops[i]);
	}
	return rc;
}

EACH int check_streams(const struct cohort_comm *comms, int n,
                       const struct op *ops)
{
	int i, rc = COHORT_OK;

	for (i = 0; i < n && rc == COHORT_OK; i++)
		if (!stream_is_known(&comms[i], ops[i].stream))
			rc = stream_check(&comms[i], ops[i].stream,
			                  ops[i].is_of_all ? i : -1);
	return rc;
}

EACH int check_all(const struct cohort_comm *comms, int n, const struct op *ops)
{
	int i, rc = COHORT_OK;

	for (i = 0; i < n && rc == COHORT_OK; i++)
		rc = op_check(&ops[i], comms[i].rank, comms[i].clique->world);
	return rc;
}

/* A list's own check, inside the gate, which knows what it had found before. */
static int check_list(struct cohort_comm *c, struct op *list)
{
	int rc;

	list->known = known_find(c, list);
	if (list->known)
		return COHORT_OK;
	rc = op_check(list, c->rank, c->clique->world);
	if (rc == COHORT_OK)
		list->known = known_add(c, list);
	return rc;
}

/* A list was not let in, for @status: what is wrong with itself comes first. */
static int blame_list(const struct cohort_comm *c, const struct op *list,
                      int status)
{
	int rc = op_check(list, c->rank, c->clique->world);

	return rc == COHORT_OK ? status : rc;
}

/* ---- the native calls ------------------------------------------------- */

/* What went wrong in the native part, if anything did. */
struct failure {
	const char *what; /* the function, NULL: nothing */
	int rank;
	ncclResult_t nccl;
	cudaError_t cuda;
	bool captured; /* the streams are being captured: nothing runs now */
	bool queued;   /* something may have been queued, on any of the ranks */
	bool ended;    /* so that it had to be the end of the clique */
	bool meets;    /* all ranks of the process launch it, or none */
	bool comes_last; /* with this call all have called it */
	bool left;       /* and a thread of the library's launches it */
};

/* Keep the first. */
static void note(struct failure *f, int rank, const char *what,
                 ncclResult_t nccl, cudaError_t cuda)
{
	if (f->what || (nccl == ncclSuccess && cuda == cudaSuccess))
		return;
	f->what = what;
	f->rank = rank;
	f->nccl = nccl;
	f->cuda = cuda;
}

static void note_nccl(struct failure *f, int rank, const char *what,
                      ncclResult_t result)
{
	note(f, rank, what, result, cudaSuccess);
}

static void note_cuda(struct failure *f, int rank, const char *what,
                      cudaError_t error)
{
	note(f, rank, what, ncclSuccess, error);
}

static void launch_copy(const struct cohort_comm *c, const struct op *op,
                        struct failure *f)
{
	const struct cohort_tensor *t = op->tensors;

	note_cuda(f, c->rank, op_native_name(op->kind),
	          c->clique->platform->cudaMemcpyAsync(
			  t->recv, t->send, t->count, cudaMemcpyDefault,
			  op->stream));
}

/* Make the device of one rank of several current. */
EACH void go_to(const struct cohort_comm *c, int n, struct failure *f)
{
	if (n > 1)
		note_cuda(f, c->rank, "cudaSetDevice",
		          c->clique->platform->cudaSetDevice(c->device));
}

/* Those of all ranks: once the first one is queued, what fails is the end of all. */
EACH void launch_copies(const struct cohort_comm *comms, int n,
                        const struct op *ops, struct failure *f)
{
	int i;

	for (i = 0; i < n && !f->what; i++) {
		go_to(&comms[i], n, f);
		if (!f->what)
			launch_copy(&comms[i], &ops[i], f);
		f->queued |= n > 1 && !f->what;
	}
}

static void note_result(struct failure *f, int rank, struct native_result r)
{
	if (r.what)
		note(f, rank, r.what, r.nccl, r.cuda);
}

/* Of one rank: launched otherwise than in one call or group. */
static bool is_special(const struct cohort_comm *c, const struct op *op,
                       bool captured)
{
	return op->n > 1 && many_is_special(c, op, captured);
}

/* All native calls of all ranks, grouped if there are several.  The group is
 * always ended; the first failure is the one that counts. */
EACH void launch_all(struct cohort_comm *comms, int n, const struct op *ops,
                     struct failure *f)
{
	const struct platform *p = comms->clique->platform;
	bool grouped = n > 1 || call_is_several(comms->clique, ops);
	const char *what = NULL;
	ncclResult_t result;
	int i;

	if (ops->kind == OP_COPY) {
		launch_copies(comms, n, ops, f);
		return;
	}
	if (ops->staged) {
		note_result(f, comms->rank, staging_launch(comms, ops));
		return;
	}
	if (n == 1 && is_special(comms, ops, f->captured)) {
		note_result(f, comms->rank,
		            many_launch(comms, ops, f->captured));
		return;
	}
	if (known_launch(comms, ops))
		return;
	if (grouped)
		note_nccl(f, comms->rank, "ncclGroupStart",
		          p->ncclGroupStart());
	for (i = 0; i < n && !f->what; i++) {
		result = call_make(&comms[i], &ops[i], &what);
		note_nccl(f, comms[i].rank, what, result);
	}
	if (!f->captured && !f->what)
		known_keep(comms, ops);
	if (grouped)
		note_nccl(f, comms->rank, "ncclGroupEnd", p->ncclGroupEnd());
}

/* Nothing tells when what this rank may have queued is done: have the event do
 * it, behind all that.  On a device that is lost nothing runs any more. */
static void set_unmarked(struct cohort_comm *c, const struct op *op)
{
	cudaError_t error = cudaErrorUnknown;

	if (!op->staged || !op->staged->is_lost)
		error = c->clique->platform->cudaEventRecord(c->event,
		                                             op->stream);
	c->unmarked_event = error == cudaSuccess;
	c->unmarked = !cuda_error_is_sticky(error);
}

/* Mark the end of one rank's part. */
static void mark(struct cohort_comm *c, void *stream, uint64_t ticket,
                 struct failure *f)
{
	const struct clique *q = c->clique;

	note_cuda(f, c->rank, "mark",
	          q->platform->mark(stream, &c->done[ticket & (q->slots - 1)],
	                            (uint32_t)ticket));
	f->queued = true;
}

/* Mark the start of one rank's part. */
static void mark_start(struct cohort_comm *c, void *stream, uint64_t ticket,
                       struct failure *f)
{
	const struct clique *q = c->clique;

	note_cuda(f, c->rank, "mark",
	          q->platform->mark(stream,
	                            &c->started[ticket & (q->slots - 1)],
	                            (uint32_t)ticket));
}

/* True if one native call or group is all of it, whose ends can be marked with it; where
 * they can, that is so with host memory, too. */
static bool has_own_ends(const struct cohort_comm *c, const struct op *op)
{
	return op_is_awaited(op) && c->clique->world > 1 &&
	       c->clique->platform->ends_ahead && !is_special(c, op, false);
}

/* Launch one that marks its ends itself. */
static void launch_with_ends(struct cohort_comm *c, const struct op *op,
                             uint64_t ticket, struct failure *f)
{
	const struct clique *q = c->clique;
	const uint64_t slot = ticket & (q->slots - 1);

	q->platform->ends_ahead(op->stream, &c->started[slot], &c->done[slot],
	                        (uint32_t)ticket);
	launch_all(c, 1, op, f);
	if (f->what)
		q->platform->ends_ahead(op->stream, NULL, NULL, 0);
	else
		note_cuda(f, c->rank, "mark", q->platform->ends_behind());
}

/* Launch between marks on every rank, each on its device. */
EACH void launch_between(struct cohort_comm *comms, int n, const struct op *ops,
                         uint64_t ticket, struct failure *f)
{
	bool starts = op_is_awaited(ops) &&
	              comms->clique->platform->starts_are_marked;
	int i;

	for (i = 0; starts && i < n && !f->what; i++) {
		go_to(&comms[i], n, f);
		if (!f->what)
			mark_start(&comms[i], ops[i].stream, ticket, f);
	}
	if (!f->what)
		launch_all(comms, n, ops, f);
	for (i = 0; i < n && !f->what; i++) {
		go_to(&comms[i], n, f);
		if (!f->what)
			mark(&comms[i], ops[i].stream, ticket, f);
	}
}

/* Nobody waits for the device: it is done when the call is. */
static void set_done(struct cohort_comm *c, uint64_t ticket)
{
	unsigned slot = ticket & (c->clique->slots - 1);

	/* Release: pairs with the acquire in comm_ticket_done().  seq_cst, as a
	 * mark is: before a look at the state of the clique, which answers by it. */
	__atomic_store_n(&c->started[slot], (uint32_t)ticket, __ATOMIC_RELEASE);
	__atomic_store_n(&c->done[slot], (uint32_t)ticket, __ATOMIC_SEQ_CST);
}

/* Launch and mark.  After a failure nothing says what a collective has queued, on any
 * of the ranks. */
EACH void launch_and_mark(struct cohort_comm *comms, int n,
                          const struct op *ops, uint64_t ticket,
                          struct failure *f)
{
	int i;

	f->queued = op_is_awaited(ops);
	if (n == 1 && has_own_ends(comms, ops))
		launch_with_ends(comms, ops, ticket, f);
	else
		launch_between(comms, n, ops, ticket, f);
	if (!f->what || !f->queued)
		return;
	for (i = 0; i < n; i++) {
		go_to(&comms[i], n, f);
		set_unmarked(&comms[i], &ops[i]);
	}
}

/* ---- after ------------------------------------------------------------ */

/* The failure as this thread's error, and as the cause unless nothing was queued
 * and no other rank waits. */
static int fail(struct cohort_comm *c, const struct op *op, uint64_t ticket,
                struct failure *f)
{
	const struct platform *p = c->clique->platform;
	struct cohort_cause cause = {
		.kind = native_kind(f->cuda),
		.rank = f->rank,
		.ticket = ticket,
		.nccl = (int)f->nccl,
		.cuda = (int)f->cuda,
	};

	cause.status = f->cuda != cudaSuccess
	                       ? native_cuda(p, f->what, f->cuda)
	                       : native_nccl(p, f->what, c->native, f->nccl);
	if (!f->queued || native_is_exit(f->cuda))
		return cause.status;
	if (op_is_collective(op))
		cause.collective = atomic_load(&c->collectives);
	clique_fire(c->clique, &cause, "rank %d%s, %s, ticket %llu: %s",
	            f->rank,
	            cause.kind == COHORT_VERDICT_DEVICE_LOST
	                    ? ", whose device has failed"
	                    : "",
	            op_name_of(op), (unsigned long long)ticket,
	            cohort_last_error());
	f->ended = true;
	return cause.status;
}

/* Whether all ranks make this call.  A difference is the end of the clique. */
EACH int agree_all(struct cohort_comm *comms, int n, const struct op *ops,
                   uint32_t digest, uint64_t ticket, uint64_t now_ns,
                   struct failure *f)
{
	int i, rc = COHORT_OK;

	for (i = 0; i < n && rc == COHORT_OK; i++)
		if (op_is_collective(&ops[i]))
			rc = agree(&comms[i], &ops[i], digest, ticket, now_ns,
			           &f->comes_last);
	f->ended = rc == COHORT_MISMATCH;
	return rc;
}

/* The rank cannot even go to its device, and the others wait for it. */
static void fire_for_device(struct cohort_comm *c, int status,
                            cudaError_t error, struct failure *f)
{
	const struct cohort_cause cause = {
		.status = status,
		.kind = native_kind(error),
		.rank = c->rank,
		.cuda = (int)error,
	};

	clique_fire(c->clique, &cause, "rank %d: %s", c->rank,
	            cohort_last_error());
	f->ended = true;
}

/* Nothing is queued. */
static int launch_split(struct cohort_comm *c, const struct op *op,
                        uint64_t ticket, struct failure *f)
{
	int rc = split_run(c, op->split);

	f->ended = rc != COHORT_OK;
	if (rc == COHORT_OK)
		set_done(c, ticket);
	return rc;
}

/* Nothing runs now.  A mark would be set by each launch of the graph. */
static int launch_captured(struct cohort_comm *comms, int n,
                           const struct op *ops, uint64_t ticket,
                           struct failure *f)
{
	int i;

	f->queued = op_is_awaited(ops);
	launch_all(comms, n, ops, f);
	if (f->what)
		return fail(comms, ops, ticket, f);
	for (i = 0; i < n; i++) {
		set_done(&comms[i], ticket);
		atomic_fetch_add_explicit(&comms[i].captured, 1,
		                          memory_order_relaxed);
	}
	return COHORT_OK;
}

/* With all ranks met, or where they need not. */
EACH int launch_now(struct cohort_comm *comms, int n, const struct op *ops,
                    uint64_t ticket, struct failure *f)
{
	launch_and_mark(comms, n, ops, ticket, f);
	return f->what ? fail(comms, ops, ticket, f) : COHORT_OK;
}

/* ---- calls whose callers leave ---------------------------------------- */

/* With all ranks met: on this thread, which is at @error if it is not on the device. */
static int launch_in_place(struct cohort_comm *c, cudaError_t error,
                           struct failure *f)
{
	int rc = native_cuda(c->clique->platform, "cudaSetDevice", error);

	if (rc == COHORT_OK)
		return launch_now(c, 1, &c->left.op, c->left.ticket, f);
	if (!native_is_exit(error))
		fire_for_device(c, rc, error, f);
	return rc;
}

/* The thread that is there in place of a caller. */
static void *late_main(void *arg)
{
	struct cohort_comm *c = arg;
	struct clique *q = c->clique;
	const uint64_t ticket = c->left.ticket;
	const cudaError_t error = native_thread(q->platform, c->device);
	struct failure f = { .what = NULL };
	int rc;

	rc = together_await(c, 1, c->left.number, false, COHORT_FOREVER);
	if (rc == COHORT_OK) {
		rc = launch_in_place(c, error, &f);
		together_leave(q, 1);
	}
	recorder_end(&c->recorder, ticket, rc);
	/* No mark comes.  The answer is in the notes, then; and what may have been
	 * queued all the same is looked for otherwise. */
	if (rc != COHORT_OK && clique_whole_cause(q))
		set_done(c, ticket);
	atomic_store(&c->is_left, false);
	return NULL;
}

/* False: there is no thread for it. */
static bool leave_call(struct cohort_comm *c, const struct op *op,
                       uint64_t ticket, uint64_t number)
{
	struct left_call *l = &c->left;
	pthread_t thread;

	staging_take(c, op);
	*l = (struct left_call){ *op, *op->tensors, *op->staged, ticket,
		                 number };
	l->op.tensors = &l->tensor;
	l->op.staged = &l->staged;
	atomic_store(&c->is_left, true);
	if (thread_start(&thread, late_main, c, "%.8s/late", c->clique->name)) {
		atomic_store(&c->is_left, false);
		return false;
	}
	pthread_detach(thread);
	return true;
}

/* Wait until all ranks of the process have called, but no longer than a caller with
 * host memory wants to wait: its call has to go on without it. */
EACH int meet(struct cohort_comm *comms, int n, const struct op *ops,
              uint64_t ticket, struct failure *f)
{
	const uint64_t number =
		atomic_load_explicit(&comms->collectives, memory_order_relaxed);
	int rc = together_await(comms, n, number, f->comes_last,
	                        ops->staged ? ops->staged->deadline_ns
	                                    : COHORT_FOREVER);

	if (rc != COHORT_TIMED_OUT)
		return rc;
	f->left = leave_call(comms, ops, ticket, number);
	return f->left ? COHORT_OK
	               : together_await(comms, n, number, false,
	                                COHORT_FOREVER);
}

/* ---- the native part -------------------------------------------------- */

/* The native part, after which the others wait for this rank. */
EACH int launch(struct cohort_comm *comms, int n, const struct op *ops,
                uint64_t ticket, struct failure *f)
{
	int rc = COHORT_OK;

	if (ops->kind == OP_SPLIT)
		return launch_split(comms, ops, ticket, f);
	if (f->captured)
		return launch_captured(comms, n, ops, ticket, f);
	if (f->meets)
		rc = meet(comms, n, ops, ticket, f);
	if (rc != COHORT_OK || f->left)
		return rc;
	rc = launch_now(comms, n, ops, ticket, f);
	if (f->meets)
		together_leave(comms->clique, n);
	return rc;
}

/* Note what is done of what was called before. */
static void look_back(struct cohort_comm *c, uint64_t ticket, uint64_t now)
{
	if (recorder_has_finished(&c->recorder, ticket) ||
	    !comm_ticket_done(c, ticket))
		return;
	recorder_set_finished(&c->recorder, ticket, now);
	comm_saw_done(c, ticket - 1, now);
}

/* With every gate held and the first rank's device current. */
EACH int submit_inside(struct cohort_comm *comms, int n, const struct op *ops,
                       struct failure *f, uint64_t *ticket_out)
{
	/* Of several ranks the one thread calls the same for each. */
	const struct clique *q = comms->clique;
	uint32_t digest = agree_digest(ops);
	uint64_t now, ticket;
	int i, rc = COHORT_OK;

	rc = capture_check(comms, n, ops, &f->captured);
	if (rc != COHORT_OK)
		return rc;
	f->meets = q->together && digest && !f->captured && q->world > 1;
	/* The others would wait for a launch that does not come now: a captured call
	 * agrees with no call that is launched. */
	if (q->together && digest && f->captured)
		digest += digest < UINT32_MAX ? 1 : 2;
	/* One thread that calls for several ranks has no lists. */
	if (n == 1 && ops->n > 1)
		rc = many_prepare(comms, ops, f->captured);
	if (rc != COHORT_OK)
		return rc;
	for (i = 0; i < n && rc == COHORT_OK; i++)
		rc = gate_await_left(&comms[i]);
	if (rc != COHORT_OK)
		return rc;
	ticket = atomic_load_explicit(&comms->last, memory_order_relaxed) + 1;
	rc = slot_await_all(comms, n, ticket);
	if (rc != COHORT_OK)
		return rc;
	if (digest)
		agree_fetch(comms);
	now = clock_quick();
	for (i = 0; i < n; i++) {
		if (ticket > 1)
			look_back(&comms[i], ticket - 1, now);
		/* Set by this thread as it entered. */
		recorder_begin(&comms[i].recorder, ticket, &ops[i], digest,
		               atomic_load_explicit(&comms[i].tid,
		                                    memory_order_relaxed),
		               now);
		if (f->captured)
			recorder_set_captured(&comms[i].recorder, ticket);
	}
	rc = agree_all(comms, n, ops, digest, ticket, now, f);
	for (i = 0; i < n && rc == COHORT_OK; i++)
		if (!op_is_plain(&ops[i]))
			pair_publish(&comms[i], &ops[i], ticket, now);
	if (rc == COHORT_OK)
		rc = launch(comms, n, ops, ticket, f);
	if (f->meets)
		now = clock_quick();
	for (i = 0; i < n; i++) {
		if (!f->left)
			recorder_end(&comms[i].recorder, ticket, rc);
		/* Nothing was before it. */
		if (comm_ticket_started(&comms[i], ticket))
			recorder_set_started(&comms[i].recorder, ticket, now);
		/* Release: pairs with the acquire in comm_ticket_done() and
		 * the reaper: the operation and its mark are queued, and the
		 * former one of the slot was done. */
		if (rc == COHORT_OK)
			atomic_store_explicit(&comms[i].last, ticket,
			                      memory_order_release);
	}
	if (rc == COHORT_OK)
		*ticket_out = ticket;
	return rc;
}

EACH int submit_ranks(struct cohort_comm *comms, const int n,
                      const struct op *ops, uint64_t *ticket_out)
{
	struct failure f = { .what = NULL };
	/* One thread that calls for several ranks has no lists. */
	const bool is_list = n == 1 && known_applies(ops);
	struct device_scope scope;
	uint64_t ticket = 0;
	struct op list;
	int rc;

	rc = op_is_collective(ops) ? window_check(op_name_of(ops)) : COHORT_OK;
	if (rc != COHORT_OK)
		return rc;
	/* What is staged was checked before that. */
	rc = is_list || ops->staged ? COHORT_OK : check_all(comms, n, ops);
	if (rc == COHORT_OK)
		rc = enter_all(comms, n);
	if (rc != COHORT_OK)
		return is_list ? blame_list(comms, ops, rc) : rc;
	if (n == 1 && ops->from_host)
		gate_keep(comms);
	rc = check_streams(comms, n, ops);
	if (rc == COHORT_OK && is_list) {
		list = *ops;
		rc = check_list(comms, &list);
		ops = &list;
	} else if (rc == COHORT_OK) {
		rc = check_inside(comms, n, ops);
	}
	if (rc != COHORT_OK) {
		leave_all(comms, n);
		return rc;
	}
	rc = device_enter(&scope, comms->clique->platform, comms->device);
	if (rc == COHORT_OK) {
		/* With several ranks, go_to() leaves the first one's device. */
		scope.leaves |= n > 1;
		rc = submit_inside(comms, n, ops, &f, &ticket);
		device_leave(&scope);
	} else if (op_is_awaited(ops) && !native_is_exit(scope.error)) {
		fire_for_device(comms, rc, scope.error, &f);
	}
	leave_all(comms, n);
	/* There is no ticket to wait for what a failed call may have queued:
	 * the buffers must be safe when it returns. */
	if (f.ended)
		return clique_await_answer(comms->clique);
	if (rc == COHORT_OK && ticket_out)
		*ticket_out = f.captured ? COHORT_CAPTURED : ticket;
	return rc;
}

int submit(struct cohort_comm *comms, int n, const struct op *ops,
           uint64_t *ticket_out)
{
	return n == 1 ? submit_ranks(comms, 1, ops, ticket_out)
	              : submit_ranks(comms, n, ops, ticket_out);
}
