/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Communicators: ownership, memory, arguments, leaving; and a failed or refused
 * call changes nothing
 */

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "platform/platform.h"
#include "support/expect.h"
#include "support/ranks.h"

static struct cohort_group *group;
static struct cohort_comm *comms[2];

static void open_two(void)
{
	group = ranks_split(2, NULL, comms);
}

static void close_two(void)
{
	cr_assert_eq(cohort_group_close(group), COHORT_OK);
}

TestSuite(comm, .init = open_two, .fini = close_two, .timeout = 30);

/* For tests in which one thread calls for the ranks in turn. */
static void in_turn(void)
{
	close_two();
	group = ranks_ahead(2, NULL, comms);
}

/* ---- ownership -------------------------------------------------------- */

static void *call_barrier(void *rc)
{
	*(int *)rc = cohort_barrier(comms[0], NULL, NULL);
	return NULL;
}

static int from_another_thread(void *(*call)(void *))
{
	pthread_t thread;
	int rc = 0;

	pthread_create(&thread, NULL, call, &rc);
	pthread_join(thread, NULL);
	return rc;
}

Test(comm, a_bound_communicator_takes_calls_of_its_thread_only, .init = in_turn)
{
	cr_assert_eq(cohort_comm_bind(comms[0]), COHORT_OK);
	cr_assert_eq(cohort_comm_bind(comms[0]), COHORT_ALREADY);
	cr_assert_eq(from_another_thread(call_barrier), COHORT_OWNER);
	cr_assert_eq(cohort_comm_unbind(comms[0]), COHORT_OK);
	cr_assert_eq(cohort_comm_unbind(comms[0]), COHORT_ALREADY);
	cr_assert_eq(from_another_thread(call_barrier), COHORT_OK);
	cr_assert_eq(cohort_barrier(comms[1], NULL, NULL), COHORT_OK);
}

/* A thread that may not use the communicator must not keep its owner out. */
static void *intrude(void *arg)
{
	atomic_int *stop = arg;

	while (!atomic_load(stop))
		cohort_free(comms[0], &comms);
	return NULL;
}

static int count_busy(struct cohort_comm *comm, void *user)
{
	void *stream = cohort_comm_stream(comm);
	int i, rc;

	for (i = 0; i < 200; i++) {
		rc = cohort_barrier(comm, stream, NULL);
		atomic_fetch_add((atomic_int *)user, rc == COHORT_BUSY);
		/* The intruder may be preempted inside: then try again. */
		while (rc == COHORT_BUSY)
			rc = cohort_barrier(comm, stream, NULL);
		if (rc != COHORT_OK)
			return rc;
	}
	return cohort_synchronize(comm, RANKS_SOON);
}

Test(comm, an_intruder_keeps_no_owner_out)
{
	atomic_int stop = 0, refused = 0;
	pthread_t thread;
	int i;

	pthread_create(&thread, NULL, intrude, &stop);
	for (i = 0; i < 20; i++)
		cr_assert_eq(cohort_group_run(group, count_busy, &refused,
		                              NULL),
		             COHORT_OK, "%s", cohort_last_error());
	atomic_store(&stop, 1);
	pthread_join(thread, NULL);
	/* An intruder may be inside only at the moment of binding. */
	cr_assert_leq(refused, 20);
}

static void *call_bind(void *rc)
{
	*(int *)rc = cohort_comm_bind(comms[0]);
	return NULL;
}

Test(comm, cannot_be_bound_by_another_thread)
{
	cr_assert_eq(cohort_comm_bind(comms[0]), COHORT_OK);
	cr_assert_eq(from_another_thread(call_bind), COHORT_OWNER);
	cr_assert_eq(cohort_comm_unbind(comms[0]), COHORT_OK);
}

static void *call_stuck(void *arg)
{
	int32_t value = 0;

	/* The test's own attempts may keep the other thread out at first. */
	do
		*(int *)arg = ranks_sum_wait(comms[0], &value);
	while (*(int *)arg == COHORT_BUSY);
	return NULL;
}

