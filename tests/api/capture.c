/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Streams that are being captured into CUDA graphs: a call is refused and
 * changes nothing, or becomes part of the graph
 */

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "core/clique.h"
#include "sim/host.h"
#include "support/place.h"
#include "support/ranks.h"
#include "support/spread.h"

#define RANKS 2

/* Functions of the CUDA runtime that only programs need. */
static struct {
	cudaError_t (*begin)(cudaStream_t stream,
	                     enum cudaStreamCaptureMode mode);
	cudaError_t (*end)(cudaStream_t stream, cudaGraph_t *graph);
	cudaError_t (*destroy)(cudaGraph_t graph);
	cudaError_t (*instantiate)(cudaGraphExec_t *exec, cudaGraph_t graph,
	                           unsigned long long flags);
	cudaError_t (*launch)(cudaGraphExec_t exec, cudaStream_t stream);
	cudaError_t (*destroy_exec)(cudaGraphExec_t exec);
} graphs = {
	host_cudaStreamBeginCapture, host_cudaStreamEndCapture,
	host_cudaGraphDestroy,       host_cudaGraphInstantiateWithFlags,
	host_cudaGraphLaunch,        host_cudaGraphExecDestroy,
};

static const char *const names[] = {
	"cudaStreamBeginCapture", "cudaStreamEndCapture",
	"cudaGraphDestroy",       "cudaGraphInstantiateWithFlags",
	"cudaGraphLaunch",        "cudaGraphExecDestroy",
};

static struct platform table;
static struct cohort_group_options o;
static struct cohort_group *group;
static struct cohort_comm *comms[RANKS];

/* Find them in the libraries that the gpu platform stands on. */
static void find_graphs(void)
{
	struct cohort_platform_info info = { .size = sizeof(info) };
	void **entry = (void **)&graphs;
	void *runtime;
	size_t i;

	cohort_platform_probe(COHORT_PLATFORM_GPU, &info);
	runtime = dlopen(info.runtime_file, RTLD_NOW);
	cr_assert_not_null(runtime);
	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		entry[i] = dlsym(runtime, names[i]);
		cr_assert_not_null(entry[i], "%s", names[i]);
	}
}

static void set_up(void)
{
	table = *place_table();
	if (table.kind == COHORT_PLATFORM_GPU)
		find_graphs();
	/* False on the built-in host platform, where only tests capture. */
	table.has_captures = true;
	platform_override(&table);
	cohort_group_options_init(&o);
}

TestSuite(capture, .init = set_up, .timeout = 60);

static void begin(cudaStream_t stream)
{
	cr_assert_eq(graphs.begin(stream, cudaStreamCaptureModeGlobal),
	             cudaSuccess);
}

static cudaGraph_t end(cudaStream_t stream)
{
	cudaGraph_t graph = NULL;

	cr_assert_eq(graphs.end(stream, &graph), cudaSuccess);
	cr_assert_not_null(graph);
	return graph;
}

static void refused(int rc, const char *what)
{
	cr_assert_eq(rc, COHORT_UNSUPPORTED, "%d: %s", rc, cohort_last_error());
	cr_assert_not_null(strstr(cohort_last_error(), what), "%s",
	                   cohort_last_error());
}

static cudaStream_t own_stream(int rank)
{
	return cohort_comm_stream(comms[rank]);
}

static void close_group(void)
{
	cr_assert_eq(cohort_group_close(group), COHORT_OK, "%s",
	             cohort_last_error());
}

Test(capture, refuses_a_call_and_goes_on)
{
	int32_t value = 3;
	uint64_t ticket = 77;
	cudaGraph_t graph;

	group = ranks_split(1, &o, comms);
	cr_assert_eq(ranks_sum_wait(comms[0], &value), COHORT_OK);
	begin(own_stream(0));
	/* Without staging memory so far. */
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
	cr_assert_eq(graphs.destroy(graph), cudaSuccess);
	cr_assert_eq(ranks_sum_wait(comms[0], &value), COHORT_OK);
	close_group();
}

/* Sum in host memory, and a list: both make memory at their first call. */
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

