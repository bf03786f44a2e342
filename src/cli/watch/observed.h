/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_WATCH_OBSERVED_H
#define CLI_WATCH_OBSERVED_H

/*
 * The communicators of a program that runs under cohort watch
 *
 * Snapshots of the calls in shared memory have the library's format, so that
 * the library's functions can make verdicts from them.
 *
 * The files in this folder:
 *
 *	started.c         the processes: start, end, signals
 *	shared_read.c     the calls of a rank
 *	observed_waits.c  sends and receives, and ranks that wait elsewhere
 *	observed_stacks.c stacks of threads
 *	observed_differ.c calls that differ
 *	observed_life.c   creation and end of communicators
 *	observed_ranks.c  ranks, and their numbers in reports
 *	observed.c        communicators, their snapshots and verdicts
 *	observed_dump.c   dumps
 *	watch_main.c      the command: its options, the loop, the reports
 */

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "shim/shared_calls.h"
#include "watch/symbolizer.h"
#include "watch/verdict.h"

/* ---- started.c: the program and all processes that descend from it ------- */

/* A process that has a communicator. */
struct started_process {
	int64_t pid;
	int fd; /* pidfd of the process, or -1 */
	bool has_ended;
	int status; /* status from waitpid(), or -1 if unknown */
};

struct started {
	pid_t program;           /* pid of the program, or 0 after its end */
	int status;              /* exit status of the program */
	void (*on_sigpipe)(int); /* SIGPIPE's handler for the program */
	bool has_children;       /* set by the last started_reap() */
	struct started_process *processes;
	int n;
};

/*
 * Start the program @argv.
 * @variables: environment variables to add, as NAME=VALUE; ends with NULL
 * @mask:      signal mask of the program
 *
 * This process becomes the parent of the program's orphaned descendants.
 *
 * Return an enum cli_exit.  If it is not CLI_OK, an error was printed.
 */
int started_run(struct started *s, char **argv, const char *const *variables,
                const sigset_t *mask);

/* Reap children that have ended.  Return whether the program has ended. */
bool started_reap(struct started *s);

/* Return the state of process @pid, which is added if it is new.  The result
 * stays valid until the next call. */
const struct started_process *started_find(struct started *s, int64_t pid);

/* Return whether @pid is a descendant of this process. */
bool started_has(int64_t pid);

/* Send @signal to all descendants of this process. */
void started_signal(int signal);

/* ---- shared_read.c: memory that any program may have written ------------- */

/* Return the state of an entry: an enum shared_state, unless a program has
 * written something else.  SHARED_ABORTED is returned as SHARED_CLOSED. */
uint32_t shared_state_of(const struct shared_rank *e);

/* Return the record of @ticket.  Its ticket is 0 if the record was overwritten
 * or is invalid. */
struct record shared_record(const struct shared_rank *e, uint64_t ticket);

/* Return the number of collectives that the rank has called. */
uint64_t shared_called(const struct shared_rank *e);

/* Return the ticket of a collective, or 0 if it is not on record. */
uint64_t shared_ticket(const struct shared_rank *e, uint64_t number);

/* Return the last ticket whose call is done. */
uint64_t shared_last_done(const struct shared_calls *all,
                          const struct shared_rank *e);

/* Return the first collective that is not done, even if it was not called. */
uint64_t shared_undone(const struct shared_calls *all,
                       const struct shared_rank *e);

/* Return the number of a send or receive among those of the same pair of ranks
 * and direction. */
uint32_t shared_transfer(const struct shared_rank *e, uint64_t ticket);

/* Return the number of sends to @peer that the rank has called or, if @sends is
 * false, of receives from @peer. */
uint32_t shared_transfers(const struct shared_rank *e, bool sends, int peer);

/* ---- communicators ------------------------------------------------------- */

/* Progress of a rank's calls, as far as it was seen. */
struct progress {
	uint64_t done;     /* ticket of the last call that was done */
	uint64_t since_ns; /* time at which @done last grew, or 0 */
};

/* A creation or destruction that takes too long. */
struct lateness {
	uint64_t since_ns; /* time since which ranks wait in the call, or 0 */
	unsigned expired;  /* number of times that the deadline has passed */
};

struct observed {
	struct observed *next;
	uint64_t identity, parent;
	int number; /* serial number, by first appearance */
	/* Name that the program gave, or "comm 0".  If another communicator has
	 * the same name, " (comm 0)" is appended. */
	char name[SHARED_NAME + 16];
	int ranks;

	/* For each rank, 1 + its entry in the shared memory, or 0 if the rank
	 * was not seen. */
	int *entries;
	/* Ranks have called ncclCommInitRank() with different numbers of ranks.
	 * Only those with .ranks are in .entries. */
	bool is_uneven;
	struct progress *progress; /* progress of each rank */

	bool is_complete; /* all ranks were created */
	/* If .has_home, each rank's number in another communicator, by which
	 * reports call the rank.  See observed_number(). */
	bool has_home;
	int *worlds;

	/* The last snapshot.  Its ranks are all ranks that were seen.  In a
	 * report about processes that have ended or are stopped, they are only
	 * the ranks that wait, and .remote has the others. */
	struct snapshot now;
	/* Whether all ranks had called the front collective of the last
	 * snapshot.  A report about a process that has ended or is stopped
	 * changes .now.all_joined. */
	bool had_all;
	uint64_t front_ns; /* time at which the current front was first seen */
	struct remote_rank *others;

