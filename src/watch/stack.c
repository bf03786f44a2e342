/* SPDX-License-Identifier: Apache-2.0 */

#include "watch/stack.h"

#include <dlfcn.h>
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

/* Interval between checks for an answer. */
#define LOOK_NS UINT64_C(50000)

/* Frames of the handler itself on the stack. */
#define OWN_FRAMES 4

/* Bytes of stack for the unwinder.  It needs about 1700, and more in functions
 * for which it keeps several states. */
#define WALK_ROOM 4096

/* Bytes of stack for the unwinder under AddressSanitizer, which itself needs
 * 6000 bytes between the unwinder and the C library. */
#define WALK_ROOM_ASAN 16384

/* Number of slots for questions.  If a thread is still answering a question
 * after the asking thread has given up, the slot stays in use until the answer
 * is complete. */
#define QUESTIONS 64

/* Maximum number of signals that are pending at a time. */
#define SIGNALS 128

/* Maximum number of pending signals with one signal number for one thread ID.
 * It is two, because the first signal may have been sent to an earlier thread
 * that had the same ID. */
#define SIGNALS_EACH 2

/* States of a question. */
enum { FREE, ASKED, ANSWERING, ANSWERED };

/* A question to one thread, with room for the answer. */
struct question {
	/* Atomic; the thread's ID and the state.  The asking thread sets ASKED.
	 * From there, the thread that is asked changes it to ANSWERING, and
	 * then to ANSWERED.  If the asking thread gives up first, it changes
	 * ASKED back to FREE.  The changes from ASKED are compare-and-swaps.
	 * Release and acquire order the members below. */
	_Atomic uint64_t word;

	/* This and the following members are written by the thread that is
	 * asked, in state ANSWERING. */
	void *place;
	int holds_python;
	int count;
	void *frames[STACK_FRAMES + OWN_FRAMES];
};

/* Lock held from the first question to the last answer or the deadline. */
static pthread_mutex_t asking = PTHREAD_MUTEX_INITIALIZER;

static struct question questions[QUESTIONS];

/* Atomic; pending signals, each as a thread ID and a signal number, or 0 if the
 * entry is free.  The asking thread sets an entry before it sends the signal;
 * the handler clears it before it reads the questions.  All accesses are
 * seq_cst.  So if an entry is still set after a question was stored, the
 * handler will see that question. */
static _Atomic uint64_t under_way[SIGNALS];

/* Atomic; number of bytes that the unwinder needs on a stack, or 0 if the
 * unwinder takes a lock and must not be used.  Relaxed, because every
 * stack_prepare() stores the same value. */
static atomic_size_t walk_room;

/* Atomic; functions of Python if it is in the process, otherwise NULL.
 * Relaxed, because every stack_prepare() stores the same values. */
static int (*_Atomic python_is_initialized)(void);
static int (*_Atomic python_holds_lock)(void);

static uint64_t question_word(int tid, int state)
{
	return (uint64_t)tid << 2 | (unsigned)state;
}

static int state_of(uint64_t word)
{
	return (int)(word & 3);
}

static uint64_t signal_word(int tid, int signo)
{
	return (uint64_t)tid << 8 | (unsigned)signo;
}

/* ---- the thread that is asked ----------------------------------------- */

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

/* Remove @signal from under_way, because it is no longer pending. */
static void clear_pending(uint64_t signal)
{
	uint64_t expected;
	int i;

	for (i = 0; i < SIGNALS; i++) {
		expected = signal;
		if (atomic_compare_exchange_strong(&under_way[i], &expected, 0))
			return;
	}
}

/* Return false if the unwinder would take a lock, or if it would overrun the
 * alternate stack that the handler runs on. */
static bool can_unwind(const ucontext_t *context)
{
	uintptr_t room = (uintptr_t)__builtin_frame_address(0) -
	                 (uintptr_t)context->uc_stack.ss_sp;
	size_t needed = atomic_load_explicit(&walk_room, memory_order_relaxed);

	return needed && (room >= needed || room >= context->uc_stack.ss_size);
}

/* Return 1 if the thread holds Python's interpreter lock, 0 if not, and -1
 * without Python.  Both functions of Python only read memory. */
static int holds_python(void)
{
	int (*is_initialized)(void) = atomic_load_explicit(
		&python_is_initialized, memory_order_relaxed);
	int (*holds_lock)(void) =
		atomic_load_explicit(&python_holds_lock, memory_order_relaxed);

	if (!is_initialized || !holds_lock || !is_initialized())
		return -1;
	return holds_lock() != 0;
}

