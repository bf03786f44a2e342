/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SUPPORT_NCCL_WORLD_H
#define TESTS_SUPPORT_NCCL_WORLD_H

/*
 * A communicator in plain memory, with the layout in which NCCL's host code
 * passes it to kernels
 *
 * Every two ranks have a connection with small buffers on each channel.
 */

#include "sim/nvidia/kernel/kernel_run.h"
#include "sim/nvidia/kernel/nccl_version.h"

#define WORLD_RANKS 4
#define WORLD_CHANNELS 2

/* Bytes of a step of the Simple protocol, and of a chunk of a message */
#define WORLD_STEP 4096

struct nccl_world {
	int ranks, channels;
	const struct layout *layout;
	struct nvidia_kernels *kernels;

	uint32_t abort_flag[WORLD_RANKS];
	/* NCCL's structures, with room for the layout of any version */
	_Alignas(16) char comm[WORLD_RANKS][128];
	_Alignas(16) char channel[WORLD_RANKS][WORLD_CHANNELS * 512];
	_Alignas(16) char peer[WORLD_RANKS][WORLD_CHANNELS][WORLD_RANKS][640];
	void *peers[WORLD_RANKS][WORLD_CHANNELS][WORLD_RANKS];
	int order[WORLD_RANKS][WORLD_CHANNELS][WORLD_RANKS];
	int local_ranks[WORLD_RANKS];
	/* pairs of a count and a time, for each rank and channel */
	uint64_t started[WORLD_RANKS][WORLD_CHANNELS][64][2];
	uint64_t completed[WORLD_RANKS][WORLD_CHANNELS][64][2];
	struct pipe *pipes;

	/* Used only if a thread moves the data from a sender's buffer to the
	 * receiver's */
	/* steps per move, or 0 if both ends share a buffer */
	int carried_steps;
	enum protocol carried_protocol;
	bool all_carried; /* atomic; true ends the thread that moves the data */
};

/* Version of NCCL that determines the layout of new worlds */
extern int nccl_world_version;

/*
 * Create a world in which both ends of a connection share a buffer. Every
 * connection has @flags. If @fifos is true, every connection also has slots,
 * whose offsets permute the order of the steps in memory.
 */
struct nccl_world *nccl_world_new(int ranks, int channels, int flags,
                                  bool fifos);

/*
 * Create a world in which each end of a connection has its own buffers. Like
 * NCCL's proxy thread on a network, a thread moves the data between the ends,
 * @steps steps at a time.
 */
struct nccl_world *nccl_world_new_carried(int ranks, enum protocol protocol,
                                          int steps);

void nccl_world_free(struct nccl_world *w);

/* A rank's kernel launch, with all of its arguments */
struct nccl_plan {
	struct nvidia_launch launch;
	enum nvidia_result result;
	int batches;
	size_t used;
	/* offset of the work items in fifo, or 0 if fifo is unused */
	uint32_t works;
	_Alignas(16) char bytes[4096];
	_Alignas(16) char fifo[1024];
};

/*
 * Prepare the launch of @rank, to which @batches batches will be added. If
 * @fifo is true, the work items are in the ring buffer p->fifo. They start near
 * its end, so that they wrap around.
 */
void nccl_plan_init(struct nccl_plan *p, const struct nccl_world *w, int rank,
                    int batches, bool fifo);

/*
 * Add a batch of @count work items, the same for all channels. @works is an
 * array of the structures for @type in sim/nvidia/kernel/layout.h. @row is the
 * function's row in NCCL's function table.
 */
void nccl_plan_add(struct nccl_plan *p, const struct nccl_world *w,
                   enum work_type type, int row, const void *works, int count);

/* Return the row of @function in NCCL's function table. */
int nccl_row(const struct nccl_world *w, const struct function *function);

/* Split @count elements over the channels, into chunks as NCCL would choose. */
void nccl_split(const struct nccl_world *w, struct coll_work *work,
                const struct function *function, size_t count);

/* Run the launch of each rank on a separate thread. */
void nccl_world_run(struct nccl_world *w, struct nccl_plan plans[]);

#endif
