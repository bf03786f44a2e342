/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SUPPORT_NCCL_WORLD_H
#define TESTS_SUPPORT_NCCL_WORLD_H

/*
 * A communicator as NCCL's host code lays it out for its kernels, in plain memory: ranks,
 * channels, and connections between all of them, with small buffers
 */

#include "sim/nvidia/kernel/kernel_run.h"
#include "sim/nvidia/kernel/nccl_version.h"

#define WORLD_RANKS 4
#define WORLD_CHANNELS 2

/* Bytes of a step of Simple, and of a message's chunk. */
#define WORLD_STEP 4096

struct nccl_world {
	int ranks, channels;
	const struct layout *layout;
	struct nvidia_kernels *kernels;

	uint32_t abort_flag[WORLD_RANKS];
	/* NCCL's structures, with room for those of any version. */
	_Alignas(16) char comm[WORLD_RANKS][128];
	_Alignas(16) char channel[WORLD_RANKS][WORLD_CHANNELS * 512];
	_Alignas(16) char peer[WORLD_RANKS][WORLD_CHANNELS][WORLD_RANKS][640];
	void *peers[WORLD_RANKS][WORLD_CHANNELS][WORLD_RANKS];
	int order[WORLD_RANKS][WORLD_CHANNELS][WORLD_RANKS];
	int local_ranks[WORLD_RANKS];
	/* A count and a time each. */
	uint64_t started[WORLD_RANKS][WORLD_CHANNELS][64][2];
	uint64_t completed[WORLD_RANKS][WORLD_CHANNELS][64][2];
	struct pipe *pipes;

	/* How a thread carries steps from one end to the other; set by the test.  0:
	 * both ends have one buffer. */
	int carried_steps; /* at once */
	enum protocol carried_protocol;
	bool all_carried; /* atomic; the thread may end */
};

/* The version of NCCL whose layout worlds have. */
extern int nccl_world_version;

/* @flags: of each connection.  @fifos: each has slots, which shuffle its steps. */
struct nccl_world *nccl_world_new(int ranks, int channels, int flags,
                                  bool fifos);

/* Each end has buffers of its own, and a thread carries the steps, @steps at once, as
 * NCCL's does with a network in between. */
struct nccl_world *nccl_world_new_carried(int ranks, enum protocol protocol,
                                          int steps);
void nccl_world_free(struct nccl_world *w);

/* A rank's launch, with all of its arguments. */
struct nccl_plan {
	struct nvidia_launch launch;
	enum nvidia_result result;
	int batches;
	size_t used;
	uint32_t
		works; /* bytes of works in the buffer of its own, if there is one */
	_Alignas(16) char bytes[4096];
	_Alignas(16) char fifo[1024];
};

/* @fifo: the works are in a buffer of their own, which they begin near its end.
 * @batches: how many will be added. */
void nccl_plan_init(struct nccl_plan *p, const struct nccl_world *w, int rank,
                    int batches, bool fifo);

/* Add a batch of @count works, the same for all channels: structures of
 * sim/nvidia/kernel/layout.h, by their type.  @row: the function's. */
void nccl_plan_add(struct nccl_plan *p, const struct nccl_world *w,
                   enum work_type type, int row, const void *works, int count);

/* The row of a function. */
int nccl_row(const struct nccl_world *w, const struct function *function);

/* Split @count elements over the channels, with the chunks that NCCL would take. */
void nccl_split(const struct nccl_world *w, struct coll_work *work,
                const struct function *function, size_t count);

/* Run the launch of each rank on a thread of its own. */
void nccl_world_run(struct nccl_world *w, struct nccl_plan plans[]);

#endif