Test(comm, a_second_thread_inside_gets_busy)
{
	pthread_t thread;
	int first = 0, second;

	ranks_fault(0, 0, COHORT_FAULT_STUCK, 0);
	pthread_create(&thread, NULL, call_stuck, &first);
	do
		second = cohort_comm_unbind(comms[0]);
	while (second != COHORT_BUSY);
	expect(cohort_barrier(comms[0], NULL, NULL), COHORT_BUSY, "rank 0");
	/* The other ranks are not affected. */
	cr_assert_eq(cohort_comm_bind(comms[1]), COHORT_OK);
	cohort_group_abort(group, "release");
	pthread_join(thread, NULL);
	cr_assert_eq(first, COHORT_ABORTED);
}

/* ---- arguments -------------------------------------------------------- */

static int reduce(const void *send, void *recv, size_t count, int type, int op,
                  int root)
{
	uint64_t ticket = 77;
	int rc = cohort_reduce(comms[0], send, recv, count, type, op, root,
	                       NULL, &ticket);

	cr_assert_eq(ticket, 77, "a refused call has written the ticket");
	return rc;
}

Test(comm, refuses_bad_arguments_by_name_and_value, .init = in_turn)
{
	int32_t x = 0;

	expect(reduce(&x, &x, 1, 12, 0, 0), COHORT_INVALID, "type is 12");
	expect(reduce(&x, &x, 1, -1, 0, 0), COHORT_INVALID, "type is -1");
	expect(reduce(&x, &x, 1, 2, 5, 0), COHORT_INVALID, "op is 5");
	expect(reduce(&x, &x, 1, 2, -1, 0), COHORT_INVALID, "op is -1");
	expect(reduce(&x, &x, 1, 2, 0, 2), COHORT_INVALID, "root is 2");
	expect(reduce(&x, &x, 1, 2, 0, -1), COHORT_INVALID, "root is -1");
	expect(reduce(NULL, &x, 1, 2, 0, 0), COHORT_INVALID, "send is NULL");
	expect(reduce(&x, NULL, 1, 2, 0, 0), COHORT_INVALID, "recv is NULL");
	expect(reduce(&x, &x, SIZE_MAX / 2, 2, 0, 0), COHORT_INVALID,
	       "count is 9223372036854775807");
	expect(reduce((char *)&x + 1, &x, 1, 2, 0, 0), COHORT_INVALID,
	       "not aligned to the 4 bytes of int32");
	expect(reduce(&x, (char *)&x + 2, 1, 2, 0, 0), COHORT_INVALID,
	       "recv is ");
	expect(cohort_all_gather(comms[0], &x, &x, PTRDIFF_MAX / 4, COHORT_I32,
	                         NULL, NULL),
	       COHORT_INVALID, "count is");
	expect(cohort_barrier(NULL, NULL, NULL), COHORT_INVALID,
	       "comm is NULL");
	/*
	 * None of these calls counted: both ranks are still at their first
	 * call.
	 */
	x = 5;
	ranks_sum(comms[0], &x);
	cr_assert_eq(cohort_barrier(comms[0], NULL, NULL), COHORT_OK);
	ranks_sum(comms[1], &(int32_t){ 6 });
	cr_assert_eq(cohort_barrier(comms[1], NULL, NULL), COHORT_OK);
	cr_assert_eq(cohort_synchronize(comms[0], RANKS_SOON), COHORT_OK);
	cr_assert_eq(cohort_synchronize(comms[1], RANKS_SOON), COHORT_OK);
	cr_assert_eq(x, 11);
}

Test(comm, says_which_tensor_of_a_list_is_wrong)
{
	int32_t x = 0;
	struct cohort_tensor list[] = { { &x, &x, 1, COHORT_I32 },
		                        { &x, &x, 1, 99 } };

	expect(cohort_all_reduce_many(comms[0], list, 2, COHORT_SUM, NULL,
	                              NULL),
	       COHORT_INVALID, "tensors[1].type is 99");
	expect(cohort_all_reduce_many(comms[0], list, 0, COHORT_SUM, NULL,
	                              NULL),
	       COHORT_INVALID, "n is 0");
	expect(cohort_all_reduce_many(comms[0], NULL, 2, COHORT_SUM, NULL,
	                              NULL),
	       COHORT_INVALID, "tensors is NULL");
}

