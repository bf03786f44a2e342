/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests of calls on streams that are being captured into CUDA graphs. A call is
 * either refused without effect, or becomes part of the graph.
 */

#include <criterion/criterion.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "support/cuda_calls.h"
#include "support/expect.h"
#include "support/place.h"
#include "support/ranks.h"
#include "support/spread.h"

#define RANKS 2

static const struct cuda_calls *cuda;
static struct platform table;
static struct cohort_group_options o;
static struct cohort_group *group;
static struct cohort_comm *comms[RANKS];

static void set_up(void)
{
	table = *place_table();
	cuda = cuda_calls();
	/* By default, the built-in host platform does not support captures. */
	table.has_captures = true;
	platform_override(&table);
	cohort_group_options_init(&o);
}

TestSuite(capture, .init = set_up, .timeout = 60);

static void begin(cudaStream_t stream)
{
	cr_assert_eq(cuda->cudaStreamBeginCapture(stream,
	                                          cudaStreamCaptureModeGlobal),
	             cudaSuccess);
}

static cudaGraph_t end(cudaStream_t stream)
{
	cudaGraph_t graph = NULL;

	cr_assert_eq(cuda->cudaStreamEndCapture(stream, &graph), cudaSuccess);
	cr_assert_not_null(graph);
	return graph;
}

static void refused(int rc, const char *what)
{
	cr_assert_eq(rc, COHORT_UNSUPPORTED, "%d: %s", rc, cohort_last_error());
	expect_text(cohort_last_error(), what);
}

static cudaStream_t own_stream(int rank)
{
	return cohort_comm_stream(comms[rank]);
}

Test(capture, call_on_a_captured_stream_is_refused_and_harmless)
{
	int32_t value = 3;
	uint64_t ticket = 77;
	cudaGraph_t graph;

	group = ranks_split(1, &o, comms);
	cr_assert_eq(ranks_sum_wait(comms[0], &value), COHORT_OK);
	begin(own_stream(0));
	/* The call needs staging memory that is not allocated yet. */
	refused(cohort_all_reduce_host(comms[0], &value, 1, COHORT_I32,
	                               COHORT_SUM, RANKS_SOON),
	        "all_reduce_host: the communicator's own stream is being "
	        "captured");
	refused(cohort_all_reduce(comms[0], &value, &value, 1, COHORT_I32,
	                          COHORT_SUM, own_stream(0), &ticket),
	        "all_reduce: the stream is being captured");
	cr_assert_eq(ticket, 77);
	refused(cohort_barrier(comms[0], own_stream(0), NULL), "barrier");
	refused(cohort_copy(comms[0], &value, &value, 4, own_stream(0)),
	        "copy");
	refused(cohort_after_stream(comms[0], own_stream(0)), "after_stream");
	refused(cohort_after_stream(comms[0], NULL), "after_stream");
	refused(cohort_all_reduce_host(comms[0], &value, 1, COHORT_I32,
	                               COHORT_SUM, COHORT_FOREVER),
	        "all_reduce_host: the communicator's own stream is being "
	        "captured");
	refused(cohort_all_reduce_host(comms[0], &value, 1, COHORT_I32,
	                               COHORT_SUM, RANKS_SOON),
	        "all_reduce_host: the communicator's own stream is being "
	        "captured");
	graph = end(own_stream(0));
	cr_assert_eq(cuda->cudaGraphDestroy(graph), cudaSuccess);
	cr_assert_eq(ranks_sum_wait(comms[0], &value), COHORT_OK);
	expect_close(group);
}

/* Make a sum with host memory and a sum of a list. The first call of each kind
 * allocates memory. */
static int sum_with_new_memory(struct cohort_comm *comm, void *unused)
{
	static int32_t data[2][2][64];
	int32_t(*mine)[64] = data[cohort_comm_rank(comm)];
	const struct cohort_tensor list[] = {
		{ mine[0], mine[0], 64, COHORT_I32 },
		{ mine[1], mine[1], 64, COHORT_I32 },
	};
	int32_t value = 1;
	uint64_t ticket;

	(void)unused;
	ranks_must(cohort_all_reduce_host(comm, &value, 1, COHORT_I32,
	                                  COHORT_SUM, RANKS_SOON),
	           "all_reduce_host");
	ranks_must(cohort_all_reduce_many(comm, list, 2, COHORT_SUM,
	                                  cohort_comm_stream(comm), &ticket),
	           "all_reduce_many");
	ranks_must(cohort_wait(comm, ticket, RANKS_SOON), "wait");
	return value != cohort_comm_size(comm);
}

