/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Submits operations: checks them, takes the lock and the device, records and
 * compares them, waits for the other ranks, and launches
 *
 * A call allocates only memory that later calls reuse, and formats text only if
 * it fails.  A call with wrong arguments is refused before any rank has queued
 * anything.
 */

#include "core/submit.h"

#include "base/backoff.h"
#include "base/clock.h"
#include "core/agree_words.h"
#include "core/batch.h"
#include "core/capture.h"
#include "core/comm_lock.h"
#include "core/launch.h"
#include "core/launch_barrier.h"
#include "core/launch_lock.h"
#include "core/list_launch.h"
#include "core/native.h"
#include "core/pair.h"
#include "core/redop.h"
#include "core/register.h"
#include "core/staging.h"
#include "core/stream.h"

static void leave_all(struct cohort_comm *comms, int n)
{
	while (n--)
		comm_leave(&comms[n]);
}

static int enter_all(struct cohort_comm *comms, int n)
{
	int i, rc;

	for (i = 0; i < n; i++) {
		rc = comm_enter(&comms[i], false);
		if (rc != COHORT_OK) {
			leave_all(comms, i);
			return rc;
		}
	}
	return COHORT_OK;
}

/* Wait until the previous operation in the slot of @ticket is done. */
static int slot_await(struct cohort_comm *c, uint64_t ticket)
{
	struct clique *q = c->clique;
	uint64_t former = ticket - q->slots;
	struct backoff b;
	int rc;

	if (ticket <= q->slots || comm_ticket_done(c, former))
		return COHORT_OK;
	b = backoff_among(q->world_size);
	while (!comm_ticket_done(c, former)) {
		rc = clique_error(q);
		if (rc != COHORT_OK)
			return rc;
		comm_ticket_progress(c, former, UINT64_MAX);
		backoff_wait(&b, UINT64_MAX);
	}
	return COHORT_OK;
}

static int check_outside(const struct cohort_comm *comms, int n,
                         const struct op *ops)
{
	int i, rc;

	rc = op_is_collective(ops) ? memory_section_check(op_name_of(ops))
	                           : COHORT_OK;
	/* The arguments of a staged call were checked before it was staged. */
	for (i = 0; i < n && rc == COHORT_OK && !ops->staged; i++)
		rc = op_check(&ops[i], comms[i].rank,
		              comms[i].clique->world_size);
	return rc;
}

/* Check the conditions that depend on the communicators, and allocate memory
 * for sends and receives.  Call this with every lock held. */
static int check_inside(struct cohort_comm *comms, int n, const struct op *ops)
{
	int i, rc = COHORT_OK;

	for (i = 0; i < n && rc == COHORT_OK; i++) {
		rc = stream_check(&comms[i], ops[i].stream,
		                  ops[i].is_of_all ? i : -1);
		if (rc != COHORT_OK || op_is_plain(&ops[i]))
			continue;
		rc = redop_check(&comms[i], &ops[i]);
		if (rc == COHORT_OK)
			rc = pair_prepare(&comms[i], &ops[i]);
	}
	return rc;
}

static int enter_device(struct cohort_comm *comms, int n, const struct op *ops,
                        struct device_scope *scope, struct submission *s)
{
	int rc = device_enter(scope, comms->clique->platform, comms->device);

	/* A launch on several ranks changes the current device. */
	if (rc == COHORT_OK)
		scope->leaves |= n > 1;
	else if (op_is_awaited(ops) && !native_is_exit(scope->error))
		launch_end_for_device(comms, rc, scope->error, s);
	return rc;
}

/* Choose how to launch the calls, and wait until each rank has a free slot.
 * Call this and the following functions with every lock held and the first
 * rank's device current. */
static int prepare(struct cohort_comm *comms, int n, const struct op *ops,
                   struct submission *s)
{
	const struct clique *q = comms->clique;
	int i, rc = capture_check(comms, n, ops, &s->captured);

	if (rc != COHORT_OK)
		return rc;
	s->plan = launch_plan(comms, n, ops, s->captured);
	/* One digest suffices, because a thread that makes the calls of several
	 * ranks makes the same call for each. */
	s->digest = agree_digest(ops);
	s->meets = q->together && s->digest && !s->captured &&
	           q->world_size > 1 && s->plan != PLAN_SPLIT;
	/* A captured call is not launched now, so other ranks that launch would
	 * wait for it.  To detect this, give it a digest that differs from the
	 * digests of all calls that are launched. */
	if (q->together && s->digest && s->captured)
		s->digest += s->digest < UINT32_MAX ? 1 : 2;
	if (s->plan == PLAN_LIST)
		rc = list_prepare(comms, ops, s->captured);
	s->ticket = atomic_load_explicit(&comms->tickets.last,
	                                 memory_order_relaxed) +
	            1;
	for (i = 0; i < n && rc == COHORT_OK; i++) {
		rc = comm_await_detached(&comms[i]);
		if (rc == COHORT_OK)
			rc = slot_await(&comms[i], s->ticket);
	}
	return rc;
}

