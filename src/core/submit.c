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
#include "core/agree.h"
#include "core/call.h"
#include "core/capture.h"
#include "core/gate.h"
#include "core/list_cache.h"
#include "core/list_launch.h"
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

	list->cached = list_cache_find(c, list);
	if (list->cached)
		return COHORT_OK;
	rc = op_check(list, c->rank, c->clique->world);
	if (rc == COHORT_OK)
		list->cached = list_cache_add(c, list);
	return rc;
}

/* A list was not let in, for @status: what is wrong with itself comes first. */
static int blame_list(const struct cohort_comm *c, const struct op *list,
                      int status)
{
	int rc = op_check(list, c->rank, c->clique->world);

	return rc == COHORT_OK ? status : rc;
}

/* ---- one submission --------------------------------------------------- */

/* How an operation is launched. */
enum plan {
	PLAN_CALLS,  /* one native call, or one group of them */
	PLAN_LIST,   /* several groups, or packed into buffers */
	PLAN_STAGED, /* with host memory, chunk by chunk */
	PLAN_COPY,   /* copies, which no other rank waits for */
	PLAN_SPLIT,  /* the ranks meet, and nothing is queued */
};

/* What becomes of one operation. */
struct submission {
	enum plan plan;
	bool captured;   /* the streams are being captured: nothing runs now */
	bool meets;      /* all ranks of the process launch it, or none */
	bool comes_last; /* with this call all have called it */
	bool left;       /* and a thread of the library's launches it */

	struct native_result
		r;   /* what failed in the native part, if anything */
	bool queued; /* something may have been queued, on any of the ranks */
	bool ended;  /* so that it had to be the end of the clique */
};

EACH enum plan plan_of(const struct cohort_comm *comms, int n,
                       const struct op *ops, bool captured)
{
	if (ops->kind == OP_SPLIT)
		return PLAN_SPLIT;
	if (ops->kind == OP_COPY)
		return PLAN_COPY;
	if (ops->staged)
		return PLAN_STAGED;
	/* One thread that calls for several ranks has no lists. */
	return n == 1 && ops->n > 1 && list_is_special(comms, ops, captured)
	               ? PLAN_LIST
	               : PLAN_CALLS;
}

/* ---- the native calls ------------------------------------------------- */

/* Make the device of one rank of several current. */
EACH void go_to(const struct cohort_comm *c, int n, struct native_result *r)
{
	if (n > 1 && !r->what) {
		r->rank = c->rank;
		native_note_cuda(r, "cudaSetDevice",
		                 c->clique->platform->cudaSetDevice(c->device));
	}
}

/* Mark one of a rank's words, unless the mark would go into a graph. */
static void mark(struct cohort_comm *c, uint32_t *words, void *stream,
                 uint64_t ticket, struct submission *s)
{
	uint32_t *word = &words[ticket & (c->clique->slots - 1)];

	if (s->captured || s->r.what)
		return;
	native_note_cuda(&s->r, "mark",
	                 c->clique->platform->mark(stream, word,
	                                           (uint32_t)ticket));
	s->queued = true;
}

/* Those of all ranks: once the first one is queued, what fails is the end of all. */
EACH void launch_copies(struct cohort_comm *comms, int n, const struct op *ops,
                        uint64_t ticket, struct submission *s)
{
	const struct platform *p = comms->clique->platform;
	const struct cohort_tensor *t;
	int i;

	for (i = 0; i < n && !s->r.what; i++) {
		t = ops[i].tensors;
		go_to(&comms[i], n, &s->r);
		if (!s->r.what)
			native_note_cuda(&s->r, op_native_name(ops->kind),
			                 p->cudaMemcpyAsync(t->recv, t->send,
			                                    t->count,
			                                    cudaMemcpyDefault,
			                                    ops[i].stream));
		mark(&comms[i], comms[i].done, ops[i].stream, ticket, s);
	}
}

