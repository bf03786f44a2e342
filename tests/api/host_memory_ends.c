/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests of calls with host memory that do not finish, or not in time: who owns
 * the memory afterwards, and which calls are possible next
 */

#include <criterion/criterion.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "support/expect.h"
#include "support/failing.h"
#include "support/native.h"
#include "support/place.h"
#include "support/ranks.h"

#define RANKS 2
#define COUNT 10000 /* number of elements, enough for many chunks */
#define MOMENT UINT64_C(1000000)

static struct cohort_group *group;
static struct cohort_comm *comms[RANKS];
static struct cohort_group_options o;

static void set_up(void)
{
	place_set_chunk(4096);
	cohort_group_options_init(&o);
}

TestSuite(host_memory_ends, .init = set_up, .timeout = 60);

static void open_ranks(void)
{
	group = ranks_split(RANKS, &o, comms);
}

static int32_t *data_of(int32_t value)
{
	int32_t *data = malloc(COUNT * sizeof(*data));
	size_t i;

	for (i = 0; i < COUNT; i++)
		data[i] = value;
	return data;
}

static bool is_all(const int32_t *data, int32_t value)
{
	size_t i;

	for (i = 0; i < COUNT; i++)
		if (data[i] != value)
			return false;
	return true;
}

static int sum(struct cohort_comm *comm, int32_t *data, uint64_t timeout)
{
	return cohort_all_reduce_host(comm, data, COUNT, COHORT_I32, COHORT_SUM,
	                              timeout);
}

static int again(int32_t *data, uint64_t timeout)
{
	return cohort_wait_host(comms[0], data, COUNT * sizeof(*data), timeout);
}

/* A call on a new thread */
struct other {
	struct cohort_comm *comm;
	int32_t *data;
	uint64_t timeout;
	int rc;
	pthread_t thread;
};

static void *other_main(void *arg)
{
	struct other *t = arg;

	t->rc = sum(t->comm, t->data, t->timeout);
	return NULL;
}

static void begin(struct other *t, int rank, int32_t *data, uint64_t timeout)
{
	*t = (struct other){ comms[rank], data, timeout, 0, 0 };
	cr_assert_eq(pthread_create(&t->thread, NULL, other_main, t), 0);
}

static int end(struct other *t)
{
	pthread_join(t->thread, NULL);
	return t->rc;
}

/* Wait until rank @rank has called @n collectives. */
static void await_call(int rank, uint64_t n)
{
	struct cohort_stats stats = { .size = sizeof(stats) };

	do {
		sched_yield();
		ranks_must(cohort_stats(comms[rank], &stats), "stats");
	} while (stats.collectives < n);
}

/* Make a sum on both ranks, to check that the group still works. */
static void check_both_ranks(void)
{
	int32_t *a = data_of(4), *b = data_of(5);
	struct other t;

	begin(&t, 0, a, RANKS_SOON);
	cr_assert_eq(sum(comms[1], b, RANKS_SOON), COHORT_OK);
	cr_assert_eq(end(&t), COHORT_OK);
	cr_assert(is_all(a, 9));
	cr_assert(is_all(b, 9));
	free(a);
	free(b);
}

/* ---- calls that time out ---------------------------------------------- */

Test(host_memory_ends, host_memory_call_continues_after_its_timeout)
{
	int32_t *late = data_of(2), *data;
	int i;

	open_ranks();
	for (i = 0; i < 3; i++) {
		data = data_of(1);
		cr_assert_eq(sum(comms[0], data, i * MOMENT), COHORT_TIMED_OUT);
		memset(data, 0x55, COUNT * sizeof(*data));
		cr_assert_eq(sum(comms[1], late, COHORT_FOREVER), COHORT_OK);
		cr_assert(is_all(late, 3 + i));
		cr_assert_eq(cohort_synchronize(comms[0], RANKS_SOON),
		             COHORT_OK);
		cr_assert(is_all(data, 0x55555555));
		free(data);
	}
	check_both_ranks();
	expect_close(group);
	free(late);
}

