/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What a rank with its own thread calls in a cell, as a sound rank or as the victim,
 * and a check of the results
 */

#include "cli/drill/drill.h"

/* ---- one rank's memory ------------------------------------------------ */

static float *tensor(struct drill_rank *k, int i)
{
	return k->tensors + (size_t)i * DRILL_COUNT;
}

/* Copy both tensors. */
static int copy(struct drill_rank *k, float *to, const float *from)
{
	const size_t size = 2 * DRILL_COUNT * sizeof(float);
	const int rc = cohort_copy(k->comm, to, from, size,
	                           cohort_comm_stream(k->comm));

	return rc == COHORT_OK ? cohort_synchronize(k->comm, DRILL_LIMIT_NS)
	                       : rc;
}

static int fill(struct drill_rank *k)
{
	float values[2 * DRILL_COUNT];

	for (int i = 0; i < 2 * DRILL_COUNT; i++)
		values[i] = (float)k->number + 1.0f;
	return copy(k, k->tensors, values);
}

int drill_partner(const struct drill_rank *k)
{
	return k->number ^ (k->run->options->processes > 1 ? k->run->n / 2 : 1);
}

static bool sends(const struct drill_rank *k)
{
	return k->number < drill_partner(k);
}

/* The value that tensor @i must hold at the end: each rank sends its number plus
 * one. */
static float expected(const struct drill_rank *k, int i)
{
	int n = k->run->n;

	if (k->run->place == AT_TRANSFER)
		return (float)(sends(k) ? k->number : drill_partner(k)) + 1.0f;
	return i ? 1.0f : (float)(n * (n + 1)) / 2.0f;
}

void drill_check(struct drill_rank *k)
{
	const bool two = k->run->place == AT_BATCH || k->tickets[1];
	float values[2 * DRILL_COUNT];

	if (!drill_must(k->run, copy(k, values, k->tensors), "copy"))
		return;
	for (int i = 0; i < (1 + two) * DRILL_COUNT; i++) {
		if (values[i] == expected(k, i / DRILL_COUNT))
			continue;
		drill_complain(k->run, "element %d of rank %d is %g, not %g", i,
		               k->number, (double)values[i],
		               (double)expected(k, i / DRILL_COUNT));
		return;
	}
}

/* ---- calls ------------------------------------------------------------ */

bool drill_is_odd(const struct drill_rank *k, enum trouble trouble)
{
	return k->run->trouble == trouble && k->number == drill_victim(k->run);
}

static int reduce(struct drill_rank *k, uint64_t *ticket)
{
	float *t = tensor(k, 0);

	return cohort_all_reduce(
		k->comm, t, t, DRILL_COUNT - drill_is_odd(k, BY_COUNT),
		drill_is_odd(k, BY_TYPE) ? COHORT_I32 : COHORT_F32,
		drill_is_odd(k, BY_OPERATION) ? COHORT_MAX : COHORT_SUM,
		ticket ? k->stream : NULL, ticket);
}

static int spread(struct drill_rank *k, uint64_t *ticket)
{
	float *t = tensor(k, 1);

	return cohort_broadcast(k->comm, t, t, DRILL_COUNT, COHORT_F32,
	                        drill_is_odd(k, BY_ROOT),
	                        ticket ? k->stream : NULL, ticket);
}

/* Call a collective, or two where their order or roots must differ.  In a batch
 * there are no tickets. */
static int call(struct drill_rank *k, bool two, uint64_t *tickets)
{
	const bool backwards =
		drill_is_odd(k, BY_ORDER) && k->run->place != AT_WAIT;
	int rc = COHORT_OK;

	for (int i = 0; i < 1 + two && rc == COHORT_OK; i++)
		rc = (i ^ backwards ? spread : reduce)(k, tickets ? &tickets[i]
		                                                  : NULL);
	return rc;
}

static int call_batch(struct drill_rank *k, uint64_t *ticket)
{
	int ended, rc = cohort_batch_begin(k->comm);

	if (rc != COHORT_OK)
		return rc;
	rc = call(k, true, NULL);
	/* With its batch open, and all calls in it. */
	if (drill_is_odd(k, BY_ABSENCE))
		drill_await_cause(k->run);
	ended = cohort_batch_end(k->comm, k->stream, ticket);
	return rc != COHORT_OK ? rc : ended;
}

/* For a call of the victim that nobody answers: the deadline of the ranks that wait for
 * the victim must pass first, as they name it. */
static const struct cohort_deadlines patient = {
	.join_ns = DRILL_LIMIT_NS,
	.exec_ns = DRILL_LIMIT_NS,
};

/* A sender sends to its partner, which receives; where the order must differ, they also
 * send back. */
static int call_transfer(struct drill_rank *k)
{
	const size_t count = DRILL_COUNT - drill_is_odd(k, BY_COUNT);
	const int type = drill_is_odd(k, BY_TYPE) ? COHORT_I32 : COHORT_F32;
	const bool back = k->run->trouble == BY_ORDER;
	bool is_sender = sends(k) ^ (drill_is_odd(k, BY_OPERATION) ||
	                             drill_is_odd(k, BY_ORDER));
	int peer = drill_partner(k), rc = COHORT_OK;

	if (drill_is_odd(k, BY_ROOT)) {
		peer = 0;
		rc = cohort_deadline_push(k->comm, &patient);
	}
	for (int i = 0; i < 1 + back && rc == COHORT_OK; i++) {
		float *t = tensor(k, i);

		rc = is_sender ? cohort_send(k->comm, t, count, type, peer,
		                             k->stream, &k->tickets[i])
		               : cohort_recv(k->comm, t, count, type, peer,
		                             k->stream, &k->tickets[i]);
		is_sender = !is_sender;
	}
	return rc;
}