Test(capture, of_another_thread_is_not_broken_by_memory_that_a_call_makes)
{
	cudaStream_t other;

	o.many = COHORT_MANY_FLAT;
	group = ranks_open(RANKS, &o);
	cr_assert_eq(table.cudaStreamCreateWithFlags(&other,
	                                             cudaStreamNonBlocking),
	             cudaSuccess);
	begin(other);
	cr_assert_eq(cohort_group_run(group, sum_with_new_memory, NULL, NULL),
	             COHORT_OK, "%s", cohort_last_error());
	cr_assert_eq(graphs.destroy(end(other)), cudaSuccess);
	close_group();
	cr_assert_eq(table.cudaStreamDestroy(other), cudaSuccess);
}

/* A graph cannot wait for a ticket, whether the ticket is done or not. */
Test(capture, cannot_wait_for_a_ticket)
{
	int32_t values[RANKS] = { 1, 2 };
	cudaStream_t other;
	uint64_t ticket;

	group = ranks_ahead(RANKS, &o, comms);
	cr_assert_eq(table.cudaStreamCreate(&other), cudaSuccess);
	ticket = ranks_sum(comms[0], &values[0]);
	begin(other);
	refused(cohort_stream_after(comms[0], ticket, other), "stream_after");
	cr_assert_eq(graphs.destroy(end(other)), cudaSuccess);
	cr_assert_eq(ranks_sum_wait(comms[1], &values[1]), COHORT_OK);
	cr_assert_eq(cohort_wait(comms[0], ticket, RANKS_SOON), COHORT_OK);
	begin(other);
	refused(cohort_stream_after(comms[0], ticket, other), "stream_after");
	cr_assert_eq(graphs.destroy(end(other)), cudaSuccess);
	close_group();
	cr_assert_eq(table.cudaStreamDestroy(other), cudaSuccess);
}

/* End the capture, and return a graph that can be launched. */
static cudaGraphExec_t end_and_instantiate(cudaStream_t stream)
{
	cudaGraph_t graph = end(stream);
	cudaGraphExec_t exec;

	cr_assert_eq(graphs.instantiate(&exec, graph, 0), cudaSuccess);
	cr_assert_eq(graphs.destroy(graph), cudaSuccess);
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

Test(capture, takes_a_call_into_the_graph_where_that_is_allowed)
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
			cr_assert_eq(graphs.launch(execs[r], own_stream(r)),
			             cudaSuccess);
	for (r = 0; r < RANKS; r++) {
		cr_assert_eq(table.cudaStreamSynchronize(own_stream(r)),
		             cudaSuccess);
		cr_assert_eq(values[r], 3 * 2 * 2 * 2);
		cr_assert_eq(graphs.destroy_exec(execs[r]), cudaSuccess);
	}
	/* Tickets work as before afterwards. */
	ranks_sum(comms[0], &values[0]);
	cr_assert_eq(ranks_sum_wait(comms[1], &values[1]), COHORT_OK);
	cr_assert_eq(values[1], 48);
	close_group();
}

/* ---- lists ------------------------------------------------------------ */

#define LIST 5
#define MOST 300

/*
 * One list of each kind, in this order: @data[0] has sums in place, @data[1]
 * what rank 1 has, @data[2] blocks of all ranks, @data[3] a block of the sums.
 */
struct lists {
	struct cohort_tensor tensors[4][LIST];
	int32_t data[4][LIST][RANKS * MOST];
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

	for (what = 0; what < 4; what++)
		for (t = 0; t < LIST; t++) {
			int32_t *x = l->data[what][t];
			bool gathers = what == 2, scatters = what == 3;
			size_t at = (size_t)rank * count_of(t);

			for (i = 0; i < RANKS * MOST; i++)
				x[i] = 1000 * t + i % 100 + rank;
			l->tensors[what][t] = (struct cohort_tensor){
				gathers ? x + at : x, scatters ? x + at : x,
				count_of(t), COHORT_I32
			};
		}
}

static cudaGraphExec_t captured_lists(int rank)
{
	struct cohort_comm *c = comms[rank];
	struct lists *l = &lists[rank];
	uint64_t ticket[4];
	int k;

	begin(own_stream(rank));
	cr_assert_eq(cohort_all_reduce_many(c, l->tensors[0], LIST, COHORT_SUM,
	                                    own_stream(rank), &ticket[0]),
	             COHORT_OK, "%s", cohort_last_error());
	cr_assert_eq(cohort_broadcast_many(c, l->tensors[1], LIST, 1,
	                                   own_stream(rank), &ticket[1]),
	             COHORT_OK);
	cr_assert_eq(cohort_all_gather_many(c, l->tensors[2], LIST,
	                                    own_stream(rank), &ticket[2]),
	             COHORT_OK);
	cr_assert_eq(cohort_reduce_scatter_many(c, l->tensors[3], LIST,
	                                        COHORT_SUM, own_stream(rank),
	                                        &ticket[3]),
	             COHORT_OK);
	for (k = 0; k < 4; k++)
		cr_assert_eq(ticket[k], COHORT_CAPTURED);
	return end_and_instantiate(own_stream(rank));
}

