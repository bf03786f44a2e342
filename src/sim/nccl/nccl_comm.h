/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_NCCL_NCCL_COMM_H
#define SIM_NCCL_NCCL_COMM_H

/*
 * Communicators: one ncclComm per rank, and the world they share
 *
 * As in NCCL, a communicator is used by one thread at a time, an abort raises
 * its flag at the call, and the memory of all ranks is freed by the last of
 * them to be aborted or destroyed.
 */

#include "platform/cuda_abi.h"
#include "sim/exec/world.h"
#include "sim/nccl/lifetime.h"
#include "sim/nccl/nccl_config.h"
#include "sim/nccl/nccl_error.h"
#include "sim/nccl/nccl_redop.h"
#include "sim/strict/strict.h"

struct ncclComm {
	/* Constant after creation. */
	uint64_t magic;
	ncclConfig_t config; /* with a value for each field */

	/* How many ranks; known before they have met. */
	int n;

	/* Guarded by the lock of all meetings: while it is to be made. */
	struct join *join;

	/* Atomic; how many may still look at it: its owner, until the world is
	 * freed, and threads that wait for it to meet or create its
	 * children. */
	atomic_int users;

	struct lifetime lifetime; /* for strict mode */

	/* Guarded by the kin's lock: a ring of those that are aborted together,
	 * a parent and the children that share its resources. */
	struct ncclComm *next_kin, *last_kin;

	/* Guarded by the kin's lock: the flag was raised for good, not by a
	 * pulse. */
	bool aborted_for_good;

	/* Atomic; what ncclCommGetAsyncError() answers: set by a scripted
	 * fault, and on a communicator that does not block by the group it is
	 * in and by what fails.  Release and acquire: a thread that sees a
	 * group done sees what the group did. */
	atomic_int async_error;

	/* Atomic; the background that does what it is in progress with, or
	 * NULL: written by the thread that uses the communicator, and taken by
	 * the thread that settles (background.c). */
	struct background *_Atomic background;

	/* Atomic; it was revoked; its release has begun.  Relaxed: for its
	 * owner. */
	atomic_bool revoked;
	atomic_bool ending;

	/* Atomic; how many nodes of graphs, executable ones too, use it: it is
	 * freed only when they are destroyed.  The last decrement releases
	 * their use. */
	_Atomic uint64_t captured;

	/* Guarded by lock. */
	pthread_mutex_t lock;
	struct registration *registered; /* buffers and windows */

	/* What its launches need: see world.h. */
	struct member member;

	/* Owned by the thread that uses the communicator, which writes to it
	 * with every call: in no cache line with what other threads read. */
	_Alignas(CACHE_LINE) uint64_t operations; /* called, for faults */
	struct launch *open; /* of the group that is open, or NULL */
	struct stream *last; /* where the last launch went */
	bool finalized;
	bool connected; /* with COHORT_HOST_CONNECT=first: by a collective */

	struct redops redops;
};

/* The communicator that @member is part of. */
static inline struct ncclComm *comm_of(const struct member *member)
{
	return (struct ncclComm *)((uintptr_t)member -
	                           offsetof(struct ncclComm, member));
}

#define COMM_MAGIC UINT64_C(0x636f686f7274636d)
#define COMM_BURIED UINT64_C(0x627572696564636d)

/* False if @comm is NULL, freed (as far as can be told) or no communicator at
 * all; in strict mode a freed one ends the program.  @function is the one that
 * was called. */
bool comm_is_valid(const struct ncclComm *comm, const char *function);

/* A communicator to be, with one user, or NULL without memory. */
struct ncclComm *comm_create(int device, const ncclConfig_t *config);

/* One user more; one less, and the last one frees it. */
void comm_get(struct ncclComm *comm);
void comm_put(struct ncclComm *comm);

/* Let @child be aborted with @parent, and the other way round. */
void comm_make_kin(struct ncclComm *parent, struct ncclComm *child);

/* Register @registration (nccl_register.h) with @comm; and free a list of
 * them. */
void comm_register(struct ncclComm *comm, struct registration *registration);
void registered_free(struct registration *first);

/* Free a world with its ranks. */
void comm_free_world(struct world *world);

/* Raise the abort flags of @comm and its kin and let every thread see it.  Any
 * thread; no lock may be held. */
void comm_raise(struct ncclComm *comm);

/* A pulse: comm_pulse() raises the flags of @comm and its kin to end what is
 * under way, if anything is, and no more.  comm_quiesce() waits until that has
 * ended, of the kin too, and takes the flags back.  It is made of
 * comm_kin_is_cut(), which is true while anything of them is being cut short,
 * and comm_lower(), which takes the flags back. */
void comm_pulse(struct ncclComm *comm);
ncclResult_t comm_quiesce(struct ncclComm *comm);
bool comm_kin_is_cut(struct ncclComm *comm);
void comm_lower(struct ncclComm *comm);

/* True if children of @comm are its kin: if they are @configured to share its
 * resources, and it is not revoked. */
bool comm_shares(const struct ncclComm *comm, int configured);

/*
 * comm_use    - the first checks of a function that needs a communicator, in
 *               NCCL's order: it is one, it is not revoked, it is ready.  An
 *               error is also that of the open group
 * comm_ready  - only the last check: nothing is in progress, and nothing has
 *               failed on one that does not block.  An aborted one is ready
 * comm_answer - what the function answers in the end: @result; for a
 *               communicator that does not block its state, in which an error
 *               stays
 * comm_blocks - false if it does not block
 */
ncclResult_t comm_use(struct ncclComm *comm, const char *function);
ncclResult_t comm_ready(struct ncclComm *comm);
ncclResult_t comm_answer(struct ncclComm *comm, ncclResult_t result);
bool comm_blocks(const struct ncclComm *comm);

/* See world.h. */
static inline bool comm_has_work(const struct ncclComm *comm)
{
	return member_has_work(&comm->member);
}

static inline bool comm_is_aborted(const struct ncclComm *comm)
{
	return member_is_aborted(&comm->member);
}

#endif