/* Sum in @comm, which is the rank's or one that was split from it. */
static int sum(struct drill_rank *k, struct cohort_comm *comm)
{
	float *t = tensor(k, 0);
	uint64_t ticket;
	int rc = cohort_all_reduce(comm, t, t, DRILL_COUNT, COHORT_F32,
	                           COHORT_SUM, cohort_comm_stream(comm),
	                           &ticket);

	return rc == COHORT_OK ? cohort_wait(comm, ticket, DRILL_LIMIT_NS) : rc;
}

void drill_warm_up(struct drill_rank *k, struct cohort_comm *c)
{
	void *stream = cohort_comm_stream(c);
	float *t = tensor(k, 0);
	uint64_t ticket = 0;
	int rc;

	if (k->run->place != AT_TRANSFER) {
		rc = sum(k, c);
	} else {
		rc = (sends(k)
		              ? cohort_send(c, t, 1, COHORT_F32,
		                            drill_partner(k), stream, &ticket)
		              : cohort_recv(c, t, 1, COHORT_F32,
		                            drill_partner(k), stream, &ticket));
		if (rc == COHORT_OK)
			rc = cohort_wait(c, ticket, DRILL_LIMIT_NS);
	}
	if (rc == COHORT_OK)
		rc = fill(k);
	drill_must(k->run, rc, "warm up");
}

/* Use the new communicator and the parent, in an order that must be equal on all ranks. */
static int use_both(struct drill_rank *k, struct cohort_comm *child)
{
	int rc;

	if (!drill_is_odd(k, BY_ORDER)) {
		rc = sum(k, k->comm);
		return rc == COHORT_OK ? sum(k, child) : rc;
	}
	/* The communicator that the others wait for explains why. */
	drill_must(k->run, cohort_deadline_push(child, &patient), "push");
	sum(k, child);
	return sum(k, k->comm);
}

static int call_split(struct drill_rank *k)
{
	struct cohort_comm *child = NULL;
	int rc = COHORT_OK, closed;
	uint64_t ticket;

	/* A victim that comes first learns of it in its wait. */
	if (drill_is_odd(k, BY_OPERATION))
		return sum(k, k->comm);
	/* A split waits for earlier operations. */
	if (drill_is_asked_for(k->run))
		rc = reduce(k, &ticket);
	if (rc == COHORT_OK)
		rc = cohort_comm_split(k->comm, 0, k->number, &child);
	if (!child)
		return rc;
	rc = use_both(k, child);
	closed = cohort_comm_close(child);
	if (rc == COHORT_OK)
		drill_must(k->run, closed, "close of a child");
	return rc;
}

/* True if the fault is in the call itself. */
static bool is_in_call(enum trouble trouble)
{
	return (trouble >= BY_COUNT && trouble <= BY_STUCK) ||
	       trouble == BY_MEMORY;
}

/* True if calls in the place return only when all ranks have called. */
static bool meets(const struct drill_rank *k)
{
	return k->run->place == AT_SPLIT ||
	       (k->run->place != AT_TRANSFER &&
	        cohort_comm_launch(k->comm) == COHORT_LAUNCH_TOGETHER);
}

static int call_place(struct drill_rank *k)
{
	const enum trouble by = k->run->trouble;

	if (k->sibling) {
		drill_must(k->run, cohort_deadline_push(k->sibling, &patient),
		           "push");
		return sum(k, k->sibling);
	}
	switch (k->run->place) {
	case AT_BATCH:
		return call_batch(k, &k->tickets[0]);
	case AT_TRANSFER:
		return call_transfer(k);
	case AT_SPLIT:
		return call_split(k);
	default:
		return call(k, by == BY_ORDER || by == BY_ROOT, k->tickets);
	}
}

/* Call with a bad stream, which must be refused. */
static void call_on_bad_stream(struct drill_rank *k)
{
	void *stream = k->stream;
	int rc;

	k->stream = k->bad_stream;
	rc = call_place(k);
	if (rc != COHORT_INVALID || k->tickets[0])
		drill_complain(k->run, "a bad stream is not refused: %s",
		               cohort_status_text(rc));
	k->stream = stream;
}

int drill_call(struct drill_rank *k)
{
	struct drill_run *run = k->run;
	const bool waits = meets(k);
	/* BY_TIMEOUT launches ahead of the last rank's call: while launched calls wait on the
	 * devices, a copy may wait for them. */
	int rc = run->place == AT_FIRST && run->trouble != BY_TIMEOUT
	                 ? fill(k)
	                 : COHORT_OK;

	if (rc != COHORT_OK)
		return rc;
	if (waits)
		atomic_fetch_add(&run->shared->called, 1);
	if (k->number == drill_struck_rank(run) && is_in_call(run->trouble))
		drill_mark_fault(run);
	if (k->bad_stream)
		call_on_bad_stream(k);
	rc = call_place(k);
	if (!waits)
		atomic_fetch_add(&run->shared->called, 1);
	return rc;
}