/* Check the results of @rank's lists after the graph ran once. */
static void check_lists(int rank)
{
	int t, i, n, base, others;

	for (t = 0; t < LIST; t++) {
		int32_t *at[4] = { lists[rank].data[0][t],
			           lists[rank].data[1][t],
			           lists[rank].data[2][t],
			           lists[rank].data[3][t] };

		n = (int)count_of(t);
		for (i = 0; i < n; i++) {
			base = 1000 * t + i % 100;
			others = 1000 * t + (rank * n + i) % 100;
			cr_assert_eq(at[0][i], 2 * base + 1);
			cr_assert_eq(at[1][i], base + 1);
			cr_assert_eq(at[2][i], base);
			cr_assert_eq(at[2][n + i],
			             1000 * t + (n + i) % 100 + 1);
			cr_assert_eq(at[3][rank * n + i], 2 * others + 1);
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
			cr_assert_eq(graphs.launch(execs[r], own_stream(r)),
			             cudaSuccess);
		for (r = 0; r < RANKS; r++)
			cr_assert_eq(table.cudaStreamSynchronize(own_stream(r)),
			             cudaSuccess);
		for (r = 0; r < RANKS; r++)
			check_lists(r);
	}
	for (r = 0; r < RANKS; r++)
		cr_assert_eq(graphs.destroy_exec(execs[r]), cudaSuccess);
	close_group();
}

Test(capture, takes_lists_into_the_graph)
{
	capture_lists(COHORT_MANY_AUTO);
}

Test(capture, takes_lists_as_one_native_group)
{
	capture_lists(COHORT_MANY_GROUP);
}

Test(capture, takes_lists_unpacked_where_packing_is_asked_for)
{
	capture_lists(COHORT_MANY_FLAT);
}

Test(capture, takes_lists_as_one_call_after_the_other)
{
	capture_lists(COHORT_MANY_ALONE);
}

/* ---- lists beside each other ------------------------------------------ */

enum { GRAPHS, LIVE };

/* Sums in place, of a graph and of calls beside the graph. */
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

/* Launch the graphs, and beside them a list whose tensors each rank packs. */
static void run_both(const cudaGraphExec_t execs[RANKS],
                     const cudaStream_t streams[RANKS])
{
	uint64_t tickets[RANKS];
	int r;

	set_sums();
	for (r = 0; r < RANKS; r++) {
		cr_assert_eq(graphs.launch(execs[r], own_stream(r)),
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
 * A graph runs at any time, also while another list uses the communicator's
 * buffer.
 */
Test(capture, does_not_pack_lists_into_the_buffer_of_others)
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
	/* The buffer is made beforehand, and is in use all the time. */
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
		cr_assert_eq(graphs.destroy_exec(execs[r]), cudaSuccess);
		cr_assert_eq(table.cudaStreamDestroy(streams[r]), cudaSuccess);
	}
	close_group();
}

/* ---- what is not captured --------------------------------------------- */

/*
 * A captured call has no duration: what the graph runs later would seem too
 * long.
 */
Test(capture, records_no_durations)
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
		cr_assert_eq(graphs.destroy(end(own_stream(r))), cudaSuccess);
	}
	ticket = ranks_sum(comms[0], &values[0]);
	cr_assert_eq(cohort_wait(comms[0], ticket, 20 * floor_ns),
	             COHORT_TIMED_OUT);
	ranks_sum(comms[1], &values[1]);
	cr_assert_eq(cohort_wait(comms[0], ticket, RANKS_SOON), COHORT_OK);
	cr_assert_eq(cohort_synchronize(comms[1], RANKS_SOON), COHORT_OK);
	close_group();
}

/* NCCL ends a communicator only once its graphs are destroyed. */
static void lenient_set_up(void)
{
	unsetenv("COHORT_HOST_STRICT"); /* strict mode would end the program */
	set_up();
}

