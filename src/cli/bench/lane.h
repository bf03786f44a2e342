/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_BENCH_LANE_H
#define CLI_BENCH_LANE_H

/*
 * A rank of a measurement: its thread's buffers and calls, and how it meets the others
 *
 * A function that fails returns false, after a complaint that ends the measurement on
 * all ranks.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/bench/bench.h"
#include "cli/bench/data.h"
#include "cli/bench/meet.h"
#include "cli/common/progress.h"

/* Belongs to the rank's thread; others read some of it between two meetings. */
struct lane {
	struct bench *bench;
	struct caller caller;
	struct call call;
	enum bench_path path; /* since lane_enter() */
	const struct collective *collective;
	size_t block; /* bytes of one block */
	uint64_t met; /* how many arrivals complete this rank's next meeting */
	char *buffer[2]; /* to receive to; to send from, if not in place */
	char *staging; /* host memory, if device memory cannot be written; else NULL */
	char *plain[2]; /* the same two for calls with host memory, or NULL */
	bool is_plain;  /* this case calls with host memory */
	char *send;     /* what the call sends; writable */
	struct pattern pattern;  /* of what the rank sends */
	struct pattern expected; /* of one block of the result */

	/* Read by rank 0's thread between two meetings. */
	double ns;        /* per operation, back to back */
	uint64_t *begins; /* of each operation, if buffers are rewritten */
	uint64_t *ends;   /* of each operation, if buffers are rewritten */
};

struct bench {
	struct bench_plan *plan;
	struct cohort_group *group;
	int ranks;
	int cores;
	struct lane **lanes;
	const struct platform *platform;

	/* Owned by rank 0's thread. */
	struct progress progress;
	double *scratch;

	struct meeting meeting;
};

/* Keeps the times of @samples operations.  NULL if there is no memory. */
struct lane *lane_create(struct bench *bench, size_t samples);
void lane_destroy(struct lane *lane);

/* Begin and end, on the rank's thread, with no operation in flight.  After a
 * failure lane_close() is not called. */
bool lane_open(struct lane *lane, struct cohort_comm *comm);
void lane_close(struct lane *lane);

/* Wait for all ranks. */
bool lane_meet(struct lane *lane);

/* Prepare for a case. */
void lane_aim(struct lane *lane, const struct bench_case *c);

/* Rewrite what the rank sends. */
bool lane_rewrite(struct lane *lane);

/* Fill all memory that the case uses with @byte. */
bool lane_wipe(struct lane *lane, int byte);

/* Choose how operations are made from now on; and end that. */
bool lane_enter(struct lane *lane, enum bench_path path);
void lane_leave(struct lane *lane);

/* Complain if an operation or its wait returned an error. */
bool lane_explain(struct lane *lane, int submitted, int finished);

/* Make one operation whose result is known, and count wrong elements. */
bool lane_check(struct lane *lane, struct bench_case *c);

/* ---- one operation, in the timed part --------------------------------- */

static inline int lane_submit(struct lane *lane)
{
	const struct collective *c = lane->collective;

	switch (lane->path) {
	case PATH_RAW:
		return (int)c->by_table(&lane->caller, &lane->call);
	case PATH_HOST:
		return c->by_host(&lane->caller, &lane->call);
	default:
		return c->by_api(&lane->caller, &lane->call);
	}
}

/* Wait for it; calls with host memory have waited. */
static inline int lane_finish(struct lane *lane)
{
	switch (lane->path) {
	case PATH_RAW:
		return (int)lane->caller.platform->cudaStreamSynchronize(
			lane->caller.stream);
	case PATH_HOST:
		return 0;
	default:
		return cohort_wait(lane->caller.comm, lane->call.ticket,
		                   COHORT_FOREVER);
	}
}

#endif
