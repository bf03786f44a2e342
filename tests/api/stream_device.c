/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests that every call that takes a stream refuses a stream of another device,
 * a destroyed stream, and a handle that is no stream. A refused call must have
 * no effect.
 */

#include <criterion/criterion.h>
#include <stdatomic.h>
#include <stdio.h>

#include <cohort/reducer.h>

#include "support/cuda_calls.h"
#include "support/expect.h"
#include "support/ranks.h"
#include "support/spread.h"

TestSuite(stream_device, .timeout = 60);

#define RANKS 3

static struct cohort_group *group;
static struct cohort_comm *c[RANKS];
static void *foreign; /* the stream that must be refused */
/* true if foreign is no stream, false if it is a stream of device 1 */
static bool is_dead;
/* next ticket of every rank, or 0 if the tickets differ */
static uint64_t next = 1;

static void make_foreign(const struct platform *p)
{
	cudaStream_t stream = NULL;

	cr_assert_eq(p->cudaSetDevice(1), cudaSuccess);
	cr_assert_eq(p->cudaStreamCreateWithFlags(&stream,
	                                          cudaStreamNonBlocking),
	             cudaSuccess);
	cr_assert_eq(p->cudaSetDevice(0), cudaSuccess);
	foreign = stream;
}

static void give_foreign_back(const struct platform *p)
{
	cr_assert_eq(p->cudaStreamDestroy(foreign), cudaSuccess);
}

/* Check that rank @rank, on device @rank, refused a call with @rc, and that the
 * error contains @name and the foreign stream. */
static void refused_to(int rank, int rc, const char *name)
{
	char text[80];

	snprintf(text, sizeof(text), "%s is %p, %s", name, foreign,
	         is_dead ? "which was destroyed or is no stream (invalid"
	                 : "a stream of device 1, but");
	expect(rc, COHORT_INVALID, text);
	snprintf(text, sizeof(text),
	         is_dead ? "pass rank %d a live stream of device %d"
	                 : "rank %d is on device %d",
	         rank, rank);
	expect(rc, COHORT_INVALID, text);
}

static void refused(int rc, const char *name)
{
	refused_to(0, rc, name);
}

/* Check that the group works and that no refused call had an effect. */
static void expect_works(void)
{
	int32_t value[RANKS] = { 1, 2, 3 };
	uint64_t ticket[RANKS];
	int r;

	for (r = 0; r < RANKS; r++)
		ticket[r] = ranks_sum(c[r], &value[r]);
	for (r = 0; r < RANKS; r++) {
		cr_assert(!next || ticket[r] == next, "a ticket was taken");
		cr_assert_eq(cohort_wait(c[r], ticket[r], RANKS_SOON),
		             COHORT_OK, "%s", cohort_last_error());
		cr_assert_eq(value[r], 6);
	}
	next += next != 0;
}

static void open_split(void)
{
	make_foreign(place_open(RANKS));
	group = ranks_ahead(RANKS, NULL, c);
}

/* Open and split the group as open_split() does, but with @handle, which is no
 * stream, as the foreign stream. */
static void open_with_dead(void *handle)
{
	place_open(RANKS);
	group = ranks_ahead(RANKS, NULL, c);
	foreign = handle;
	is_dead = true;
}

static void close_with_dead(void)
{
	expect_works();
	ranks_must(cohort_group_close(group), "close");
}

static void *destroyed_stream(void)
{
	const struct platform *p = place_open(RANKS);
	cudaStream_t stream = NULL;

	if (place_is_real())
		place_skip(
			"CUDA leaves undefined what it says of such handles");
	cr_assert_eq(p->cudaSetDevice(0), cudaSuccess);
	cr_assert_eq(p->cudaStreamCreateWithFlags(&stream,
	                                          cudaStreamNonBlocking),
	             cudaSuccess);
	cr_assert_eq(p->cudaStreamDestroy(stream), cudaSuccess);
	return stream;
}

static void close_split(void)
{
	expect_works();
	expect_close(group);
	give_foreign_back(place_table());
}