/* Compare the call with the other ranks' calls.  A mismatch ends the clique. */
static int compare(struct cohort_comm *comms, int n, const struct op *ops,
                   uint64_t now_ns, struct submission *s)
{
	int i, rc = COHORT_OK;

	for (i = 0; i < n && rc == COHORT_OK; i++)
		if (op_is_collective(&ops[i]))
			rc = agree(&comms[i], &ops[i], s->digest, s->ticket,
			           now_ns, &s->arrives_last);
	for (i = 0; i < n && rc == COHORT_OK; i++)
		if (!op_is_plain(&ops[i]))
			rc = pair_agree(&comms[i], &ops[i], s->ticket, now_ns,
			                s->captured);
	s->ended = rc == COHORT_MISMATCH;
	return rc;
}

/* Begin a record of the call on each rank, and record which earlier operations
 * are done by @now_ns. */
static void record_calls(struct cohort_comm *comms, int n, const struct op *ops,
                         uint64_t now_ns, const struct submission *s)
{
	int i;

	for (i = 0; i < n; i++) {
		comm_record_done(&comms[i], s->ticket - 1, now_ns);
		/* This thread stored lock.tid when it took the lock. */
		recorder_begin(&comms[i].recorder, s->ticket, &ops[i],
		               s->digest,
		               atomic_load_explicit(&comms[i].lock.tid,
		                                    memory_order_relaxed),
		               now_ns);
		if (s->captured)
			recorder_set_captured(&comms[i].recorder, s->ticket);
	}
}

/* End the record on each rank, unless a library thread will launch the call and
 * end the record.  If @rc shows that the launch has succeeded, give out the
 * ticket. */
static void record_launches(struct cohort_comm *comms, int n, int rc,
                            uint64_t now_ns, const struct submission *s)
{
	int i;

	for (i = 0; i < n; i++) {
		if (!s->left)
			recorder_end(&comms[i].recorder, s->ticket, rc);
		if (comm_ticket_started(&comms[i], s->ticket))
			recorder_set_started(&comms[i].recorder, s->ticket,
			                     now_ns);
		/* The release makes two facts visible with the ticket: its
		 * operation and mark are queued, and the slot's previous
		 * operation was done.  It pairs with the acquire in
		 * comm_ticket_done() and in the reaper. */
		if (rc == COHORT_OK)
			atomic_store_explicit(&comms[i].tickets.last, s->ticket,
			                      memory_order_release);
	}
}

int submit(struct cohort_comm *comms, int n, const struct op *ops,
           uint64_t *ticket_out)
{
	struct submission s = { .captured = false };
	struct device_scope scope;
	uint64_t now;
	int rc = comm_check(comms);

	if (rc != COHORT_OK)
		return rc;
	if (batch_is_open(comms) && ops->kind != OP_BATCH)
		return batch_add(comms, ops, ticket_out != NULL);
	rc = check_outside(comms, n, ops);
	if (rc == COHORT_OK)
		rc = enter_all(comms, n);
	if (rc != COHORT_OK)
		return rc;
	if (n == 1 && ops->from_host)
		comm_reserve(comms);
	rc = check_inside(comms, n, ops);
	if (rc == COHORT_OK)
		rc = enter_device(comms, n, ops, &scope, &s);
	if (rc != COHORT_OK)
		goto leave_locks;
	rc = prepare(comms, n, ops, &s);
	if (rc != COHORT_OK)
		goto leave_device;
	now = clock_now();
	record_calls(comms, n, ops, now, &s);
	if (s.meets && s.plan == PLAN_CALLS)
		rc = register_complete(comms, n, ops, s.digest);
	if (rc == COHORT_OK)
		rc = compare(comms, n, ops, now, &s);
	if (rc == COHORT_OK && s.meets)
		rc = launch_await(comms, n, ops, &s);
	if (rc == COHORT_OK && !s.left) {
		rc = launch(comms, n, ops, &s);
		if (s.meets)
			launch_barrier_leave(comms->clique, n);
	}
	record_launches(comms, n, rc, s.meets ? clock_now() : now, &s);
	if (rc == COHORT_OK && s.meets && !s.left)
		launch_barrier_await_launched(comms, staging_deadline(ops));
leave_device:
	device_leave(&scope);
leave_locks:
	leave_all(comms, n);
	/* A failed call may have queued work, and there is no ticket to wait
	 * for.  So wait here until the call's buffers are no longer in use. */
	if (s.ended)
		return clique_await_end(comms->clique);
	if (rc == COHORT_OK && ticket_out)
		*ticket_out = s.captured ? COHORT_CAPTURED : s.ticket;
	return rc;
}
