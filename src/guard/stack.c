/* SPDX-License-Identifier: Apache-2.0 */

#include "guard/stack.h"

#include <errno.h>
#include <execinfo.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/thread.h"

/* From one look at the answer to the next. */
#define LOOK_NS UINT64_C(50000)

/* The handler's own frames. */
#define OWN_FRAMES 4

/* Those that were given up while the thread was at it are not used again. */
#define QUESTIONS 16

enum { FREE, ASKED, ANSWERING, ANSWERED };

struct question {
	/* Atomic; moved from ASKED by compare-and-swap, by the thread that is
	 * asked or by who gives up.  Release and acquire: what follows. */
	atomic_int state;

	/* Atomic; relaxed, ordered by the state. */
	atomic_int tid;

	/* Written by the thread that is asked, in ANSWERING. */
	void *place;
	int count;
	void *frames[STACK_FRAMES + OWN_FRAMES];
};

/* Guards all that follows but what is atomic; held up to a deadline. */
static pthread_mutex_t asking = PTHREAD_MUTEX_INITIALIZER;

static struct question questions[QUESTIONS];
static int used; /* of them */

/* Atomic; the one that counts. */
static struct question *_Atomic current;

/* Atomic; signals that were sent, by who asks, and that were answered, by the
 * handlers. */
static atomic_uint sent, answered;

static void *place_of(const ucontext_t *context)
{
#if defined(__x86_64__)
	return (void *)context->uc_mcontext.gregs[REG_RIP];
#elif defined(__aarch64__)
	return (void *)context->uc_mcontext.pc;
#else
	(void)context;
	return NULL;
#endif
}

static void answer(int signo, siginfo_t *info, void *context)
{
	struct question *q = atomic_load(&current);
	int error = errno, state = ASKED;

	(void)signo;
	(void)info;
	/* Not thread_id(): thread-local storage may take memory. */
	if (q &&
	    atomic_load_explicit(&q->tid, memory_order_relaxed) ==
	            (int)syscall(SYS_gettid) &&
	    atomic_compare_exchange_strong(&q->state, &state, ANSWERING)) {
		q->place = place_of(context);
		q->count = backtrace(q->frames, STACK_FRAMES + OWN_FRAMES);
		atomic_store(&q->state, ANSWERED);
	}
	atomic_fetch_add(&answered, 1);
	errno = error;
}

void stack_prepare(void)
{
	void *frame;

	backtrace(&frame, 1); /* opens a library */
}

/* ---- asking ----------------------------------------------------------- */

/* False if the program has a handler. */
static bool install(int signo)
{
	struct sigaction action = { .sa_sigaction = answer,
		                    .sa_flags = SA_SIGINFO | SA_RESTART |
		                                SA_ONSTACK };
	struct sigaction now;

	sigfillset(&action.sa_mask);
	if (sigaction(signo, NULL, &now))
		return false;
	if ((now.sa_flags & SA_SIGINFO) && now.sa_sigaction == answer)
		return true;
	return !(now.sa_flags & SA_SIGINFO) && now.sa_handler == SIG_DFL &&
	       !sigaction(signo, &action, NULL);
}

/* Unless a signal is still under way, or the program has a handler by now. */
static void uninstall(int signo)
{
	struct sigaction now, none = { .sa_handler = SIG_DFL };

	if (atomic_load(&sent) != atomic_load(&answered) ||
	    sigaction(signo, NULL, &now) || !(now.sa_flags & SA_SIGINFO) ||
	    now.sa_sigaction != answer)
		return;
	sigaction(signo, &none, NULL);
}

/* True if it is answered. */
static bool await(struct question *q, uint64_t deadline_ns)
{
	const struct timespec pause = clock_timespec(LOOK_NS);

	while (atomic_load(&q->state) != ANSWERED && clock_now() < deadline_ns)
		nanosleep(&pause, NULL);
	return atomic_load(&q->state) == ANSWERED;
}

/* From where it is on; of an unwinder that has not found that, only that. */
static void copy(struct stack *out, const struct question *q)
{
	int i = 0;

	while (i < q->count && q->frames[i] != q->place)
		i++;
	if (i == q->count && q->place) {
		out->count = 1;
		out->frames[0] = q->place;
		return;
	}
	if (i == q->count)
		i = 0;
	out->count = q->count - i < STACK_FRAMES ? q->count - i : STACK_FRAMES;
	memcpy(out->frames, q->frames + i,
	       (size_t)out->count * sizeof(*out->frames));
}

static const char *ask(struct question *q, int signo, int tid,
                       uint64_t deadline_ns, struct stack *out)
{
	int state = ASKED;

	atomic_store_explicit(&q->tid, tid, memory_order_relaxed);
	atomic_store(&q->state, ASKED);
	atomic_store(&current, q);
	atomic_fetch_add(&sent, 1);
	if (syscall(SYS_tgkill, getpid(), tid, signo)) {
		atomic_fetch_sub(&sent, 1);
		return "it cannot be asked";
	}
	if (await(q, deadline_ns)) {
		copy(out, q);
		return NULL;
	}
	if (!atomic_compare_exchange_strong(&q->state, &state, FREE))
		used++; /* it is being written to */
	return "it does not answer";
}

static const char *ask_once(int signo, int tid, uint64_t deadline_ns,
                            struct stack *out)
{
	const char *why;

	if (used == QUESTIONS)
		return "too many have not answered";
	if (!install(signo))
		return "the program handles the signal";
	why = ask(&questions[used], signo, tid, deadline_ns, out);
	uninstall(signo);
	return why;
}

const char *stack_take(int signo, int tid, uint64_t deadline_ns,
                       struct stack *out)
{
	struct timespec until = clock_timespec(deadline_ns);
	const char *why;

	if (thread_blocks(tid, signo))
		return "it blocks the signal";
	if (pthread_mutex_clocklock(&asking, CLOCK_MONOTONIC, &until))
		return "another one is being asked";
	why = ask_once(signo, tid, deadline_ns, out);
	pthread_mutex_unlock(&asking);
	return why;
}