Test(host_memory_ends, wait_repeated_after_a_timeout_returns_the_output)
{
	int32_t *late = data_of(2), *data = data_of(1);
	int i;

	open_ranks();
	cr_assert_eq(sum(comms[0], data, 0), COHORT_TIMED_OUT);
	for (i = 0; i < 3; i++)
		cr_assert_eq(again(data, i * MOMENT), COHORT_TIMED_OUT);
	cr_assert_eq(sum(comms[1], late, COHORT_FOREVER), COHORT_OK);
	cr_assert_eq(again(data, RANKS_SOON), COHORT_OK);
	cr_assert(is_all(data, 3));
	check_both_ranks();
	expect_close(group);
	free(data);
	free(late);
}

Test(host_memory_ends, wait_without_a_call_that_has_timed_out_is_refused)
{
	int32_t *late = data_of(2), *data = data_of(1);

	open_ranks();
	expect(again(data, 0), COHORT_STATE,
	       "no call with host memory of rank 0 has timed out");
	cr_assert_eq(sum(comms[0], data, 0), COHORT_TIMED_OUT);
	expect(again(NULL, 0), COHORT_INVALID,
	       "recv has 0 bytes, but the output of all_reduce_host on rank 0");
	expect(cohort_wait_host(comms[0], data, 1, 0), COHORT_INVALID,
	       "recv has 1 bytes, but the output of all_reduce_host on rank 0");
	cr_assert_eq(sum(comms[1], late, COHORT_FOREVER), COHORT_OK);
	cr_assert_eq(again(data, RANKS_SOON), COHORT_OK);
	expect(again(data, 0), COHORT_STATE,
	       "no call with host memory of rank 0 has timed out");
	expect_close(group);
	free(data);
	free(late);
}

Test(host_memory_ends, abort_ends_a_repeated_wait_for_a_host_memory_call)
{
	int32_t *data = data_of(1);

	open_ranks();
	cr_assert_eq(sum(comms[0], data, 0), COHORT_TIMED_OUT);
	cr_assert_eq(cohort_comm_fail(comms[1], COHORT_WORKER, "enough"),
	             COHORT_OK);
	cr_assert_neq(again(data, RANKS_SOON), COHORT_OK);
	cohort_group_close(group);
	free(data);
}

Test(host_memory_ends, host_memory_calls_of_both_ranks_may_time_out)
{
	int32_t *a = data_of(1), *b = data_of(2);

	open_ranks();
	cr_assert_eq(sum(comms[0], a, 0), COHORT_TIMED_OUT);
	free(a);
	/* Rank 0 has already done its part, so this call may finish before its
	 * timeout. */
	cr_assert_geq(sum(comms[1], b, 0), COHORT_OK);
	free(b);
	cr_assert_eq(cohort_synchronize(comms[0], RANKS_SOON), COHORT_OK);
	cr_assert_eq(cohort_synchronize(comms[1], RANKS_SOON), COHORT_OK);
	check_both_ranks();
	expect_close(group);
}

Test(host_memory_ends, next_host_memory_call_is_refused_while_one_continues)
{
	int32_t *data = data_of(1);

	open_ranks();
	cr_assert_eq(sum(comms[0], data, MOMENT), COHORT_TIMED_OUT);
	expect(sum(comms[0], data, MOMENT), COHORT_BUSY,
	       "all_reduce_host: an earlier call with host memory, ticket 1 of "
	       "rank 0, has timed out and is still running");
	expect(cohort_send_host(comms[0], data, 1, COHORT_I32, 1, 0),
	       COHORT_BUSY, "send_host: an earlier call");
	/* The two refused calls had no effect. */
	cr_assert_eq(sum(comms[1], data, RANKS_SOON), COHORT_OK);
	check_both_ranks();
	expect_close(group);
	free(data);
}

/*
 * The caller stops waiting although earlier work on its stream continues.
 */