Test(capture, call_that_allocates_does_not_break_other_threads_captures)
{
	cudaStream_t other;

	o.many = COHORT_MANY_FLAT;
	group = ranks_open(RANKS, &o);
	cr_assert_eq(table.cudaStreamCreateWithFlags(&other,
	                                             cudaStreamNonBlocking),
	             cudaSuccess);
	begin(other);
	expect_run_in(group, sum_with_new_memory, NULL);
	cr_assert_eq(cuda->cudaGraphDestroy(end(other)), cudaSuccess);
	expect_close(group);
	cr_assert_eq(table.cudaStreamDestroy(other), cudaSuccess);
}

/* A captured wait for a ticket is refused, even if the ticket is done. */
Test(capture, capture_cannot_wait_for_a_ticket)
{
	int32_t values[RANKS] = { 1, 2 };
	cudaStream_t other;
	uint64_t ticket;

	group = ranks_ahead(RANKS, &o, comms);
	cr_assert_eq(table.cudaStreamCreate(&other), cudaSuccess);
	ticket = ranks_sum(comms[0], &values[0]);
	begin(other);
	refused(cohort_stream_after(comms[0], ticket, other), "stream_after");
	cr_assert_eq(cuda->cudaGraphDestroy(end(other)), cudaSuccess);
	cr_assert_eq(ranks_sum_wait(comms[1], &values[1]), COHORT_OK);
	cr_assert_eq(cohort_wait(comms[0], ticket, RANKS_SOON), COHORT_OK);
	begin(other);
	refused(cohort_stream_after(comms[0], ticket, other), "stream_after");
	cr_assert_eq(cuda->cudaGraphDestroy(end(other)), cudaSuccess);
	expect_close(group);
	cr_assert_eq(table.cudaStreamDestroy(other), cudaSuccess);
}

/* End the capture, and create an executable graph. */
static cudaGraphExec_t end_and_instantiate(cudaStream_t stream)
{
	cudaGraph_t graph = end(stream);
	cudaGraphExec_t exec;

	cr_assert_eq(cuda->cudaGraphInstantiateWithFlags(&exec, graph, 0),
	             cudaSuccess);
	cr_assert_eq(cuda->cudaGraphDestroy(graph), cudaSuccess);
	return exec;
}

static cudaGraphExec_t captured_sum(int rank, int32_t *value)
{
	cudaGraphExec_t exec;
	uint64_t ticket;

	begin(own_stream(rank));
	ticket = ranks_sum(comms[rank], value);
	exec = end_and_instantiate(own_stream(rank));
	cr_assert_eq(ticket, COHORT_CAPTURED);
	refused(cohort_wait(comms[rank], ticket, 0), "captured");
	return exec;
}

Test(capture, call_becomes_part_of_a_graph_if_options_allow_it)
{
	int32_t values[RANKS] = { 1, 2 };
	cudaGraphExec_t execs[RANKS];
	int r, i;

	o.allow_capture = 1;
	group = ranks_ahead(RANKS, &o, comms);
	ranks_sum(comms[0], &values[0]);
	cr_assert_eq(ranks_sum_wait(comms[1], &values[1]), COHORT_OK);
	cr_assert_eq(cohort_synchronize(comms[0], RANKS_SOON), COHORT_OK);
	for (r = 0; r < RANKS; r++)
		execs[r] = captured_sum(r, &values[r]);
	cr_assert_eq(values[0], 3, "the call ran when it was captured");
	for (i = 0; i < 3; i++)
		for (r = 0; r < RANKS; r++)
			cr_assert_eq(cuda->cudaGraphLaunch(execs[r],
			                                   own_stream(r)),
			             cudaSuccess);
	for (r = 0; r < RANKS; r++) {
		cr_assert_eq(table.cudaStreamSynchronize(own_stream(r)),
		             cudaSuccess);
		cr_assert_eq(values[r], 3 * 2 * 2 * 2);
		cr_assert_eq(cuda->cudaGraphExecDestroy(execs[r]), cudaSuccess);
	}
	/* Tickets still work after a graph has run. */
	ranks_sum(comms[0], &values[0]);
	cr_assert_eq(ranks_sum_wait(comms[1], &values[1]), COHORT_OK);
	cr_assert_eq(values[1], 48);
	expect_close(group);
}

