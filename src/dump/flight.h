/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DUMP_FLIGHT_H
#define DUMP_FLIGHT_H

/*
 * A flight: what the recorders of a clique had in them at one moment, as a copy
 *
 * Taken from any thread, beside ranks that hang: without a lock, a native call, or
 * the program's heap, which a hung thread may hold.  Once it is taken nothing of the
 * clique is looked at any more, so that writing it down may take its time.
 */

#include "base/thread.h"
#include "core/clique.h"

struct json;

/* Room for the text of a verdict, which is as long as that of a cause. */
#define FLIGHT_TEXT_SIZE sizeof(((struct cohort_cause *)NULL)->text)

enum flight_state {
	FLIGHT_SCHEDULED, /* in its stream, or its call has not returned */
	FLIGHT_STARTED,
	FLIGHT_COMPLETED,
};

/* The spelling of a state. */
const char *flight_state_name(enum flight_state state);

/* An operation. */
struct flight_op {
	struct record r;
	uint64_t number;     /* of a collective, from 1; 0: it is none */
	uint64_t pair;       /* of a send or recv, of the pair and direction, */
	uint64_t transfer;   /* and of all of this rank's */
	uint64_t timeout_ns; /* what it may take; 0: not known */
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
	int tid;     /* of the last thread that called, 0: none has */
	int alive;   /* 1: it lives, 0, -1: not known */
	char thread[THREAD_NAME_SIZE];
	uint64_t lost; /* operations that are not in @ops any more */
	size_t n;
	struct flight_op *ops; /* in the order of their calls */
	struct flight_tag tags[TAG_SLOTS], labels[TAG_SLOTS];

	/* Numbers of collectives, 0: none has. */
	uint64_t last_enqueued, last_started, last_completed;
};

/* How the ranks came to one collective. */
struct flight_meeting {
	int joined;
	int last; /* index of the rank that came last */
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
	unsigned serial;     /* of the clique in that process */
	const char *trigger; /* "verdict", "call", "signal", "fifo" */
	unsigned
		verdict_number; /* in the clique, from 1; 0: it was asked for */

	/* The same moment by two clocks. */
	uint64_t now_ns;
	uint64_t wall_ns;

	struct cohort_cause cause; /* status COHORT_OK: there was none */
	bool has_verdict;
	struct cohort_verdict
		verdict; /* with the text below, and without the rest
	                                  of what it points to */
	char text[FLIGHT_TEXT_SIZE];

	struct flight_rank *ranks;

	/* Of collectives from number @lowest on, of all ranks. */
	uint64_t lowest;
	size_t meetings_count;
	struct flight_meeting *meetings;

	void *memory;
	size_t bytes; /* of that */
};

/* Room for @size ranks of @slots operations each.  False without memory. */
bool flight_init(struct flight *flight, int size, unsigned slots);
void flight_fini(struct flight *flight);

/* Fill it, with @verdict if that is why (else NULL).  The clique must stay until it
 * returns, which is soon. */
void flight_take(struct flight *flight, struct clique *clique,
                 const char *trigger, const struct cohort_verdict *verdict);

/* The same in two steps: what is of all and may take its time, and the ranks, which is
 * memory only. */
void flight_take_facts(struct flight *flight, struct clique *clique,
                       const char *trigger,
                       const struct cohort_verdict *verdict);
void flight_take_ranks(struct flight *flight, struct clique *clique);

/* Find out how the ranks came to their collectives, from the operations. */
void flight_meet(struct flight *flight);

/* The meeting of a collective; NULL: not known. */
const struct flight_meeting *flight_meeting(const struct flight *flight,
                                            uint64_t number);

/* What a rank did for an operation, when.  Each is no earlier than the one before. */
struct flight_span {
	uint64_t begin_ns;  /* called, and what was before it done */
	uint64_t joined_ns; /* called by all ranks of this process, too */
	uint64_t end_ns;
};

/* That of @op, behind what was done at @busy_until_ns (0: nothing was), and itself
 * done at @end_ns, or not yet. */
struct flight_span flight_span(const struct flight *flight,
                               const struct flight_op *op,
                               uint64_t busy_until_ns, uint64_t end_ns);

/* The tag of an operation of @rank, and its label; "": none. */
const char *flight_tag(const struct flight_rank *rank,
                       const struct flight_op *op);
const char *flight_label(const struct flight_rank *rank,
                         const struct flight_op *op);

/* The time of the other clock for one of this; 0 stays 0. */
uint64_t flight_wall(const struct flight *flight, uint64_t time_ns);

/* The ranks of a set, as a list of numbers. */
void flight_put_set(struct json *json, const char *key, const uint64_t *set);

#endif
