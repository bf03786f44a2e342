/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Scenes of ranks that join, call, or make different calls
 */

#include <string.h>

#include "differ.h"

/* ---- joining ---------------------------------------------------------- */

static void join_part(struct actor *a)
{
	CALL(a, ncclCommInitRank(&a->comm, a->stage->n, a->stage->id, a->rank));
}

/* Join each rank from its own thread. */
static void join_each(struct stage *g)
{
	CALL(&g->main, ncclGetUniqueId(&g->id));
	each(g, join_part);
}

static void sum_part(struct actor *a)
{
	CALL(a, ncclAllReduce(a->send, a->recv, FLOATS, ncclFloat, ncclSum,
	                      a->comm, a->stream));
	digest(a);
}

static void threads(struct stage *g)
{
	join_each(g);
	each(g, sum_part);
	destroy_all(g);
}

static void group_in_turn(struct stage *g)
{
	connect_all(g);
	sum_all(g);
	destroy_all(g);
}

static void init_all(struct stage *g)
{
	ncclComm_t comms[MOST_ACTORS];
	int i;

	CALL(&g->main, ncclCommInitAll(comms, g->n, NULL));
	for (i = 0; i < g->n; i++)
		g->actors[i].comm = comms[i];
	sum_all(g);
	destroy_all(g);
}

/* Create more ranks than there are devices. */
static void init_all_too_many(struct stage *g)
{
	ncclComm_t comms[MOST_ACTORS + 1];
	int devices;

	cudaGetDeviceCount(&devices);
	CALL(&g->main, ncclCommInitAll(comms, devices + 1, NULL));
	CALL(&g->main, ncclGroupEnd());
}

/* Wait for a rank that never joins. */
static void part_that_waits(struct actor *a)
{
	if (a->rank)
		join_part(a);
}

static void missing_rank(struct stage *g)
{
	CALL(&g->main, ncclGetUniqueId(&g->id));
	each(g, part_that_waits);
}

/* Join as the same rank from two threads. */
static void same_rank_part(struct actor *a)
{
	CALL(a, ncclCommInitRank(&a->comm, 2, a->stage->id, 0));
}

static void same_rank(struct stage *g)
{
	CALL(&g->main, ncclGetUniqueId(&g->id));
	each(g, same_rank_part);
}

/* Join with different numbers of ranks. */
static void other_number_part(struct actor *a)
{
	CALL(a, ncclCommInitRank(&a->comm, 2 + a->rank, a->stage->id, a->rank));
}

static void other_number(struct stage *g)
{
	CALL(&g->main, ncclGetUniqueId(&g->id));
	each(g, other_number_part);
}

/* Join two ranks on one device. */
static void same_device_part(struct actor *a)
{
	CALL(a, cudaSetDevice(0));
	join_part(a);
}

static void same_device(struct stage *g)
{
	CALL(&g->main, ncclGetUniqueId(&g->id));
	each(g, same_device_part);
}

/* Use an id for a second time. */
static void id_again(struct stage *g)
{
	join_each(g);
	destroy_all(g);
	each(g, join_part);
}

static void zero_id(struct stage *g)
{
	memset(&g->id, 0, sizeof(g->id));
	each(g, join_part);
}

/* Join with an invalid rank inside an otherwise valid group. */
static void bad_rank_in_group(struct stage *g)
{
	struct actor *m = &g->main;

	CALL(m, ncclGetUniqueId(&g->id));
	CALL(m, ncclGroupStart());
	CALL(m, ncclCommInitRank(&g->actors[0].comm, 2, g->id, 0));
	CALL(m, ncclCommInitRank(&g->actors[1].comm, 2, g->id, 5));
	CALL(m, ncclGroupEnd());
	note(m, " comm=%d", g->actors[0].comm != NULL);
}

static void scalable_part(struct actor *a)
{
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;

	CALL(a, ncclCommInitRankScalable(&a->comm, a->stage->n, a->rank, 1,
	                                 &a->stage->id, &config));
}

static void scalable(struct stage *g)
{
	CALL(&g->main, ncclGetUniqueId(&g->id));
	each(g, scalable_part);
	each(g, sum_part);
	destroy_all(g);
}

