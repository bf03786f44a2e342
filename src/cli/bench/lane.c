/* SPDX-License-Identifier: Apache-2.0 */

/* How the ranks' threads meet outside the timed part, end together when one of them fails,
 * and reach their memory. */

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/bench/bench.h"

/* Spins before a thread that waits for another rank starts to yield. */
#define MEET_SPINS 20000

/* Spins between checks whether the others can still come. */
#define MEET_ASKS (UINT64_C(1) << 20)

/* ---- meetings --------------------------------------------------------- */

/* Leave a complaint, unless there is one already. */
static bool complain(struct bench *b, const char *text)
{
	/* Relaxed: the complaint is read after the threads have ended. */
	if (!atomic_exchange_explicit(&b->has_failed, true,
	                              memory_order_relaxed))
		snprintf(b->complaint, sizeof(b->complaint), "%s", text);
	return false;
}

/* The first group ends once this rank's worker returns. */
bool lane_fail(struct lane *l, const char *what, const char *why)
{
	struct bench *b = l->bench;
	char text[sizeof(b->complaint)];

	snprintf(text, sizeof(text), "rank %d, %s: %s", l->rank, what, why);
	complain(b, text);
	for (int i = 1; i < BENCH_GROUPS; i++)
		if (b->groups[i])
			cohort_group_abort(b->groups[i], what);
	return false;
}

static bool is_lost(struct lane *l)
{
	struct cohort_cause cause;

	cohort_comm_cause(l->comm, &cause);
	return cause.status != COHORT_OK && !complain(l->bench, cause.text);
}

static void relax(void)
{
#ifdef __x86_64__
	__builtin_ia32_pause();
#endif
}

bool lane_meet(struct lane *l)
{
	struct bench *b = l->bench;
	bool is_crowded = b->options->ranks > b->cores;
	uint64_t spins = 0;

	l->met += (uint64_t)b->options->ranks;
	/* Release and acquire: each rank sees what the others have done before. */
	atomic_fetch_add_explicit(&b->arrived, 1, memory_order_acq_rel);
	while (atomic_load_explicit(&b->arrived, memory_order_acquire) <
	       l->met) {
		if (atomic_load_explicit(&b->has_failed, memory_order_relaxed))
			return false;
		if (++spins % MEET_ASKS == 0 && is_lost(l))
			return false;
		if (is_crowded || spins > MEET_SPINS)
			sched_yield();
		else
			relax();
	}
	return true;
}

void lane_pin(const struct lane *l)
{
	int skip = l->rank % l->bench->cores, cpu = 0;
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

/* ---- buffers ---------------------------------------------------------- */

char *lane_host(const struct lane *l, char *at)
{
	return l->staging && !l->is_plain ? l->staging : at;
}

bool lane_copy(struct lane *l, void *to, const void *from, size_t bytes)
{
	const struct platform *p = l->bench->platform;
	cudaError_t err;

	if (to == from)
		return true;
	/* Not cohort_copy(), because the thread may be inside the native
	 * communicator. */
	err = p->cudaMemcpy(to, from, bytes, cudaMemcpyDefault);
	if (err == cudaSuccess)
		err = p->cudaDeviceSynchronize();
	return err == cudaSuccess ||
	       lane_fail(l, "copy", p->cudaGetErrorString(err));
}

bool lane_allocate(struct lane *l)
{
	struct bench *b = l->bench;
	char what[40];
	bool ok;

	snprintf(what, sizeof(what), "%zu bytes", b->bytes);
	for (int i = 0; i < b->buffers; i++) {
		void *memory;

		if (cohort_alloc(l->comm, b->bytes, &memory) != COHORT_OK)
			return lane_fail(l, what, cohort_last_error());
		l->buffer[i] = memory;
	}
	if (b->platform->memory_is_host)
		return true;
	l->staging = malloc(b->bytes);
	ok = l->staging;
	for (int i = 0; i < b->buffers && b->needs_plain; i++)
		ok = (l->plain[i] = malloc(b->bytes)) && ok;
	return ok || lane_fail(l, what, "out of memory");
}