	uint64_t compared; /* number of collectives whose calls were compared */
	uint64_t different; /* number of the first mismatch, or 0 */
	/* Time since which a rank waits for a process that has ended, or 0. */
	uint64_t ended_ns;
	bool reported_end; /* the end of a process was reported */
	bool hangs;        /* a hang was reported in this round */
	bool is_over;      /* no process uses the communicator */
	struct lateness creation, end;
	unsigned dumps; /* number of dumps so far */
	struct verdict verdict;
	/* stacks of the verdict's ranks */
	struct stack_report stacks[STACK_RANKS];
};

/* All communicators of the program, and its processes. */
struct watch {
	struct shared_calls *shared;
	struct started *started;
	uint64_t deadline_ns;
	/* Time at which this process last resumed after a stop, during which
	 * the program may have been stopped as well; 0 if never. */
	uint64_t resumed_ns;
	struct observed *all;
	int count;        /* number of communicators so far */
	bool has_changed; /* .all has changed since observed_number() */
};

/* The report that is due about a communicator. */
enum finding {
	FOUND_NOTHING,
	FOUND_DIFFERENCE, /* calls differ; they may still complete */
	FOUND_HANG,
};

/* Add new communicators, and find the communicators that no process uses. */
void observed_update(struct watch *w);

/* Free the communicators that no process used at the last update.  Judge them
 * first, because their last calls may differ. */
void observed_drop(struct watch *w);

/* Return the report that is due about @o, and store its text in o->verdict.  If
 * @is_early, report a hang after half of the deadline, because another
 * communicator hangs, perhaps because of this one. */
enum finding observed_judge(struct watch *w, struct observed *o, bool is_early);

/* Print what each rank of @o is doing now. */
void observed_print(struct watch *w, struct observed *o, FILE *out);

/* If the process of @r has ended or, unless @only_ended, is stopped, describe
 * it in @out and return true. */
bool observed_is_halted(struct watch *w, const struct observed *o,
                        const struct rank_snapshot *r, bool only_ended,
                        struct remote_rank *out);

/* Return true once, some time after ranks began to wait for a process that has
 * ended.  @is_awaited: a rank now waits for such a process. */
bool observed_end_is_due(struct observed *o, bool is_awaited);

/* ---- observed_waits.c ---------------------------------------------------- */

/* Store in @r the state of @rank of @o, which was seen, except for the front
 * collective. */
void observed_rank(const struct watch *w, const struct observed *o, int rank,
                   struct rank_snapshot *r);

/* Store in @s the send or receive of @o that has waited the longest. */
void observed_transfers(const struct watch *w, const struct observed *o,
                        struct snapshot *s);

/* Store in o->now the reason why the ranks that the front (or, if @is_transfer,
 * the transfer) waits for have not called. */
void observed_waits(const struct watch *w, struct observed *o,
                    bool is_transfer);

/* Return the entry of @o after @e, or the first one if @e is NULL; NULL if there
 * is none.  Entries of ranks that called with another number of ranks are
 * included. */
const struct shared_rank *observed_next(const struct watch *w,
                                        const struct observed *o,
                                        const struct shared_rank *e);

/* ---- observed_ranks.c ---------------------------------------------------- */

/* Return the entry of a rank, or NULL if the rank was not seen. */
const struct shared_rank *observed_entry(const struct watch *w,
                                         const struct observed *o, int rank);

/*
 * Choose the numbers by which reports call the ranks of all communicators
 *
 * A program may create a communicator of some of its ranks by another unique
 * id, where they have other numbers.  Reports call these ranks by their numbers
 * in the largest communicator that has all of them, so that a rank has the same
 * number in all rows of a report.
 */
void observed_number(struct watch *w);

/* Return the number by which reports call @rank of @o: its number in the
 * communicator that observed_number() has chosen, in the communicator from
 * which @o was split, or in @o. */
int observed_world(const struct watch *w, const struct observed *o, int rank);

/* Return the thread that made a rank's last call. */
int observed_caller(const struct shared_rank *e);

/* Return whether two entries belong to the same rank of the program.  Several
 * threads may make a rank's calls: PyTorch runs the backward pass on another
 * thread. */
bool observed_is_same(const struct shared_rank *a, const struct shared_rank *b);

/* ---- observed_stacks.c --------------------------------------------------- */

/* Record the stacks of the ranks that others wait for in the front or, if
 * @is_transfer, in the transfer. */
void observed_stacks(struct observed *o, bool is_transfer);

/* ---- observed_differ.c --------------------------------------------------- */

/* Make the verdict that the ranks' calls of collective @number differ.  Return
 * false if they do not differ. */
bool observed_differs(const struct watch *w, struct observed *o,
                      uint64_t number);

/* Compare the calls that all ranks have made and that were not compared before.
 * Return whether a call differs; o->different is then its number. */
bool observed_find_difference(const struct watch *w, struct observed *o);

/* ---- observed_life.c ----------------------------------------------------- */

/* Return whether ranks of @o are being created, and store in *@is_late whether
 * that takes too long.  A split is judged as a collective of its parent. */
bool observed_creation(struct watch *w, struct observed *o, bool *is_late);

/* Return whether ranks of @o have been inside calls that finalize or destroy it
 * for too long. */
bool observed_end(struct watch *w, struct observed *o);

/* ---- observed_dump.c ----------------------------------------------------- */

/* Write the calls of @o and its last verdict to files in @directory, in the
 * format of the library's dumps.  Return whether all were written; otherwise an
 * error was printed. */
bool observed_dump(const struct watch *w, struct observed *o,
                   const char *directory);

#endif
