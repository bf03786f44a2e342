/* SPDX-License-Identifier: Apache-2.0 */

#include "cli/bench/meet.h"

#include <sched.h>
#include <stdarg.h>
#include <stdio.h>

/* Spins while waiting for another rank, before the thread yields and checks
 * whether the others can still come. */
#define MEET_SPINS 20000
#define MEET_ASKS (UINT64_C(1) << 20)

void meeting_init(struct meeting *m, int ranks, int cores)
{
	m->ranks = ranks;
	m->is_crowded = ranks > cores;
	atomic_init(&m->arrived, 0);
	atomic_init(&m->has_failed, false);
	*m->complaint = '\0';
}

bool meeting_fail(struct meeting *m, const char *format, ...)
{
	va_list args;

	/* Relaxed: the complaint is read after the threads have ended. */
	if (!atomic_exchange_explicit(&m->has_failed, true,
	                              memory_order_relaxed)) {
		va_start(args, format);
		vsnprintf(m->complaint, sizeof(m->complaint), format, args);
		va_end(args);
	}
	return false;
}

static bool is_lost(struct meeting *m, struct cohort_comm *comm)
{
	struct cohort_cause cause;

	cohort_comm_cause(comm, &cause);
	return cause.status != COHORT_OK && !meeting_fail(m, "%s", cause.text);
}

static void relax(void)
{
#ifdef __x86_64__
	__builtin_ia32_pause();
#endif
}

bool meeting_meet(struct meeting *m, uint64_t *met, struct cohort_comm *comm)
{
	uint64_t spins = 0;

	*met += (uint64_t)m->ranks;
	/* Release and acquire: each rank sees what the others have done before. */
	atomic_fetch_add_explicit(&m->arrived, 1, memory_order_acq_rel);
	while (atomic_load_explicit(&m->arrived, memory_order_acquire) < *met) {
		if (atomic_load_explicit(&m->has_failed, memory_order_relaxed))
			return false;
		if (++spins % MEET_ASKS == 0 && is_lost(m, comm))
			return false;
		if (m->is_crowded || spins > MEET_SPINS)
			sched_yield();
		else
			relax();
	}
	return true;
}

void meeting_pin(int rank, int cores)
{
	int skip = rank % cores, cpu = 0;
	cpu_set_t allowed, one;

	if (sched_getaffinity(0, sizeof(allowed), &allowed))
		return;
	for (; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &allowed) && skip-- == 0)
			break;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	sched_setaffinity(0, sizeof(one), &one);
}
