/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_NVIDIA_KERNEL_BLOCK_H
#define SIM_NVIDIA_KERNEL_BLOCK_H

/*
 * Blocks: the part of a launch on one channel
 *
 * A block has a list of batches, one after the other.  Works of a batch that
 * are collectives are one after the other, too; messages are all at once.
 */

#include "sim/nvidia/kernel/kernel_table.h"
#include "sim/nvidia/kernel/task_program.h"

/* NCCL has fewer. */
#define MAX_WORKS 384
#define MAX_MESSAGES 16

/* A batch, with those that extend it. */
struct works {
	enum work_type type;
	const struct function *function;
	int count;
	uint32_t offsets[MAX_WORKS];
	int next; /* index of the next batch, or -1 */
};

/* Read the batch @index, and those that extend it.  False if there are too many
 * works, or the function is not known. */
bool works_read(struct works *works, const struct nvidia_kernels *kernels,
                const struct arguments *arguments, int index);

/* Where the parts of a work are put together: the buffer that it is in may end
 * in the midst of it. */
struct work_bytes {
	_Alignas(16) char bytes[512];
};

/* Work number @n. */
const void *works_at(const struct works *works,
                     const struct nvidia_kernels *kernels,
                     const struct arguments *arguments, int n,
                     struct work_bytes *room);

struct block {
	const struct nvidia_kernels *kernels;
	const struct arguments *arguments;
	const struct kernel_comm *comm;
	struct channel channel;

	int batch; /* the one to start, or -1 */
	bool in_batch;
	struct works works;
	int work;          /* the one to start */
	uint64_t profiled; /* one bit for each of the first works */

	struct coll_work coll; /* the one that is under way */
	struct broadcast_work broadcasts[MAX_WORKS];
	int task_count;
	struct task tasks[MAX_MESSAGES * TASKS_PER_WORK];

	bool aborted, done;
};

/* @index: of its first batch.  @channel: its channel. */
void block_init(struct block *b, const struct nvidia_kernels *kernels,
                const struct arguments *arguments,
                const struct kernel_comm *comm, int index, int channel);

/* Do what can be done: false if that was nothing. */
bool block_step(struct block *b);

/* Wait for nothing any more, move nothing, and start no other batch. */
void block_abort(struct block *b);

#endif
