/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests of strict mode for calls and their buffers. For each rule there are a
 * program that breaks it and a similar legal program.
 */

#include <criterion/criterion.h>
#include <pthread.h>
#include <string.h>

#include <cohort/sim.h>

#include "support/doomed.h"
#include "support/place.h"
#include "support/ranks.h"

TestSuite(strict_calls, .timeout = 60);

/* ---- ranks whose calls differ ----------------------------------------- */

static void reduce(struct native_clique *c, int r, size_t count, int type,
                   int op, int root)
{
	c->p->ncclReduce(c->send[r], c->recv[r], count, (ncclDataType_t)type,
	                 (ncclRedOp_t)op, root, c->comm[r], c->stream[r]);
}

/* Make equal calls on all ranks except the last one, whose call has the given
 * arguments. */
static void differ(struct native_clique *c, size_t count, int type, int op,
                   int root)
{
	c->p->ncclGroupStart();
	reduce(c, 0, 4, ncclFloat32, ncclSum, 0);
	reduce(c, 1, 4, ncclFloat32, ncclSum, 0);
	reduce(c, 2, count, type, op, root);
	c->p->ncclGroupEnd();
	c->p->cudaStreamSynchronize(c->stream[0]);
}

static void differ_in_count(struct native_clique *c)
{
	differ(c, 3, ncclFloat32, ncclSum, 0);
}

static void differ_in_type(struct native_clique *c)
{
	differ(c, 4, ncclInt32, ncclSum, 0);
}

static void differ_in_op(struct native_clique *c)
{
	differ(c, 4, ncclFloat32, ncclMax, 0);
}

static void differ_in_root(struct native_clique *c)
{
	differ(c, 4, ncclFloat32, ncclSum, 1);
}

static void differ_in_nothing(struct native_clique *c)
{
	differ(c, 4, ncclFloat32, ncclSum, 0);
}

static void differ_in_kind(struct native_clique *c)
{
	c->p->ncclGroupStart();
	native_sum(c, 0);
	c->p->ncclBroadcast(c->send[1], c->recv[1], NATIVE_COUNT, ncclInt32, 2,
	                    c->comm[1], c->stream[1]);
	native_sum(c, 2);
	c->p->ncclGroupEnd();
}

static void differ_by_script_ended(struct native_clique *c)
{
	int r;

	ranks_fault(1, 0, COHORT_FAULT_ARGUMENT, 0);
	c->p->ncclGroupStart();
	for (r = 0; r < 3; r++)
		native_sum(c, r);
	c->p->ncclGroupEnd();
	native_clique_abort(c);
}

/*
 * Rank 2's second collective differs from the second call in rank 0's group.
 */
static void differ_later(struct native_clique *c)
{
	native_sum_all(c);
	c->p->ncclGroupStart();
	native_sum(c, 0);
	native_sum(c, 0);
	native_sum(c, 1);
	native_sum(c, 2);
	c->p->ncclGroupEnd();
	c->p->ncclGroupStart();
	native_sum(c, 1);
	reduce(c, 2, NATIVE_COUNT, ncclInt32, ncclSum, 0);
	c->p->ncclGroupEnd();
}

Test(strict_calls, strict_mode_reports_collectives_that_differ)
{
	doomed_expect(
		differ_in_count,
		"ncclReduce: rank 2, device 2, communicator 0: calls "
		"ncclReduce(count 3, float32, sum, root 0) where rank 0, "
		"device 0 calls ncclReduce(count 4, float32, sum, root 0)");
	doomed_expect(
		differ_in_type,
		"ncclReduce: rank 2, device 2, communicator 0: calls "
		"ncclReduce(count 4, int32, sum, root 0) where rank 0, device "
		"0 calls ncclReduce(count 4, float32, sum, root 0)");
	doomed_expect(
		differ_in_op,
		"ncclReduce: rank 2, device 2, communicator 0: calls "
		"ncclReduce(count 4, float32, max, root 0) where rank 0, "
		"device 0 calls ncclReduce(count 4, float32, sum, root 0)");
	doomed_expect(
		differ_in_root,
		"ncclReduce: rank 2, device 2, communicator 0: calls "
		"ncclReduce(count 4, float32, sum, root 1) where rank 0, "
		"device 0 calls ncclReduce(count 4, float32, sum, root 0)");
	doomed_expect(differ_in_kind,
	              "ncclBroadcast: rank 1, device 1, communicator 0: calls "
	              "ncclBroadcast(count 5, int32, root 2) where rank 0, "
	              "device 0 calls ncclAllReduce(count 5, int32, sum)");
	doomed_expect(differ_later,
	              "ncclReduce: rank 2, device 2, communicator 0: calls "
	              "ncclReduce(count 5, int32, sum, root 0) where rank 0, "
	              "device 0 calls ncclAllReduce(count 5, int32, sum)");
}