static void facts_part(struct actor *a)
{
	int number;

	CALL(a, ncclCommCount(a->comm, &number));
	note(a, " %d", number);
	CALL(a, ncclCommUserRank(a->comm, &number));
	note(a, " %d", number);
	CALL(a, ncclCommCuDevice(a->comm, &number));
	note(a, " %d", number);
}

static void facts(struct stage *g)
{
	connect_all(g);
	each(g, facts_part);
	destroy_all(g);
}

static void texts(struct stage *g)
{
	int i;

	for (i = -1; i < 10; i++)
		note(&g->main, " \"%s\"", ncclGetErrorString((ncclResult_t)i));
	note(&g->main, " last=%d", ncclGetLastError(NULL)[0] != '\0');
	CALL(&g->main, ncclGetVersion(NULL));
	note(&g->main, " last=%d", ncclGetLastError(NULL)[0] != '\0');
	CALL(&g->main, ncclCommInitRank(NULL, 2, g->id, 0));
	note(&g->main, " last=%d", ncclGetLastError(NULL)[0] != '\0');
}

/* ---- errors inside groups --------------------------------------------- */

/*
 * Make two calls fail in a group. Check which error the group returns, that all
 * its calls are dropped, and that a new group works.
 */
static void errors_in_group(struct stage *g)
{
	struct actor *m = &g->main, *a = &g->actors[0];

	connect_all(g);
	CALL(m, ncclGroupStart());
	CALL(m, ncclAllReduce(a->send, a->recv, 4, ncclFloat, ncclSum, a->comm,
	                      a->stream));
	CALL(m, ncclAllReduce(a->send, a->recv, 4, (ncclDataType_t)12, ncclSum,
	                      a->comm, a->stream));
	CALL(m, ncclGroupStart());
	CALL(m, ncclCommDestroy(NULL));
	CALL(m, ncclGroupEnd());
	CALL(m, ncclGroupEnd());
	digest(a);
	sum_all(g);
	destroy_all(g);
}

/* Send from a rank to itself without a receive, which makes the group fail. */
static void half_message_to_itself(struct stage *g)
{
	struct actor *m = &g->main, *a = &g->actors[0];

	connect_all(g);
	CALL(m, ncclGroupStart());
	CALL(m, ncclSend(a->send, 4, ncclFloat, 0, a->comm, a->stream));
	CALL(m, ncclGroupEnd());
	CALL(m, ncclGroupStart());
	CALL(m, ncclRecv(a->recv, 4, ncclFloat, 0, a->comm, a->stream));
	CALL(m, ncclGroupEnd());
	sum_all(g);
	destroy_all(g);
}

/* Make calls on several streams in one group. */
static void two_streams(struct stage *g)
{
	struct actor *m = &g->main, *a;
	cudaStream_t more[MOST_ACTORS];
	int i;

	connect_all(g);
	CALL(m, ncclGroupStart());
	for (i = 0; i < g->n; i++) {
		a = &g->actors[i];
		cudaSetDevice(i);
		CALL(a, cudaStreamCreate(&more[i]));
		CALL(a, ncclAllReduce(a->send, a->recv, 8, ncclFloat, ncclSum,
		                      a->comm, a->stream));
		CALL(a, ncclAllReduce(a->send, a->recv + 8, 8, ncclFloat,
		                      ncclMax, a->comm, more[i]));
	}
	CALL(m, ncclGroupEnd());
	for (i = 0; i < g->n; i++) {
		CALL(&g->actors[i], cudaStreamSynchronize(more[i]));
		digest(&g->actors[i]);
	}
	destroy_all(g);
}

static void stream_of_nobody(struct stage *g)
{
	struct actor *a = &g->actors[0];
	cudaStream_t gone;

	connect_all(g);
	cudaStreamCreate(&gone);
	CALL(a, cudaStreamDestroy(gone));
	CALL(a, ncclAllReduce(a->send, a->recv, 4, ncclFloat, ncclSum, a->comm,
	                      gone));
	CALL(a, ncclCommCount(a->comm, (int[1]){ 0 }));
}

/* ---- calls without a matching call ------------------------------------ */

/* Sum while rank 1 never calls. */
static void lonely_sum_part(struct actor *a)
{
	if (!a->rank)
		sum_part(a);
}

static void lonely_sum(struct stage *g)
{
	connect_all(g);
	each(g, lonely_sum_part);
}

