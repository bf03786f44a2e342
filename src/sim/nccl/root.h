/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_NCCL_ROOT_H
#define SIM_NCCL_ROOT_H

/*
 * How ranks of several processes meet by a unique id
 *
 * As in NCCL, the process that makes an id has a thread for it, the root, to
 * which every rank connects, those of that process as well: by a socket without
 * a name in the file system, that only the same user's processes may use.  Once
 * all have come the root hands each the segment and the memory of all
 * processes.
 *
 * A rank that hangs up before that leaves the meeting for good, so that an
 * answer tells for certain whether the others have met with it or without.
 */

#include "platform/nccl_abi.h"
#include "sim/nccl/segment.h"

/* An id: of which process, and its number there. */
struct root_id {
	uint64_t process;
	uint64_t number;
};

/* What a rank is told.  @segment is its use of it; NULL with a @result other
 * than ncclSuccess, which @why explains. */
struct root_answer {
	ncclResult_t result;
	const char *why;
	struct segment *segment;
	uint64_t area; /* of the communicator */
};

/* Be the root of an id of this process; false without memory or threads. */
bool root_open(uint64_t number);

/* Come to the root of @id, for a communicator of @n ranks; @list is a hash of
 * the rank's further ids, in which all must agree.  Returns a descriptor, or -1
 * if there is no such root, with *@answer why. */
int root_come(const struct root_id *id, int n, int rank, int device,
              uint64_t list, struct root_answer *answer);

/* Let the root of an id that stays unused end. */
void root_dismiss(const struct root_id *id);

/* True if the root has answered.  root_leave(): ask it to answer now. */
bool root_ask(int fd, struct root_answer *answer);
void root_leave(int fd);

#endif
