/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_NVIDIA_KERNEL_BLOCK_H
#define SIM_NVIDIA_KERNEL_BLOCK_H

/*
 * Runs a block: the part of a kernel launch on one channel
 *
 * A block is a list of batches, which run one after the other.  A batch
 * contains works, as NCCL calls the descriptions of collectives and messages:
 * either collectives, which run one after the other, or messages or broadcasts,
 * which run concurrently.
 */

#include "sim/nvidia/kernel/kernel_table.h"
#include "sim/nvidia/kernel/task_program.h"

/* Limits on the works in a batch; NCCL stays below them. */
#define MAX_WORKS 384
#define MAX_MESSAGES 16

/* A batch, together with the batches that extend it. */
struct works {
	enum work_type type;
	const struct function *function;
	int count;
	uint32_t offsets[MAX_WORKS];
	int next; /* index of the next batch, or -1 if there is none */
};

/* Read the batch at @index and the batches that extend it.  Return false if
 * there are too many works or if the function is unknown. */
bool works_read(struct works *works, const struct nvidia_kernels *kernels,
                const struct arguments *arguments, int index);

/* Buffer for assembling a work, which can wrap around the end of NCCL's
 * buffer. */
struct work_bytes {
	_Alignas(16) char bytes[512];
};

/* Assemble work @n in @room and return it. */
const void *works_at(const struct works *works,
                     const struct nvidia_kernels *kernels,
                     const struct arguments *arguments, int n,
                     struct work_bytes *room);

struct block {
	const struct nvidia_kernels *kernels;
	const struct arguments *arguments;
	const struct kernel_comm *comm;
	struct channel channel;

	/* index of the next batch to start, or -1 if there is none */
	int batch;
	bool in_batch;
	struct works works;
	int work; /* index of the next work to start */
	/* Bit set of the profiled works, among the first 64. */
	uint64_t profiled;

	struct coll_work coll; /* the collective in progress */
	struct broadcast_work broadcasts[MAX_WORKS];
	int task_count;
	struct task tasks[MAX_MESSAGES * TASKS_PER_WORK];

	bool aborted, done;
};

/* Initialize a block.  @index is the index of its first batch. */
void block_init(struct block *b, const struct nvidia_kernels *kernels,
                const struct arguments *arguments,
                const struct kernel_comm *comm, int index, int channel);

/* Make as much progress as possible without waiting.  Return false if there was
 * no progress. */
bool block_step(struct block *b);

/* Abort the block: it stops waiting and moving data, and starts no more
 * batches. */
void block_abort(struct block *b);

#endif