/* ---- lists ------------------------------------------------------------ */

#define LIST 5
#define MOST 300

/*
 * Data of two lists: @data[0] is summed in place, and @data[1] receives rank
 * 1's data.
 */
struct lists {
	struct cohort_tensor tensors[2][LIST];
	int32_t data[2][LIST][MOST];
};

static struct lists lists[RANKS];

static size_t count_of(int t)
{
	static const size_t counts[LIST] = { 1, 70, MOST, 3, 257 };

	return counts[t];
}

static void set_lists(int rank)
{
	struct lists *l = &lists[rank];
	int what, t, i;

	for (what = 0; what < 2; what++)
		for (t = 0; t < LIST; t++) {
			int32_t *x = l->data[what][t];

			for (i = 0; i < MOST; i++)
				x[i] = 1000 * t + i % 100 + rank;
			l->tensors[what][t] =
				(struct cohort_tensor){ x, x, count_of(t),
				                        COHORT_I32 };
		}
}

static cudaGraphExec_t captured_lists(int rank)
{
	struct cohort_comm *c = comms[rank];
	struct lists *l = &lists[rank];
	uint64_t ticket[2];
	int k;

	begin(own_stream(rank));
	cr_assert_eq(cohort_all_reduce_many(c, l->tensors[0], LIST, COHORT_SUM,
	                                    own_stream(rank), &ticket[0]),
	             COHORT_OK, "%s", cohort_last_error());
	cr_assert_eq(cohort_broadcast_many(c, l->tensors[1], LIST, 1,
	                                   own_stream(rank), &ticket[1]),
	             COHORT_OK);
	for (k = 0; k < 2; k++)
		cr_assert_eq(ticket[k], COHORT_CAPTURED);
	return end_and_instantiate(own_stream(rank));
}

/* Check the results of @rank's lists after one run of the graph. */
static void check_lists(int rank)
{
	int t, i, n, base;

	for (t = 0; t < LIST; t++) {
		int32_t *at[2] = { lists[rank].data[0][t],
			           lists[rank].data[1][t] };

		n = (int)count_of(t);
		for (i = 0; i < n; i++) {
			base = 1000 * t + i % 100;
			cr_assert_eq(at[0][i], 2 * base + 1);
			cr_assert_eq(at[1][i], base + 1);
		}
	}
}

static void capture_lists(int way)
{
	cudaGraphExec_t execs[RANKS];
	int r, k;

	o.allow_capture = 1;
	o.many = way;
	group = ranks_split(RANKS, &o, comms);
	for (r = 0; r < RANKS; r++) {
		set_lists(r);
		execs[r] = captured_lists(r);
	}
	for (k = 0; k < 3; k++) {
		for (r = 0; r < RANKS; r++)
			set_lists(r);
		for (r = 0; r < RANKS; r++)
			cr_assert_eq(cuda->cudaGraphLaunch(execs[r],
			                                   own_stream(r)),
			             cudaSuccess);
		for (r = 0; r < RANKS; r++)
			cr_assert_eq(table.cudaStreamSynchronize(own_stream(r)),
			             cudaSuccess);
		for (r = 0; r < RANKS; r++)
			check_lists(r);
	}
	for (r = 0; r < RANKS; r++)
		cr_assert_eq(cuda->cudaGraphExecDestroy(execs[r]), cudaSuccess);
	expect_close(group);
}

Test(capture, list_becomes_part_of_a_graph)
{
	capture_lists(COHORT_MANY_AUTO);
}

Test(capture, captured_list_is_one_native_group)
{
	capture_lists(COHORT_MANY_GROUP);
}

Test(capture, captured_list_is_never_packed)
{
	capture_lists(COHORT_MANY_FLAT);
}

/* ---- lists beside a graph --------------------------------------------- */

enum { GRAPHS, LIVE };

/* Data that is summed in place, by the graphs (GRAPHS) and by ordinary calls
 * (LIVE) */
static int32_t sums[2][RANKS][LIST][MOST];

static int32_t summand(int what, int rank, int t, int i)
{
	return 100000 * (what + 1) + 1000 * t + i + rank;
}

static void set_sums(void)
{
	int what, r, t, i;

	for (what = GRAPHS; what <= LIVE; what++)
		for (r = 0; r < RANKS; r++)
			for (t = 0; t < LIST; t++)
				for (i = 0; i < MOST; i++)
					sums[what][r][t][i] =
						summand(what, r, t, i);
}