Test(strict_calls, strict_mode_accepts_equal_collectives)
{
	doomed_expect_legal(differ_in_nothing);
	doomed_expect_legal(differ_by_script_ended);
}

/* ---- messages --------------------------------------------------------- */

static void message(struct native_clique *c, size_t sent, size_t received,
                    int type)
{
	c->p->ncclGroupStart();
	c->p->ncclSend(c->send[0], sent, ncclInt32, 1, c->comm[0],
	               c->stream[0]);
	c->p->ncclRecv(c->recv[1], received, (ncclDataType_t)type, 0,
	               c->comm[1], c->stream[1]);
	c->p->ncclGroupEnd();
	c->p->cudaStreamSynchronize(c->stream[1]);
}

static void differ_in_length(struct native_clique *c)
{
	message(c, 3, 4, ncclInt32);
}

static void differ_in_message_type(struct native_clique *c)
{
	message(c, 3, 3, ncclFloat32);
}

static void equal_messages(struct native_clique *c)
{
	message(c, 3, 3, ncclInt32);
	message(c, 0, 0, ncclInt32);
}

Test(strict_calls, strict_mode_reports_messages_that_differ)
{
	doomed_expect(differ_in_length,
	              "ncclSend: rank 0, device 0, communicator 0: "
	              "ncclSend(count 3, int32, to 1) does not match "
	              "ncclRecv(count 4, int32, from 0) of rank 1, device 1");
	doomed_expect(differ_in_message_type,
	              "ncclSend: rank 0, device 0, communicator 0: "
	              "ncclSend(count 3, int32, to 1) does not match "
	              "ncclRecv(count 3, float32, from 0) of rank 1, device 1");
}

Test(strict_calls, strict_mode_accepts_matching_messages)
{
	doomed_expect_legal(equal_messages);
}

/* ---- buffers ---------------------------------------------------------- */

static void *device_memory(struct native_clique *c, int device, size_t bytes)
{
	void *memory;

	native_must(c->p->cudaSetDevice(device), "cudaSetDevice");
	native_must(c->p->cudaMalloc(&memory, bytes), "cudaMalloc");
	return memory;
}

/* Gather on rank 1 alone, because a wrong buffer is detected during the
 * call. */
static void gather(struct native_clique *c, const void *send, void *recv,
                   size_t count)
{
	c->p->ncclAllGather(send, recv, count, ncclInt32, c->comm[1],
	                    c->stream[1]);
}

static void null_send(struct native_clique *c)
{
	gather(c, NULL, c->recv[1], 1);
}

static void null_recv(struct native_clique *c)
{
	gather(c, c->send[1], NULL, 1);
}

static void small_recv(struct native_clique *c)
{
	gather(c, c->send[1], device_memory(c, 1, 6 * sizeof(int32_t)), 3);
}

static void small_send(struct native_clique *c)
{
	char *memory = device_memory(c, 1, 6 * sizeof(int32_t));

	gather(c, memory + 4 * sizeof(int32_t), c->recv[1], 3);
}

static void freed_send(struct native_clique *c)
{
	void *memory = device_memory(c, 1, 64);

	c->p->cudaFree(memory);
	gather(c, memory, c->recv[1], 1);
}

/*
 * Free memory that a call still uses. A free waits only for streams of the
 * memory's own device.
 */
static void freed_before_it_runs(struct native_clique *c)
{
	struct native_gate gate;
	void *memory;

	native_must(c->p->cudaMallocHost(&memory, 64), "cudaMallocHost");
	native_gate_hold(c->p, &gate, c->stream[1]);
	gather(c, c->send[1], memory, 1);
	native_gate_reached(&gate);
	c->p->cudaFreeHost(memory);
	native_gate_open(&gate);
	c->p->cudaStreamSynchronize(c->stream[1]);
}

static void foreign_memory(struct native_clique *c)
{
	gather(c, device_memory(c, 2, 64), c->recv[1], 1);
}