Test(host_memory_ends, host_memory_timeout_includes_earlier_work_on_the_stream)
{
	const struct platform *p = native_open(RANKS);
	int32_t *data = data_of(1), *late = data_of(2);
	struct native_gate gate;

	open_ranks();
	check_both_ranks(); /* allocates the staging memory */
	native_gate_hold(p, &gate, cohort_comm_stream(comms[0]));
	native_gate_reached(&gate);
	cr_assert_eq(sum(comms[0], data, MOMENT), COHORT_TIMED_OUT);
	memset(data, 0x55, COUNT * sizeof(*data));
	native_gate_open(&gate);
	cr_assert_eq(sum(comms[1], late, RANKS_SOON), COHORT_OK);
	cr_assert_eq(cohort_synchronize(comms[0], RANKS_SOON), COHORT_OK);
	cr_assert(is_all(data, 0x55555555));
	check_both_ranks();
	expect_close(group);
	free(late);
	free(data);
}

Test(host_memory_ends, root_may_leave_a_host_memory_call_before_others_arrive)
{
	int32_t *data = data_of(7), *there = data_of(0);

	place_need_order();
	open_ranks();
	cr_assert_eq(cohort_broadcast_host(comms[0], data, COUNT, COHORT_I32, 0,
	                                   0),
	             COHORT_TIMED_OUT);
	memset(data, 0, COUNT * sizeof(*data));
	free(data);
	cr_assert_eq(cohort_broadcast_host(comms[1], there, COUNT, COHORT_I32,
	                                   0, RANKS_SOON),
	             COHORT_OK);
	cr_assert(is_all(there, 7));
	data = data_of(8);
	cr_assert_eq(cohort_send_host(comms[0], data, COUNT, COHORT_I32, 1,
	                              MOMENT),
	             COHORT_TIMED_OUT);
	free(data);
	cr_assert_eq(cohort_recv_host(comms[1], there, COUNT, COHORT_I32, 0,
	                              RANKS_SOON),
	             COHORT_OK);
	cr_assert(is_all(there, 8));
	expect_close(group);
	free(there);
}

/* ---- aborts ----------------------------------------------------------- */

static void is_aborted(uint64_t timeout)
{
	int32_t *data = data_of(1);
	struct other t;

	open_ranks();
	begin(&t, 0, data, timeout);
	await_call(0, 1);
	cr_assert_eq(cohort_group_abort(group, "enough"), COHORT_OK);
	cr_assert_eq(end(&t), COHORT_ABORTED);
	free(data);
	expect_close(group);
}

Test(host_memory_ends, abort_ends_a_host_memory_call)
{
	is_aborted(COHORT_FOREVER);
}

Test(host_memory_ends, abort_ends_a_host_memory_call_that_has_a_timeout)
{
	is_aborted(RANKS_SOON);
}

Test(host_memory_ends, abort_ends_a_host_memory_call_after_its_timeout)
{
	int32_t *data = data_of(1);

	open_ranks();
	cr_assert_eq(sum(comms[0], data, MOMENT), COHORT_TIMED_OUT);
	free(data);
	cr_assert_eq(cohort_group_abort(group, "enough"), COHORT_OK);
	cr_assert_eq(cohort_synchronize(comms[0], RANKS_SOON), COHORT_ABORTED);
	data = data_of(1);
	cr_assert_eq(sum(comms[0], data, MOMENT), COHORT_ABORTED);
	free(data);
	expect_close(group);
}

/*
 * On GPUs, the second of many chunks never ends. On the host platform, the
 * whole call never ends.
 */
Test(host_memory_ends, abort_ends_a_host_memory_call_between_chunks)
{
	bool is_gpu = place_platform() == COHORT_PLATFORM_GPU;
	int32_t *a = data_of(1), *b = data_of(2);
	struct other t[RANKS];

	ranks_fault(1, is_gpu, COHORT_FAULT_NEVER, 0);
	open_ranks();
	begin(&t[0], 0, a, COHORT_FOREVER);
	begin(&t[1], 1, b, is_gpu ? RANKS_SOON : COHORT_FOREVER);
	await_call(0, 1);
	await_call(1, 1);
	cr_assert_eq(cohort_group_abort(group, "enough"), COHORT_OK);
	cr_assert_eq(end(&t[0]), COHORT_ABORTED);
	free(a);
	cr_assert_eq(end(&t[1]), COHORT_ABORTED);
	free(b);
	expect_close(group);
}

