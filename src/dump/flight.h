/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DUMP_FLIGHT_H
#define DUMP_FLIGHT_H

/*
 * A flight: a copy of what the recorders of a clique had in them at one moment
 *
 * Any thread may take one while ranks hang: that needs no lock, no native call
 * and no memory from the program's heap, all of which a hung thread may hold.
 * A flight that is taken does not need the clique any more, so writing it may
 * take its time.
 */

#include "base/thread.h"
#include "core/clique.h"

struct json;
struct stack_traces;

/* Room for the text of a verdict, which is as long as that of a cause. */
#define FLIGHT_TEXT_SIZE sizeof(((struct cohort_cause *)NULL)->details)

enum flight_state {
	FLIGHT_SCHEDULED, /* queued, or its call has not returned */
	FLIGHT_STARTED,
	FLIGHT_COMPLETED,
};

/* The spelling of a state. */
const char *flight_state_name(enum flight_state state);

/* An operation. */
struct flight_op {
	struct record r;
	uint64_t number;     /* of a collective, from 1; 0: it is none */
	uint64_t pair;       /* of a send or recv, in its pair and direction, */
	uint64_t transfer;   /* and among all of the rank's */
	uint64_t timeout_ns; /* how long it may take; 0: not known */
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
	int tid;     /* the last thread that called, 0: none has */
	int alive;   /* that thread lives: 1, 0; -1: not known */
	char thread[THREAD_NAME_SIZE];
	uint64_t lost; /* operations that are not in @ops any more */
	size_t n;
	struct flight_op *ops; /* in the order of their calls */
	struct flight_tag tags[TAG_SLOTS], labels[TAG_SLOTS];

	/* Numbers of collectives, 0: none. */
	uint64_t last_enqueued, last_started, last_completed;
};

/* When the ranks called one collective. */
struct flight_meeting {
	int joined;
	int last; /* index of the rank that called last */
	uint64_t first_ns, last_ns;
};

struct flight {
	char group[64];
	int generation;
	int size;  /* ranks in this process */
	int world; /* ranks in all */
	unsigned slots;
	const char *platform;
	int nccl_version;
	char host[64];
	int pid;
	unsigned serial;         /* of the clique in that process */
	const char *trigger;     /* "verdict", "call", "signal", "fifo" */
	unsigned verdict_number; /* in the clique, from 1; 0: the dump was asked
	                            for */

	/* The moment of the flight by two clocks: monotonic and wall. */
	uint64_t now_ns;
	uint64_t wall_ns;

	struct cohort_cause cause; /* status COHORT_OK: there was none */
	bool has_verdict;
	/* With the text below, and without the rest of what it points to. */
	struct cohort_verdict verdict;
	char text[FLIGHT_TEXT_SIZE];

	/* The stacks that were taken for the verdict, or NULL. */
	const struct stack_traces *stacks;

	struct flight_rank *ranks;

	/* The meetings of collectives from number @lowest on. */
	uint64_t lowest;
	size_t meetings_count;
	struct flight_meeting *meetings;

	void *memory;
	size_t bytes; /* size of @memory */
};

/* Make room for @size ranks of @slots operations each.  False without
 * memory. */
bool flight_init(struct flight *flight, int size, unsigned slots);
void flight_fini(struct flight *flight);

/* Take a flight; @verdict is why, or NULL.  The clique must stay until the
 * function returns, which is soon. */
void flight_take(struct flight *flight, struct clique *clique,
                 const char *trigger, const struct cohort_verdict *verdict);

/* flight_take() in two steps: first the facts about the whole clique, which may
 * take time; then the ranks, which are copied from memory. */
void flight_take_facts(struct flight *flight, struct clique *clique,
                       const char *trigger,
                       const struct cohort_verdict *verdict);
void flight_take_ranks(struct flight *flight, struct clique *clique);

/* Fill in the meetings from the operations. */
void flight_meet(struct flight *flight);

/* The meeting of collective @number; NULL: not known. */
const struct flight_meeting *flight_meeting(const struct flight *flight,
                                            uint64_t number);

/* The times of an operation on one rank.  Each is no earlier than the one
 * before. */
struct flight_span {
	uint64_t begin_ns;  /* called, and all before it done */
	uint64_t joined_ns; /* and called by all ranks that are known of */
	uint64_t end_ns;
};

/* The times of @op, which ended or was still going on at @end_ns.  The
 * operation before it was done at @busy_until_ns (0: there was none). */
struct flight_span flight_span(const struct flight *flight,
                               const struct flight_op *op,
                               uint64_t busy_until_ns, uint64_t end_ns);

/* The tag of an operation of @rank, and its label; "": none. */
const char *flight_tag(const struct flight_rank *rank,
                       const struct flight_op *op);
const char *flight_label(const struct flight_rank *rank,
                         const struct flight_op *op);

/* A monotonic time by the wall clock; 0 stays 0. */
uint64_t flight_wall(const struct flight *flight, uint64_t time_ns);

/* Write a set of ranks as a list of numbers. */
void flight_put_set(struct json *json, const char *key, const uint64_t *set);

#endif
