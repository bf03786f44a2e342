/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_BACKOFF_H
#define BASE_BACKOFF_H

/*
 * Waiting for a word that another thread or a device will change: pause a
 * little when there is a core to spare, then yield, and only after half a
 * millisecond sleep in short naps.  (Waking a sleeper costs more than most of
 * these waits last, and with more ranks than cores a spinning thread keeps the
 * one it waits for from running.)
 *
 *	struct backoff b = BACKOFF;
 *	while (!done())
 *		backoff_wait(&b, deadline);
 */

#include <stdatomic.h>
#include <stdint.h>

struct backoff {
	uint64_t started_ns; /* 0: not yet read */
	unsigned rounds;
};

#define BACKOFF                                                                \
	{                                                                      \
		.rounds = 0                                                    \
	}

/* A backoff for one of @threads threads that wait for each other: if there are
 * more of them than cores, it yields from the start instead of pausing. */
struct backoff backoff_among(int threads);

/* How many cores this process may run on, as of the first call. */
int cpu_count(void);

/* Tell the processor that this thread spins. */
static inline void cpu_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

/* Wait a little, and not past @deadline_ns: at most a millisecond, or longer if
 * hundreds of threads wait. */
void backoff_wait(struct backoff *b, uint64_t deadline_ns);

/*
 * A word whose changes wake the threads of this process that wait for it
 *
 * backoff_wait_on - like backoff_wait(), but wait no longer once the lower half
 *                   of the word differs from that of @value
 * backoff_wake    - wake all that wait, after a seq_cst change of the word
 */
struct waited_word {
	_Atomic uint64_t word;
	atomic_int sleepers;
};

void backoff_wait_on(struct backoff *b, uint64_t deadline_ns,
                     struct waited_word *w, uint64_t value);
void backoff_wake(struct waited_word *w);

#endif