Test(host_memory_ends, verdict_on_a_deadline_names_the_host_memory_call)
{
	int32_t *data = data_of(1);
	struct cohort_cause cause;

	o.deadlines.join_ns = 50 * MOMENT;
	open_ranks();
	cr_assert_eq(sum(comms[0], data, COHORT_FOREVER), COHORT_STALLED);
	free(data);
	cr_assert_eq(cohort_comm_cause(comms[0], &cause), COHORT_OK);
	expect_text(cause.details, "all_reduce_host of 10000 int32, sum");
	expect_close(group);
}

Test(host_memory_ends, host_memory_call_and_device_call_are_a_mismatch)
{
	int32_t *data = data_of(1), *other = data_of(1);
	struct cohort_cause cause;
	struct other t;
	uint64_t ticket;
	int rc;

	open_ranks();
	begin(&t, 0, data, COHORT_FOREVER);
	rc = cohort_all_reduce(comms[1], other, other, COUNT, COHORT_I32,
	                       COHORT_SUM, cohort_comm_stream(comms[1]),
	                       &ticket);
	if (rc == COHORT_OK)
		rc = cohort_wait(comms[1], ticket, RANKS_SOON);
	cr_assert_eq(rc, COHORT_MISMATCH);
	cr_assert_eq(end(&t), COHORT_MISMATCH);
	free(data);
	free(other);
	cr_assert_eq(cohort_comm_cause(comms[0], &cause), COHORT_OK);
	expect_text(cause.text,
	            "rank 0 calls all_reduce_host of 10000 int32, sum; rank "
	            "1 calls all_reduce of 10000 int32, sum");
	expect_close(group);
}

/* ---- refused calls ---------------------------------------------------- */

Test(host_memory_ends, second_host_memory_call_on_a_rank_returns_busy)
{
	int32_t *data = data_of(1), *b = data_of(2);
	struct other t;

	open_ranks();
	begin(&t, 0, data, RANKS_SOON);
	await_call(0, 1);
	cr_assert_eq(sum(comms[0], b, 0), COHORT_BUSY);
	cr_assert(is_all(b, 2));
	cr_assert_eq(sum(comms[1], b, RANKS_SOON), COHORT_OK);
	cr_assert_eq(end(&t), COHORT_OK);
	cr_assert(is_all(data, 3));
	expect_close(group);
	free(data);
	free(b);
}

static void *tag_rank_0(void *unused)
{
	cr_assert_eq(cohort_tag(comms[0], "mine"), COHORT_OK, "%s",
	             cohort_last_error());
	return unused;
}

static const char busy[] =
	"rank 0: another thread is inside a call with host memory";

/* Wait until rank 0's thread is outside native calls and waits for the
 * device. */
static void await_rank_0(void)
{
	while (cohort_tag(comms[0], "mine") == COHORT_BUSY &&
	       !strstr(cohort_last_error(), busy))
		sched_yield();
}

static void all_are_busy(struct cohort_comm *c)
{
	const char *why = busy;
	static int32_t d;
	void *memory;

	expect(cohort_all_reduce(c, &d, &d, 1, COHORT_I32, COHORT_SUM, NULL,
	                         NULL),
	       COHORT_BUSY, why);
	expect(cohort_all_reduce_host(c, &d, 1, COHORT_I32, COHORT_SUM,
	                              COHORT_FOREVER),
	       COHORT_BUSY, why);
	expect(cohort_all_reduce_host(c, &d, 1, COHORT_I32, COHORT_SUM, 0),
	       COHORT_BUSY, why);
	expect(cohort_batch_begin(c), COHORT_BUSY, why);
	expect(cohort_alloc(c, 64, &memory), COHORT_BUSY, why);
	expect(cohort_after_stream(c, NULL), COHORT_BUSY, why);
	expect(cohort_comm_bind(c), COHORT_BUSY, why);
	expect(cohort_tag(c, "mine"), COHORT_BUSY, why);
	expect(cohort_pause(c), COHORT_BUSY, why);
	expect(cohort_comm_close(c), COHORT_BUSY, why);
	expect(cohort_group_close(group), COHORT_STATE,
	       "a thread is in a call on the communicator of rank 0");
}

