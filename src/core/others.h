/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_OTHERS_H
#define CORE_OTHERS_H

/*
 * What the ranks of other processes have called: the words that the ranks of a process
 * share (agree_words.h), where other processes of the machine can read them
 *
 * The first rank of a process that calls a collective compares it with what other
 * processes have called under the same number; the process's other ranks are compared
 * with the first.
 *
 *  A. Of two processes that call differently, at least one sees it before it launches:
 *     each is counted in its own word before it looks at the other's.
 *  B. What another process shows is not trusted.  Wrong words can end the clique, or
 *     keep its deadlines from passing, and nothing else.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <cohort/types.h>

struct clique;

/* A clique with more slots is not compared with other processes. */
#define CALL_WORDS 2048

/* The words of a clique in one process, for others to read. */
struct call_words {
	/* The clique's, even after that was freed, until another one takes these words; 0 if
	 * they are nobody's.  Release and acquire: the rest. */
	_Atomic uint64_t identity;

	_Atomic uint64_t slots;
	_Atomic uint64_t ranks; /* of the clique, in that process */
	_Atomic uint64_t members[COHORT_RANK_WORDS]; /* the set of them */

	/* The set of their numbers in the clique that has no parent, or no number if these
	 * have another order. */
	_Atomic uint64_t worlds[COHORT_RANK_WORDS];

	/* The first collective that a rank there will never call, as it has closed its
	 * communicator; 0: none has. */
	_Atomic uint64_t never;

	/* How many ranks there are paused, and when the last one went on; see struct
	 * clique. */
	_Atomic uint64_t paused;
	_Atomic uint64_t resumed_ns;

	_Atomic uint64_t words[CALL_WORDS];

	/* The time of the last call that each word counts.  Written before the call is
	 * counted. */
	_Atomic uint64_t called_ns[CALL_WORDS];
};

/* What a rank has called under some number. */
struct voice {
	int rank;
	int world; /* its number in the clique that has no parent; -1 if not known */
	uint64_t word; /* see agree_word() */
	char call[160];
};

struct others {
	/* Constant: how many processes there are, how many ranks of the clique are in
	 * others than this one, and what this process shows. */
	int processes;
	int ranks;
	struct call_words *own;

	/* The words of @q in process @i; NULL: there are none, or not yet. */
	const struct call_words *(*find)(struct others *o,
	                                 const struct clique *q, int i);

	/* What the other processes' ranks have called under @number, which waits for
	 * their answers for some time.  Returns how many have, at most @room. */
	int (*ask)(struct others *o, const struct clique *q, uint64_t number,
	           struct voice *out, int room);

	/* Have the other processes look at this one's words. */
	void (*ring)(struct others *o);

	/* The clique is freed, and its words may be taken for another one. */
	void (*release)(struct others *o);

	/* Atomic; the words of all have been found; and by process its words, and whether
	 * it has closed its group. */
	atomic_bool has_all;
	struct {
		const struct call_words *_Atomic words;
		atomic_bool has_left;
	} of[];
};

/* True if a rank of another process has called something else than @digest says under
 * @number, or if these ranks' calls differ among themselves. */
bool others_differ(const struct clique *q, uint64_t number, uint32_t digest);

/* How many ranks of other processes have called @number, and when the last of them has;
 * -1: that cannot be seen of all. */
int others_called(const struct clique *q, uint64_t number, uint64_t *last_ns);

/* The number that rank @rank of another process has in the clique that has no parent; -1 if
 * that is not known. */
int others_world(const struct clique *q, int rank);

/* True if a rank of another process will never call @number, as it has closed its
 * communicator, or its process the group. */
bool others_have_left(const struct clique *q, uint64_t number);

/* True if such a rank makes no further call, whatever it has called. */
bool others_have_closed(const struct clique *q);

/* True if a rank of another process is paused.  @resumed_ns: raised to when one resumed. */
bool others_are_paused(const struct clique *q, uint64_t *resumed_ns);

/* A rank calls @number: before it is counted in its word. */
void others_tell_time(const struct clique *q, uint64_t number, uint64_t now_ns);

/*
 * Show the other processes what a rank of this one does
 *
 * others_show_closed  - after it has closed its communicator, or could not
 * others_show_paused  - it is paused
 * others_show_resumed - it has resumed, after the clique's resumed_ns was set
 */
void others_show_closed(const struct clique *q);
void others_show_paused(const struct clique *q);
void others_show_resumed(const struct clique *q);

#endif
