/* SPDX-License-Identifier: Apache-2.0 */

#include "cli/check/trial.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
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
#include "cli/check/check.h"

#define MS UINT64_C(1000000)

/* How long a child that was killed may take to end. */
#define KILL_NS (2000 * MS)

/* ---- in the child --------------------------------------------------------- */

void trial_step(struct trial *t, const char *step, uint64_t ns)
{
	t->shared->step_ns = ns;
	atomic_store_explicit(&t->shared->until_ns, clock_deadline(ns),
	                      memory_order_relaxed);
	atomic_store_explicit(&t->shared->step, step, memory_order_release);
}

__attribute__((noreturn)) static void leave(struct trial *t, enum trial_end end)
{
	atomic_store_explicit(&t->shared->end, end, memory_order_release);
	/* Threads may be left that nothing ends. */
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
	/* What NCCL prints is no finding. */
	dup2(STDERR_FILENO, STDOUT_FILENO);
	t->run(t);
	leave(t, TRIAL_DONE);
}

/* ---- in the parent -------------------------------------------------------- */

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
	int ends[2];

	t->end = TRIAL_RUNS;
	t->step = "the start of CUDA";
	t->text[0] = '\0';
	t->is_left = false;
	t->fd = -1;
	t->shared =
		mmap(NULL, sizeof(*t->shared) + t->size, PROT_READ | PROT_WRITE,
	             MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (t->shared == MAP_FAILED) {
		t->shared = NULL;
		return refuse(t, "mmap");
	}
	atomic_store(&t->shared->end, TRIAL_RUNS);
	trial_step(t, t->step, TRIAL_STARTS * t->check->deadline_ns);
	if (pipe2(ends, O_CLOEXEC) != 0)
		return refuse(t, "pipe");
	fflush(NULL);
	t->pid = fork();
	if (t->pid == 0)
		become(t, parent); /* with its end of the pipe */
	close(ends[1]);
	t->fd = ends[0];
	return t->pid > 0 || refuse(t, "fork");
}

/* Wait so long for a child's end: the driver may hold it. */
static bool reap(struct trial *t, uint64_t ns, int *status)
{
	const uint64_t until = clock_deadline(ns);

	while (waitpid(t->pid, status, WNOHANG) == 0) {
		if (clock_now() >= until)
			return false;
		usleep(1000);
	}
	return true;
}

static void end_late(struct trial *t, const char *step, uint64_t ns)
{
	int status;

	t->step = step;
	t->step_ns = ns;
	kill(t->pid, SIGKILL);
	t->is_left = !reap(t, KILL_NS, &status);
	t->end = TRIAL_HUNG;
}

/* The child has closed its files. */
static void note_end(struct trial *t)
{
	const enum trial_end end = (enum trial_end)atomic_load_explicit(
		&t->shared->end, memory_order_acquire);
	int status = 0;

	t->step = atomic_load_explicit(&t->shared->step, memory_order_acquire);
	if (!reap(t, t->check->deadline_ns, &status)) {
		end_late(t, "the end of the process", t->check->deadline_ns);
	} else if (WIFSIGNALED(status)) {
		t->end = TRIAL_DIED;
		snprintf(t->text, sizeof(t->text), "the process ended: %s",
		         strsignal(WTERMSIG(status)));
	} else if (end == TRIAL_RUNS) {
		t->end = TRIAL_DIED;
		snprintf(t->text, sizeof(t->text),
		         "the process ended with status %d",
		         WEXITSTATUS(status));
	} else {
		t->end = end;
		memcpy(t->text, t->shared->text, sizeof(t->text));
		t->text[sizeof(t->text) - 1] = '\0';
	}
}

static bool runs(const struct trial *t)
{
	return t->shared && t->end == TRIAL_RUNS;
}

static uint64_t until(const struct trial *t)
{
	return atomic_load_explicit(&t->shared->until_ns, memory_order_relaxed);
}

/* Poll until a child has ended, or the first step's time is up. */
static void sleep_for(struct trial *trials, unsigned n, struct pollfd *fds)
{
	uint64_t first = UINT64_MAX, now;
	unsigned i;
	int ms;

	for (i = 0; i < n; i++) {
		fds[i] = (struct pollfd){
			.fd = runs(&trials[i]) ? trials[i].fd : -1,
			.events = POLLIN,
		};
		if (runs(&trials[i]) && until(&trials[i]) < first)
			first = until(&trials[i]);
	}
	now = clock_now();
	/* A step may begin meanwhile, with a deadline that is sooner. */
	ms = first <= now            ? 0
	     : first - now > 50 * MS ? 50
	                             : (int)((first - now) / MS) + 1;
	poll(fds, n, ms);
}

struct trial *trial_wait(struct trial *trials, unsigned n)
{
	struct pollfd fds[TRIALS];
	unsigned i;

	for (;;) {
		for (i = 0; i < n && !runs(&trials[i]);)
			i++;
		if (i == n)
			return NULL;
		sleep_for(trials, n, fds);
		for (i = 0; i < n; i++) {
			if (!runs(&trials[i]))
				continue;
			if (fds[i].revents)
				note_end(&trials[i]);
			else if (clock_now() >= until(&trials[i]))
				end_late(&trials[i],
				         atomic_load_explicit(
						 &trials[i].shared->step,
						 memory_order_acquire),
				         trials[i].shared->step_ns);
			else
				continue;
			return &trials[i];
		}
	}
}

void trial_free(struct trial *t)
{
	if (t->fd >= 0)
		close(t->fd);
	t->fd = -1;
	if (t->shared)
		munmap(t->shared, sizeof(*t->shared) + t->size);
	t->shared = NULL;
}

void trial_run(struct trial *t)
{
	if (trial_start(t))
		trial_wait(t, 1);
}
