/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A call with host memory from its beginning to its end
 */

#include "api/staged_call.h"

#include "base/backoff.h"
#include "base/clock.h"
#include "base/status.h"
#include "base/util.h"
#include "core/batch.h"
#include "core/capture.h"
#include "core/comm_lock.h"
#include "core/native.h"
#include "core/submit.h"

/* For each stream in turn. */
#define HELP_NS UINT64_C(20000)

/* ---- before the call -------------------------------------------------- */

/* The staging memory is this thread's from now on. */
static int reserve(struct cohort_comm *c)
{
	int rc = comm_enter(c, true);

	if (rc != COHORT_OK)
		return rc;
	comm_keep(c);
	comm_leave(c);
	return COHORT_OK;
}

/* Wait for an earlier call that has timed out. */
static int await_former(struct cohort_comm *c, const struct op *op,
                        uint64_t deadline)
{
	struct staging *g = &c->staging;
	int rc = comm_await(c, g->ticket, deadline);

	if (rc == COHORT_TIMED_OUT)
		return error_set(COHORT_BUSY,
		                 "%s: an earlier call with host memory, ticket "
		                 "%llu of rank %d, which timed out, is still "
		                 "under way",
		                 op_name_of(op), (unsigned long long)g->ticket,
		                 c->rank);
	if (rc == COHORT_OK)
		g->ticket = 0;
	return rc;
}

static int prepare(struct cohort_comm *c, const struct op *op)
{
	struct device_scope scope;
	bool captured;
	int rc;

	rc = comm_enter_on_device(c, false, &scope);
	if (rc != COHORT_OK)
		return rc;
	/* Before memory is looked at, or made. */
	rc = capture_check(c, 1, op, &captured);
	if (rc == COHORT_OK)
		rc = staging_prepare(c, op, op->staged);
	comm_leave_on_device(c, &scope);
	return rc;
}

/* ---- the end ---------------------------------------------------------- */

/* Help the streams of a call, if the device needs help: the last one waits for
 * the first ones. */
static void help(struct cohort_comm *c, const struct op *op, size_t k,
                 uint64_t deadline)
{
	const struct platform *p = c->clique->platform;
	const struct staging *g = &c->staging;
	const cudaStream_t streams[] = { g->in, op->stream, g->out };
	uint64_t until;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(streams); i++) {
		until = clock_deadline(HELP_NS);
		p->progress(c->device, streams[i], &g->words[k],
		            op->staged->number, MIN(until, deadline));
	}
}

/* Wait until chunk @k is back, or the clique has a cause. */
static int await_chunk(struct cohort_comm *c, const struct op *op, size_t k,
                       uint64_t deadline)
{
	const struct staged *s = op->staged;
	struct backoff b = backoff_among(c->clique->world_size);

	while (!staging_is_back(c, s, k)) {
		if (clique_cause(c->clique))
			return COHORT_ABORTED;
		help(c, op, k, deadline);
		if (staging_is_back(c, s, k))
			break;
		if (clock_now() >= deadline)
			return error_set(COHORT_TIMED_OUT,
			                 "%s of rank %d is not done yet",
			                 op_name_of(op), c->rank);
		backoff_wait(&b, deadline);
	}
	return COHORT_OK;
}

/* Copy out chunk by chunk as they come back, the last one with the ticket. */
static int finish(struct cohort_comm *c, const struct op *op, uint64_t ticket,
                  uint64_t deadline)
{
	const struct staged *s = op->staged;
	const bool copies = !s->recvs_direct && s->recv_blocks;
	size_t k;
	int rc = COHORT_OK;

	for (k = 0; copies && k + 1 < s->chunks; k++) {
		rc = await_chunk(c, op, k, deadline);
		if (rc != COHORT_OK)
			break;
		staging_copy_out(c, op, k);
	}
	if (rc == COHORT_TIMED_OUT)
		return rc;
	/* After a cause: the answer says whether the call was done before. */
	rc = comm_await(c, ticket, deadline);
	for (; copies && rc == COHORT_OK && k < s->chunks; k++)
		staging_copy_out(c, op, k);
	return rc;
}

/* Run the call; the caller has reserved the staging memory. */
static int run(struct cohort_comm *c, struct op *op, uint64_t timeout_ns)
{
	struct staging *g = &c->staging;
	struct staged s = {
		.timeout_ns = timeout_ns,
		.deadline_ns = clock_deadline(timeout_ns),
	};
	uint64_t ticket;
	int rc = COHORT_OK;

	if (g->ticket)
		rc = await_former(c, op, s.deadline_ns);
	if (rc != COHORT_OK)
		return rc;
	op->staged = &s;
	rc = prepare(c, op);
	if (rc == COHORT_OK)
		rc = submit(c, 1, op, &ticket);
	if (rc != COHORT_OK)
		return rc;
	g->ticket = ticket;
	rc = finish(c, op, ticket, s.deadline_ns);
	if (rc != COHORT_TIMED_OUT)
		g->ticket = 0;
	return rc;
}

/* ---- the call --------------------------------------------------------- */

static int refuse_batch(const struct cohort_comm *c, const struct op *op)
{
	return error_set(COHORT_STATE,
	                 "%s: a batch is open on rank %d, and takes "
	                 "only calls that do not wait",
	                 op_name_of(op), c->rank);
}

int staging_call(struct cohort_comm *c, struct op *op, uint64_t timeout_ns)
{
	uint64_t ticket;
	int rc = comm_check(c);

	if (rc != COHORT_OK)
		return rc;
	op->from_host = true;
	op->n = 1;
	op->stream = c->stream;
	if (batch_is_open(c))
		return refuse_batch(c, op);
	/* Submit the call as one on device memory, and wait. */
	if (timeout_ns == COHORT_FOREVER &&
	    c->clique->platform->memory_is_host &&
	    c->clique->platform->is_one_process && op_is_aligned(op)) {
		rc = submit(c, 1, op, &ticket);
		if (rc == COHORT_OK)
			rc = comm_await(c, ticket, timeout_ns);
		comm_unkeep(c);
		return rc;
	}
	rc = op_check(op, c->rank, c->clique->world_size);
	if (rc == COHORT_OK)
		rc = reserve(c);
	if (rc != COHORT_OK)
		return rc;
	rc = run(c, op, timeout_ns);
	comm_unkeep(c);
	return rc;
}
