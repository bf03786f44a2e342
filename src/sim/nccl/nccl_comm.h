/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_NCCL_NCCL_COMM_H
#define SIM_NCCL_NCCL_COMM_H

/*
 * Communicators: one struct ncclComm per rank, and one struct world that the
 * ranks share
 *
 * As in NCCL, one thread at a time uses a communicator, an abort raises the
 * abort flag before the call returns, and the last rank to be aborted or
 * destroyed frees the memory of all ranks.
 */

#include "platform/cuda_abi.h"
#include "sim/exec/world.h"
#include "sim/nccl/lifetime.h"
#include "sim/nccl/nccl_redop.h"
#include "sim/strict/strict.h"

struct ncclComm {
	/* Constant after creation. */
	uint64_t magic;
	ncclConfig_t config; /* configuration, with a value in every field */

	/* Number of ranks.  It is known before all ranks have joined. */
	int n;

	/* The pending join, until the communicator is created; then NULL.
	 * Guarded by meeting.c's lock. */
	struct join *join;

	/* Atomic; reference count: one for the owner (until the world is
	 * freed), and one for each thread that waits until the communicator or
	 * its children are created. */
	atomic_int users;

	struct lifetime lifetime; /* state of strict mode's checks */

	/* Ring of communicators that are aborted together: a parent and the
	 * children that share its resources.  Guarded by nccl_comm.c's
	 * family_lock. */
	struct ncclComm *next_in_family, *prev_in_family;

	/* True if the abort flag was raised permanently, not by comm_pulse().
	 * Guarded by family_lock. */
	bool aborted_for_good;

	/* Atomic; result of ncclCommGetAsyncError().  Set by scripted faults
	 * and, if the communicator is nonblocking, also by its groups and by
	 * failures.  Stored with release and loaded with acquire, so that a
	 * thread that sees a group as done also sees its effects. */
	atomic_int async_error;

	/* Atomic; the background operation in progress, or NULL.  Set by the
	 * thread that uses the communicator, and cleared by the thread that
	 * waits for the operation (background.c). */
	struct background *_Atomic background;

	/* Atomic; true if ncclCommRevoke() was called.  Relaxed, because only
	 * the thread that uses the communicator reads it. */
	atomic_bool revoked;

	/* Atomic; true if ncclCommDestroy() or ncclCommAbort() was called.
	 * Relaxed, because only the thread that uses the communicator reads
	 * it. */
	atomic_bool ending;

	/* Atomic; number of graph nodes, including nodes of executable graphs,
	 * that use the communicator.  The communicator is freed only after all
	 * of them are destroyed.  Decremented with release, which orders a
	 * node's last use before the free. */
	_Atomic uint64_t captured;

	/* The following members are guarded by lock. */
	pthread_mutex_t lock;
	struct registration *registered; /* registered buffers and windows */

	/* State that is needed to run a launch; see world.h. */
	struct member member;

	/* Owned by the thread that uses the communicator.  That thread writes
	 * here on every call, so the members share no cache line with data that
	 * other threads read. */
	/* number of calls so far; a scripted fault selects a call by number */
	_Alignas(CACHE_LINE) uint64_t operations;
	struct launch *open; /* launch in the open group, or NULL */
	struct stream *last;
	bool finalized;
	/* true if connected for collectives (COHORT_HOST_CONNECT=first) */
	bool connected;

	struct redops redops;
};

/* Return the communicator that contains @member. */
static inline struct ncclComm *comm_of(const struct member *member)
{
	return (struct ncclComm *)((uintptr_t)member -
	                           offsetof(struct ncclComm, member));
}

#define COMM_MAGIC UINT64_C(0x636f686f7274636d)
#define COMM_DESTROYED UINT64_C(0x627572696564636d)

/* Return true if @comm is a live communicator: not NULL, not garbage and, as
 * far as can be detected, not freed.  In strict mode, a freed communicator ends
 * the program.  @function is the NCCL function that was called. */
bool comm_is_valid(const struct ncclComm *comm, const char *function);

/* Create a communicator with one reference.  It has not joined the other ranks
 * yet.  Return NULL if out of memory. */
struct ncclComm *comm_create(int device, const ncclConfig_t *config);

void comm_get(struct ncclComm *comm);

/* Release a reference.  Releasing the last one frees the communicator. */
void comm_put(struct ncclComm *comm);

/* Link @child and @parent, so that an abort of one aborts both. */
void comm_join_family(struct ncclComm *parent, struct ncclComm *child);

void comm_register(struct ncclComm *comm, struct registration *registration);

void registered_free(struct registration *first);

void comm_free_world(struct world *world);

/* Raise the abort flags of @comm and its family (see next_in_family), and wake
 * waiting threads so that they notice.  May be called from any thread that
 * holds no lock. */
void comm_raise(struct ncclComm *comm);

/* Raise the abort flags of @comm and its family (see next_in_family)
 * temporarily, to cut short the work in flight.  comm_quiesce() lowers the
 * flags again. */
void comm_pulse(struct ncclComm *comm);

/* Wait until the work that comm_pulse() cut short has ended, and lower the
 * abort flags. */
ncclResult_t comm_quiesce(struct ncclComm *comm);

/* Return true while work of @comm or its family (see next_in_family) is being
 * cut short. */
bool comm_family_is_cut(struct ncclComm *comm);

/* Lower the abort flags of @comm and its family (see next_in_family), except
 * flags that an abort raised. */
void comm_lower(struct ncclComm *comm);

/* Return true if a new child shares the resources of @comm and is aborted with
 * it.  @configured is splitShare or shrinkShare of @comm's configuration. */
bool comm_shares(const struct ncclComm *comm, int configured);

/* Do the first checks of an NCCL function that needs a communicator, in NCCL's
 * order: @comm is valid, not revoked, ready and initialized.  An error also
 * fails the open group. */
ncclResult_t comm_use(struct ncclComm *comm, const char *function);

/* Check that the state of @comm is ncclSuccess: no operation is in progress,
 * and none has failed.  An aborted communicator passes the check. */
ncclResult_t comm_ready(struct ncclComm *comm);

/* Return the result of an NCCL function: @result itself or, if @comm is
 * nonblocking, the state of @comm.  An error becomes the permanent state of a
 * nonblocking @comm. */
ncclResult_t comm_answer(struct ncclComm *comm, ncclResult_t result);

/* Return true unless @comm is a nonblocking communicator. */
bool comm_blocks(const struct ncclComm *comm);

/* ---- configurations (nccl_config.c) ------------------------------------ */

/*
 * config_parse - validate a configuration and fill in the defaults
 * @from: the program's configuration; may be of an older or newer NCCL
 * @out:  receives a value for every field
 *
 * Returns NULL on success, or the message for an ncclInvalidArgument.
 */
const char *config_parse(const ncclConfig_t *from, ncclConfig_t *out);

/* Apply the environment variable NCCL_COMM_BLOCKING, which overrides every
 * communicator's configuration. */
void config_override(ncclConfig_t *config);

/* ---- errors (nccl_error.c) --------------------------------------------- */

/* Store @text for ncclGetLastError() and return @result.  @text must stay valid
 * forever, as a string literal does. */
ncclResult_t comm_error(ncclResult_t result, const char *text);

const char *comm_last_error(void);

#endif
