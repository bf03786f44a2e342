/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests that a call that queues a collective makes no system call
 *
 * In rare cases a call may sleep in futex(), if it needs a lock whose holder
 * was just preempted. Any other system call, or frequent sleeps, would come
 * from the call itself.
 *
 * While a thread's guard byte is set, each system call of the thread raises
 * SIGSYS instead (Linux 5.11,
 * Documentation/admin-guide/syscall-user-dispatch.rst).
 */

#include <criterion/criterion.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "support/clock.h"
#include "support/expect.h"
#include "support/ranks.h"

#ifndef PR_SET_SYSCALL_USER_DISPATCH
#define PR_SET_SYSCALL_USER_DISPATCH 59
#define PR_SYS_DISPATCH_ON 1
#endif

#define MAX_RANKS 4
#define QUEUED 16 /* calls before each wait */
#define TURNS 20
/* maximum count, at which all ranks share the work */
#define MOST ((size_t)16384)

/*
 * 1 if this thread must not make system calls, otherwise 0. The kernel reads
 * it.
 */
static _Thread_local volatile char guard;
static _Thread_local volatile int asked, slept;

/* Number of forbidden system calls on all ranks, number of the last one, and
 * number of rounds in which a call slept */
static atomic_int asked_by_all, last_number, slept_by_all;

/* Count a forbidden system call, and let the thread make it. */
static void on_call(int signal, siginfo_t *info, void *context)
{
	(void)signal;
	guard = 0;
	if (info->si_syscall == SYS_futex) {
		slept = 1;
	} else {
		asked++;
		atomic_store(&last_number, info->si_syscall);
	}
#ifdef __x86_64__
	((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP] -= 2;
#elif defined(__aarch64__)
	((ucontext_t *)context)->uc_mcontext.pc -= 4;
#else
	(void)context;
#endif
}

static void be_lenient(void)
{
	struct sigaction action = { .sa_sigaction = on_call,
		                    .sa_flags = SA_SIGINFO };

	/* Strict mode takes locks, which can make system calls. */
	unsetenv("COHORT_HOST_STRICT");
	sigaction(SIGSYS, &action, NULL);
}

TestSuite(enqueue, .init = be_lenient, .timeout = 120);

/*
 * Let the kernel guard the calling thread. Return false if the kernel cannot do
 * that, or if the thread needs a system call to read the clock.
 */
static bool can_guard(void)
{
	if (prctl(PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_ON, 0, 0,
	          &guard))
		return false;
	guard = 1;
	test_now();
	guard = 0;
	return !asked;
}

/* Return whether a forbidden system call is counted. */
static bool is_guarded(void)
{
	guard = 1;
	getppid();
	guard = 0;
	return asked-- == 1;
}

static float buffers[MAX_RANKS][2][MAX_RANKS * MOST];

enum { KINDS = 5 };

static int queue(struct cohort_comm *c, int kind, size_t count)
{
	const int rank = cohort_comm_rank(c);
	void *stream = cohort_comm_stream(c);
	float *send = buffers[rank][0], *recv = buffers[rank][1];

	switch (kind) {
	case 0:
		return cohort_all_reduce(c, send, send, count, COHORT_F32,
		                         COHORT_SUM, stream, NULL);
	case 1:
		return cohort_reduce(c, send, recv, count, COHORT_F32,
		                     COHORT_MAX, 0, stream, NULL);
	case 2:
		return cohort_broadcast(c, send, recv, count, COHORT_F32, 1,
		                        stream, NULL);
	case 3:
		return cohort_all_gather(c, send, recv, count, COHORT_F32,
		                         stream, NULL);
	default:
		return cohort_reduce_scatter(c, send, recv, count, COHORT_F32,
		                             COHORT_SUM, stream, NULL);
	}
}

/* Queue some calls of one kind, and wait for them. */
static void queue_some(struct cohort_comm *c, int kind, size_t count)
{
	int i, rc = COHORT_OK;

	for (i = 0; i < QUEUED && rc == COHORT_OK; i++) {
		guard = 1;
		rc = queue(c, kind, count);
		guard = 0;
	}
	ranks_must(rc, "queueing");
	ranks_must(cohort_synchronize(c, RANKS_SOON), "waiting");
}

/* Return whether a call has slept since the last take_slept(). */
static bool take_slept(void)
{
	const bool any = slept;

	slept = 0;
	return any;
}

enum { UNGUARDED = 1, UNNOTICED };

static int queue_all(struct cohort_comm *c, void *user)
{
	static const size_t counts[] = { 1, 512, MOST };
	int turn, kind;
	size_t n;

	(void)user;
	if (!can_guard())
		return UNGUARDED;
	if (!is_guarded())
		return UNNOTICED;
	/* Make a first call of each kind, in which the library allocates
	 * memory. */
	for (kind = 0; kind < KINDS; kind++)
		queue_some(c, kind, MOST);
	asked = 0;
	take_slept();
	for (turn = 0; turn < TURNS; turn++) {
		for (n = 0; n < sizeof(counts) / sizeof(*counts); n++)
			for (kind = 0; kind < KINDS; kind++)
				queue_some(c, kind, counts[n]);
		atomic_fetch_add(&slept_by_all, take_slept());
	}
	atomic_fetch_add(&asked_by_all, asked);
	return 0;
}

static void ask_for_nothing(int n)
{
	struct cohort_group *group;
	struct cohort_cause cause;

	place_need_one_process("calls that ask nothing of the system");
	/* so that no call waits for other ranks by sched_yield() */
	ranks_launch_ahead();
	group = ranks_open(n, NULL);
	cohort_group_run(group, queue_all, NULL, &cause);
	if (cause.worker == UNGUARDED)
		place_skip("a thread cannot be guarded");
	cr_assert_eq(cause.status, COHORT_OK, "%s", cause.text);
	cr_assert_eq(atomic_load(&asked_by_all), 0,
	             "%d times, the last for system call %d",
	             atomic_load(&asked_by_all), atomic_load(&last_number));
	cr_assert_leq(atomic_load(&slept_by_all), n * TURNS / 10,
	              "calls slept in %d of %d turns",
	              atomic_load(&slept_by_all), n * TURNS);
	expect_close(group);
}

Test(enqueue, enqueueing_makes_no_system_calls_on_two_ranks)
{
	ask_for_nothing(2);
}

Test(enqueue, enqueueing_makes_no_system_calls_if_ranks_exceed_cores)
{
	ask_for_nothing(4);
}