/* What is more than one native launch, between marks. */
static void launch_parts(struct cohort_comm *c, const struct op *op,
                         uint64_t ticket, struct submission *s)
{
	if (c->clique->platform->starts_are_marked)
		mark(c, c->started, op->stream, ticket, s);
	if (!s->r.what)
		s->r = s->plan == PLAN_STAGED ? staging_launch(c, op)
		                              : list_launch(c, op, s->captured);
	mark(c, c->done, op->stream, ticket, s);
}

static void call_none(const struct native_launch *l, struct native_result *r)
{
	(void)l;
	(void)r;
}

/* What is known of a list spares some of its launch. */
static void use_cached(struct cached_list *k, struct native_launch *l)
{
	l->kept = &k->kept;
	l->repeats = k->was_launched;
	if (k->is_nothing) {
		l->call = call_none;
		l->is_group = false;
	}
}

EACH void launch_calls(struct cohort_comm *comms, int n, const struct op *ops,
                       uint64_t ticket, struct submission *s)
{
	const struct clique *q = comms->clique;
	const uint64_t slot = ticket & (q->slots - 1);
	const bool starts =
		q->platform->starts_are_marked && op_is_awaited(ops);
	struct cached_list *k = ops->cached;
	struct native_launch *l = NULL;
	int i;

	for (i = n - 1; i >= 0; i--) {
		l = call_launch(&comms[i], &ops[i]);
		l->next = i + 1 < n ? &comms[i + 1].launch.native : NULL;
		if (s->captured)
			continue;
		l->started = starts ? &comms[i].started[slot] : NULL;
		l->done = &comms[i].done[slot];
		l->value = (uint32_t)ticket;
	}
	if (k)
		use_cached(k, l);
	q->platform->launch(q->platform, l, &s->r);
	if (k && !s->captured)
		k->was_launched = !s->r.what;
}

/* Nothing tells when what this rank may have queued is done: have the event do
 * it, behind all that.  On a device that is lost nothing runs any more. */