static void refuse_collectives(void)
{
	int32_t x[RANKS] = { 0 }, y[RANKS] = { 0 };
	uint64_t ticket = 77;

	refused(cohort_all_reduce(c[0], x, x, 1, COHORT_I32, COHORT_SUM,
	                          foreign, &ticket),
	        "stream");
	refused(cohort_broadcast(c[0], x, x, 1, COHORT_I32, 0, foreign,
	                         &ticket),
	        "stream");
	refused(cohort_all_gather(c[0], x, y, 1, COHORT_I32, foreign, &ticket),
	        "stream");
	refused(cohort_barrier(c[0], foreign, &ticket), "stream");
	cr_assert_eq(ticket, 77);
}

Test(stream_device, collectives_refuse_a_stream_of_another_device)
{
	open_split();
	refuse_collectives();
	close_split();
}

static void refuse_the_rest(void)
{
	int32_t x[2] = { 1, 2 }, y[2] = { 0, 0 };
	const struct cohort_tensor list[] = {
		{ &x[0], &y[0], 1, COHORT_I32 },
		{ &x[1], &y[1], 1, COHORT_I32 },
	};
	uint64_t ticket = 77;

	refused(cohort_send(c[0], x, 1, COHORT_I32, 1, foreign, &ticket),
	        "stream");
	refused(cohort_recv(c[0], x, 1, COHORT_I32, 1, foreign, &ticket),
	        "stream");
	refused(cohort_all_reduce_many(c[0], list, 2, COHORT_SUM, foreign,
	                               &ticket),
	        "stream");
	refused(cohort_copy(c[0], y, x, sizeof(x), foreign), "stream");
	cr_assert_eq(cohort_batch_begin(c[0]), COHORT_OK);
	cr_assert_eq(cohort_all_reduce(c[0], x, y, 1, COHORT_I32, COHORT_SUM,
	                               NULL, NULL),
	             COHORT_OK);
	refused(cohort_batch_end(c[0], foreign, &ticket), "stream");
	cr_assert_eq(ticket, 77);
	cr_assert_eq(y[0], 0);
}

Test(stream_device, other_calls_refuse_a_stream_of_another_device)
{
	open_split();
	refuse_the_rest();
	close_split();
}

static void refuse_waits(void)
{
	expect_works();
	refused(cohort_stream_after(c[0], 1, foreign), "stream");
	refused(cohort_after_stream(c[0], foreign), "stream");
}

Test(stream_device, stream_waits_refuse_a_stream_of_another_device)
{
	open_split();
	refuse_waits();
	close_split();
}

Test(stream_device, every_call_refuses_a_destroyed_stream)
{
	open_with_dead(destroyed_stream());
	refuse_collectives();
	refuse_the_rest();
	refuse_waits();
	close_with_dead();
}

Test(stream_device, every_call_refuses_a_handle_that_is_not_a_stream)
{
	int32_t memory[64] = { 0 };

	destroyed_stream();
	open_with_dead(memory);
	refuse_collectives();
	refuse_the_rest();
	refuse_waits();
	foreign = (void *)UINT64_C(0xdead0000);
	refuse_collectives();
	close_with_dead();
}

/* If a program may capture streams, the library first queries whether the
 * stream is being captured. */
Test(stream_device, destroyed_stream_is_refused_even_if_captures_are_allowed)
{
	static struct platform table;

	open_with_dead(destroyed_stream());
	table = *place_table();
	table.has_captures = true;
	platform_override(&table);
	ranks_must(cohort_group_close(group), "close");
	group = ranks_ahead(RANKS, NULL, c);
	refuse_collectives();
	refuse_waits();
	close_with_dead();
}

