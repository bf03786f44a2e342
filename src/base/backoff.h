/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_BACKOFF_H
#define BASE_BACKOFF_H

/*
 * Wait for a word that another thread or a device will change
 *
 * A waiter spins briefly if there is a core to spare, then yields, and after
 * half a millisecond sleeps in short naps.  Most waits end before a sleeping
 * thread could wake up.  With more ranks than cores, a spinning thread would
 * keep the thread that it waits for from running.
 *
 *	struct backoff b = BACKOFF;
 *	while (!done())
 *		backoff_wait(&b, deadline);
 */

#include <stdatomic.h>
#include <stdint.h>

struct backoff {
	uint64_t started_ns; /* 0 until the clock is first read */
	unsigned rounds;
};

#define BACKOFF                                                                \
	{                                                                      \
		.rounds = 0                                                    \
	}

/* Return a backoff for one of @threads threads that wait for each other.  If
 * they outnumber the cores, the backoff yields from the start instead of
 * spinning. */
struct backoff backoff_among(int threads);

/* Return the number of cores in the affinity mask of the first thread that
 * called this function. */
int cpu_count(void);

static inline void cpu_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

/* Wait briefly, but not past @deadline_ns: at most a millisecond, or longer if
 * hundreds of threads wait. */
void backoff_wait(struct backoff *b, uint64_t deadline_ns);

/* A word that threads of this process can wait for. */
struct waited_word {
	_Atomic uint64_t word;
	atomic_int sleepers;
};

/* Wait like backoff_wait(), but return early once the lower half of the word
 * differs from the lower half of @value. */
void backoff_wait_on(struct backoff *b, uint64_t deadline_ns,
                     struct waited_word *w, uint64_t value);

/* Wake all threads that wait for the word.  Call after a seq_cst change. */
void backoff_wake(struct waited_word *w);

#endif