Test(comm, looks_only_at_the_buffers_that_a_rank_has, .init = in_turn)
{
	int32_t x = 9, y = 0;

	cr_assert_eq(cohort_broadcast(comms[0], &x, &x, 1, COHORT_I32, 0, NULL,
	                              NULL),
	             COHORT_OK);
	cr_assert_eq(cohort_broadcast(comms[1], NULL, &y, 1, COHORT_I32, 0,
	                              NULL, NULL),
	             COHORT_OK);
	cr_assert_eq(cohort_reduce(comms[0], &x, NULL, 1, COHORT_I32,
	                           COHORT_SUM, 1, NULL, NULL),
	             COHORT_OK);
	cr_assert_eq(cohort_reduce(comms[1], &y, &y, 1, COHORT_I32, COHORT_SUM,
	                           1, NULL, NULL),
	             COHORT_OK);
	cr_assert_eq(cohort_synchronize(comms[0], RANKS_SOON), COHORT_OK);
	cr_assert_eq(cohort_synchronize(comms[1], RANKS_SOON), COHORT_OK);
	cr_assert_eq(y, 18);
}

Test(comm, takes_a_count_of_0_without_buffers, .init = in_turn)
{
	uint64_t a, b;

	cr_assert_eq(cohort_all_reduce(comms[0], NULL, NULL, 0, COHORT_F32,
	                               COHORT_SUM, NULL, &a),
	             COHORT_OK);
	cr_assert_eq(cohort_wait(comms[0], a, RANKS_SOON), COHORT_OK);
	cr_assert_eq(cohort_all_reduce(comms[1], NULL, NULL, 0, COHORT_F32,
	                               COHORT_SUM, NULL, &b),
	             COHORT_OK);
	cr_assert_eq(cohort_wait(comms[1], b, RANKS_SOON), COHORT_OK);
}

/* ---- barrier ---------------------------------------------------------- */

Test(comm, a_barrier_waits_for_the_late_rank, .init = in_turn)
{
	uint64_t ticket, late;

	cr_assert_eq(cohort_barrier(comms[0], cohort_comm_stream(comms[0]),
	                            &ticket),
	             COHORT_OK);
	cr_assert_eq(cohort_wait(comms[0], ticket, 2 * 1000 * 1000),
	             COHORT_TIMED_OUT);
	cr_assert_eq(cohort_barrier(comms[1], cohort_comm_stream(comms[1]),
	                            &late),
	             COHORT_OK);
	cr_assert_eq(cohort_wait(comms[0], ticket, RANKS_SOON), COHORT_OK);
	cr_assert_eq(cohort_wait(comms[1], late, RANKS_SOON), COHORT_OK);
}

/* ---- memory ----------------------------------------------------------- */

Test(comm, allocates_copies_and_frees)
{
	char in[100], out[100];
	void *memory = NULL;
	size_t i;

	for (i = 0; i < sizeof(in); i++)
		in[i] = (char)(i * 7);
	cr_assert_eq(cohort_alloc(comms[1], sizeof(in), &memory), COHORT_OK);
	cr_assert_eq(cohort_copy(comms[1], memory, in, sizeof(in), NULL),
	             COHORT_OK);
	cr_assert_eq(cohort_copy(comms[1], out, memory, sizeof(in), NULL),
	             COHORT_OK);
	cr_assert_eq(cohort_synchronize(comms[1], RANKS_SOON), COHORT_OK);
	cr_assert_arr_eq(in, out, sizeof(in));
	cr_assert_eq(cohort_free(comms[1], memory), COHORT_OK);
	cr_assert_eq(cohort_free(comms[1], NULL), COHORT_OK);
	expect(cohort_free(comms[1], in), COHORT_CUDA, "cudaFree");
	expect(cohort_alloc(comms[1], 0, &memory), COHORT_INVALID,
	       "bytes is 0");
	expect(cohort_alloc(comms[1], 1, NULL), COHORT_INVALID,
	       "memory is NULL");
}

Test(comm, memory_can_be_freed_after_an_abort)
{
	void *memory;

	cr_assert_eq(cohort_alloc(comms[0], 10, &memory), COHORT_OK);
	cohort_group_abort(group, NULL);
	cr_assert_eq(cohort_free(comms[0], memory), COHORT_OK);
	expect(cohort_copy(comms[0], &memory, &memory, 1, NULL), COHORT_ABORTED,
	       "aborted");
}