Test(stream_device, reducers_refuse_a_stream_of_another_device)
{
	struct cohort_reducer_options o;
	struct cohort_reducer *r[RANKS];
	float gradient[RANKS][8] = { { 1 } }, *parameter[RANKS];
	int i;

	place_need_no_sync(
		"one thread steps the reducers of all ranks, and the "
		"memory of one waits for the other's launch");
	open_split();
	next = 0;
	cohort_reducer_options_init(&o);
	o.sharded = 1;
	for (i = 0; i < RANKS; i++) {
		const struct cohort_parameter p = { NULL, gradient[i], 8,
			                            COHORT_F32 };

		parameter[i] = gradient[i];
		ranks_must(cohort_reducer_create(c[i], &p, 1, &o, &r[i]),
		           "reducer");
	}
	refused(cohort_reducer_begin(r[0], foreign), "stream");
	for (i = 0; i < RANKS; i++) {
		cr_assert_eq(cohort_reducer_begin(r[i],
		                                  cohort_comm_stream(c[i])),
		             COHORT_OK);
		cr_assert_eq(cohort_reducer_ready(r[i], 0), COHORT_OK);
	}
	refused(cohort_reducer_finish_on(r[0], foreign), "stream");
	for (i = 0; i < RANKS; i++)
		cr_assert_eq(cohort_reducer_finish_on(r[i], NULL), COHORT_OK);
	refused(cohort_reducer_gather(r[0], (void **)&parameter[0], foreign,
	                              RANKS_SOON),
	        "stream");
	for (i = 0; i < RANKS; i++)
		ranks_must(cohort_synchronize(c[i], RANKS_SOON), "synchronize");
	for (i = 0; i < RANKS; i++)
		ranks_must(cohort_reducer_free(r[i]), "free");
	close_split();
}

/* The stream is being captured, and a query for its device would invalidate the
 * capture. */
Test(stream_device, refused_stream_of_another_device_does_not_break_captures)
{
	static struct platform table;
	const struct cuda_calls *cuda;
	cudaGraph_t graph = NULL;
	int32_t x = 0;

	table = *place_open(RANKS);
	table.has_captures = true;
	platform_override(&table);
	cuda = cuda_calls();
	make_foreign(&table);
	group = ranks_ahead(RANKS, NULL, c);
	expect_works();
	cr_assert_eq(cuda->cudaStreamBeginCapture(foreign,
	                                          cudaStreamCaptureModeGlobal),
	             cudaSuccess);
	expect(cohort_all_reduce(c[0], &x, &x, 1, COHORT_I32, COHORT_SUM,
	                         foreign, NULL),
	       COHORT_UNSUPPORTED, "all_reduce: the stream is being captured");
	expect(cohort_stream_after(c[0], 1, foreign), COHORT_UNSUPPORTED,
	       "stream_after: the stream is being captured");
	expect(cohort_after_stream(c[0], foreign), COHORT_UNSUPPORTED,
	       "after_stream: the stream is being captured");
	cr_assert_eq(cuda->cudaStreamEndCapture(foreign, &graph), cudaSuccess);
	cr_assert_eq(cuda->cudaGraphDestroy(graph), cudaSuccess);
	close_split();
}

/* Before version 12.8, CUDA cannot return the device of a stream. */
Test(stream_device, older_runtimes_refuse_a_stream_of_another_device)
{
	static bool lacks[FUNCTIONS] = { [FUNCTION_cudaStreamGetDevice] =
		                                 true };
	static struct platform table;
	int32_t x = 0;

	table = *place_open(RANKS);
	table.lacks = lacks;
	table.cudaStreamGetDevice = NULL;
	platform_override(&table);
	open_split();
	expect(cohort_all_reduce(c[0], &x, &x, 1, COHORT_I32, COHORT_SUM,
	                         foreign, NULL),
	       COHORT_INVALID, "a stream of another device, but rank 0 is on");
	expect(cohort_barrier(c[0], foreign, NULL), COHORT_INVALID,
	       "stream is 0x");
	expect(cohort_after_stream(c[0], foreign), COHORT_INVALID,
	       "another device");
	cr_assert_eq(cohort_after_stream(c[1], foreign), COHORT_OK);
	close_split();
}

/* number of events recorded on the foreign stream */
static atomic_int records;
static cudaError_t (*record)(cudaEvent_t, cudaStream_t);

