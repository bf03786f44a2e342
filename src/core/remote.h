/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_REMOTE_H
#define CORE_REMOTE_H

/*
 * Interface to the ranks of a clique that run in other processes
 *
 * src/processes implements it.  A group of one process does not use it.
 */

#include <stdbool.h>
#include <stdint.h>

#include <cohort/types.h>

struct clique;
struct cohort_comm;
struct cohort_cause;
struct text;

/* Buffer size for the name of an operation: "all_reduce 3 of "dp.1"". */
#define WAITS_CALL 128

/* An operation that a rank of another process may not have called.  Processes
 * exchange this structure. */
struct missing {
	/* Identity of the clique; 0 if there is no operation. */
	uint64_t identity;

	uint64_t number;      /* number of the collective or transfer */
	uint32_t is_transfer; /* 1 for a transfer, 0 for a collective */
	/* For a transfer: 1 if @rank sends to @other, 0 if @rank receives from
	 * @other. */
	uint32_t sends;
	int32_t rank, other;

	/* Time since the first rank called the operation, or 0 if unknown. */
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

/* Return a question about what rank @rank does while rank @other waits for it.
 * The question names a receive that does not exist, because the answer to such
 * a question says what the rank does instead. */
static inline struct missing missing_any(uint64_t identity, int rank, int other,
                                         uint64_t age_ns)
{
	return (struct missing){ .identity = identity,
		                 .number = UINT64_MAX,
		                 .is_transfer = true,
		                 .rank = rank,
		                 .other = other,
		                 .age_ns = age_ns };
}

/* State of a rank of another process: its progress in the oldest collective in
 * flight, or in its half of a transfer. */
struct remote_rank {
	int rank;
	int world; /* the rank's number in the root group */

	/* Reason why the rank is at fault (enum cohort_verdict_kind), or 0. */
	int kind;
	int joined;    /* true if the rank has called the operation */
	int is_behind; /* true if an older collective is not done */
	int is_done;   /* true if the rank's half of the transfer is done */
	int is_closed; /* true if the rank's communicator is closed */
	/* True if the rank's communicator has ended with a cause, or another one
	 * because of the order of calls.  This process will soon receive the
	 * cause, too. */
	int is_over;
	/* True if the whole process is at fault, which @text then describes. */
	int is_process;

	/*
	 * Chain of waits from the rank to another rank; valid if @waits is
	 * true.  Ranks are numbered in the root group.
	 *
	 *  waiters   ranks of this process in the chain
	 *  in_cycle  true if the ranks in @waiters wait for each other
	 *  from      first rank of @waiters that waits for @end
	 *  in        name of the operation in which @from waits
	 *  end       rank at the end of the chain, or of the cycle; -1 if the
	 *            chain continues in another process
	 *  end_kind  reason why @end is at fault
	 *  missed    name of the operation that @end has not called
	 *  waits_in  operation with which the chain continues if @end is -1
	 */
	int waits, in_cycle;
	uint64_t waiters[COHORT_RANK_WORDS];
	int from, end, end_kind;
	struct missing waits_in;
	int way; /* enum wait_way */
	char in[WAITS_CALL];
	char missed[WAITS_CALL];

	/* If the rank has called a collective of another communicator before
	 * this one, or waits for it instead: that collective, and the ranks
	 * that are in both communicators.  If two threads of the rank have made
	 * the two calls, only .identity is set.  Otherwise .identity is 0. */
	struct missing before;
	uint64_t members[COHORT_RANK_WORDS];