static void all_calls_get_busy_meanwhile(uint64_t timeout)
{
	int32_t *data = data_of(1), *b = data_of(2);
	struct cohort_stats stats = { .size = sizeof(stats) };
	struct cohort_abort *handle;
	struct other t;

	group = ranks_ahead(RANKS, &o, comms);
	begin(&t, 0, data, timeout);
	await_call(0, 1);
	await_rank_0();
	all_are_busy(comms[0]);
	cr_assert_eq(cohort_wait(comms[0], 1, 0), COHORT_TIMED_OUT);
	cr_assert_eq(cohort_stats(comms[0], &stats), COHORT_OK);
	handle = cohort_comm_abort_handle(comms[0]);
	cr_assert_not(cohort_abort_fired(handle));
	cohort_abort_put(handle);
	cr_assert_eq(sum(comms[1], b, RANKS_SOON), COHORT_OK);
	cr_assert_eq(end(&t), COHORT_OK);
	cr_assert(is_all(data, 3));
	cr_assert_eq(cohort_tag(comms[0], "mine"), COHORT_OK);
	check_both_ranks();
	expect_close(group);
	free(data);
	free(b);
}

static atomic_bool is_held, may_go_on;

/* Signal handler that keeps the thread inside its call. */
static void stay(int signo)
{
	(void)signo;
	is_held = true;
	while (!may_go_on)
		sched_yield();
}

Test(host_memory_ends, close_is_refused_while_a_thread_is_in_a_host_memory_call)
{
	int32_t *data = data_of(1);
	struct other t;

	group = ranks_ahead(RANKS, &o, comms);
	begin(&t, 0, data, COHORT_FOREVER);
	await_call(0, 1);
	await_rank_0();
	signal(SIGUSR1, stay);
	pthread_kill(t.thread, SIGUSR1);
	while (!is_held)
		sched_yield();
	cr_assert_eq(cohort_group_abort(group, "enough"), COHORT_OK);
	expect(cohort_group_close(group), COHORT_STATE,
	       "a thread is in a call on the communicator of rank 0");
	may_go_on = true;
	cr_assert_eq(end(&t), COHORT_ABORTED);
	expect_close(group);
	free(data);
}

Test(host_memory_ends, calls_return_busy_while_a_host_memory_call_waits)
{
	place_need_no_sync("ranks that launch ahead make memory beside a "
	                   "launch");
	all_calls_get_busy_meanwhile(COHORT_FOREVER);
	all_calls_get_busy_meanwhile(RANKS_SOON);
}

Test(host_memory_ends, refused_host_memory_call_does_not_block_others)
{
	int32_t *data = data_of(1);
	pthread_t thread;

	open_ranks();
	cr_assert_eq(cohort_all_reduce_host(comms[0], data, 4, 99, COHORT_SUM,
	                                    COHORT_FOREVER),
	             COHORT_INVALID);
	cr_assert_eq(cohort_all_reduce_host(comms[0], data, 4, COHORT_I32, 77,
	                                    COHORT_FOREVER),
	             COHORT_INVALID);
	cr_assert_eq(sum(comms[0], data, 0), COHORT_TIMED_OUT);
	pthread_create(&thread, NULL, tag_rank_0, NULL);
	pthread_join(thread, NULL);
	cr_assert_eq(sum(comms[1], data, RANKS_SOON), COHORT_OK);
	expect_close(group);
	free(data);
}