static void check_sums(int what)
{
	int r, t, i;

	for (r = 0; r < RANKS; r++)
		for (t = 0; t < LIST; t++)
			for (i = 0; i < (int)count_of(t); i++)
				cr_assert_eq(sums[what][r][t][i],
				             summand(what, 0, t, i) +
				                     summand(what, 1, t, i),
				             "%s, rank %d, tensor %d: %d",
				             what == GRAPHS ? "the graph's"
				                            : "beside it",
				             r, t, sums[what][r][t][i]);
}

static uint64_t sum_list(int what, int r, cudaStream_t stream)
{
	struct cohort_tensor list[LIST];
	uint64_t ticket;
	int t;

	for (t = 0; t < LIST; t++)
		list[t] = (struct cohort_tensor){ sums[what][r][t],
			                          sums[what][r][t], count_of(t),
			                          COHORT_I32 };
	cr_assert_eq(cohort_all_reduce_many(comms[r], list, LIST, COHORT_SUM,
	                                    stream, &ticket),
	             COHORT_OK, "%s", cohort_last_error());
	return ticket;
}

static cudaGraphExec_t captured_list(int r)
{
	begin(own_stream(r));
	cr_assert_eq(sum_list(GRAPHS, r, own_stream(r)), COHORT_CAPTURED);
	return end_and_instantiate(own_stream(r));
}

/* Launch the graphs and, at the same time, call a list that the library
 * packs. */
static void run_both(const cudaGraphExec_t execs[RANKS],
                     const cudaStream_t streams[RANKS])
{
	uint64_t tickets[RANKS];
	int r;

	set_sums();
	for (r = 0; r < RANKS; r++) {
		cr_assert_eq(cuda->cudaGraphLaunch(execs[r], own_stream(r)),
		             cudaSuccess);
		tickets[r] = sum_list(LIVE, r, streams[r]);
	}
	for (r = 0; r < RANKS; r++)
		cr_assert_eq(cohort_wait(comms[r], tickets[r], RANKS_SOON),
		             COHORT_OK);
	for (r = 0; r < RANKS; r++)
		cr_assert_eq(table.cudaStreamSynchronize(own_stream(r)),
		             cudaSuccess);
	check_sums(GRAPHS);
	check_sums(LIVE);
}

/*
 * A graph can run at any time, even while an uncaptured list uses the
 * communicator's buffer.
 */
Test(capture, graph_does_not_use_the_buffer_for_packed_lists)
{
	cudaGraphExec_t execs[RANKS];
	cudaStream_t streams[RANKS];
	int r, k;

	place_need_no_sync("one thread packs the lists of all ranks, and the "
	                   "memory of one waits for the other's launch");
	o.allow_capture = 1;
	o.many = COHORT_MANY_FLAT;
	group = ranks_ahead(RANKS, &o, comms);
	for (r = 0; r < RANKS; r++) {
		cr_assert_eq(table.cudaSetDevice(r), cudaSuccess);
		cr_assert_eq(table.cudaStreamCreateWithFlags(
				     &streams[r], cudaStreamNonBlocking),
		             cudaSuccess);
	}
	/* Make the library allocate its buffer for packed lists before the
	 * capture. */
	for (r = 0; r < RANKS; r++)
		sum_list(LIVE, r, streams[r]);
	for (r = 0; r < RANKS; r++)
		cr_assert_eq(cohort_synchronize(comms[r], RANKS_SOON),
		             COHORT_OK);
	for (r = 0; r < RANKS; r++)
		execs[r] = captured_list(r);
	for (k = 0; k < 2; k++)
		run_both(execs, streams);
	for (r = 0; r < RANKS; r++) {
		cr_assert_eq(cuda->cudaGraphExecDestroy(execs[r]), cudaSuccess);
		cr_assert_eq(table.cudaStreamDestroy(streams[r]), cudaSuccess);
	}
	expect_close(group);
}

/* ---- calls that are not captured --------------------------------------- */

/*
 * The graph of a captured call can run much later than the call.
 */
