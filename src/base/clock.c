/* SPDX-License-Identifier: Apache-2.0 */

#include "base/clock.h"

#ifdef CLOCK_TICKS

#include <cpuid.h>
#include <stdatomic.h>

/* The most ticks that a comparison takes if nothing interrupts it; and the
 * shortest and the longest time that a rate is measured over: a fraction of a
 * millisecond, and a tenth of a second, after which the measurement begins
 * anew. */
#define LOOK_TICKS 256
#define MEASURE_TICKS (UINT64_C(1) << 19)
#define RENEW_TICKS (UINT64_C(1) << 28)

/* No processor's tick has more nanoseconds. */
#define MOST_RATE 8

_Thread_local struct clock_base clock_base;

/* True if the processor says that its counter runs at one rate, whatever it
 * does. */
static bool is_steady(void)
{
	/* Atomic; 0: not asked yet.  Relaxed: all threads get the same
	 * answer. */
	static atomic_int answer;
	int known = atomic_load_explicit(&answer, memory_order_relaxed);
	unsigned a, b, c, d;

	if (!known) {
		known = __get_cpuid(0x80000007, &a, &b, &c, &d) && d >> 8 & 1
		                ? 1
		                : -1;
		atomic_store_explicit(&answer, known, memory_order_relaxed);
	}
	return known > 0;
}

uint64_t clock_compare(void)
{
	struct clock_base *b = &clock_base;
	const uint64_t before = clock_ticks(), now_ns = clock_now();
	const uint64_t ticks = clock_ticks(), elapsed = ticks - b->since_ticks;
	const uint64_t elapsed_ns = now_ns - b->since_ns;

	if (ticks - before > LOOK_TICKS || !is_steady())
		return now_ns;
	if (elapsed > RENEW_TICKS || elapsed_ns > MOST_RATE * elapsed) {
		b->since_ticks = ticks;
		b->since_ns = now_ns;
	} else if (elapsed >= MEASURE_TICKS) {
		b->rate = (elapsed_ns << 32) / elapsed;
		/* Rather behind the clock than ahead of it, also if the clock
		 * is adjusted. */
		b->rate -= b->rate >> 10;
	}
	if (b->rate) {
		b->ticks = ticks;
		b->ns = now_ns;
	}
	return now_ns;
}

#endif