Test(host_memory_ends, host_memory_call_names_the_invalid_argument)
{
	static int32_t d[8];
	struct cohort_comm *c;

	open_ranks();
	c = comms[0];
	expect(cohort_all_reduce_host(NULL, d, 4, COHORT_I32, COHORT_SUM, 0),
	       COHORT_INVALID, "comm is NULL");
	expect(cohort_all_reduce_host(c, NULL, 4, COHORT_I32, COHORT_SUM, 0),
	       COHORT_INVALID,
	       "all_reduce_host: data is NULL with a count of 4");
	expect(cohort_all_reduce_host(c, d, 4, 99, COHORT_SUM, 0),
	       COHORT_INVALID, "all_reduce_host: type is 99");
	expect(cohort_all_reduce_host(c, d, 4, COHORT_I32, -1, COHORT_FOREVER),
	       COHORT_INVALID, "all_reduce_host: op is -1");
	expect(cohort_all_reduce_host(c, d, 4, COHORT_I32, 77, COHORT_FOREVER),
	       COHORT_INVALID, "all_reduce_host: op is 77");
	expect(cohort_broadcast_host(c, d, 4, COHORT_I32, 2, 0), COHORT_INVALID,
	       "broadcast_host: root is 2, not 0 to 1");
	expect(cohort_reduce_host(c, d, SIZE_MAX, COHORT_I32, COHORT_SUM, 0, 0),
	       COHORT_INVALID, "reduce_host: count is 18446744073709551615");
	expect(cohort_gather_host(c, NULL, d, 4, COHORT_I32, 0, 0),
	       COHORT_INVALID, "gather_host: send is NULL with a count of 4");
	expect(cohort_scatter_host(c, d, NULL, 4, COHORT_I32, 0, 0),
	       COHORT_INVALID, "scatter_host: recv is NULL with a count of 4");
	expect(cohort_all_to_all_host(c, d, d + 1, 2, COHORT_I32, 0),
	       COHORT_INVALID, "all_to_all_host: send is");
	expect(cohort_send_host(c, d, 4, COHORT_I32, 0, 0), COHORT_INVALID,
	       "send_host: peer is 0, which is this rank");
	expect(cohort_recv_host(c, d, 4, COHORT_I32, 5, 0), COHORT_INVALID,
	       "recv_host: peer is 5, not 0 to 1");
	check_both_ranks();
	expect_close(group);
}

Test(host_memory_ends, host_memory_call_is_refused_in_a_batch)
{
	static int32_t d;

	open_ranks();
	cr_assert_eq(cohort_batch_begin(comms[0]), COHORT_OK);
	expect(cohort_all_reduce_host(comms[0], &d, 1, COHORT_I32, COHORT_SUM,
	                              0),
	       COHORT_STATE, "all_reduce_host: a batch is open on rank 0");
	cr_assert_eq(cohort_batch_end(comms[0], NULL, NULL), COHORT_OK);
	check_both_ranks();
	expect_close(group);
}

/* ---- failures --------------------------------------------------------- */

Test(host_memory_ends, host_memory_call_that_cannot_allocate_changes_nothing)
{
	int32_t *data = data_of(3);

	platform_override(failing_wrap(place_table()));
	open_ranks();
	failing_at("cudaHostAlloc", 1, 0, cudaErrorMemoryAllocation);
	expect(sum(comms[0], data, RANKS_SOON), COHORT_NO_MEMORY,
	       "cudaHostAlloc");
	cr_assert(is_all(data, 3));
	check_both_ranks();
	expect_close(group);
	free(data);
}

/* Make the native call @what fail. The group must end, and the caller must be
 * able to free its memory. */
static void fails_at(const char *what)
{
	int32_t *a = data_of(1), *b = data_of(2);
	const struct platform *real = place_table();
	struct other t;
	int n, rc;

	if (place_platform() != COHORT_PLATFORM_GPU)
		place_skip("without chunks these native calls are not made");
	for (n = 1; n < 12; n += 3) {
		platform_override(failing_wrap(real));
		open_ranks();
		check_both_ranks();
		begin(&t, 1, b, COHORT_FOREVER);
		await_call(1, 2);
		failing_at(what, (unsigned long)n, 0, cudaErrorInvalidValue);
		rc = sum(comms[0], a, COHORT_FOREVER);
		cr_assert_eq(rc, COHORT_CUDA, "%s %d: %d", what, n, rc);
		cr_assert_eq(end(&t), COHORT_CUDA);
		memset(a, 1, COUNT * sizeof(*a));
		memset(b, 1, COUNT * sizeof(*b));
		expect_close(group);
	}
	free(a);
	free(b);
}

Test(host_memory_ends, failed_copy_of_a_host_memory_call_ends_the_group)
{
	fails_at("cudaMemcpyAsync");
}

Test(host_memory_ends, failed_event_of_a_host_memory_call_ends_the_group)
{
	fails_at("cudaStreamWaitEvent");
}