static void foreign_message(struct native_clique *c)
{
	c->p->ncclRecv(device_memory(c, 0, 64), 3, ncclInt32, 0, c->comm[1],
	               c->stream[1]);
}

/*
 * Use all legal buffers: device memory of the exact size, pinned memory of any
 * device, the program's own memory, and NULL for an unused buffer.
 */
static void good_buffers(struct native_clique *c)
{
	const struct platform *p = c->p;
	void *pinned;
	int r;

	p->cudaSetDevice(0);
	native_must(p->cudaMallocHost(&pinned, 12), "cudaMallocHost");
	p->ncclGroupStart();
	p->ncclGather(device_memory(c, 0, 12), NULL, 3, ncclInt32, 1,
	              c->comm[0], c->stream[0]);
	gather(c, c->send[1], c->recv[1], 0);
	p->ncclGather(c->send[1], device_memory(c, 1, 36), 3, ncclInt32, 1,
	              c->comm[1], c->stream[1]);
	p->ncclGather(pinned, NULL, 3, ncclInt32, 1, c->comm[2], c->stream[2]);
	p->ncclGroupEnd();
	for (r = 0; r < 3; r++)
		p->cudaStreamSynchronize(c->stream[r]);
}

Test(strict_calls, strict_mode_names_illegal_buffers)
{
	doomed_expect(null_send,
	              "ncclAllGather: rank 1, device 1, communicator 0: the "
	              "send buffer of ncclAllGather(count 1, int32) is NULL");
	doomed_expect(
		null_recv,
		"ncclAllGather: rank 1, device 1, communicator 0: the receive "
		"buffer of ncclAllGather(count 1, int32) is NULL");
	doomed_expect(small_recv,
	              "ncclAllGather: rank 1, device 1, communicator 0: the "
	              "receive buffer of ncclAllGather(count 3, int32) has 24 "
	              "bytes, but needs 36");
	doomed_expect(small_send,
	              "ncclAllGather: rank 1, device 1, communicator 0: the "
	              "send buffer of ncclAllGather(count 3, int32) has 8 "
	              "bytes, but needs 12");
	doomed_expect(freed_send,
	              "ncclAllGather: rank 1, device 1, communicator 0: the "
	              "send buffer of ncclAllGather(count 1, int32) was freed");
	doomed_expect(
		freed_before_it_runs,
		"ncclAllGather: rank 1, device 1, communicator 0: the receive "
		"buffer of ncclAllGather(count 1, int32) was freed");
	doomed_expect(foreign_memory,
	              "ncclAllGather: rank 1, device 1, communicator 0: the "
	              "send buffer of ncclAllGather(count 1, int32) is memory "
	              "of device 2");
	doomed_expect(foreign_message,
	              "ncclRecv: rank 1, device 1, communicator 0: the receive "
	              "buffer of ncclRecv(count 3, int32, from 0) is memory of "
	              "device 0");
}

Test(strict_calls, strict_mode_accepts_legal_buffers)
{
	doomed_expect_legal(good_buffers);
}

/* ---- overlaps --------------------------------------------------------- */

static int32_t block[64];

/* Each function below makes a call with overlapping buffers on rank 1. The
 * peers never call. */
static void reduce_overlap(struct native_clique *c)
{
	c->p->ncclAllReduce(block, block + 1, 2, ncclInt32, ncclSum, c->comm[1],
	                    c->stream[1]);
}

static void gather_overlap(struct native_clique *c)
{
	gather(c, block, block, 2);
}

static void scatter_overlap(struct native_clique *c)
{
	c->p->ncclReduceScatter(block, block + 1, 2, ncclInt32, ncclSum,
	                        c->comm[1], c->stream[1]);
}

static void all_to_all_overlap(struct native_clique *c)
{
	c->p->ncclAlltoAll(block, block, 2, ncclInt32, c->comm[1],
	                   c->stream[1]);
}

static void message_overlap(struct native_clique *c)
{
	c->p->ncclGroupStart();
	c->p->ncclSend(block, 4, ncclInt32, 0, c->comm[1], c->stream[1]);
	c->p->ncclRecv(block + 3, 4, ncclInt32, 2, c->comm[1], c->stream[1]);
	c->p->ncclGroupEnd();
}