static void lonely_recv_part(struct actor *a)
{
	if (a->rank)
		return;
	CALL(a, ncclRecv(a->recv, FLOATS, ncclFloat, 1, a->comm, a->stream));
	digest(a);
}

static void lonely_recv(struct stage *g)
{
	connect_all(g);
	each(g, lonely_recv_part);
}

static void lonely_send_part(struct actor *a)
{
	if (a->rank)
		return;
	CALL(a, ncclSend(a->send, FLOATS, ncclFloat, 1, a->comm, a->stream));
	CALL(a, cudaStreamSynchronize(a->stream));
}

static void lonely_send(struct stage *g)
{
	connect_all(g);
	each(g, lonely_send_part);
}

/* Make the first call of a communicator, with one rank missing. */
static void lonely_first(struct stage *g)
{
	join_each(g);
	each(g, lonely_sum_part);
}

/* Sum fewer elements on rank 1. */
static void fewer_part(struct actor *a)
{
	CALL(a, ncclAllReduce(a->send, a->recv, a->rank ? 4 : FLOATS, ncclFloat,
	                      ncclSum, a->comm, a->stream));
	CALL(a, cudaStreamSynchronize(a->stream));
}

static void fewer(struct stage *g)
{
	connect_all(g);
	each(g, fewer_part);
}

/* Sum on rank 0, and receive a broadcast on rank 1. */
static void other_call_part(struct actor *a)
{
	if (a->rank)
		CALL(a, ncclBroadcast(a->send, a->recv, FLOATS, ncclFloat, 0,
		                      a->comm, a->stream));
	else
		CALL(a, ncclAllReduce(a->send, a->recv, FLOATS, ncclFloat,
		                      ncclSum, a->comm, a->stream));
	CALL(a, cudaStreamSynchronize(a->stream));
}

static void other_call(struct stage *g)
{
	connect_all(g);
	each(g, other_call_part);
}

/* Send messages in both directions in one group. */
static void swap_part(struct actor *a)
{
	CALL(a, ncclGroupStart());
	CALL(a, ncclSend(a->send, FLOATS, ncclFloat, !a->rank, a->comm,
	                 a->stream));
	CALL(a, ncclRecv(a->recv, FLOATS, ncclFloat, !a->rank, a->comm,
	                 a->stream));
	CALL(a, ncclGroupEnd());
	digest(a);
}

static void swap(struct stage *g)
{
	connect_all(g);
	each(g, swap_part);
	destroy_all(g);
}

static void empty_message_part(struct actor *a)
{
	if (a->rank)
		CALL(a, ncclRecv(a->recv, 0, ncclFloat, 0, a->comm, a->stream));
	else
		CALL(a, ncclSend(a->send, 0, ncclFloat, 1, a->comm, a->stream));
	digest(a);
}

static void empty_message(struct stage *g)
{
	connect_all(g);
	each(g, empty_message_part);
	destroy_all(g);
}

/* ---- operations and types --------------------------------------------- */

static void scaled_part(struct actor *a)
{
	float factor = (float)(a->rank + 2);
	ncclRedOp_t op;

	CALL(a, ncclRedOpCreatePreMulSum(&op, &factor, ncclFloat,
	                                 ncclScalarHostImmediate, a->comm));
	CALL(a, ncclAllReduce(a->send, a->recv, FLOATS, ncclFloat, op, a->comm,
	                      a->stream));
	CALL(a, ncclRedOpDestroy(op, a->comm));
	digest(a);
	CALL(a, ncclRedOpDestroy(op, a->comm));
	CALL(a, ncclAllReduce(a->send, a->recv, 0, ncclFloat, op, a->comm,
	                      a->stream));
}

static void scaled(struct stage *g)
{
	connect_all(g);
	each(g, scaled_part);
	destroy_all(g);
}