	/* Agreement word (agree_word()) if the rank has called the oldest
	 * collective; otherwise 0. */
	uint64_t word;
	char call[160];  /* description of the call, or "" */
	char brief[160]; /* short description of the rank, or "" */
	char text[400];  /* description of the rank */
};

/* Return a description of the rank for one line of a report. */
static inline const char *remote_words(const struct remote_rank *x)
{
	return *x->brief ? x->brief : x->text;
}

struct remote_call {
	int rank;
	int world;     /* number in the root clique, or -1 if unknown */
	uint64_t word; /* agreement word, see agree_word() */
	char call[160];
};

/* Progress of one collective on the ranks of other processes. */
struct remote_state {
	/* Number of these ranks that have called the collective, or -1 if this
	 * process cannot see the calls of some of them. */
	int called;
	uint64_t last_ns;    /* time of the last of these calls, or 0 */
	bool has_left;       /* a rank will never call the collective */
	bool has_closed;     /* a rank makes no further call */
	bool is_paused;      /* a rank is paused */
	uint64_t resumed_ns; /* time at which a rank last resumed, or 0 */
};

enum remote_event {
	REMOTE_CLOSED,
	REMOTE_PAUSED,
	REMOTE_RESUMED,
	REMOTE_LEAVING, /* this process closes the rank's group */
	REMOTE_NOTED,   /* completed operations were recorded for a close */
};

/* A constant table of functions for a group of several processes; see
 * clique->remote. */
struct remote {
	/*
	 * Maximum time to wait for answers and snapshots of other processes.
	 * Processes that are stopped or have left are not waited for.  Any
	 * other process may take hundreds of milliseconds on a busy machine,
	 * until its thread gets a core.  Without the answer, a verdict could
	 * blame a rank that itself waits for another.
	 */
	uint64_t patience_ns;

	/* Publish the time of the call of collective @number by a rank of this
	 * process.  Called before the rank is counted in the shared word. */
	void (*announce)(const struct clique *q, uint64_t number,
	                 uint64_t now_ns);

	/* Return true if a rank of another process has made a call @number
	 * whose digest is not @digest. */
	bool (*differs)(const struct clique *q, uint64_t number,
	                uint32_t digest);

	/* Ask the other processes for their ranks' calls with number @number,
	 * see @ask.  Return the number of calls stored, which is at most
	 * @room. */
	int (*calls)(const struct clique *q, uint64_t number,
	             struct remote_call *out, int room);

	/* Return the progress of collective @number on the other processes'
	 * ranks; if @number is 0, set only the members that do not depend on
	 * the collective.  Reads shared memory only. */
	struct remote_state (*get_state)(const struct clique *q,
	                                 uint64_t number);

	/* Return the number of rank @rank in the root clique, or -1 if it is
	 * unknown. */
	int (*world)(const struct clique *q, int rank);

	/* Publish an event of a rank of this process.  For REMOTE_RESUMED, set
	 * the clique's resumed_ns first. */
	void (*publish_event)(const struct cohort_comm *c,
	                      enum remote_event event);

	/*
	 * Ask the other processes for the state of their ranks in the operation
	 * @question.  May be called from any thread.  Waits until all processes
	 * have replied, for up to @patience_ns, or until @of gets a cause.
	 * Does not wait for stopped processes.  At most four cliques ask at a
	 * time; other cliques wait.
	 * @of:     clique of the question, or NULL if this process does not
	 *          have it
	 * @out:    room for @room ranks, of which a process sends at most 32
	 * @silent: names of the processes that have not replied are appended:
	 *          "process 1 (pid 4711), process 2 (host b, pid 4712)"
	 *
	 * Returns the number of ranks stored.
	 */
	int (*ask)(const struct remote *remote, const struct clique *of,
	           const struct missing *question, struct remote_rank *out,
	           int room, struct text *silent);

	/*
	 * Send the cause of @q to the other processes, unless they know it or
	 * @q got it from its parent.  Called on a thread of the library.
	 *
	 * If @deadline_ns is not 0, also publish that this process has recorded
	 * its completed operations, and wait until the other processes have
	 * done so, or until @deadline_ns.  The caller must not raise an abort
	 * flag before this function returns, because an aborted NCCL kernel
	 * sends whatever data it has, and a kernel of another process may then
	 * complete with wrong data and no error.  A process that is stopped
	 * when this function returns may later record such an operation as
	 * done.
	 */
	void (*send_cause)(const struct clique *q,
	                   const struct cohort_cause *cause,
	                   uint64_t deadline_ns);

	/* Release the shared memory in which @q publishes its state.  Called
	 * when @q is freed. */
	void (*release)(struct clique *q);
};

#endif
