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
	size_t size; /* set by the caller: sizeof */

	/* Counted for the rank. */
	uint64_t operations;  /* that were queued */
	uint64_t collectives; /* that were called */
	uint64_t transfers;   /* sends and receives */
	uint64_t bytes;       /* of the operations' tensors */
	uint64_t waits;       /* for operations not done when asked about */
	uint64_t captured;    /* calls that went into CUDA graphs */

	/* Records of the flight recorder that newer ones have overwritten. */
	uint64_t lost_records;

	/* Counted for the generation of the group. */
	uint64_t slow;     /* operations that took longer than slow_ns */
	uint64_t warnings; /* of the watchdog */
	uint64_t aborts;   /* 1 if the generation has a cause, else 0 */

	/* Verdicts other than warnings, indexed by enum cohort_verdict_kind.  A
	 * cause counts once, plus once for each time that it was reported
	 * before. */
	uint64_t verdicts[32];

	/* How often the watchdog has noticed that the process did not run. */
	uint64_t stops;

	/* How often the watchdog ran that late although the process was not
	 * stopped: the machine was busy, and verdicts may have come late. */
	uint64_t starved;
	uint64_t reserved[6]; /* room for what later versions add */
};

/*
 * cohort_stats       - counters of a rank
 * cohort_stats_write - counters of all ranks of a group, as text for Prometheus
 * @stats: the caller has set its size; the rest is filled, as far as it goes
 * @fd:    where to write; may be a file, a pipe or a socket
 *
 * The counters are read from memory without a lock, whatever any rank's thread
 * is doing, so they need not all be from the same moment.  The text is always
 * valid UTF-8: as in dumps, U+FFFD replaces each byte of the group's name that
 * is not.  Any thread; cohort_stats() does not block, and cohort_stats_write()
 * blocks only as write() does.
 *
 * COHORT_OK; COHORT_INVALID, also for a @stats whose size was not set;
 * cohort_stats_write(): COHORT_SYSTEM if it cannot write, maybe after it has
 * written a part.  A reader that has gone is a SIGPIPE, as for write().
 */
COHORT_API int cohort_stats(struct cohort_comm *comm,
                            struct cohort_stats *stats);
COHORT_API int cohort_stats_write(struct cohort_group *group, int fd);

#ifdef __cplusplus
}
#endif

#endif
