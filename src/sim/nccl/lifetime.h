/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_NCCL_LIFETIME_H
#define SIM_NCCL_LIFETIME_H

/*
 * Detects, in strict mode, a communicator that two threads use at the same time
 * or that is freed too early
 *
 * Strict mode keeps the memory of a freed communicator, marked with another
 * magic number, so that a later use is always detected.
 */

#include <stdint.h>

#include "base/atomics.h"

struct ncclComm;
struct world;

/* The state that strict mode keeps for a communicator. */
struct lifetime {
	/* Atomic; number of the thread that is using the communicator, or 0. */
	_Atomic uint64_t inside;

	/* Atomic; NCCL function that the thread in @inside called.  NULL or a
	 * string literal. */
	const char *_Atomic entered_by;

	/* Atomic; NCCL function that released the communicator.  NULL or a
	 * string literal. */
	const char *_Atomic released_by;

	/* Atomic; the child that is being created from this communicator, or
	 * whose creation failed.  As in NCCL, aborting the communicator writes
	 * to the child's flags. */
	struct ncclComm *_Atomic child;

	/* Next in the list of communicators that one thread is using.  Owned by
	 * that thread. */
	struct ncclComm *next_inside;

	/* Next destroyed communicator.  Constant once this communicator is
	 * destroyed. */
	struct ncclComm *next_destroyed;
};

/* Initialize the checks of this file if strict mode is on.  Call after
 * strict_init(); more than one call is harmless. */
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

/* End the program if some ranks of @world were aborted and others were
 * destroyed while they had work in flight.  @comm is the communicator that is
 * being released. */
void lifetime_check_mixed(const struct world *world,
                          const struct ncclComm *comm, const char *function);

/* End the program if a thread or graph still uses a communicator of @world.
 * Called when all its ranks have been released, before waiting for their
 * work. */
void lifetime_check_free(const struct world *world, const char *function);

/* End the program if a thread may still be accessing buffers of @world.  Called
 * after the work of @world is done, before it is freed. */
void lifetime_check_buffers(struct world *world, const char *function);

/* End the program if creating a child of @comm failed and the child has already
 * been released.  Called before @comm is aborted. */
void lifetime_check_child(const struct ncclComm *comm, const char *function);

/* Add a freed communicator to the list of destroyed communicators.
 * lifetime_destroyed_count() (census.h) returns their number. */
void lifetime_add_destroyed(struct ncclComm *comm);

/* End the program because a destroyed communicator was used. */
void lifetime_used(const struct ncclComm *comm, const char *function)
	__attribute__((noreturn));

#endif
