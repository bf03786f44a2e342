/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DUMP_FLIGHT_H
#define DUMP_FLIGHT_H

/*
 * A flight: a copy of the flight recorders of a clique at one moment
 *
 * Any thread may take a flight while ranks hang.  Taking one needs no lock, no
 * memory from the program's heap, and no native call except ncclGetVersion(),
 * because a hung thread may block any of these.  A flight does not refer to the
 * clique, so it can be written slowly afterwards.
 */

#include "base/thread.h"
#include "core/clique.h"

struct json;
struct stack_traces;

/* Size of a buffer for a verdict's text, which is as long as a cause's. */
#define FLIGHT_TEXT_SIZE sizeof(((struct cohort_cause *)NULL)->details)

enum flight_state {
	FLIGHT_SCHEDULED, /* queued, or its call has not returned */
	FLIGHT_STARTED,
	FLIGHT_COMPLETED,
};

const char *flight_state_name(enum flight_state state);

struct flight_op {
	struct record r;
	uint64_t number;     /* number of the collective, from 1; 0 if none */
	uint64_t pair;       /* number within its pair of ranks and direction */
	uint64_t transfer;   /* number among all transfers of the rank */
	uint64_t timeout_ns; /* 0 if not known */
	enum flight_state state;
};

struct flight_tag {
	unsigned number;
	char text[TAG_SIZE];
};

struct flight_rank {
	int rank;
	int device;
	bool inside; /* a thread was inside a call */
	int tid;     /* the last thread that made a call, or 0 */
	int alive;   /* whether that thread is alive: 1, 0, or -1 if unknown */
	char thread[THREAD_NAME_SIZE];
	uint64_t lost; /* number of older operations that are not in @ops */
	size_t n;
	struct flight_op *ops; /* in the order of their calls */
	struct flight_tag tags[TAG_SLOTS], labels[TAG_SLOTS];

	/* Numbers of collectives, or 0. */
	uint64_t last_enqueued, last_started, last_completed;
};

/* Times at which the ranks called one collective. */
struct flight_meeting {
	int joined;
	int last; /* index of the rank that called last */
	uint64_t first_ns, last_ns;
};

struct flight {
	char group[64];
	int generation;
	int size;  /* ranks in this process */
	int world; /* ranks in all processes */
	unsigned slots;
	const char *platform;
	int nccl_version;
	char host[64];
	int pid;
	unsigned serial;         /* number of the clique in its process */
	const char *trigger;     /* "verdict", "call", "signal", "fifo" */
	unsigned verdict_number; /* from 1; 0 if the dump was requested */

	/* Time at which the flight was recorded, on the monotonic clock and on
	 * the wall clock. */
	uint64_t now_ns;
	uint64_t wall_ns;

	struct cohort_cause cause; /* status COHORT_OK if there was none */
	bool has_verdict;
	/* Copy of the verdict.  Its text is in .text below; the pointers in the
	 * copy are not valid. */
	struct cohort_verdict verdict;
	char text[FLIGHT_TEXT_SIZE];

	/* Stacks that were taken for the verdict, or NULL. */
	const struct stack_traces *stacks;

	struct flight_rank *ranks;

	/* Call times of the collectives with the numbers from @lowest on. */
	uint64_t lowest;
	size_t meetings_count;
	struct flight_meeting *meetings;

	void *memory;
	size_t bytes; /* size of @memory */
};

/* Allocate room for @size ranks with @slots operations each.  Return false if
 * there is no memory. */
bool flight_init(struct flight *flight, int size, unsigned slots);
void flight_fini(struct flight *flight);

/* Copy the flight recorders of @clique to @flight, in two steps.  First store
 * the facts about the whole clique.  This may be slow.
 * @trigger: cause of the flight, see struct flight
 * @verdict: the verdict that caused the flight, or NULL */
void flight_take_facts(struct flight *flight, struct clique *clique,
                       const char *trigger,
                       const struct cohort_verdict *verdict);

/* Second step: copy the state of the ranks from memory. */
void flight_take_ranks(struct flight *flight, struct clique *clique);

/* Compute from the operations when the ranks called each collective. */
void flight_compute_meetings(struct flight *flight);

const struct flight_meeting *flight_meeting(const struct flight *flight,
                                            uint64_t number);

/* Times of an operation on one rank, in ascending order. */
struct flight_span {
	uint64_t begin_ns;  /* called, and the previous operation is done */
	uint64_t joined_ns; /* also called by all known ranks */
	uint64_t end_ns;
};

/* Return the times of @op.
 * @busy_until_ns: end of the previous operation, or 0
 * @end_ns:        end of @op, or a time at which @op was still running */
struct flight_span flight_span(const struct flight *flight,
                               const struct flight_op *op,
                               uint64_t busy_until_ns, uint64_t end_ns);

const char *flight_tag(const struct flight_rank *rank,
                       const struct flight_op *op);

const char *flight_label(const struct flight_rank *rank,
                         const struct flight_op *op);

/* Convert a monotonic time to wall clock time; 0 stays 0. */
uint64_t flight_wall(const struct flight *flight, uint64_t time_ns);

/* Write a set of ranks as a list of numbers. */
void flight_put_set(struct json *json, const char *key, const uint64_t *set);

#endif
