/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_NCCL_NCCL_JOIN_H
#define SIM_NCCL_NCCL_JOIN_H

/*
 * Joins: requests of ranks to create a communicator or a window together
 *
 * Ranks join by a unique id, to split or shrink a communicator, or to create a
 * window.
 */

#include "sim/nccl/nccl_comm.h"

enum join_kind {
	JOIN_BY_ID,
	JOIN_ALL, /* join by ncclCommInitAll() */
	JOIN_SPLIT,
	JOIN_SHRINK,
	JOIN_WINDOW, /* create a window; all ranks take part */
};

struct join {
	struct join *next; /* next join of the same group */

	/* Constant once added to the group. */
	enum join_kind kind;
	/* process that created the id, or 0 if there is no id */
	uint64_t process;
	/* number of the id, of the ncclCommInitAll() call, or of the parent's
	 * world */
	uint64_t number;
	size_t list_count; /* length of @list */
	/* Numbers of the other ids (each followed by the number of its process
	 * if ranks may be in several processes), or the excluded ranks. */
	uint64_t *list;
	int n;     /* number of ranks that may take part */
	int rank;  /* number of this rank among the ranks that may take part */
	int color; /* ranks of one color form one communicator */
	int key;   /* ranks are ordered by key, then by old rank */
	struct ncclComm *parent; /* a reference to the parent, or NULL */

	/* A reference to the new communicator, or NULL if the rank will not be
	 * in one.  The handle of a child is stored in *out once the child
	 * exists. */
	struct ncclComm *comm;
	ncclComm_t *out;

	/* The new window, and the address at which its handle is stored once
	 * the window exists. */
	struct registration *window;
	ncclWindow_t *window_out;

	/* Points to an atomic flag that is set if another communicator of the
	 * group was aborted or revoked.  NULL if an abort of another
	 * communicator does not end this join. */
	const atomic_bool *ended;

	/* Time at which a scripted fault's delay ends, or 0 if there is no
	 * delay. */
	uint64_t until_ns;
	/* Number of the script that the fault belongs to, or 0 if there is no
	 * fault. */
	uint64_t script;

	/* Guarded by meeting.c's lock. */
	struct meeting *meeting; /* NULL until the rank has arrived */
	bool left;               /* the rank left without joining */
};

/*
 * join_apply_fault - apply the scripted fault for an init or split, if any
 * @rank:      rank in the new communicator, or in the parent of a split
 * @operation: FAULT_INIT or FAULT_SPLIT (fault.h)
 *
 * Returns the error that the fault specifies, or ncclSuccess.  The fault can
 * also delay @join.
 */
ncclResult_t join_apply_fault(struct join *join, int rank, uint64_t operation);

/* Run all joins of one NCCL group, or none if one of them cannot run, and wait
 * for the other ranks. */
ncclResult_t join_run(struct join *first);

void join_free(struct join *first);

#endif
