/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROCESSES_REMOTE_AGREEMENT_H
#define PROCESSES_REMOTE_AGREEMENT_H

/*
 * What the ranks of other processes have called: the words that the ranks of a
 * process share (agree_words.h), where other processes of the machine can read
 * them
 *
 * The first rank of a process that calls a collective compares it with what
 * other processes have called under the same number; the process's other ranks
 * are compared with the first.
 *
 *  A. Of two processes that call differently, at least one sees it before it
 *     launches: each is counted in its own word before it looks at the other's.
 *  B. Data from another process is untrusted: bad data can end the clique, or
 *     keep its deadlines from passing, but do no other harm.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <cohort/types.h>

struct clique;
struct peers;
struct remote;

/* A clique with more slots is not compared with other processes. */
#define CALL_WORDS 2048

/* The words of a clique in one process, for others to read. */
struct call_words {
	/* The clique's, even after that was freed, until another one takes
	 * these words; 0 if they are nobody's.  Release and acquire: the
	 * rest. */
	_Atomic uint64_t identity;

	_Atomic uint64_t slots;
	_Atomic uint64_t ranks; /* of the clique, in that process */
	_Atomic uint64_t members[COHORT_RANK_WORDS]; /* the set of them */

	/* The set of their numbers in the clique that has no parent, or no
	 * number if these have another order. */
	_Atomic uint64_t worlds[COHORT_RANK_WORDS];

	/* The first collective that a rank there will never call, as it has
	 * closed its communicator; 0: none has. */
	_Atomic uint64_t never;

	/* How many ranks there are paused, and when the last one went on; see
	 * struct clique. */
	_Atomic uint64_t paused;
	_Atomic uint64_t resumed_ns;

	_Atomic uint64_t words[CALL_WORDS];

	/* The time of the last call that each word counts.  Written before the
	 * call is counted. */
	_Atomic uint64_t called_ns[CALL_WORDS];
};

/* The table for core and watch; its patience is that of near processes. */
extern const struct remote remote_near;

/* Show the calls of @q, if some other process of the machine can see them.
 * Under the lock of @peers. */
void remote_agreement_show(struct peers *peers, struct clique *q);

/* The words of the clique with @identity in process @i, which have @slots
 * slots, 0: any number; NULL: there are none. */
const struct call_words *remote_agreement_words(const struct peers *peers,
                                                uint64_t identity,
                                                unsigned slots, int i);

/* Process @i, whose words have been found, has closed its group.  False: they
 * have not. */
bool remote_agreement_leave(const struct clique *q, int i);

#endif