/* Use buffers that are in place, adjacent, or unused by the rank. */
static void legal_overlaps(struct native_clique *c)
{
	const struct platform *p = c->p;

	p->ncclAllReduce(block, block, 2, ncclInt32, ncclSum, c->comm[1],
	                 c->stream[1]);
	gather(c, block + 2, block, 2);
	p->ncclReduceScatter(block, block + 2, 2, ncclInt32, ncclSum,
	                     c->comm[1], c->stream[1]);
	p->ncclAlltoAll(block, block + 6, 2, ncclInt32, c->comm[1],
	                c->stream[1]);
	p->ncclReduce(block, block + 1, 2, ncclInt32, ncclSum, 0, c->comm[1],
	              c->stream[1]);
	p->ncclBroadcast(block, block + 1, 2, ncclInt32, 0, c->comm[1],
	                 c->stream[1]);
	p->ncclGather(block + 2, block, 2, ncclInt32, 1, c->comm[1],
	              c->stream[1]);
	p->ncclScatter(block, block + 2, 2, ncclInt32, 1, c->comm[1],
	               c->stream[1]);
	p->ncclGroupStart();
	p->ncclSend(block, 4, ncclInt32, 1, c->comm[1], c->stream[1]);
	p->ncclRecv(block, 4, ncclInt32, 1, c->comm[1], c->stream[1]);
	p->ncclRecv(block + 4, 4, ncclInt32, 2, c->comm[1], c->stream[1]);
	p->ncclGroupEnd();
}

Test(strict_calls, strict_mode_names_overlapping_buffers)
{
	doomed_expect(reduce_overlap,
	              "ncclAllReduce: rank 1, device 1, communicator 0: the "
	              "buffers of ncclAllReduce(count 2, int32, sum) overlap, "
	              "but the call is not in place");
	doomed_expect(gather_overlap,
	              "ncclAllGather: rank 1, device 1, communicator 0: the "
	              "buffers of ncclAllGather(count 2, int32) overlap, but "
	              "the call is not in place");
	doomed_expect(scatter_overlap,
	              "ncclReduceScatter: rank 1, device 1, communicator 0: "
	              "the buffers of ncclReduceScatter(count 2, int32, sum) "
	              "overlap, but the call is not in place");
	doomed_expect(all_to_all_overlap,
	              "ncclAlltoAll: rank 1, device 1, communicator 0: the "
	              "buffers of ncclAlltoAll(count 2, int32) overlap, but "
	              "the call is not in place");
	doomed_expect(message_overlap,
	              "ncclRecv: rank 1, device 1, communicator 0: the buffer "
	              "of ncclRecv(count 4, int32, from 2) overlaps the buffer "
	              "of ncclSend(count 4, int32, to 0) in the same group");
}

Test(strict_calls, strict_mode_accepts_in_place_buffers)
{
	doomed_expect_legal(legal_overlaps);
}

/* ---- ranks that wait for each other ----------------------------------- */

static void send_one(struct native_clique *c, int from, int to)
{
	c->p->ncclSend(c->send[from], 1, ncclInt32, to, c->comm[from],
	               c->stream[from]);
}

static void receive_one(struct native_clique *c, int to, int from)
{
	c->p->ncclRecv(c->recv[to], 1, ncclInt32, from, c->comm[to],
	               c->stream[to]);
}

static void send_to_each_other(struct native_clique *c)
{
	send_one(c, 0, 1);
	send_one(c, 1, 0);
}

static void send_in_a_ring(struct native_clique *c)
{
	send_one(c, 0, 1);
	send_one(c, 1, 2);
	send_one(c, 2, 0);
}

static void sum_against_a_message(struct native_clique *c)
{
	c->p->ncclGroupStart();
	native_sum(c, 0);
	receive_one(c, 0, 1);
	c->p->ncclGroupEnd();
	c->p->ncclGroupStart();
	receive_one(c, 1, 0);
	c->p->ncclGroupEnd();
}

static void grouped_ring(struct native_clique *c)
{
	int r;

	for (r = 0; r < 3; r++) {
		c->p->ncclGroupStart();
		send_one(c, r, (r + 1) % 3);
		receive_one(c, r, (r + 2) % 3);
		c->p->ncclGroupEnd();
	}
	for (r = 0; r < 3; r++)
		c->p->cudaStreamSynchronize(c->stream[r]);
}

