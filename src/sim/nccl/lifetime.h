/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_NCCL_LIFETIME_H
#define SIM_NCCL_LIFETIME_H

/*
 * Strict mode: communicators that are used by two threads at once, or freed too
 * early
 *
 * A communicator is not given back when it is freed, but buried: kept, with
 * another magic number, so that its use is seen for certain.
 */

#include <stdint.h>

#include "base/atomics.h"

struct ncclComm;
struct world;

/* What strict mode keeps of a communicator. */
struct lifetime {
	/* Atomic; the number of the thread that is inside, 0: nobody. */
	_Atomic uint64_t inside;

	/* Atomic; the function that it went in with, and the one that released
	 * the communicator.  NULL or a literal. */
	const char *_Atomic entered_by;
	const char *_Atomic released_by;

	/* Atomic; the child that is being made of the communicator, or whose
	 * making has failed.  As in NCCL, an abort of the communicator writes
	 * to the child's flags. */
	struct ncclComm *_Atomic child;

	/* Owned by the thread that is inside: the next communicator that it is
	 * inside of. */
	struct ncclComm *next_inside;

	/* Constant once buried. */
	struct ncclComm *next_buried;
};

/* After strict_init(); does something once, if strict mode is on. */
void lifetime_init(void);

/* For use in strict mode only; @function is the one that was called. */

/* The calling thread goes inside @comm; lifetime_leave(): it leaves all
 * communicators that it is inside of. */
void lifetime_enter(struct ncclComm *comm, const char *function);
void lifetime_leave(void);

/* The calling thread opens a group; @depth is 0 when none is open any more, and
 * lives as long as the thread. */
void lifetime_open_group(int *depth);

/* @comm must have no work outstanding.  Called before lifetime_enter(). */
void lifetime_check_idle(const struct ncclComm *comm, const char *function);

/* @comm is aborted or destroyed; the calling thread leaves it. */
void lifetime_release(struct ncclComm *comm, const char *function);

/* @comm is aborted or destroyed and has met: on one world there must not be
 * ranks that are aborted and ranks that are destroyed with work in flight. */
void lifetime_check_mixed(const struct world *world,
                          const struct ncclComm *comm, const char *function);

/* All ranks are released, and @world is about to be freed: before its work is
 * waited for, and after. */
void lifetime_check_free(const struct world *world, const char *function);
void lifetime_check_buffers(struct world *world, const char *function);

/* @comm is about to be aborted: a child that it failed to make must still be
 * there. */
void lifetime_check_child(const struct ncclComm *comm, const char *function);

/* Keep a communicator that is freed: lifetime_buried() (census.h) counts
 * them. */
void lifetime_bury(struct ncclComm *comm);

/* A communicator that was buried is used. */
void lifetime_used(const struct ncclComm *comm, const char *function)
	__attribute__((noreturn));

#endif
