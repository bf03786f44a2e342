/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_CONNECT_H
#define CORE_CONNECT_H

/*
 * Connecting: creates native communicators and the device resources of their
 * ranks on a separate thread, so that a connection that never completes, or a
 * device that hangs, causes an error after a timeout instead of a hang
 *
 * The thread works on memory that only it and its caller use.  If the caller
 * has stopped waiting, the thread frees everything that it has created.
 */

#include <stdbool.h>
#include <stdint.h>

#include "core/cause.h"
#include "core/config.h"
#include "platform/platform.h"

/* Native communicator and device resources of a connected rank. */
struct connected {
	ncclComm_t native;
	uint32_t *words; /* pinned and zeroed */
	cudaStream_t stream;
	cudaEvent_t event;
	void *barrier; /* an int32_t on the device, zeroed */
};

struct cohort_comm;

struct new_rank {
	int device;
	int rank;                  /* its number in the clique */
	int origin;                /* its number in the first generation */
	struct cohort_comm *above; /* the rank that is split, or NULL */

	struct connected connected; /* all zero until the rank is connected */
};

/* Data for connecting with ranks of other threads and processes by an ID. */
struct connect_world {
	ncclUniqueId id;
	int size; /* number of ranks in all threads and processes */

	/* Returns true if some of the ranks will never connect.  Called with
	 * @of every few milliseconds; @is_native is true once the native call
	 * that connects has succeeded.  NULL if this cannot be known. */
	bool (*is_futile)(void *of, bool is_native);
	void *of;
};

/*
 * Connect @ranks, which are numbered consecutively, and allocate @words words
 * for each.
 * @world: data to connect with other ranks by ncclCommInitRank(), in one group
 *        for the ranks of this thread.  NULL if there are no other ranks; then
 *        ncclCommInitAll() connects the ranks, or ncclCommInitRankConfig() if
 *        @config sets an option.
 *
 * On error nothing stays open.
 *
 * Returns:
 *   COHORT_OK              all ranks are connected
 *   COHORT_INIT_TIMEOUT    the timeout in @patience has passed
 *   a cause's status       the handle in @patience has this cause
 *   COHORT_PROCESS_EXITED  world->is_futile() has returned true
 *   COHORT_INVALID         the environment has a setting that is not allowed
 *   COHORT_NCCL, COHORT_CUDA, COHORT_NO_MEMORY, COHORT_SYSTEM  a call failed
 */
int connect_ranks(const struct platform *platform, struct new_rank *ranks,
                  int n, const struct connect_world *world,
                  const struct comm_config *config, size_t words,
                  const struct patience *patience, const char *name);

/* Abort the communicators of the connected ranks among the @n at @ranks, and
 * free their device resources, on the calling thread, whose current device does
 * not change. */
void connect_discard(const struct platform *platform,
                     const struct new_rank *ranks, int n);

/* A rank that takes part in a split: its arguments and its result. */
struct split_rank {
	int device;
	ncclComm_t parent;
	int color; /* color of the split, or NCCL_SPLIT_NOCOLOR */
	int key;

	/* True if the rank's native call has failed; the members below are then
	 * not set. */
	bool has_failed;

	/* The rank's new communicator.  If it has no native communicator, the
	 * rank is in no new clique. */
	struct connected connected;
	int rank; /* the rank's number in its new clique */
	int size; /* number of ranks in the new clique */
};

struct clique;
struct connection;

/*
 * Start ncclCommSplit() for all of @parent's ranks, in one group on a separate
 * thread; wait with connect_is_done().  If the split fails, the caller must end
 * @parent.  NCCL's abort of a communicator writes to the abort flags of the
 * children that a failed split has made of it, so the children are left to the
 * parent's reaper (clique_leave_orphans()).
 */
int connect_split(struct clique *parent, const struct split_rank *ranks,
                  struct connection **out);

/* Return true if the split is done.  Waits up to a few milliseconds for it. */
bool connect_is_done(struct connection *connection);

/* Return the index of the rank for which the connecting thread is in a CUDA
 * call, and write that call to @text: "cudaMalloc on device 2".  Return -1 if
 * the thread may be in NCCL. */
int connect_place(const struct connection *connection, char *text, size_t size);

/* Return the NCCL function that the connecting thread is in, if it is in
 * one. */
const char *connect_native_name(const struct connection *connection);

/*
 * Finish a split that is done, free @connection, and return the split's status.
 * On success, store the results in @ranks.  On an error in one rank's call, set
 * that rank's has_failed.
 */
int connect_end(struct connection *connection, struct split_rank *ranks);

/* Abandon a split.  The connecting thread then frees @connection and everything
 * that it has created. */
void connect_abandon(struct connection *connection);

#endif
