/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_STRICT_STRICT_H
#define SIM_STRICT_STRICT_H

/*
 * Strict mode (COHORT_HOST_STRICT, see sim.h): what NCCL leaves undefined ends
 * the program, with a line on stderr that says what it was
 *
 * What is checked is told by the floors that know it: exec/launch_mismatch.h,
 * exec/self_wait.h, nccl/buffers.h, nccl/lifetime.h, cuda/memory_table.h.
 *
 * What threads share here is atomic, and no acquire meets a release: the checks
 * must not put threads in an order in which the program did not, or a sanitizer
 * would miss its races.
 */

#include <stdarg.h>
#include <stdbool.h>

#include "base/atomics.h"

/* Atomic; written once, before the first use of the platform.  Relaxed. */
extern atomic_bool strict_on;

static inline bool strict_is_on(void)
{
	return load_relaxed(&strict_on);
}

/* Read the environment, once. */
void strict_init(void);

/* End the program with a line about a call of @function; @which says of which
 * rank, "" of none.  member_die() (exec/world.h) makes that up. */
void strict_die(const char *function, const char *which, const char *format,
                va_list args) __attribute__((format(printf, 3, 0), noreturn));

#endif
