/* SPDX-License-Identifier: Apache-2.0 */

#include "cli/watch/observed.h"

#include <errno.h>
#include <glob.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/thread.h"
#include "cli/common/cli.h"

/* ---- the program -------------------------------------------------------- */

static _Noreturn void become(const struct started *s, char **argv,
                             const char *const *variables, const sigset_t *mask)
{
	for (; *variables; variables++)
		putenv((char *)(uintptr_t)*variables);
	/* SIGQUIT from the terminal is a request for a report. */
	signal(SIGQUIT, SIG_IGN);
	signal(SIGPIPE, s->on_sigpipe);
	sigprocmask(SIG_SETMASK, mask, NULL);
	execvp(argv[0], argv);
	_exit(cli_cannot_run(argv[0], errno));
}

int started_run(struct started *s, char **argv, const char *const *variables,
                const sigset_t *mask)
{
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	s->program = fork();
	if (s->program == 0)
		become(s, argv, variables, mask);
	if (s->program > 0)
		return CLI_OK;
	s->program = 0;
	return cli_fail("fork: %s", strerror(errno));
}

/* ---- ends ---------------------------------------------------------------- */

static struct started_process *find(const struct started *s, int64_t pid)
{
	struct started_process *p = s->processes, *end = p + s->n;

	while (p < end && p->pid != pid)
		p++;
	return p < end ? p : NULL;
}

static void set_ended(struct started_process *p, int status)
{
	p->has_ended = true;
	p->status = status;
	if (p->fd >= 0)
		close(p->fd);
	p->fd = -1;
}

/* Return whether libdw has reaped the program.  While libdw waits for the
 * threads whose stacks it reads, it reaps the program if the program ends. */
static bool is_lost(pid_t program)
{
	siginfo_t info;

	return program &&
	       waitid(P_PID, (id_t)program, &info,
	              WEXITED | WNOHANG | WNOWAIT) &&
	       errno == ECHILD;
}

bool started_reap(struct started *s)
{
	struct started_process *p;
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		p = find(s, pid);
		if (p)
			set_ended(p, status);
		if (pid != s->program)
			continue;
		s->program = 0;
		s->status = status;
	}
	s->has_children = pid == 0;
	if (is_lost(s->program)) {
		s->program = 0;
		s->status = 1 << 8; /* as if the program had exited with 1 */
	}
	return !s->program;
}

static struct started_process *add(struct started *s, int64_t pid)
{
	struct started_process *p;

	s->processes = cli_need(
		realloc(s->processes, (size_t)(s->n + 1) * sizeof(*p)));
	p = &s->processes[s->n++];
	*p = (struct started_process){
		.pid = pid,
		.fd = pid > 0 ? (int)syscall(SYS_pidfd_open, (pid_t)pid, 0)
		              : -1,
		.status = -1,
	};
	if (p->fd < 0)
		p->has_ended = thread_process_is_gone(pid);
	return p;
}

const struct started_process *started_find(struct started *s, int64_t pid)
{
	static const struct started_process unknown = { .fd = -1,
		                                        .status = -1 };
	struct started_process *p = find(s, pid);
	struct pollfd end;

	/* There cannot be more processes than entries, so this pid is
	 * forged. */
	if (!p && s->n == SHARED_RANKS)
		return &unknown;
	if (!p)
		p = add(s, pid);
	if (p->has_ended)
		return p;
	end = (struct pollfd){ .fd = p->fd, .events = POLLIN };
	if (p->fd >= 0 ? poll(&end, 1, 0) == 1 : thread_process_is_gone(pid))
		set_ended(p, thread_process_end(pid, p->fd));
	return p;
}

bool started_has(int64_t pid)
{
	while (pid > 1) {
		pid = thread_process_parent(pid);
		if (pid == getpid())
			return true;
	}
	return false;
}

/* ---- signals ----------------------------------------------------------- */

void started_signal(int signal)
{
	const char *pid;
	glob_t files;

	if (glob("/proc/[0-9]*", GLOB_NOSORT, NULL, &files))
		return;
	for (size_t i = 0; i < files.gl_pathc; i++) {
		pid = files.gl_pathv[i] + strlen("/proc/");
		if (started_has(atoi(pid)))
			kill(atoi(pid), signal);
	}
	globfree(&files);
}
