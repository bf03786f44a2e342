/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOST_JOIN_H
#define HOST_JOIN_H

/*
 * Ranks that join a communicator one by one: ncclCommInitRank()
 */

#include "platform/host/comm.h"

/* One rank that wants to join: a call in an open group. */
struct join {
	struct join *next; /* in the group */
	ncclComm_t *out;
	uint64_t number; /* of the id */
	int n;
	int rank;
	int device;
	struct meeting *meeting; /* once it has arrived */

	/* Of a scripted fault, 0 without. */
	uint64_t until_ns;
	uint64_t script;
};

/* Let all of a group arrive, or none if one cannot; then wait for the others that
 * are to come, and store the communicators. */
ncclResult_t join_run(struct join *first);

void join_free(struct join *first);

#endif