TestSuite(graph, .init = lenient_set_up, .timeout = 60);

Test(graph, is_named_if_it_is_alive_at_close)
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
	cr_assert_not_null(strstr(cohort_last_error(),
	                          " has captured 1 call into CUDA graphs: "
	                          "those that are alive have to be destroyed "
	                          "first; the "
	                          "reaper is inside nccl"),
	                   "%s", cohort_last_error());
	for (r = 0; r < RANKS; r++)
		cr_assert_eq(graphs.destroy_exec(execs[r]), cudaSuccess);
}

/* Captured calls are compared like all others. */
Test(capture, compares_the_calls_of_all_ranks)
{
	int32_t value = 1;

	o.allow_capture = 1;
	group = ranks_split(RANKS, &o, comms);
	begin(own_stream(0));
	ranks_sum(comms[0], &value);
	cr_assert_eq(cohort_barrier(comms[1], own_stream(1), NULL),
	             COHORT_MISMATCH);
	graphs.destroy(end(own_stream(0)));
	cohort_group_close(group);
}

SPREAD_SHARED static struct spread_barrier launched;

/* Send, or receive, @count elements. */
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

/* A graph repeats a send, which then meets several receives: numbers no longer
 * say which halves meet. */
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
			cr_assert_eq(graphs.launch(exec, stream), cudaSuccess);
	}
	spread_wait(&launched, RANKS);
	for (i = 0; i < 2 && cohort_comm_rank(c) == 1; i++)
		message(c, 1);
	message(c, 2);
	ranks_must(cohort_synchronize(c, RANKS_SOON), "synchronize");
	if (exec)
		cr_assert_eq(graphs.destroy_exec(exec), cudaSuccess);
	return 0;
}

Test(capture, ends_the_comparison_of_messages)
{
	o.allow_capture = 1;
	group = ranks_open(RANKS, &o);
	cr_assert_eq(cohort_group_run(group, repeat_a_send, NULL, NULL),
	             COHORT_OK, "%s", cohort_last_error());
	close_group();
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

/* A graph launches such a call, and no rank can wait for a graph. */
Test(capture, is_for_all_ranks_or_none_where_ranks_launch_together)
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
	graphs.destroy(graph);
	cohort_group_close(group);
}

Test(capture, ends_the_wait_of_a_rank_that_does_not_capture)
{
	struct caller c = { .value = 2 };
	int32_t value = 1;
	pthread_t thread;

	open_together();
	begin(own_stream(0));
	pthread_create(&thread, NULL, sum_of_rank_1, &c);
	while (!atomic_load(&comms[1]->agreement.meeting))
		sched_yield();
	cr_assert_eq(cohort_all_reduce(comms[0], &value, &value, 1, COHORT_I32,
	                               COHORT_SUM, own_stream(0), NULL),
	             COHORT_MISMATCH, "%s", cohort_last_error());
	pthread_join(thread, NULL);
	cr_assert_eq(c.rc, COHORT_MISMATCH);
	cr_assert_eq(c.value, 2);
	graphs.destroy(end(own_stream(0)));
	cohort_group_close(group);
}

Test(capture, refuses_a_group_level_call_even_if_only_some_ranks_capture)
{
	int32_t values[RANKS] = { 1, 2 };
	const void *send[RANKS] = { &values[0], &values[1] };
	void *recv[RANKS] = { &values[0], &values[1] };
	void *streams[RANKS];
	cudaStream_t stream;
	uint64_t ticket;

	spread_not("the test calls for all ranks");
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
	        "all_reduce: the streams of a group-level call are being "
	        "captured");
	refused(cohort_group_broadcast(group, send, recv, 1, COHORT_I32, 0,
	                               streams, NULL),
	        "broadcast: the streams of a group-level call");
	refused(cohort_group_copy(group, recv, send, 4, streams, NULL),
	        "copy: the streams of a group-level call");
	cr_assert_eq(graphs.destroy(end(streams[1])), cudaSuccess);
	cr_assert_eq(graphs.destroy(end(streams[0])), cudaSuccess);
	cr_assert_eq(cohort_group_all_reduce(group, send, recv, 1, COHORT_I32,
	                                     COHORT_SUM, streams, &ticket),
	             COHORT_OK);
	cr_assert_eq(cohort_group_wait(group, ticket, RANKS_SOON), COHORT_OK);
	close_group();
}