/* Use an operation with a wrong type, and an operation of another rank. */
static void scaled_wrong(struct stage *g)
{
	struct actor *m = &g->main, *a = &g->actors[0], *b = &g->actors[1];
	float factor = 2;
	ncclRedOp_t op;

	connect_all(g);
	CALL(m, ncclRedOpCreatePreMulSum(&op, &factor, ncclFloat,
	                                 ncclScalarHostImmediate, a->comm));
	note(m, " op=%d", (int)op >= ncclNumOps);
	CALL(m, ncclAllReduce(a->send, a->recv, 4, ncclInt, op, a->comm,
	                      a->stream));
	CALL(m, ncclAllReduce(b->send, b->recv, 4, ncclFloat, op, b->comm,
	                      b->stream));
	CALL(m, ncclRedOpDestroy(op, b->comm));
	CALL(m, ncclRedOpDestroy(op, a->comm));
	sum_all(g);
	destroy_all(g);
}

/* Reduce each type with each operation, on one rank and on all ranks. */
static void types_part(struct actor *a)
{
	int type, op;

	for (type = 0; type < ncclNumTypes; type++)
		for (op = 0; op < ncclNumOps; op++)
			CALL(a, ncclAllReduce(a->send, a->recv, 16,
			                      (ncclDataType_t)type,
			                      (ncclRedOp_t)op, a->comm,
			                      a->stream));
	CALL(a, cudaStreamSynchronize(a->stream));
}

static void types(struct stage *g)
{
	connect_all(g);
	each(g, types_part);
	destroy_all(g);
}

static void memory_part(struct actor *a)
{
	void *memory = NULL, *handle = NULL, *again = NULL;

	CALL(a, ncclMemAlloc(&memory, 1 << 20));
	CALL(a, ncclCommRegister(a->comm, memory, 1 << 20, &handle));
	CALL(a, ncclCommRegister(a->comm, memory, 1 << 20, &again));
	note(a, " same=%d", handle == again);
	CALL(a, ncclAllReduce(memory, memory, 1024, ncclFloat, ncclMax, a->comm,
	                      a->stream));
	CALL(a, cudaStreamSynchronize(a->stream));
	CALL(a, ncclCommDeregister(a->comm, handle));
	CALL(a, ncclCommDeregister(a->comm, again));
	CALL(a, ncclCommDeregister(a->comm, again));
	CALL(a, ncclMemFree(memory));
}

static void memory(struct stage *g)
{
	connect_all(g);
	each(g, memory_part);
	destroy_all(g);
}

const struct scene rank_scenes[] = {
	{ "threads_of_1", 1, SECONDS, threads },
	{ "threads_of_2", 2, SECONDS, threads },
	{ "threads_of_4", 4, SECONDS, threads },
	{ "group_of_4", 4, SECONDS, group_in_turn },
	{ "init_all_of_3", 3, SECONDS, init_all },
	{ "init_all_too_many", 0, HANGS, init_all_too_many },
	{ "missing_rank", 2, HANGS, missing_rank },
	{ "same_rank", 2, HANGS, same_rank },
	{ "other_number", 2, HANGS, other_number },
	{ "same_device", 2, HANGS, same_device },
	{ "id_again", 2, HANGS, id_again },
	{ "zero_id", 2, HANGS, zero_id },
	{ "bad_rank_in_group", 2, HANGS, bad_rank_in_group },
	{ "scalable", 2, SECONDS, scalable },
	{ "facts", 3, SECONDS, facts },
	{ "texts", 0, SECONDS, texts },
	{ "errors_in_group", 2, SECONDS, errors_in_group },
	{ "half_message_to_itself", 2, SECONDS, half_message_to_itself },
	{ "two_streams", 2, SECONDS, two_streams },
	{ "stream_of_nobody", 2, HANGS, stream_of_nobody },
	{ "lonely_sum", 2, HANGS, lonely_sum },
	{ "lonely_recv", 2, HANGS, lonely_recv },
	{ "lonely_send", 2, HANGS, lonely_send },
	{ "lonely_first", 2, HANGS, lonely_first },
	{ "fewer", 2, HANGS, fewer },
	{ "other_call", 2, HANGS, other_call },
	{ "swap", 2, SECONDS, swap },
	{ "empty_message", 2, SECONDS, empty_message },
	{ "scaled", 2, SECONDS, scaled },
	{ "scaled_by_1", 1, SECONDS, scaled },
	{ "scaled_wrong", 2, HANGS, scaled_wrong },
	{ "types_of_1", 1, SECONDS, types },
	{ "types_of_2", 2, SECONDS, types },
	{ "memory", 2, SECONDS, memory },
	{ .name = NULL },
};