static void answer_one(struct question *q, int tid, const ucontext_t *context)
{
	uint64_t word = question_word(tid, ASKED);

	if (!atomic_compare_exchange_strong(&q->word, &word,
	                                    question_word(tid, ANSWERING)))
		return;
	q->place = place_of(context);
	q->holds_python = holds_python();
	q->count = 0;
	if (can_unwind(context))
		q->count = backtrace(q->frames, STACK_FRAMES + OWN_FRAMES);
	atomic_store(&q->word, question_word(tid, ANSWERED));
}

static void record_own_stack(int signo, siginfo_t *info, void *context)
{
	/* Not thread_id(), because thread-local storage may allocate memory. */
	int error = errno, tid = (int)syscall(SYS_gettid), i;

	/* Ignore signals that this process has not sent: another process may
	 * send the same signal. */
	if (info->si_code == SI_TKILL && info->si_pid == getpid()) {
		clear_pending(signal_word(tid, signo));
		for (i = 0; i < QUESTIONS; i++)
			answer_one(&questions[i], tid, context);
	}
	errno = error;
}

void stack_prepare(void)
{
	void *frame;

	size_t room =
		dlsym(RTLD_DEFAULT, "__asan_init") ? WALK_ROOM_ASAN : WALK_ROOM;

	if (!dlsym(RTLD_DEFAULT, "_dl_find_object"))
		room = 0;
	atomic_store_explicit(&walk_room, room, memory_order_relaxed);
	atomic_store_explicit(&python_is_initialized,
	                      (int (*)(void))dlsym(RTLD_DEFAULT,
	                                           "Py_IsInitialized"),
	                      memory_order_relaxed);
	atomic_store_explicit(&python_holds_lock,
	                      (int (*)(void))dlsym(RTLD_DEFAULT,
	                                           "PyGILState_Check"),
	                      memory_order_relaxed);
	backtrace(&frame, 1);
}

/* ---- the handler ------------------------------------------------------ */

static bool is_own(const struct sigaction *action)
{
	return (action->sa_flags & SA_SIGINFO) &&
	       action->sa_sigaction == record_own_stack;
}

static bool is_default(const struct sigaction *action)
{
	return !(action->sa_flags & SA_SIGINFO) &&
	       action->sa_handler == SIG_DFL;
}

/* Install the handler.  Return false if the program has one for this signal.
 * If the program installs one at the same time, restore the program's
 * handler. */
static bool install(int signo)
{
	struct sigaction action = { .sa_sigaction = record_own_stack,
		                    .sa_flags = SA_SIGINFO | SA_RESTART |
		                                SA_ONSTACK };
	struct sigaction now;

	if (sigaction(signo, NULL, &now))
		return false;
	if (is_own(&now))
		return true;
	sigfillset(&action.sa_mask);
	/* Leave the signals of faults unblocked, so that the program's handlers
	 * are called if this handler faults. */
	sigdelset(&action.sa_mask, SIGSEGV);
	sigdelset(&action.sa_mask, SIGBUS);
	if (!is_default(&now) || sigaction(signo, &action, &now))
		return false;
	if (is_default(&now) || is_own(&now))
		return true;
	sigaction(signo, &now, NULL);
	return false;
}

/* Return true if a signal is pending.  Ignore signals for threads that have
 * ended. */
static bool is_under_way(int signo)
{
	bool any = false;
	uint64_t word;
	int i;

	for (i = 0; i < SIGNALS; i++) {
		word = atomic_load(&under_way[i]);
		if ((int)(word & 0xff) != signo)
			continue;
		if (thread_has_ended((int)(word >> 8)))
			atomic_compare_exchange_strong(&under_way[i], &word, 0);
		else
			any = true;
	}
	return any;
}

/* Remove the handler, unless a signal is pending or the handler is the
 * program's. */
static void uninstall(int signo)
{
	struct sigaction now, none = { .sa_handler = SIG_DFL };

	if (is_under_way(signo) || sigaction(signo, NULL, &now) ||
	    !is_own(&now) || sigaction(signo, &none, &now))
		return;
	if (!is_own(&now))
		sigaction(signo, &now, NULL);
}

/* ---- asking ----------------------------------------------------------- */

/* Copy the frames, starting with the place where the thread was interrupted.
 * If the unwinder has not found that place, copy only the place. */
