/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests of communicators: owners, memory, arguments and closing. A call that
 * fails or is refused must have no effect.
 */

#include <criterion/criterion.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

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
	expect_close(group);
}

TestSuite(comm, .init = open_two, .fini = close_two, .timeout = 30);

/* Reopen the group so that one thread can make the calls of each rank in
 * turn. */
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

Test(comm, bound_communicator_refuses_calls_of_other_threads, .init = in_turn)
{
	cr_assert_eq(cohort_comm_bind(comms[0]), COHORT_OK);
	cr_assert_eq(cohort_comm_bind(comms[0]), COHORT_ALREADY);
	cr_assert_eq(from_another_thread(call_barrier), COHORT_OWNER);
	cr_assert_eq(cohort_comm_unbind(comms[0]), COHORT_OK);
	cr_assert_eq(cohort_comm_unbind(comms[0]), COHORT_ALREADY);
	cr_assert_eq(from_another_thread(call_barrier), COHORT_OK);
	cr_assert_eq(cohort_barrier(comms[1], NULL, NULL), COHORT_OK);
}

/* Call repeatedly on a communicator that another thread owns. These calls must
 * be refused, and must not make the owner's calls return busy. */
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
		/* Retry, because the intruder may be preempted while it is
		 * inside the communicator. */
		while (rc == COHORT_BUSY)
			rc = cohort_barrier(comm, stream, NULL);
		if (rc != COHORT_OK)
			return rc;
	}
	return cohort_synchronize(comm, RANKS_SOON);
}

Test(comm, refused_calls_of_other_threads_do_not_delay_the_owner)
{
	atomic_int stop = 0, refused = 0;
	pthread_t thread;
	int i;

	pthread_create(&thread, NULL, intrude, &stop);
	for (i = 0; i < 20; i++)
		expect_run_in(group, count_busy, &refused);
	atomic_store(&stop, 1);
	pthread_join(thread, NULL);
	/* In each of the 20 runs, one call may return busy, because the
	 * intruder can be inside the communicator when the run binds it. */
	cr_assert_leq(refused, 20);
}

static void *call_bind(void *rc)
{
	*(int *)rc = cohort_comm_bind(comms[0]);
	return NULL;
}

Test(comm, bound_communicator_cannot_be_bound_by_another_thread)
{
	cr_assert_eq(cohort_comm_bind(comms[0]), COHORT_OK);
	cr_assert_eq(from_another_thread(call_bind), COHORT_OWNER);
	cr_assert_eq(cohort_comm_unbind(comms[0]), COHORT_OK);
}

struct owner {
	sem_t has_bound, may_exit;
	int tid;
};

static void *bind_and_wait(void *arg)
{
	struct owner *owner = arg;

	pthread_setname_np(pthread_self(), "dp/0");
	owner->tid = (int)syscall(SYS_gettid);
	ranks_must(cohort_comm_bind(comms[0]), "bind");
	sem_post(&owner->has_bound);
	sem_wait(&owner->may_exit);
	ranks_must(cohort_comm_unbind(comms[0]), "unbind");
	return NULL;
}

Test(comm, refusal_names_the_thread_that_a_communicator_is_bound_to)
{
	struct owner owner;
	char bound[64];
	pthread_t thread;

	sem_init(&owner.has_bound, 0, 0);
	sem_init(&owner.may_exit, 0, 0);
	pthread_create(&thread, NULL, bind_and_wait, &owner);
	sem_wait(&owner.has_bound);
	snprintf(bound, sizeof(bound),
	         "rank 0 is bound to thread %d \"dp/0\": ", owner.tid);
	expect(cohort_barrier(comms[0], NULL, NULL), COHORT_OWNER, bound);
	sem_post(&owner.may_exit);
	pthread_join(thread, NULL);
}

static void *call_stuck(void *arg)
{
	int32_t value = 0;

	/* The first calls can return busy while the main thread tries to
	 * unbind. */
	do
		*(int *)arg = ranks_sum_wait(comms[0], &value);
	while (*(int *)arg == COHORT_BUSY);
	return NULL;
}

Test(comm, call_returns_busy_while_another_thread_is_inside)
{
	pthread_t thread;
	int first = 0, second;

	ranks_fault(0, 0, COHORT_FAULT_STUCK, 0);
	pthread_create(&thread, NULL, call_stuck, &first);
	do
		second = cohort_comm_unbind(comms[0]);
	while (second != COHORT_BUSY);
	expect(cohort_barrier(comms[0], NULL, NULL), COHORT_BUSY, "rank 0");
	/* Other ranks' communicators are not busy. */
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

Test(comm, error_names_the_invalid_argument_and_its_value, .init = in_turn)
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
	 * The refused calls do not count as the first collective of a rank.
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

Test(comm, error_names_the_invalid_tensor_of_a_list)
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

Test(comm, buffers_that_a_rank_does_not_use_may_be_null, .init = in_turn)
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

Test(comm, buffers_may_be_null_if_the_count_is_0, .init = in_turn)
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

Test(comm, barrier_waits_for_the_last_rank, .init = in_turn)
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

Test(comm, memory_can_be_allocated_copied_and_freed)
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
	expect(cohort_free(comms[1], in), COHORT_CUDA,
	       ", which is not from cohort_alloc() or was already freed: ");
	expect(cohort_alloc(comms[1], (size_t)1 << 60, &memory),
	       COHORT_NO_MEMORY,
	       "cudaMalloc of 1152921504606846976 bytes on device 1: ");
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

Test(comm, calls_leave_the_current_device_unchanged, .init = in_turn)
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

/* ---- closing ---------------------------------------------------------- */

Test(comm, closed_communicator_refuses_calls, .init = in_turn)
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
	cr_assert_eq(cohort_synchronize(comms[0], RANKS_SOON), COHORT_OK);
}

TestSuite(leaving, .timeout = 30);

Test(leaving, comm_close_that_times_out_leaves_the_rank_open)
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
	expect_close(group);
}

Test(comm, comm_close_after_an_abort_still_closes)
{
	cohort_group_abort(group, "over");
	cr_assert_eq(cohort_comm_close(comms[0]), COHORT_OK,
	             "nothing was in flight");
	expect(cohort_barrier(comms[0], NULL, NULL), COHORT_STATE, "closed");
}

Test(comm, communicator_calls_refuse_null_arguments)
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