static void set_unmarked(struct cohort_comm *c, int n, const struct op *op)
{
	const struct platform *p = c->clique->platform;
	cudaError_t error = cudaErrorUnknown;

	if (n > 1)
		p->cudaSetDevice(c->device);
	if (!op->staged || !op->staged->is_lost)
		error = p->cudaEventRecord(c->event, op->stream);
	c->unmarked_event = error == cudaSuccess;
	c->unmarked = !cuda_error_is_sticky(error);
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

/* By its plan.  After a failure nothing says what a collective has queued, on any of the
 * ranks. */
EACH void launch_by_plan(struct cohort_comm *comms, int n, const struct op *ops,
                         uint64_t ticket, struct submission *s)
{
	int i;

	s->queued = op_is_awaited(ops);
	s->r.rank = comms->rank;
	switch (s->plan) {
	case PLAN_CALLS:
		launch_calls(comms, n, ops, ticket, s);
		break;
	case PLAN_LIST:
	case PLAN_STAGED:
		launch_parts(comms, ops, ticket, s);
		break;
	case PLAN_COPY:
		launch_copies(comms, n, ops, ticket, s);
		break;
	case PLAN_SPLIT:
		break;
	}
	for (i = 0; s->r.what && s->queued && !s->captured && i < n; i++)
		set_unmarked(&comms[i], n, &ops[i]);
}

/* ---- after ------------------------------------------------------------ */

/* The failure as this thread's error, and as the cause unless nothing was queued
 * and no other rank waits. */
static int fail(struct cohort_comm *c, const struct op *op, uint64_t ticket,
                struct submission *s)
{
	const struct platform *p = c->clique->platform;
	struct cohort_cause cause = {
		.kind = native_kind(s->r.cuda),
		.rank = s->r.rank,
		.ticket = ticket,
		.nccl = (int)s->r.nccl,
		.cuda = (int)s->r.cuda,
	};

	cause.status =
		s->r.cuda != cudaSuccess
			? native_cuda(p, s->r.what, s->r.cuda)
			: native_nccl(p, s->r.what, c->native, s->r.nccl);
	if (!s->queued || native_is_exit(s->r.cuda))
		return cause.status;
	if (op_is_collective(op))
		cause.collective = atomic_load(&c->collectives);
	clique_fire(c->clique, &cause, "rank %d%s, %s, ticket %llu: %s",
	            s->r.rank,
	            cause.kind == COHORT_VERDICT_DEVICE_LOST
	                    ? ", whose device has failed"
	                    : "",
	            op_name_of(op), (unsigned long long)ticket,
	            cohort_last_error());
	s->ended = true;
	return cause.status;
}

/* Whether all ranks make this call.  A difference is the end of the clique. */
EACH int agree_all(struct cohort_comm *comms, int n, const struct op *ops,
                   uint32_t digest, uint64_t ticket, uint64_t now_ns,
                   struct submission *s)
{
	int i, rc = COHORT_OK;

	for (i = 0; i < n && rc == COHORT_OK; i++)
		if (op_is_collective(&ops[i]))
			rc = agree(&comms[i], &ops[i], digest, ticket, now_ns,
			           &s->comes_last);
	s->ended = rc == COHORT_MISMATCH;
	return rc;
}

/* The rank cannot even go to its device, and the others wait for it. */
static void fire_for_device(struct cohort_comm *c, int status,
                            cudaError_t error, struct submission *s)
{
	const struct cohort_cause cause = {
		.status = status,
		.kind = native_kind(error),
		.rank = c->rank,
		.cuda = (int)error,
	};

	clique_fire(c->clique, &cause, "rank %d: %s", c->rank,
	            cohort_last_error());
	s->ended = true;
}

/* Nothing is queued. */
static int launch_split(struct cohort_comm *c, const struct op *op,
                        uint64_t ticket, struct submission *s)
{
	int rc = split_run(c, op->split);

	s->ended = rc != COHORT_OK;
	if (rc == COHORT_OK)
		set_done(c, ticket);
	return rc;
}

/* Nothing runs now.  A mark would be set by each launch of the graph. */
static int launch_captured(struct cohort_comm *comms, int n,
                           const struct op *ops, uint64_t ticket,
                           struct submission *s)
{
	int i;

	launch_by_plan(comms, n, ops, ticket, s);
	if (s->r.what)
		return fail(comms, ops, ticket, s);
	for (i = 0; i < n; i++) {
		set_done(&comms[i], ticket);
		atomic_fetch_add_explicit(&comms[i].captured, 1,
		                          memory_order_relaxed);
	}
	return COHORT_OK;
}

/* With all ranks met, or where they need not. */
EACH int launch_now(struct cohort_comm *comms, int n, const struct op *ops,
                    uint64_t ticket, struct submission *s)
{
	launch_by_plan(comms, n, ops, ticket, s);
	return s->r.what ? fail(comms, ops, ticket, s) : COHORT_OK;
}

/* ---- calls whose callers leave ---------------------------------------- */

/* With all ranks met: on this thread, which is at @error if it is not on the device. */
static int launch_in_place(struct cohort_comm *c, cudaError_t error,
                           struct submission *s)
{
	int rc = native_cuda(c->clique->platform, "cudaSetDevice", error);

	if (rc == COHORT_OK)
		return launch_now(c, 1, &c->left.op, c->left.ticket, s);
	if (!native_is_exit(error))
		fire_for_device(c, rc, error, s);
	return rc;
}

/* The thread that is there in place of a caller. */
static void *late_main(void *arg)
{
	struct cohort_comm *c = arg;
	struct clique *q = c->clique;
	const uint64_t ticket = c->left.ticket;
	const cudaError_t error = native_thread(q->platform, c->device);
	struct submission s = { .plan = PLAN_STAGED };
	int rc;

	rc = together_await(c, 1, c->left.number, false, COHORT_FOREVER);
	if (rc == COHORT_OK) {
		rc = launch_in_place(c, error, &s);
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
              uint64_t ticket, struct submission *s)
{
	const uint64_t number =
		atomic_load_explicit(&comms->collectives, memory_order_relaxed);
	int rc = together_await(comms, n, number, s->comes_last,
	                        ops->staged ? ops->staged->deadline_ns
	                                    : COHORT_FOREVER);

	if (rc != COHORT_TIMED_OUT)
		return rc;
	s->left = leave_call(comms, ops, ticket, number);
	return s->left ? COHORT_OK
	               : together_await(comms, n, number, false,
	                                COHORT_FOREVER);
}

/* ---- the native part -------------------------------------------------- */

/* The native part, after which the others wait for this rank. */
EACH int launch(struct cohort_comm *comms, int n, const struct op *ops,
                uint64_t ticket, struct submission *s)
{
	int rc = COHORT_OK;

	if (s->plan == PLAN_SPLIT)
		return launch_split(comms, ops, ticket, s);
	if (s->captured)
		return launch_captured(comms, n, ops, ticket, s);
	if (s->meets)
		rc = meet(comms, n, ops, ticket, s);
	if (rc != COHORT_OK || s->left)
		return rc;
	rc = launch_now(comms, n, ops, ticket, s);
	if (s->meets)
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
                       struct submission *s, uint64_t *ticket_out)
{
	/* Of several ranks the one thread calls the same for each. */
	const struct clique *q = comms->clique;
	uint32_t digest = agree_digest(ops);
	uint64_t now, ticket;
	int i, rc = COHORT_OK;

	rc = capture_check(comms, n, ops, &s->captured);
	if (rc != COHORT_OK)
		return rc;
	s->meets = q->together && digest && !s->captured && q->world > 1;
	/* The others would wait for a launch that does not come now: a captured call
	 * agrees with no call that is launched. */
	if (q->together && digest && s->captured)
		digest += digest < UINT32_MAX ? 1 : 2;
	s->plan = plan_of(comms, n, ops, s->captured);
	if (s->plan == PLAN_LIST)
		rc = list_prepare(comms, ops, s->captured);
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
		if (s->captured)
			recorder_set_captured(&comms[i].recorder, ticket);
	}
	rc = agree_all(comms, n, ops, digest, ticket, now, s);
	for (i = 0; i < n && rc == COHORT_OK; i++)
		if (!op_is_plain(&ops[i]))
			pair_publish(&comms[i], &ops[i], ticket, now);
	if (rc == COHORT_OK)
		rc = launch(comms, n, ops, ticket, s);
	if (s->meets)
		now = clock_quick();
	for (i = 0; i < n; i++) {
		if (!s->left)
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
	struct submission s = { .captured = false };
	/* One thread that calls for several ranks has no lists. */
	const bool is_list = n == 1 && list_cache_applies(ops);
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
		rc = submit_inside(comms, n, ops, &s, &ticket);
		device_leave(&scope);
	} else if (op_is_awaited(ops) && !native_is_exit(scope.error)) {
		fire_for_device(comms, rc, scope.error, &s);
	}
	leave_all(comms, n);
	/* There is no ticket to wait for what a failed call may have queued:
	 * the buffers must be safe when it returns. */
	if (s.ended)
		return clique_await_answer(comms->clique);
	if (rc == COHORT_OK && ticket_out)
		*ticket_out = s.captured ? COHORT_CAPTURED : ticket;
	return rc;
}

int submit(struct cohort_comm *comms, int n, const struct op *ops,
           uint64_t *ticket_out)
{
	return n == 1 ? submit_ranks(comms, 1, ops, ticket_out)
	              : submit_ranks(comms, n, ops, ticket_out);
}
