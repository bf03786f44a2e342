/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_CONNECT_H
#define CORE_CONNECT_H

/*
 * Opening native communicators, and what their ranks need of the device, on a thread
 * of their own, so that a connection that never comes about, or a device that hangs,
 * is an error after its time, not a hang
 *
 * What that thread works on is its own and its caller's; if the caller has gone,
 * the thread takes back what it got in the end.
 */

#include <stdint.h>

#include "core/config.h"
#include "platform/platform.h"

/* What a rank gets. */
struct connected {
	ncclComm_t native;
	uint32_t *words; /* pinned, and 0 */
	cudaStream_t stream;
	cudaEvent_t event;
	void *barrier; /* an int32_t on the device, 0 */
};

/*
 * ncclCommInitAll() over @devices, or what that is with a @config that asks for
 * something; and the rest, with @words words.  COHORT_INIT_TIMEOUT after @timeout_ns;
 * COHORT_NCCL, COHORT_CUDA, COHORT_NO_MEMORY, COHORT_SYSTEM.  On error nothing is
 * open, and nothing stays so.
 */
int connect_all(const struct platform *platform, const int *devices, int n,
                const struct comm_config *config, size_t words,
                uint64_t timeout_ns, const char *name,
                struct connected *connected);

/* ncclCommInitRank() of one rank on @device, likewise. */
int connect_rank(const struct platform *platform, const ncclUniqueId *id,
                 int size, int rank, int device,
                 const struct comm_config *config, size_t words,
                 uint64_t timeout_ns, const char *name,
                 struct connected *connected);

/* Abort and give back what @n ranks on @devices have got, those with a communicator,
 * on the calling thread, whose device it leaves as it is. */
void connect_discard(const struct platform *platform, const int *devices, int n,
                     const struct connected *connected);

/* One rank of those that split together. */
struct split_rank {
	int device;
	ncclComm_t parent;
	int color; /* or NCCL_SPLIT_NOCOLOR */
	int key;

	bool has_failed; /* its native call has; then the rest says nothing */

	/* What comes of it; without a communicator: nothing. */
	struct connected connected;
	int rank; /* in that, */
	int size; /* and of how many */
};

struct clique;
struct connection;

/*
 * Begin ncclCommSplit() of all of @parent's ranks in one group, on a thread of its own;
 * it is the caller's to wait.
 *
 * NCCL's abort of a communicator whose split has failed writes to the abort flags of the
 * child.  So what is made of a split that fails is left to the parent's reaper
 * (clique_leave_orphans()): the caller must end the parent.
 */
int connect_split(struct clique *parent, const struct split_rank *ranks,
                  struct connection **out);

/* True if that is done, waiting for a moment. */
bool connect_is_done(struct connection *connection);

/* Which of the ranks the thread is at, with the communicators made and only their
 * devices to wait for, and in @text what it is in: "cudaMalloc on device 2".
 * -1: it may be in NCCL. */
int connect_place(const struct connection *connection, char *text, size_t size);

/* The end of one that is done: what came of it in @ranks, or why it failed, and there
 * whose call, if it was that of one. */
int connect_end(struct connection *connection, struct split_rank *ranks);

/* Leave one as it is: the thread takes back what comes of it. */
void connect_leave(struct connection *connection);

#endif