Test(capture, captured_call_has_no_duration_in_dumps)
{
	const uint64_t floor_ns = UINT64_C(20000000);
	static int32_t values[RANKS] = { 1, 2 };
	uint64_t ticket;
	int i, r;

	o.allow_capture = 1;
	o.adaptive_factor = 2;
	o.adaptive_warmup = 1;
	o.adaptive_floor_ns = floor_ns;
	group = ranks_ahead(RANKS, &o, comms);
	for (r = 0; r < RANKS; r++) {
		begin(own_stream(r));
		for (i = 0; i < 20; i++)
			ranks_sum(comms[r], &values[r]);
		cr_assert_eq(cuda->cudaGraphDestroy(end(own_stream(r))),
		             cudaSuccess);
	}
	ticket = ranks_sum(comms[0], &values[0]);
	cr_assert_eq(cohort_wait(comms[0], ticket, 20 * floor_ns),
	             COHORT_TIMED_OUT);
	ranks_sum(comms[1], &values[1]);
	cr_assert_eq(cohort_wait(comms[0], ticket, RANKS_SOON), COHORT_OK);
	cr_assert_eq(cohort_synchronize(comms[1], RANKS_SOON), COHORT_OK);
	expect_close(group);
}

/* Disable strict mode, because these tests end a communicator while its graphs
 * exist. NCCL ends a communicator only after its graphs were destroyed. */
static void lenient_set_up(void)
{
	unsetenv("COHORT_HOST_STRICT"); /* strict mode would end the program */
	set_up();
}

TestSuite(graph, .init = lenient_set_up, .timeout = 60);

Test(graph, close_names_a_rank_whose_graph_is_alive)
{
	int32_t values[RANKS] = { 1, 2 };
	cudaGraphExec_t execs[RANKS];
	int r;

	o.allow_capture = 1;
	o.deadlines.abort_ns = 300 * UINT64_C(1000000);
	group = ranks_split(RANKS, &o, comms);
	for (r = 0; r < RANKS; r++)
		execs[r] = captured_sum(r, &values[r]);
	cr_assert_eq(cohort_group_close(group), COHORT_WEDGED);
	expect_text(cohort_last_error(),
	            " has captured 1 call into CUDA graphs: "
	            "destroy these graphs first; nccl");
	for (r = 0; r < RANKS; r++)
		cr_assert_eq(cuda->cudaGraphExecDestroy(execs[r]), cudaSuccess);
}

Test(capture, captured_calls_are_compared_across_ranks)
{
	int32_t value = 1;

	o.allow_capture = 1;
	group = ranks_split(RANKS, &o, comms);
	begin(own_stream(0));
	ranks_sum(comms[0], &value);
	cr_assert_eq(cohort_barrier(comms[1], own_stream(1), NULL),
	             COHORT_MISMATCH);
	cuda->cudaGraphDestroy(end(own_stream(0)));
	cohort_group_close(group);
}

SPREAD_SHARED static struct spread_barrier launched;

/* Send or receive @count elements. */
static void message(struct cohort_comm *c, size_t count)
{
	static int32_t x[RANKS][2];
	const int rank = cohort_comm_rank(c);
	void *stream = cohort_comm_stream(c);

	ranks_must(rank ? cohort_recv(c, x[rank], count, COHORT_I32, 0, stream,
	                              NULL)
	                : cohort_send(c, x[rank], count, COHORT_I32, 1, stream,
	                              NULL),
	           "message");
}

/* Launch the same graph, which contains one send, twice. The library recorded
 * only one send, but two receives match it. So call numbers no longer show
 * which send pairs with which receive. */
static int repeat_a_send(struct cohort_comm *c, void *user)
{
	void *stream = cohort_comm_stream(c);
	cudaGraphExec_t exec = NULL;
	int i;

	(void)user;
	message(c, 1);
	ranks_must(cohort_synchronize(c, RANKS_SOON), "synchronize");
	if (cohort_comm_rank(c) == 0) {
		begin(stream);
		message(c, 1);
		exec = end_and_instantiate(stream);
		for (i = 0; i < 2; i++)
			cr_assert_eq(cuda->cudaGraphLaunch(exec, stream),
			             cudaSuccess);
	}
	spread_wait(&launched, RANKS);
	for (i = 0; i < 2 && cohort_comm_rank(c) == 1; i++)
		message(c, 1);
	message(c, 2);
	ranks_must(cohort_synchronize(c, RANKS_SOON), "synchronize");
	if (exec)
		cr_assert_eq(cuda->cudaGraphExecDestroy(exec), cudaSuccess);
	return 0;
}

