/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_STRICT_STRICT_H
#define SIM_STRICT_STRICT_H

/*
 * Strict mode (COHORT_HOST_STRICT, see sim.h) ends a program that does
 * something that NCCL leaves undefined, and prints to stderr what the program
 * did
 *
 * The headers of the checks describe them: exec/launch_mismatch.h,
 * exec/rank_launch.h, nccl/buffers.h, nccl/lifetime.h, cuda/memory_table.h.
 *
 * The checks avoid pairs of acquire and release, because these would order
 * threads that the program itself does not order, and a sanitizer would then
 * miss the program's races.
 */

#include <stdarg.h>
#include <stdbool.h>

#include "base/atomics.h"

/* Atomic, relaxed; written once, before the first use of the simulator. */
extern atomic_bool strict_on;

static inline bool strict_is_on(void)
{
	return load_relaxed(&strict_on);
}

void strict_init(void);

/* Print an error message about a call of @function, and end the program.
 * @which names the rank, or is "". */
void strict_die(const char *function, const char *which, const char *format,
                va_list args) __attribute__((format(printf, 3, 0), noreturn));

#endif
