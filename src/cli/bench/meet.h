/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_BENCH_MEET_H
#define CLI_BENCH_MEET_H

/*
 * How the threads of a measurement meet outside the timed part, and end together when
 * one of them fails
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <cohort/cohort.h>

struct meeting {
	/* Constant after meeting_init(). */
	int ranks;
	bool is_crowded; /* more ranks than cores */

	/* Atomic; counts arrivals of all ranks, never reset. */
	_Alignas(64) atomic_ullong arrived;

	/* Atomic; set once by the first rank that fails, which then writes the
	 * complaint; read by the others, and by the main thread after the run. */
	_Alignas(64) atomic_bool has_failed;
	char complaint[1200];
};

void meeting_init(struct meeting *m, int ranks, int cores);

/* Leave a complaint, unless there is one already.  Always returns false. */
bool meeting_fail(struct meeting *m, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Wait for all ranks; false if one has failed, or @comm has ended.  @met belongs
 * to the calling rank and is 0 at first. */
bool meeting_meet(struct meeting *m, uint64_t *met, struct cohort_comm *comm);

/* Pin the thread of @rank to one of the cores that the process may use, in turn. */
void meeting_pin(int rank, int cores);

#endif
