/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_BENCH_LANE_H
#define CLI_BENCH_LANE_H

/*
 * A rank of a measurement: its thread's buffers and calls, and how it meets the
 * others
 *
 * What can fail returns false then, after it has left a complaint that ends the
 * measurement of all.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/bench/bench.h"
#include "cli/bench/data.h"
#include "cli/bench/limit.h"
#include "cli/bench/meet.h"
#include "cli/common/progress.h"

/* Who carries operations out; the first ones are enum bench_path. */
enum who {
	WHO_API,
	WHO_TABLE,
	WHO_DIRECT,
	WHO_HOST,
	WHO_TIMED,
	WHO_LIMIT,
	WHO_NOBODY
};

/* What a rank's own work is done on: stays in its core's first cache. */
#define WORK_VALUES 1024

/* Of the rank's thread; but for what others read between two meetings. */
struct lane {
	struct bench *bench;
	struct caller caller;
	struct call call;
	enum who who;
	const struct collective *collective;
	size_t block; /* bytes of one */
	uint64_t met; /* arrivals of all ranks that make this rank's meeting */
	char *buffer[2]; /* to receive; to send from, if not in place */
	char *staging;   /* where device memory cannot be written, else NULL */
	char *plain[2];  /* likewise: as buffer, for calls with host memory */
	bool is_plain;   /* this case's */
	char *send;      /* what the call sends, writable */
	struct pattern pattern;  /* of what it sends */
	struct pattern expected; /* of a block of the result */

	uint64_t work; /* per operation */
	float values[WORK_VALUES];

	/* Read by rank 0's between two meetings. */
	double ns;        /* of an operation, back to back */
	uint64_t *begins; /* of each operation; rewritten */
	uint64_t *ends;   /* likewise */
};

struct bench {
	struct bench_plan *plan;
	struct cohort_group *group;
	int ranks;
	int cores;
	struct lane **lanes;
	struct limit_place
		*places; /* written by their ranks before a meeting */
	const struct platform *platform;
	double work_per_us; /* written by rank 0 before a meeting */

	/* Owned by rank 0's thread. */
	struct progress progress;
	double *scratch;

	struct meeting meeting;
};

/* @samples: of operations whose times are kept.  NULL: out of memory. */
struct lane *lane_create(struct bench *bench, size_t samples);
void lane_destroy(struct lane *lane);

/* Begin and end, on the rank's thread, with no operation under way.  After a failure
 * there is no end. */
bool lane_open(struct lane *lane, struct cohort_comm *comm);
void lane_close(struct lane *lane);

/* Wait for all ranks. */
bool lane_meet(struct lane *lane);

/* Get ready for a case. */
void lane_aim(struct lane *lane, const struct bench_case *c);

/* What it sends, anew. */
bool lane_rewrite(struct lane *lane);

/* All that the case uses. */
bool lane_wipe(struct lane *lane, int byte);

/* By whom operations are from now on, and the end of that. */
bool lane_enter(struct lane *lane, enum who who);
void lane_leave(struct lane *lane);

/* Find out how much work an operation takes; all ranks at the same time. */
bool lane_learn(struct lane *lane);

/* Do it. */
void lane_work(struct lane *lane);

/* What an operation and its wait have answered. */
bool lane_explain(struct lane *lane, int submitted, int finished);

/* Make one operation with values that tell, and count what is wrong. */
bool lane_check(struct lane *lane, struct bench_case *c, enum who who);

/* ---- one operation, in the timed part --------------------------------- */

/* Of this rank, with a meeting before and after; 0, or what lane_explain() passes
 * over: the complaint is there. */
int lane_direct(struct lane *lane);

static inline int lane_submit(struct lane *lane)
{
	switch (lane->who) {
	case WHO_API:
		return lane->collective->by_api(&lane->caller, &lane->call);
	case WHO_TABLE:
		return (int)lane->collective->by_table(&lane->caller,
		                                       &lane->call);
	case WHO_DIRECT:
		return lane_direct(lane);
	case WHO_HOST:
	case WHO_TIMED:
		return lane->collective->by_host(&lane->caller, &lane->call);
	case WHO_LIMIT:
		limit_run(lane->collective, lane->bench->places,
		          lane->caller.rank, lane->caller.ranks,
		          lane->call.root, lane->block);
		break;
	case WHO_NOBODY:
		break;
	}
	return 0;
}

static inline int lane_finish(struct lane *lane)
{
	switch (lane->who) {
	case WHO_API:
		return cohort_wait(lane->caller.comm, lane->call.ticket,
		                   COHORT_FOREVER);
	case WHO_TABLE:
		return (int)lane->caller.platform->cudaStreamSynchronize(
			lane->caller.stream);
	case WHO_DIRECT:
	case WHO_HOST:
	case WHO_TIMED:
	case WHO_LIMIT:
	case WHO_NOBODY:
		break;
	}
	return 0;
}

#endif