Test(capture, messages_are_not_compared_after_one_is_captured)
{
	o.allow_capture = 1;
	group = ranks_open(RANKS, &o);
	expect_run_in(group, repeat_a_send, NULL);
	expect_close(group);
}

struct caller {
	int32_t value;
	int rc;
};

static void *sum_of_rank_1(void *arg)
{
	struct caller *c = arg;

	c->rc = ranks_sum_wait(comms[1], &c->value);
	return NULL;
}

static void open_together(void)
{
	o.allow_capture = 1;
	o.launch = COHORT_LAUNCH_TOGETHER;
	group = ranks_split(RANKS, &o, comms);
}

/* A graph can run at any time, so no other rank can wait for a captured
 * call. */
Test(capture, ranks_that_launch_together_must_all_capture)
{
	int32_t values[RANKS] = { 1, 2 };
	cudaGraph_t graph;

	open_together();
	begin(own_stream(0));
	ranks_sum(comms[0], &values[0]);
	graph = end(own_stream(0));
	cr_assert_eq(ranks_sum_wait(comms[1], &values[1]), COHORT_MISMATCH,
	             "%s", cohort_last_error());
	cr_assert_eq(values[1], 2);
	cuda->cudaGraphDestroy(graph);
	cohort_group_close(group);
}

Test(capture, mismatch_ends_the_wait_of_a_rank_that_does_not_capture)
{
	struct caller c = { .value = 2 };
	int32_t value = 1;
	pthread_t thread;

	open_together();
	begin(own_stream(0));
	pthread_create(&thread, NULL, sum_of_rank_1, &c);
	ranks_await_joined(comms[1]);
	cr_assert_eq(cohort_all_reduce(comms[0], &value, &value, 1, COHORT_I32,
	                               COHORT_SUM, own_stream(0), NULL),
	             COHORT_MISMATCH, "%s", cohort_last_error());
	pthread_join(thread, NULL);
	cr_assert_eq(c.rc, COHORT_MISMATCH);
	cr_assert_eq(c.value, 2);
	cuda->cudaGraphDestroy(end(own_stream(0)));
	cohort_group_close(group);
}

Test(capture, group_call_is_refused_if_any_stream_is_captured)
{
	int32_t values[RANKS] = { 1, 2 };
	const void *send[RANKS] = { &values[0], &values[1] };
	void *recv[RANKS] = { &values[0], &values[1] };
	void *streams[RANKS];
	cudaStream_t stream;
	uint64_t ticket;

	spread_not("the test makes the calls of all ranks");
	o.allow_capture = 1;
	group = ranks_open(RANKS, &o);
	cr_assert_eq(table.cudaSetDevice(0), cudaSuccess);
	cr_assert_eq(table.cudaStreamCreateWithFlags(&stream,
	                                             cudaStreamNonBlocking),
	             cudaSuccess);
	streams[0] = stream;
	cr_assert_eq(table.cudaSetDevice(1), cudaSuccess);
	cr_assert_eq(table.cudaStreamCreateWithFlags(&stream,
	                                             cudaStreamNonBlocking),
	             cudaSuccess);
	streams[1] = stream;
	begin(streams[0]);
	refused(cohort_group_all_reduce(group, send, recv, 1, COHORT_I32,
	                                COHORT_SUM, streams, NULL),
	        "only some of the ranks");
	begin(streams[1]);
	refused(cohort_group_all_reduce(group, send, recv, 1, COHORT_I32,
	                                COHORT_SUM, streams, NULL),
	        "all_reduce: the streams are being captured, which a "
	        "group-level call does not support");
	refused(cohort_group_broadcast(group, send, recv, 1, COHORT_I32, 0,
	                               streams, NULL),
	        "broadcast: the streams are being captured");
	refused(cohort_group_copy(group, recv, send, 4, streams, NULL),
	        "copy: the streams are being captured");
	cr_assert_eq(cuda->cudaGraphDestroy(end(streams[1])), cudaSuccess);
	cr_assert_eq(cuda->cudaGraphDestroy(end(streams[0])), cudaSuccess);
	cr_assert_eq(cohort_group_all_reduce(group, send, recv, 1, COHORT_I32,
	                                     COHORT_SUM, streams, &ticket),
	             COHORT_OK);
	cr_assert_eq(cohort_group_wait(group, ticket, RANKS_SOON), COHORT_OK);
	expect_close(group);
}