/* ---- the caller's device ---------------------------------------------- */

Test(comm, leaves_the_current_device_alone, .init = in_turn)
{
	const struct platform *p;
	static int32_t a = 1, b = 2;
	void *memory;
	uint64_t ticket;
	int device = -1;

	place_need(3);
	p = place_table();
	p->cudaSetDevice(2);
	cohort_alloc(comms[1], 10, &memory);
	cohort_free(comms[1], memory);
	ranks_sum(comms[0], &a);
	ticket = ranks_sum(comms[1], &b);
	cohort_stream_after(comms[1], ticket, NULL);
	cohort_after_stream(comms[1], NULL);
	cohort_wait(comms[1], ticket, RANKS_SOON);
	cohort_barrier(comms[0], NULL, NULL);
	cohort_barrier(comms[1], NULL, NULL);
	cohort_comm_close(comms[1]);
	p->cudaGetDevice(&device);
	cr_assert_eq(device, 2);
}

/* ---- leaving ---------------------------------------------------------- */

Test(comm, a_closed_communicator_refuses_calls, .init = in_turn)
{
	static int32_t a = 1, b = 2;
	void *memory;

	ranks_sum(comms[0], &a);
	ranks_sum(comms[1], &b);
	cr_assert_eq(cohort_comm_close(comms[1]), COHORT_OK);
	cr_assert_eq(b, 3, "close did not wait");
	expect(cohort_comm_close(comms[1]), COHORT_STATE, "rank 1 was closed");
	expect(cohort_barrier(comms[1], NULL, NULL), COHORT_STATE, "rank 1");
	expect(cohort_alloc(comms[1], 1, &memory), COHORT_STATE, "rank 1");
	cr_assert_eq(cohort_comm_rank(comms[1]), -1);
	cr_assert_null(cohort_comm_stream(comms[1]));
	/* The others go on as far as they can alone. */
	cr_assert_eq(cohort_synchronize(comms[0], RANKS_SOON), COHORT_OK);
}

TestSuite(leaving, .timeout = 30);

Test(leaving, is_undone_if_a_ticket_is_not_answered_in_time)
{
	struct cohort_group_options o;
	int32_t a = 1, b = 2;

	cohort_group_options_init(&o);
	o.deadlines.close_ns = 1000 * 1000;
	group = ranks_ahead(2, &o, comms);
	ranks_sum(comms[0], &a);
	cr_assert_eq(cohort_comm_close(comms[0]), COHORT_TIMED_OUT);
	cr_assert_eq(cohort_barrier(comms[0], NULL, NULL), COHORT_OK);
	ranks_sum(comms[1], &b);
	cr_assert_eq(cohort_barrier(comms[1], NULL, NULL), COHORT_OK);
	cr_assert_eq(cohort_synchronize(comms[0], RANKS_SOON), COHORT_OK);
	cr_assert_eq(cohort_synchronize(comms[1], RANKS_SOON), COHORT_OK);
	cr_assert_eq(cohort_comm_close(comms[0]), COHORT_OK);
	cr_assert_eq(cohort_group_close(group), COHORT_OK);
}

Test(comm, close_returns_the_cause_and_closes)
{
	cohort_group_abort(group, "over");
	cr_assert_eq(cohort_comm_close(comms[0]), COHORT_OK,
	             "nothing was in flight");
	expect(cohort_barrier(comms[0], NULL, NULL), COHORT_STATE, "closed");
}

Test(comm, refuses_null_arguments)
{
	struct cohort_cause cause;

	cr_assert_eq(cohort_comm_rank(NULL), -1);
	cr_assert_eq(cohort_comm_size(NULL), -1);
	cr_assert_eq(cohort_comm_device(NULL), -1);
	cr_assert_null(cohort_comm_stream(NULL));
	expect(cohort_comm_cause(NULL, &cause), COHORT_INVALID, "comm");
	expect(cohort_comm_cause(comms[0], NULL), COHORT_INVALID, "cause");
	expect(cohort_comm_bind(NULL), COHORT_INVALID, "comm");
	expect(cohort_wait(NULL, 1, 0), COHORT_INVALID, "comm");
	expect(cohort_stream_after(NULL, 1, NULL), COHORT_INVALID, "comm");
}
