/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_NCCL_ROOT_H
#define SIM_NCCL_ROOT_H

/*
 * Connects the ranks of several processes that join by a unique id
 *
 * As in NCCL, the process that creates an id runs a thread for it, called the
 * root.  Every rank, even one in the same process, connects to the root.  The
 * connections use an abstract Unix socket that is open only to processes of the
 * same user.  Once all ranks have arrived, the root sends each of them the
 * shared segment and the memory of all processes.
 *
 * A rank that closes its side of the connection before that has left
 * permanently.  The root still replies, either that the rank has left or that
 * all ranks have joined.
 */

#include "platform/nccl_abi.h"
#include "sim/nccl/segment.h"

/* The reason why a rank cannot join, or ANSWER_MET if it has joined. */
enum answer_code {
	ANSWER_MET,
	ANSWER_LEFT, /* the rank itself has left */
	ANSWER_SPOILED,
	ANSWER_COUNT,
	ANSWER_IDS,
	ANSWER_TWICE,
	ANSWER_DEVICE,
	ANSWER_PROCESSES,
	ANSWER_MEMORY,
	ANSWER_GONE,
};

/* Store the text of @code for ncclGetLastError(), and return the NCCL
 * result. */
ncclResult_t answer_error(enum answer_code code);

/* A unique id: the process that created it, and its number in that process. */
struct root_id {
	uint64_t process;
	uint64_t number;
};

/* The root's reply to a rank.  @segment is a reference that the rank owns, or
 * NULL if @result is an error.  @why explains the error. */
struct root_answer {
	ncclResult_t result;
	const char *why;
	struct segment *segment;
	uint64_t area; /* offset of the communicator's area in @segment */
};

/* Start the root of an id of this process.  Return false if out of memory or
 * threads. */
bool root_open(uint64_t number);

/*
 * root_connect - connect a rank to the root of an id
 * @n:      number of ranks of the communicator
 * @list:   hash of the rank's ids except the first; must be the same on all
 *          ranks
 * @answer: receives the reason if the rank cannot connect
 *
 * Returns a descriptor for root_poll_reply(), or -1 if the rank cannot connect.
 */
int root_connect(const struct root_id *id, int n, int rank, int device,
                 uint64_t list, struct root_answer *answer);

/* End the root of an id that will not be used. */
void root_dismiss(const struct root_id *id);

/* Return true if the root has replied, and store the reply. */
bool root_poll_reply(int fd, struct root_answer *answer);

/* Leave before all ranks have joined, and make the root reply immediately. */
void root_leave(int fd);

#endif
