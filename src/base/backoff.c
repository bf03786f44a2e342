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

/* CPU time that each nap may cost, in nanoseconds: a few times the cost of a
 * wakeup. */
#define NAP_SHARE_NS 40000

int cpu_count(void)
{
	/* Atomic; number of cores, or 0 before the first call.  Relaxed order
	 * is enough, because all threads compute the same number. */
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

static void *lower_half(struct waited_word *w)
{
	const bool is_second = __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__;

	return (void *)((uintptr_t)&w->word + is_second * sizeof(uint32_t));
}

/* Sleep for the time @t, or until the word differs from @value. */
static void sleep_on(struct waited_word *w, uint64_t value,
                     const struct timespec *t)
{
	atomic_fetch_add(&w->sleepers, 1);
	syscall(SYS_futex, lower_half(w), FUTEX_WAIT_PRIVATE, (uint32_t)value,
	        t);
	atomic_fetch_sub(&w->sleepers, 1);
}

/* Sleep for a sixteenth of the time waited so far, within bounds: threads that
 * wait for a long time must not use up the cores, and a short wait must not
 * become a long one.  If hundreds of threads nap, each sleeps longer, so that
 * their wakeups leave CPU time for the thread that they wait for. */
static void backoff_sleep(uint64_t waited, uint64_t left, struct waited_word *w,
                          uint64_t value)
{
	/* Atomic; number of threads of this process in a nap.  Relaxed order is
	 * enough, because no other data depends on it. */
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
		backoff_sleep(now - b->started_ns,
		              deadline_ns > now ? deadline_ns - now : 0, w,
		              value);
}

void backoff_wait(struct backoff *b, uint64_t deadline_ns)
{
	backoff_wait_on(b, deadline_ns, NULL, 0);
}

void backoff_wake(struct waited_word *w)
{
	/* This seq_cst load follows the seq_cst change of the word.  A sleeping
	 * thread adds itself to sleepers before it checks the word.  So either
	 * this thread sees the sleeper, or the sleeper sees the change. */
	if (atomic_load(&w->sleepers))
		syscall(SYS_futex, lower_half(w), FUTEX_WAKE_PRIVATE, INT_MAX);
}
