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

/* The time from one look at an answer to the next. */
#define LOOK_NS UINT64_C(50000)

/* Frames that the handler itself has on the stack. */
#define OWN_FRAMES 4

/* Bytes of stack for the unwinder.  It takes some 1700, and more in functions
 * for which it keeps several states; it takes 6000 with AddressSanitizer
 * between it and the C library. */
#define WALK_ROOM 4096
#define WALK_ROOM_ASAN 16384

/* Slots for questions.  A question that was given up while the thread was
 * answering it is not reused before the thread is done. */
#define QUESTIONS 64

/* Signals under way at a time, and how many of them may be of one number to one
 * thread id: two, because the first may have been for an earlier thread of that
 * id. */
#define SIGNALS 128
#define SIGNALS_EACH 2

enum { FREE, ASKED, ANSWERING, ANSWERED };

struct question {
	/* Atomic; the thread's id and one of these states.  The asking thread
	 * sets ASKED.  From there a compare-and-swap leads to ANSWERING, and on
	 * to ANSWERED, by the thread that is asked, or to FREE by the asking
	 * one, which gives up.  Its release and acquire publish the fields
	 * below. */
	_Atomic uint64_t word;

	/* Written by the thread that is asked, in ANSWERING. */
	void *place;
	int holds_python;
	int count;
	void *frames[STACK_FRAMES + OWN_FRAMES];
};

/* Held from the first question to the last answer, or to the deadline. */
static pthread_mutex_t asking = PTHREAD_MUTEX_INITIALIZER;

static struct question questions[QUESTIONS];

/* Atomic; signals under way, each as a thread's id and a number; 0: a free
 * place.  Set by the asking thread before it sends the signal.  Cleared by the
 * handler before it looks at the questions (seq_cst), which the asking thread
 * has set earlier: so a handler whose signal is still in here will see the
 * question. */
static _Atomic uint64_t under_way[SIGNALS];

/* Atomic, relaxed, because each start sets it to one value.  What the unwinder
 * needs on a stack; 0: the unwinder takes a lock and is not used. */
static atomic_size_t walk_room;

/* Atomic, relaxed, as the above; functions of Python, if that is in the
 * process. */
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

/* Note that one such signal is no longer under way. */
static void take_out(uint64_t signal)
{
	uint64_t expected;
	int i;

	for (i = 0; i < SIGNALS; i++) {
		expected = signal;
		if (atomic_compare_exchange_strong(&under_way[i], &expected, 0))
			return;
	}
}

/* False if the unwinder would take a lock, or would overrun the alternate stack
 * that the handler runs on. */
static bool may_walk(const ucontext_t *context)
{
	uintptr_t room = (uintptr_t)__builtin_frame_address(0) -
	                 (uintptr_t)context->uc_stack.ss_sp;
	size_t needed = atomic_load_explicit(&walk_room, memory_order_relaxed);

	return needed && (room >= needed || room >= context->uc_stack.ss_size);
}

/* Python's two functions read memory, and nothing else. */
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
	if (may_walk(context))
		q->count = backtrace(q->frames, STACK_FRAMES + OWN_FRAMES);
	atomic_store(&q->word, question_word(tid, ANSWERED));
}

static void answer(int signo, siginfo_t *info, void *context)
{
	/* Not thread_id(): thread-local storage may take memory. */
	int error = errno, tid = (int)syscall(SYS_gettid), i;

	/* Others may send the signal, too. */
	if (info->si_code == SI_TKILL && info->si_pid == getpid()) {
		take_out(signal_word(tid, signo));
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
	backtrace(&frame, 1); /* opens a library */
}

/* ---- the handler ------------------------------------------------------ */

static bool is_own(const struct sigaction *action)
{
	return (action->sa_flags & SA_SIGINFO) &&
	       action->sa_sigaction == answer;
}

static bool is_default(const struct sigaction *action)
{
	return !(action->sa_flags & SA_SIGINFO) &&
	       action->sa_handler == SIG_DFL;
}

/* Install the handler.  False if the program has one, even if it has set it
 * just now: then that one is put back. */
static bool install(int signo)
{
	struct sigaction action = { .sa_sigaction = answer,
		                    .sa_flags = SA_SIGINFO | SA_RESTART |
		                                SA_ONSTACK };
	struct sigaction now;

	if (sigaction(signo, NULL, &now))
		return false;
	if (is_own(&now))
		return true;
	sigfillset(&action.sa_mask);
	/* A fault in the handler is for the program's handlers. */
	sigdelset(&action.sa_mask, SIGSEGV);
	sigdelset(&action.sa_mask, SIGBUS);
	if (!is_default(&now) || sigaction(signo, &action, &now))
		return false;
	if (is_default(&now) || is_own(&now))
		return true;
	sigaction(signo, &now, NULL);
	return false;
}

/* True if a signal is under way.  A thread that has ended will not get its
 * signal. */
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

/* Remove the handler, unless a signal is under way or the program has set its
 * own. */
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

/* Copy the frames from the thread's place on, or that place alone if the
 * unwinder has not found it. */
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

/* The first question from @from on that is not in use; NULL: there is none. */
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

/* Returns NULL, or why the signal is not sent. */
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
	if (n >= SIGNALS_EACH)
		return NULL; /* one of those signals will do */
	if (!room)
		return "too many have not answered";
	atomic_store(room, word);
	if (!syscall(SYS_tgkill, getpid(), tid, signo))
		return NULL;
	take_out(word);
	return "it cannot be asked";
}

/* Ask the threads that can be asked; @asked has their questions, NULL: not
 * asked. */
static void ask(int signo, struct stack *stacks, int n,
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
			stacks[i].why = "too many have not answered";
	}
	for (i = 0; i < n; i++)
		if (asked[i])
			stacks[i].why = send_signal(signo, stacks[i].tid);
}

/* Wait for the answer until @deadline_ns.  Then take the question back, unless
 * the thread is answering it. */
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
		out->why = "it does not answer";
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
	ask(signo, stacks, n, asked);
	for (i = 0; i < n; i++)
		if (asked[i])
			collect(asked[i], deadline_ns, &stacks[i]);
	uninstall(signo);
}

/* Returns NULL, or why the thread is not asked. */
static const char *hindrance(int tid, int signo)
{
	if (thread_blocks(tid, signo))
		return "it blocks the signal";
	if (thread_is_cramped(tid))
		return "its alternate signal stack is too small";
	return NULL;
}

void stack_take(int signo, struct stack *stacks, int n, uint64_t deadline_ns)
{
	struct timespec until = clock_timespec(deadline_ns);
	int i;

	if (pthread_mutex_clocklock(&asking, CLOCK_MONOTONIC, &until)) {
		refuse(stacks, n, "others are being asked");
		return;
	}
	for (i = 0; i < n; i++)
		stacks[i].why = hindrance(stacks[i].tid, signo);
	ask_all(signo, stacks, n, deadline_ns);
	pthread_mutex_unlock(&asking);
}

void stack_retire(int signo)
{
	pthread_mutex_lock(&asking);
	uninstall(signo);
	pthread_mutex_unlock(&asking);
}
