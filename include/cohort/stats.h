/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COHORT_STATS_H
#define COHORT_STATS_H

/*
 * Counters of a rank and of its group
 */

#include <stddef.h>
#include <stdint.h>

#include <cohort/status.h>

#ifdef __cplusplus
extern "C" {
#endif

struct cohort_group;
struct cohort_comm;

/* Counters of one rank, and of its group's generation. */
struct cohort_stats {
	size_t size; /* sizeof(struct cohort_stats), set by the caller */

	/* Counters of the rank. */
	uint64_t operations;  /* operations queued */
	uint64_t collectives; /* collectives called */
	uint64_t transfers;   /* sends and receives called */
	uint64_t bytes;       /* total size of the operations' tensors */
	uint64_t waits;       /* waits for operations that were not done yet */
	uint64_t captured;    /* calls captured into CUDA graphs */

	/* Records of the flight recorder that newer records overwrote. */
	uint64_t lost_records;

	/* Counters of the group's generation. */
	uint64_t slow;   /* operations that took longer than slow_ns */
	uint64_t aborts; /* 1 if the generation has a cause, else 0 */

	/* Verdicts, without slow operations, indexed by enum
	 * cohort_verdict_kind.  Each report of a stall counts, and so does the
	 * cause that ends the group. */
	uint64_t verdicts[32];

	/* Number of times that the watchdog found that the process had been
	 * stopped. */
	uint64_t stops;

	/* Number of times that the watchdog ran late because the machine was
	 * busy.  Verdicts may then have been late. */
	uint64_t starved;
	uint64_t reserved[6];
};

/*
 * cohort_stats - get the counters of a rank
 * @stats: filled up to its size, which the caller has set
 *
 * Counters are read without a lock, even while threads are inside calls or
 * hang, so they may be from slightly different times.  May be called from any
 * thread; does not block.
 *
 * Returns:
 *   COHORT_OK       @stats is filled
 *   COHORT_INVALID  an argument is NULL, or the size was not set
 */
COHORT_API int cohort_stats(struct cohort_comm *comm,
                            struct cohort_stats *stats);

#ifdef __cplusplus
}
#endif

#endif
