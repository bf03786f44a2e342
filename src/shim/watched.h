/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHIM_WATCHED_H
#define SHIM_WATCHED_H

/*
 * The communicators of a program that runs under cohort watch, and the records
 * of their calls
 *
 * The loader loads this library in place of NCCL (loader_audit.c), and NCCL
 * itself as a dependency of this library.  This library defines only the
 * functions that are recorded (nccl_wrappers.c).  All other functions are found
 * in NCCL, even functions that are newer than this library.
 *
 * Recording a call takes no lock and makes no system call.  Creating and
 * destroying communicators takes a lock.
 *
 * If cohort watch requests it, a thread of this library aborts all
 * communicators.  NCCL ends their work on the devices, but frees nothing,
 * because threads may be inside calls.  So the program may still use them: its
 * calls fail, and destroying them does nothing.
 */

#include <stdbool.h>
#include <stdint.h>

#include "platform/cuda_abi.h"
#include "platform/nccl_abi.h"
#include "shim/shared_calls.h"

/* Calls to a communicator that one native call launches. */
struct watched_calls {
	uint64_t first, last; /* tickets of these calls */
	uint64_t collectives; /* number of collectives */
	cudaStream_t stream;  /* stream of the last call */
};

/* A communicator of this process. */
struct watched {
	/* Atomic; reference count: 1 while the communicator is open, and 1 for
	 * each struct member with calls to it. */
	atomic_int users;
	atomic_bool is_aborted;
	int number; /* number of its entry in shared memory */
	struct shared_rank *shared;
	struct recorder recorder; /* its memory is in @shared */
	uint64_t last, collectives;
	uint64_t splits, shrinks; /* number of these calls */
	/* The announced rank of a communicator that NCCL is still creating from
	 * this one, and where NCCL will store that communicator; or NULL. */
	struct watched *child;
	ncclComm_t *child_comm;
	void *context; /* the device's CUcontext, for marks; or NULL */
};

/* Return the struct watched of @comm, or NULL if it is not watched. */
struct watched *watched_find(ncclComm_t comm);

/*
 * Announce a rank that this thread is about to create.  Return NULL if the
 * program is not watched or there is no room.
 *
 * @rank:  -1 if it is not known yet
 * @ranks: number of ranks, or -1
 */
struct watched *watched_open(uint64_t identity, uint64_t parent, int rank,
                             int ranks, const char *name);

/* Store properties of the rank; -1 if a property is not known. */
void watched_describe(struct watched *w, int rank, int ranks, int device);

/* Store the communicator of an announced rank.  If @comm is NULL, the rank was
 * not created, so drop the announcement. */
void watched_opened(struct watched *w, ncclComm_t comm);

/* Forget @comm, which the program is destroying or aborting.  Return its struct
 * watched, which the caller releases with watched_put(), or NULL if @comm is
 * not watched.  The last watched_put() closes its entry. */
struct watched *watched_take(ncclComm_t comm);

/* Acquire a reference, because one thread may abort a communicator while
 * another thread is inside a call to it. */
void watched_hold(struct watched *w);

/* Release a reference.  Releasing the last one closes the entry and frees
 * @w. */
void watched_put(struct watched *w);

/* Start the thread that aborts all communicators each time that cohort watch
 * requests it.  Does nothing if cohort watch makes no such requests, or if this
 * process already has the thread. */
void watched_start_aborter(void);

/* Abort @comm in a group that is never ended.  NCCL ends the work on the
 * devices, but does not free the communicator.  Defined in nccl_wrappers.c. */
void watched_abort(ncclComm_t comm);

/* Record the start of a call, and return its ticket. */
uint64_t watched_begin(struct watched *w, const struct op *op);

/* Record that the call to NCCL that launches @c has returned @result.  If it is
 * ncclSuccess, the calls are done once their stream reaches this point.
 * With any other result, or if streams are not marked, the calls count as done
 * as soon as all older calls are done.  Calls that have failed or were captured
 * into a graph are not counted, because other ranks need not wait for them. */
void watched_end(struct watched *w, const struct watched_calls *c,
                 ncclResult_t result);

#endif
