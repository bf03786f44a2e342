/* SPDX-License-Identifier: Apache-2.0 */

#include "base/backoff.h"

#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/util.h"

#define SPIN_ROUNDS 100
#define YIELD_NS 500000
#define NAP_MIN_NS 50000
#define NAP_MAX_NS 1000000

/* Time of a core between the naps of all threads, a few times what waking one
 * costs. */
#define NAP_SHARE_NS 40000

int cpu_count(void)
{
	/* Atomic; 0: not asked yet.  Relaxed: all threads get the same
	 * number. */
	static atomic_int count;
	int n = atomic_load_explicit(&count, memory_order_relaxed);
	cpu_set_t allowed;

	if (n)
		return n;
	n = sched_getaffinity(0, sizeof(allowed), &allowed) == 0
	            ? CPU_COUNT(&allowed)
	            : 1;
	atomic_store_explicit(&count, n, memory_order_relaxed);
	return n;
}

struct backoff backoff_among(int threads)
{
	return (struct backoff){
		.rounds = threads > cpu_count() ? SPIN_ROUNDS : 0,
	};
}

/* The half of the word that a futex can wait on. */
static void *lower_half(struct waited_word *w)
{
	const bool is_second = __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__;

	return (void *)((uintptr_t)&w->word + is_second * sizeof(uint32_t));
}

/* Sleep for that time, or until the word is another. */
static void sleep_on(struct waited_word *w, uint64_t value,
                     const struct timespec *t)
{
	atomic_fetch_add(&w->sleepers, 1);
	syscall(SYS_futex, lower_half(w), FUTEX_WAIT_PRIVATE, (uint32_t)value,
	        t);
	atomic_fetch_sub(&w->sleepers, 1);
}

/* Sleep for a sixteenth of the time waited so far, within bounds: many waiters
 * on a long hang must not eat the cores, and a short wait must not become a
 * long one.  Hundreds of threads sleep longer, so that waking them leaves time
 * for the one they wait for. */
static void nap(uint64_t waited, uint64_t left, struct waited_word *w,
                uint64_t value)
{
	/* Atomic; threads of the process that nap now.  Relaxed: a number. */
	static atomic_uint napping;
	const uint64_t n =
		atomic_fetch_add_explicit(&napping, 1, memory_order_relaxed);
	const uint64_t share = n * NAP_SHARE_NS / (uint64_t)cpu_count();
	const uint64_t most = MAX(share, NAP_MAX_NS);
	const uint64_t ns = MIN(MAX(waited / 16, NAP_MIN_NS), most);
	struct timespec t = { .tv_nsec = (long)MIN(left, ns) };

	if (w)
		sleep_on(w, value, &t);
	else
		nanosleep(&t, NULL);
	atomic_fetch_sub_explicit(&napping, 1, memory_order_relaxed);
}

void backoff_wait_on(struct backoff *b, uint64_t deadline_ns,
                     struct waited_word *w, uint64_t value)
{
	uint64_t now;

	if (b->rounds < SPIN_ROUNDS) {
		b->rounds++;
		cpu_pause();
		return;
	}
	now = clock_now();
	if (!b->started_ns)
		b->started_ns = now;
	if (now - b->started_ns < YIELD_NS)
		sched_yield();
	else
		nap(now - b->started_ns,
		    deadline_ns > now ? deadline_ns - now : 0, w, value);
}

void backoff_wait(struct backoff *b, uint64_t deadline_ns)
{
	backoff_wait_on(b, deadline_ns, NULL, 0);
}

void backoff_wake(struct waited_word *w)
{
	/* seq_cst, after the change: a sleeper is counted before it looks at
	 * the word. */
	if (atomic_load(&w->sleepers))
		syscall(SYS_futex, lower_half(w), FUTEX_WAKE_PRIVATE, INT_MAX);
}