static cudaError_t count_records(cudaEvent_t event, cudaStream_t stream)
{
	atomic_fetch_add(&records, stream == foreign);
	return record(event, stream);
}

/*
 * Without cudaStreamGetDevice(), the library tests a stream by recording an
 * event on it. After a cause, the reaper may be using this event to wait for
 * the operations of a failed call.
 */
Test(stream_device, stream_is_not_tested_by_an_event_after_a_cause)
{
	static bool lacks[FUNCTIONS] = { [FUNCTION_cudaStreamGetDevice] =
		                                 true };
	static struct platform table;
	float gradient[8] = { 1 };
	const struct cohort_parameter p = { NULL, gradient, 8, COHORT_F32 };
	struct cohort_reducer *r;

	table = *place_open(RANKS);
	table.lacks = lacks;
	table.cudaStreamGetDevice = NULL;
	record = table.cudaEventRecord;
	table.cudaEventRecord = count_records;
	platform_override(&table);
	open_split();
	ranks_must(cohort_reducer_create(c[1], &p, 1, NULL, &r), "reducer");
	ranks_must(cohort_reducer_begin(r, cohort_comm_stream(c[1])), "begin");
	ranks_must(cohort_reducer_ready(r, 0), "ready");
	cr_assert_eq(cohort_group_abort(group, "enough"), COHORT_OK);
	cr_assert_eq(cohort_reducer_finish_on(r, foreign), COHORT_ABORTED, "%s",
	             cohort_last_error());
	cr_assert_eq(atomic_load(&records), 0);
	cr_assert_eq(cohort_reducer_finish(r, RANKS_SOON), COHORT_ABORTED);
	cr_assert_eq(cohort_reducer_free(r), COHORT_OK);
	expect_close(group);
	give_foreign_back(place_table());
}

/* ---- all ranks from one thread ---------------------------------------- */

static void refuse_at(int n, int wrong, int32_t *value)
{
	const void *send[RANKS];
	void *recv[RANKS], *streams[RANKS] = { NULL };
	uint64_t ticket = 77;
	char name[16];
	int r;

	for (r = 0; r < n; r++)
		send[r] = recv[r] = &value[r];
	streams[wrong] = foreign;
	snprintf(name, sizeof(name), "streams[%d]", wrong);
	refused_to(wrong,
	           cohort_group_all_reduce(group, send, recv, 1, COHORT_I32,
	                                   COHORT_SUM, streams, &ticket),
	           name);
	refused_to(wrong,
	           cohort_group_broadcast(group, send, recv, 1, COHORT_I32, 0,
	                                  streams, &ticket),
	           name);
	cr_assert_eq(ticket, 77);
	streams[wrong] = NULL;
	ranks_must(cohort_group_all_reduce(group, send, recv, 1, COHORT_I32,
	                                   COHORT_SUM, streams, &ticket),
	           "all_reduce");
	cr_assert_eq(ticket, 1);
	ranks_must(cohort_group_wait(group, ticket, RANKS_SOON), "wait");
}

Test(stream_device, group_calls_name_the_stream_of_another_device)
{
	int32_t value[RANKS] = { 1, 2, 3 };

	spread_not("the test makes the calls of all ranks");
	make_foreign(place_open(RANKS));
	group = ranks_open(RANKS, NULL);
	refuse_at(RANKS, 2, value);
	cr_assert_eq(value[2], 6);
	expect_close(group);
	group = ranks_open(1, NULL);
	refuse_at(1, 0, value);
	expect_close(group);
	give_foreign_back(place_table());
}

Test(stream_device, group_calls_name_the_destroyed_stream)
{
	int32_t value[RANKS] = { 1, 2, 3 };

	spread_not("the test makes the calls of all ranks");
	foreign = destroyed_stream();
	is_dead = true;
	group = ranks_open(RANKS, NULL);
	refuse_at(RANKS, 2, value);
	cr_assert_eq(value[2], 6);
	ranks_must(cohort_group_close(group), "close");
}