/* Each rank waits for the next one, and the last rank waits for none. */
static void chain(struct native_clique *c)
{
	send_one(c, 0, 1);
	send_one(c, 1, 2);
	receive_one(c, 2, 1);
	receive_one(c, 1, 0);
	c->p->cudaStreamSynchronize(c->stream[0]);
	c->p->cudaStreamSynchronize(c->stream[1]);
}

Test(strict_calls, strict_mode_reports_a_cycle_of_waiting_ranks)
{
	place_skip_if_shared("cycles are not looked for");
	doomed_expect(send_to_each_other,
	              "ncclSend: rank 1, device 1, communicator 0: "
	              "ncclSend(count 1, int32, to 0) waits in a cycle: rank "
	              "0, device 0 is in ncclSend(count 1, int32, to 1)");
	doomed_expect(send_in_a_ring,
	              "ncclSend: rank 2, device 2, communicator 0: "
	              "ncclSend(count 1, int32, to 0) waits in a cycle: rank "
	              "0, device 0 is in ncclSend(count 1, int32, to 1)");
	doomed_expect(sum_against_a_message,
	              "ncclRecv: rank 1, device 1, communicator 0: "
	              "ncclRecv(count 1, int32, from 0) waits in a cycle: rank "
	              "0, device 0 is in ncclRecv(count 1, int32, from 1)");
}

Test(strict_calls, strict_mode_accepts_a_chain_of_waiting_ranks)
{
	doomed_expect_legal(grouped_ring);
	doomed_expect_legal(chain);
}

/* ---- a thread that waits for itself ----------------------------------- */

static void sum_one_after_the_other(struct native_clique *c)
{
	int r;

	for (r = 0; r < 3; r++) {
		native_sum(c, r);
		c->p->cudaStreamSynchronize(c->stream[r]);
	}
}

static void send_and_wait(struct native_clique *c)
{
	send_one(c, 0, 1);
	c->p->cudaStreamSynchronize(c->stream[0]);
	receive_one(c, 1, 0);
}

static void sum_and_destroy(struct native_clique *c)
{
	native_sum(c, 1);
	c->p->ncclCommFinalize(c->comm[1]);
}

static void sum_all_then_wait(struct native_clique *c)
{
	int r;

	for (r = 0; r < 3; r++)
		native_sum(c, r);
	for (r = 0; r < 3; r++)
		c->p->cudaStreamSynchronize(c->stream[r]);
	native_sum_all(c);
}

static void *sum_late(void *user)
{
	struct native_clique *c = user;

	while (c->p->cudaStreamQuery(c->stream[0]) == cudaSuccess)
		continue;
	native_sum(c, 1);
	native_sum(c, 2);
	c->p->cudaStreamSynchronize(c->stream[1]);
	return NULL;
}

/* Wait for an operation that another thread completes. */
static void wait_for_another_thread(struct native_clique *c)
{
	pthread_t thread;

	pthread_create(&thread, NULL, sum_late, c);
	native_sum(c, 0);
	c->p->cudaStreamSynchronize(c->stream[0]);
	pthread_join(thread, NULL);
}

static void wait_for_a_late_rank(struct native_clique *c)
{
	ranks_fault(1, 0, COHORT_FAULT_DELAY, 30000000);
	sum_all_then_wait(c);
}

Test(strict_calls, strict_mode_reports_a_thread_that_waits_for_itself)
{
	place_skip_if_shared(
		"threads that wait for themselves are not looked for");
	place_skip_in_qemu("a process has a thread of QEMU as well");
	doomed_expect(
		sum_one_after_the_other,
		"ncclAllReduce: rank 0, device 0, communicator 0: the only "
		"thread waits for ncclAllReduce(count 5, int32, sum) outside a "
		"group, but rank 1, device 1 has queued nothing");
	doomed_expect(send_and_wait,
	              "ncclSend: rank 0, device 0, communicator 0: the only "
	              "thread waits for ncclSend(count 1, int32, to 1) outside "
	              "a group, but rank 1, device 1 has queued nothing");
	doomed_expect(
		sum_and_destroy,
		"ncclAllReduce: rank 1, device 1, communicator 0: the only "
		"thread waits for ncclAllReduce(count 5, int32, sum) outside a "
		"group, but rank 0, device 0 has queued nothing");
}

Test(strict_calls, strict_mode_accepts_waits_for_other_threads)
{
	doomed_expect_legal(sum_all_then_wait);
	doomed_expect_legal(wait_for_another_thread);
	doomed_expect_legal(wait_for_a_late_rank);
}
