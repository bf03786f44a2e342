/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_NCCL_NCCL_JOIN_H
#define SIM_NCCL_NCCL_JOIN_H

/*
 * Ranks that meet to become communicators: those that join by a unique id, and
 * those of a communicator that is split or shrunk; or to make a window
 */

#include "sim/nccl/nccl_comm.h"

enum join_kind {
	JOIN_BY_ID,
	JOIN_ALL, /* ncclCommInitAll() */
	JOIN_SPLIT,
	JOIN_SHRINK,
	JOIN_WINDOW, /* all ranks make a window */
};

/* One rank that wants to join: a call in an open group. */
struct join {
	struct join *next; /* in the group */

	/* Constant once in the group. */
	enum join_kind kind;
	uint64_t process;  /* that has made the id; 0: it joins by none */
	uint64_t number;   /* of the id or the call, or of the parent's world */
	size_t list_count; /* how many follow: */
	/* The further ids (with the process of each, where ranks may be in
	 * several), or the ranks that are left out. */
	uint64_t *list;
	int n;     /* ranks that there could be, */
	int rank;  /* and which of them this is */
	int color; /* what is of one color is one communicator */
	int key;   /* its ranks are in this order, then in the old one */
	struct ncclComm *parent; /* a reference, or NULL */

	/* The communicator to be, a reference; NULL for a rank that is in none.
	 * A child is stored in @out when it is there. */
	struct ncclComm *comm;
	ncclComm_t *out;

	/* The window to be, and where to store it when it is made. */
	struct registration *window;
	ncclWindow_t *window_out;

	/* Atomic; set when another communicator of its group is aborted.  NULL
	 * where only its own ranks end it. */
	const atomic_bool *ended;

	/* From a scripted fault; 0 without one. */
	uint64_t until_ns;
	uint64_t script;

	/* Guarded by the lock of all meetings. */
	struct meeting *meeting; /* once it has arrived */
	bool left;               /* without the communicator */
};

/* Apply the scripted fault, if any, to @join, an init of @rank or a split
 * (@operation: see fault.h): an error, or the join takes longer. */
ncclResult_t join_strike(struct join *join, int rank, uint64_t operation);

/* Let all of a group arrive, or none if one cannot; then wait for the others
 * that are to come. */
ncclResult_t join_run(struct join *first);

void join_free(struct join *first);

#endif
