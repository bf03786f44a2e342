/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_CONNECT_H
#define CORE_CONNECT_H

/*
 * Connecting: native communicators, and what their ranks need of the device,
 * are made on a thread of their own, so that a connection that never comes
 * about, or a device that hangs, is an error after its time, not a hang
 *
 * The thread works on memory that it shares with its caller only.  If the
 * caller has left, the thread gives back what it has got.
 */

#include <stdatomic.h>
#include <stdint.h>

#include "core/cause.h"
#include "core/config.h"
#include "platform/platform.h"

/* What a rank gets by connecting. */
struct connected {
	ncclComm_t native;
	uint32_t *words; /* pinned, and 0 */
	cudaStream_t stream;
	cudaEvent_t event;
	void *barrier; /* an int32_t on the device, 0 */
};

/* Ranks that connect by an id, with ranks of other threads and processes: the
 * first one's number, which the others follow, and how many there are in
 * all. */
struct connect_world {
	ncclUniqueId id;
	int first;
	int size;

	/* Atomic; some of them will not come any more; NULL: nobody can
	 * know. */
	const atomic_bool *is_vain;
};

/*
 * Connect ranks, one on each of @devices, and get @words words for each.
 * @world: NULL if these are all ranks: ncclCommInitAll() connects them, or
 * ncclCommInitRankConfig() if @config sets an option.
 * Otherwise ncclCommInitRank() does, in one group for the ranks here.
 *
 * COHORT_INIT_TIMEOUT; COHORT_ABORTED; COHORT_PROCESS_EXITED; COHORT_NCCL,
 * COHORT_CUDA, COHORT_NO_MEMORY, COHORT_SYSTEM.  On error nothing is open, and
 * nothing stays so.
 */
int connect_ranks(const struct platform *platform, const int *devices, int n,
                  const struct connect_world *world,
                  const struct comm_config *config, size_t words,
                  const struct patience *patience, const char *name,
                  struct connected *connected);

/* Abort the communicators of @n ranks on @devices and give back what these have
 * got, on the calling thread, whose device stays as it is. */
void connect_discard(const struct platform *platform, const int *devices, int n,
                     const struct connected *connected);

/* One of the ranks that split together. */
struct split_rank {
	int device;
	ncclComm_t parent;
	int color; /* or NCCL_SPLIT_NOCOLOR */
	int key;

	/* Its native call has failed; the rest means nothing. */
	bool has_failed;

	/* The result; without a communicator the rank is in none. */
	struct connected connected;
	int rank; /* in that, */
	int size; /* and of how many */
};

struct clique;
struct connection;

/*
 * Begin ncclCommSplit() of all of @parent's ranks in one group, on a thread of
 * its own; the caller waits for it.
 *
 * NCCL's abort of a communicator whose split has failed writes to the abort
 * flags of the child.  So what a failed split has made is left to the parent's
 * reaper (clique_leave_orphans()): the caller must end the parent.
 */
int connect_split(struct clique *parent, const struct split_rank *ranks,
                  struct connection **out);

/* True if the split is done; waits for a moment. */
bool connect_is_done(struct connection *connection);

/* Return the rank whose device call the thread is in, and write that call to
 * @text: "cudaMalloc on device 2".  -1 if the thread may be in NCCL. */
int connect_place(const struct connection *connection, char *text, size_t size);

/* The function of NCCL's that the thread is in, if it is in one. */
const char *connect_native_name(const struct connection *connection);

/* End a split that is done: its results in @ranks or, on an error, which rank's
 * call has failed, if it was one rank's. */
int connect_end(struct connection *connection, struct split_rank *ranks);

/* Leave a split to its thread, which gives back what it gets. */
void connect_leave(struct connection *connection);

#endif