static void copy(struct stack *out, const struct question *q)
{
	int i = 0;

	out->holds_python = q->holds_python;
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

/* Return the first question from @from on that is not in use, or NULL. */
static struct question *find_free(struct question *from)
{
	int state;

	for (; from < questions + QUESTIONS; from++) {
		state = state_of(atomic_load(&from->word));
		if (state == FREE || state == ANSWERED)
			return from;
	}
	return NULL;
}

/* Send the signal to a thread.  Return NULL, or the reason why the signal was
 * not sent. */
static const char *send_signal(int signo, int tid)
{
	uint64_t word = signal_word(tid, signo), there;
	_Atomic uint64_t *room = NULL;
	int i, n = 0;

	for (i = 0; i < SIGNALS; i++) {
		there = atomic_load(&under_way[i]);
		if (!there)
			room = &under_way[i];
		n += there == word;
	}
	/* The handler of a pending signal will see the question, so no other
	 * signal is needed. */
	if (n >= SIGNALS_EACH)
		return NULL;
	if (!room)
		return "too many threads have not answered";
	atomic_store(room, word);
	if (!syscall(SYS_tgkill, getpid(), tid, signo))
		return NULL;
	clear_pending(word);
	return "the signal could not be sent";
}

/* Ask the threads that can be asked.  Store their questions in @asked, or NULL
 * for a thread that is not asked. */
static void signal_threads(int signo, struct stack *stacks, int n,
                           struct question *asked[STACKS])
{
	struct question *q = questions;
	int i;

	for (i = 0; i < n; i++) {
		asked[i] = NULL;
		if (stacks[i].why)
			continue;
		asked[i] = q ? find_free(q) : NULL;
		q = asked[i] ? asked[i] + 1 : NULL;
		if (asked[i])
			atomic_store(&asked[i]->word,
			             question_word(stacks[i].tid, ASKED));
		else
			stacks[i].why = "too many threads have not answered";
	}
	for (i = 0; i < n; i++)
		if (asked[i])
			stacks[i].why = send_signal(signo, stacks[i].tid);
}

/* Wait for the answer until @deadline_ns.  After that, withdraw the question,
 * unless the thread is answering it. */
static void collect(struct question *q, uint64_t deadline_ns, struct stack *out)
{
	const struct timespec pause = clock_timespec(LOOK_NS);
	uint64_t word = question_word(out->tid, ASKED);

	while (!out->why && state_of(atomic_load(&q->word)) != ANSWERED &&
	       clock_now() < deadline_ns)
		nanosleep(&pause, NULL);
	if (!atomic_compare_exchange_strong(&q->word, &word, FREE) &&
	    state_of(word) == ANSWERED) {
		copy(out, q);
		out->why = NULL;
	} else if (!out->why) {
		out->why = "the thread does not answer";
	}
}

static void refuse(struct stack *stacks, int n, const char *why)
{
	int i;

	for (i = 0; i < n; i++)
		stacks[i].why = why;
}

/* Ask all threads before waiting for the first answer. */
static void ask_all(int signo, struct stack *stacks, int n,
                    uint64_t deadline_ns)
{
	struct question *asked[STACKS];
	int i;

	if (!install(signo)) {
		refuse(stacks, n, "the program handles the signal");
		return;
	}
	signal_threads(signo, stacks, n, asked);
	for (i = 0; i < n; i++)
		if (asked[i])
			collect(asked[i], deadline_ns, &stacks[i]);
	uninstall(signo);
}

/* Return NULL, or the reason why the thread cannot be asked. */
static const char *reason_unavailable(int tid, int signo)
{
	if (thread_blocks(tid, signo))
		return "the thread blocks the signal";
	if (thread_has_small_signal_stack(tid))
		return "the thread's alternate signal stack is too small";
	return NULL;
}

void stack_take(int signo, struct stack *stacks, int n, uint64_t deadline_ns)
{
	struct timespec until = clock_timespec(deadline_ns);
	int i;

	if (pthread_mutex_clocklock(&asking, CLOCK_MONOTONIC, &until)) {
		refuse(stacks, n, "another request is taking stacks");
		return;
	}
	for (i = 0; i < n; i++)
		stacks[i].why = reason_unavailable(stacks[i].tid, signo);
	ask_all(signo, stacks, n, deadline_ns);
	pthread_mutex_unlock(&asking);
}

void stack_retire(int signo)
{
	pthread_mutex_lock(&asking);
	uninstall(signo);
	pthread_mutex_unlock(&asking);
}
