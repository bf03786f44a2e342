/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROCESSES_REMOTE_AGREEMENT_H
#define PROCESSES_REMOTE_AGREEMENT_H

/*
 * Compares calls between processes: a process counts its ranks' calls in shared
 * words (agree_words.h) that other processes of the machine can read
 *
 * The first rank of a process that calls a collective compares its call with
 * the calls that other processes have made with this number.  The process's
 * other ranks compare theirs with the first rank's.
 *
 *  A. If two processes make different calls, at least one of them notices
 *     before it launches, because each is counted in its own word before it
 *     reads the other's.
 *  B. Data from another process is untrusted: bad data can end the clique, or
 *     keep its deadlines from expiring, but do no other harm.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <cohort/types.h>

struct clique;
struct peers;
struct remote;

/* Maximum number of slots of a clique whose calls are compared with the calls
 * of other processes. */
#define CALL_WORDS 2048

/* The calls of a clique's ranks in one process, for other processes to read. */
struct call_words {
	/* Identity of the clique, or 0 if these words were never used or are
	 * being reassigned.  It remains after the clique is freed, until
	 * another clique takes the words.  Stored with release and loaded with
	 * acquire, which orders the members below. */
	_Atomic uint64_t identity;

	_Atomic uint64_t slots;
	_Atomic uint64_t ranks; /* number of ranks in @members */
	/* Set of the clique's ranks in this process. */
	_Atomic uint64_t members[COHORT_RANK_WORDS];

	/* Numbers of these ranks in the root clique, in the order of
	 * @members. */
	_Atomic uint16_t worlds[COHORT_MAX_RANKS];

	/* Number of the first collective that a rank of the process will never
	 * call, because it has closed its communicator; or 0. */
	_Atomic uint64_t never;

	/* Number of paused ranks, and the time at which a rank last resumed;
	 * see struct clique. */
	_Atomic uint64_t paused;
	_Atomic uint64_t resumed_ns;

	_Atomic uint64_t words[CALL_WORDS];

	/* Time of the last call that is counted in each word.  Written before
	 * the call is counted. */
	_Atomic uint64_t called_ns[CALL_WORDS];
};

/* Table of functions for core and watch, with .patience_ns for processes on
 * this machine. */
extern const struct remote remote_near;

/* Publish the calls of @q if another process of this machine can read them.
 * The caller holds the lock of @peers. */
void remote_agreement_show(struct peers *peers, struct clique *q);

/* Return the words of the clique @identity in process @i; NULL if there are
 * none.
 * @slots: the number of slots that they must have, or 0 for any */
const struct call_words *remote_agreement_words(const struct peers *peers,
                                                uint64_t identity,
                                                unsigned slots, int i);

/* Return the number in the root clique of rank @rank, or -1 if the rank is not
 * in @words. */
int remote_agreement_world(const struct call_words *words, int rank);

/* Record that process @i has closed its group.  Return false if the process's
 * words are not found. */
bool remote_agreement_leave(const struct clique *q, int i);

#endif
