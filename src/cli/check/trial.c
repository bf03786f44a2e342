/* SPDX-License-Identifier: Apache-2.0 */

#include "cli/check/check.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"
#include "base/thread.h"

/* Time that a killed child may take to end */
#define KILL_NS (2 * NS_PER_S)

void trial_step(struct trial *t, const char *step, uint64_t ns)
{
	t->shared->step_ns = ns;
	atomic_store_explicit(&t->shared->until_ns, clock_deadline(ns),
	                      memory_order_relaxed);
	atomic_store_explicit(&t->shared->step, step, memory_order_release);
}

__attribute__((noreturn)) static void leave(struct trial *t, enum trial_end end)
{
	/* The exit of the process is a step with its own deadline. */
	trial_step(t, t->shared->step, t->check->deadline_ns);
	atomic_store_explicit(&t->shared->end, end, memory_order_release);
	/* Do not wait for other threads, which may hang. */
	_exit(0);
}

void trial_fail(struct trial *t, const char *format, ...)
{
	struct text text = { t->shared->text, sizeof(t->shared->text) };
	va_list args;

	va_start(args, format);
	text_vadd(&text, format, args);
	va_end(args);
	leave(t, TRIAL_FAILED);
}

__attribute__((noreturn)) static void become(struct trial *t, pid_t parent)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	/* Keep NCCL's messages out of standard output, where the findings
	 * go. */
	dup2(STDERR_FILENO, STDOUT_FILENO);
	t->run(t);
	leave(t, TRIAL_DONE);
}

static bool refuse(struct trial *t, const char *what)
{
	snprintf(t->text, sizeof(t->text), "%s: %s", what, strerror(errno));
	t->end = TRIAL_REFUSED;
	trial_free(t);
	return false;
}

bool trial_start(struct trial *t)
{
	const pid_t parent = getpid();

	t->end = TRIAL_RUNS;
	t->text[0] = '\0';
	t->is_left = false;
	t->shared =
		mmap(NULL, sizeof(*t->shared) + t->size, PROT_READ | PROT_WRITE,
	             MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (t->shared == MAP_FAILED) {
		t->shared = NULL;
		return refuse(t, "mmap");
	}
	atomic_store(&t->shared->end, TRIAL_RUNS);
	trial_step(t, "the initialization of CUDA",
	           TRIAL_STARTS * t->check->deadline_ns);
	fflush(NULL);
	t->pid = fork();
	if (t->pid == 0)
		become(t, parent);
	return t->pid > 0 || refuse(t, "fork");
}

static void record_trial_end(struct trial *t, int status)
{
	t->end = (enum trial_end)atomic_load_explicit(&t->shared->end,
	                                              memory_order_acquire);
	text_copy(t->text, sizeof(t->text), t->shared->text);
	if (!WIFSIGNALED(status) && t->end != TRIAL_RUNS)
		return;
	t->end = TRIAL_DIED;
	text_set(t->text, sizeof(t->text), "the process ");
	thread_add_end(&(struct text){ t->text + strlen(t->text),
	                               sizeof(t->text) - strlen(t->text) },
	               status);
}

/* Kill the child after a step has exceeded its deadline. A child that is inside
 * the driver may not end even then. */
static void end_late(struct trial *t)
{
	const uint64_t until = clock_deadline(KILL_NS);
	int status;

	if (atomic_load(&t->shared->end) != TRIAL_RUNS)
		t->step = "the exit of the process";
	t->end = TRIAL_HUNG;
	kill(t->pid, SIGKILL);
	while (waitpid(t->pid, &status, WNOHANG) == 0) {
		if (clock_now() >= until) {
			t->is_left = true;
			break;
		}
		usleep(1000);
	}
}

struct trial *trial_wait(struct trial *const *trials, unsigned n)
{
	bool any = true, is_late;
	struct trial *t;
	int status = 0;
	pid_t ended;

	while (any) {
		any = false;
		for (unsigned i = 0; i < n; i++) {
			t = trials[i];
			if (!t->shared || t->end != TRIAL_RUNS)
				continue;
			any = true;
			is_late = clock_now() >= t->shared->until_ns;
			ended = waitpid(t->pid, &status, WNOHANG);
			if (!ended && !is_late)
				continue;
			t->step = atomic_load_explicit(&t->shared->step,
			                               memory_order_acquire);
			t->step_ns = t->shared->step_ns;
			if (ended)
				record_trial_end(t, status);
			else
				end_late(t);
			return t;
		}
		usleep(1000);
	}
	return NULL;
}

void trial_free(struct trial *t)
{
	if (t->shared)
		munmap(t->shared, sizeof(*t->shared) + t->size);
	t->shared = NULL;
}

void trial_run(struct trial *t)
{
	if (trial_start(t))
		trial_wait(&t, 1);
}
