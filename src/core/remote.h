/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_REMOTE_H
#define CORE_REMOTE_H

/*
 * What the library asks about the ranks of a clique that other processes drive:
 * the one way from here to src/processes, of which nothing runs in a group of
 * one process
 */

#include <stdbool.h>
#include <stdint.h>

#include <cohort/types.h>

struct clique;
struct cohort_cause;
struct text;

/* The name of an operation: "all_reduce 3 of "dp.1"". */
#define WAITS_CALL 128

/* An operation that a rank of another process may not have called.  It is sent
 * to others. */
struct missing {
	uint64_t identity; /* of the clique; 0: none */

	/* The number of the collective; or, if .is_transfer, of the half that
	 * .rank sends to .other, or receives from it. */
	uint64_t number;
	uint32_t is_transfer;
	uint32_t sends;
	int32_t rank, other;

	/* How long ago the first rank called it, in ns; 0: not known.  What
	 * ended before explains no wait. */
	uint64_t age_ns;
};

static inline bool is_same_missing(const struct missing *a,
                                   const struct missing *b)
{
	return a->identity == b->identity && a->number == b->number &&
	       a->is_transfer == b->is_transfer &&
	       (!a->is_transfer ||
	        (a->sends == b->sends && a->rank == b->rank &&
	         a->other == b->other));
}

/* What a rank of another process says that it is doing about the front, or
 * about its half of a transfer. */
struct remote_rank {
	int rank;
	/* What it is at fault for, if it is: enum cohort_verdict_kind. */
	int kind;
	int joined;     /* it has called that */
	int is_behind;  /* an older collective is not done in its process */
	int is_done;    /* its half */
	int is_held;    /* its thread waits for a ticket, or is inside a call */
	int is_process; /* its whole process is at fault; text is about that */
	int is_closed;  /* its communicator is */
	int world;      /* its number in the group that all was split from */

	/* If it waits elsewhere, all by numbers in that group: the ranks of its
	 * process that wait for each other, in a cycle if .in_cycle; .from of
	 * them waits in what .in says, for rank .end, which waits for nobody
	 * and is at fault for .end_kind, or is part of the cycle; or, if .end
	 * is -1, for ranks of other processes in what .waits_in says. */
	int waits, in_cycle;
	uint64_t waiters[COHORT_RANK_WORDS];
	int from, end, end_kind;
	struct missing waits_in;
	int way; /* enum wait_way */
	char in[WAITS_CALL];
	/* What the rank that it waits for has not called. */
	char missed[WAITS_CALL];

	/* The sends and the receives of the rank that asks, by number in their
	 * pair, that this rank's stream or call waits for; 0: none. */
	uint64_t awaits_send, awaits_recv;

	uint64_t word;  /* if it has called the front: see agree_word(); or 0 */
	char call[160]; /* if it has: the call */
	char brief[160]; /* see render_brief(); or "" */
	char text[400];  /* see describe_rank(), or stall_add_half() */
};

/* What a line says of the rank. */
static inline const char *remote_words(const struct remote_rank *x)
{
	return *x->brief ? x->brief : x->text;
}

/* What a rank of another process has called under some number. */
struct remote_call {
	int rank;
	/* Its number in the clique that has no parent; -1 if not known. */
	int world;
	uint64_t word; /* see agree_word() */
	char call[160];
};

/* What the ranks of other processes do about a collective. */
struct remote_state {
	/* How many have called it; -1: that cannot be seen of all. */
	int called;
	uint64_t last_ns; /* when the last of them did, 0: none did */
	/* One will never call it, as it, or its process, has left. */
	bool has_left;
	bool has_closed; /* one makes no further call, whatever it has called */
	bool is_paused;  /* one is paused */
	uint64_t resumed_ns; /* when one went on last, 0: none did */
};

enum remote_event { REMOTE_CLOSED, REMOTE_PAUSED, REMOTE_RESUMED };

/* Constant; clique->remote, or NULL in a group of one process. */
struct remote {
	/* How long the others may take to answer, or to note what was done. */
	uint64_t patience_ns;

	/* A rank here calls collective @number: before it is counted in its
	 * word. */
	void (*announce)(const struct clique *q, uint64_t number,
	                 uint64_t now_ns);

	/* True if a rank of another process has called something else than
	 * @digest says under @number, or if these ranks' calls differ among
	 * themselves. */
	bool (*differs)(const struct clique *q, uint64_t number,
	                uint32_t digest);

	/* Ask what they have called under @number, which waits for their
	 * answers for some time.  Returns how many have, at most @room. */
	int (*calls)(const struct clique *q, uint64_t number,
	             struct remote_call *out, int room);

	/* What they do about @number, from memory; 0: no collective. */
	struct remote_state (*look)(const struct clique *q, uint64_t number);

	/* The number that rank @rank of another process has in the clique that
	 * has no parent; -1 if that is not known. */
	int (*world)(const struct clique *q, int rank);

	/* Show what a rank here has done: after it has closed its communicator,
	 * or could not; it is paused; it has resumed, after the clique's
	 * resumed_ns was set. */
	void (*show)(const struct clique *q, enum remote_event event);

	/*
	 * Ask what their ranks are doing about @question, and store what they
	 * answer until @deadline_ns, or until @of has a cause, in @out, which
	 * has room for @room ranks.  About a collective a process answers for
	 * its first 32 ranks; and for none if it has no such clique, or not the
	 * rank that is asked.  Any thread, which waits.  Returns how many ranks
	 * there are.  Four cliques ask at a time, and others wait for these.
	 * @of:     the clique of the question; NULL: this process has none of
	 * that identity
	 * @silent: begun, and gets the processes that have not answered:
	 *          "process 1 (pid 4711), process 2 (host b, pid 4712)"
	 */
	int (*ask)(const struct remote *remote, const struct clique *of,
	           const struct missing *question, struct remote_rank *out,
	           int room, uint64_t deadline_ns, struct text *silent);

	/*
	 * Tell the others the cause of @q, unless it came from them or with its
	 * parent's end, or they know.  @deadline_ns, if it is not 0: also that
	 * what was done in @q is noted here, and wait until all that have a
	 * clique of the same identity have noted theirs, or until then.  On a
	 * thread of the library.
	 *
	 * An aborted kernel of NCCL's goes through its remaining steps without
	 * waiting, and sends whatever it has: a kernel of another process may
	 * then complete, with wrong data and no error.  So no flag is raised
	 * before all know that there is a cause.  A process that is stopped for
	 * longer than the others wait may take such a call for done.
	 */
	void (*tell)(const struct clique *q, const struct cohort_cause *cause,
	             uint64_t deadline_ns);

	/* @q is freed, and what it showed may be taken for another one. */
	void (*release)(struct clique *q);
};

#endif
