/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_NCCL_LIFETIME_H
#define SIM_NCCL_LIFETIME_H

/*
 * Detects, in strict mode, a communicator that two threads use at once or that
 * is freed too early
 *
 * Strict mode keeps the memory of a freed communicator, with another magic
 * number, so that a later use is always detected.
 */

#include <stdint.h>

#include "base/atomics.h"

struct ncclComm;
struct world;

/* The state that strict mode keeps for a communicator. */
struct lifetime {
	/* Atomic; number of the thread that is using the communicator, or 0. */
	_Atomic uint64_t inside;

	/* Atomic; NCCL function that the current user called.  NULL or a string
	 * literal. */
	const char *_Atomic entered_by;

	/* Atomic; NCCL function that released the communicator.  NULL or a
	 * string literal. */
	const char *_Atomic released_by;

	/* Atomic; the child that is being created from this communicator, or
	 * whose creation failed.  As in NCCL, aborting the communicator writes
	 * to the child's flags. */
	struct ncclComm *_Atomic child;

	/* Next in the list of communicators that one thread is using.  Owned by
	 * this thread. */
	struct ncclComm *next_inside;

	/* Next destroyed communicator.  Constant once it is destroyed. */
	struct ncclComm *next_destroyed;
};

/* Initialize these checks if strict mode is on.  Call after strict_init(); more
 * than one call is harmless. */
void lifetime_init(void);

/*
 * The functions below are for strict mode only.  @function is the NCCL function
 * that the program called.
 */

/* Register the calling thread as the user of @comm. */
void lifetime_enter(struct ncclComm *comm, const char *function);

/* Unregister the calling thread from all communicators that it is using. */
void lifetime_leave(void);

/* Record that the calling thread has opened a group.  @depth points to the
 * thread's number of open groups, and must live as long as the thread. */
void lifetime_open_group(int *depth);

/* End the program if @comm has work outstanding.  Call before
 * lifetime_enter(). */
void lifetime_check_idle(const struct ncclComm *comm, const char *function);

/* Record that @comm was aborted or destroyed, and unregister the calling thread
 * from it. */
void lifetime_release(struct ncclComm *comm, const char *function);

/* End the program if some ranks of @world were aborted and others destroyed
 * with work in flight.  @comm is the communicator that is being released. */
void lifetime_check_mixed(const struct world *world,
                          const struct ncclComm *comm, const char *function);

/* Check a world whose ranks are all released, before waiting for its work.  No
 * thread or graph may still use a communicator of the world. */
void lifetime_check_free(const struct world *world, const char *function);

/* Check a world that is about to be freed, after its work is done.  No thread
 * may still access buffers. */
void lifetime_check_buffers(struct world *world, const char *function);

/* End the program if a child that @comm failed to create was released before
 * @comm is aborted. */
void lifetime_check_child(const struct ncclComm *comm, const char *function);

/* Add a freed communicator to the list of destroyed communicators.
 * lifetime_destroyed_count() (census.h) returns their number. */
void lifetime_add_destroyed(struct ncclComm *comm);

/* End the program because a destroyed communicator was used. */
void lifetime_used(const struct ncclComm *comm, const char *function)
	__attribute__((noreturn));

#endif
