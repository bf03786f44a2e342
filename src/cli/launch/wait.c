/* SPDX-License-Identifier: Apache-2.0 */

#include "cli/launch/job.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/common/cli.h"

/* Time that a process may take to end after a signal, and time that its agent
 * may take after the process was killed */
#define GRACE_NS (5 * NS_PER_S)
#define AGENT_NS NS_PER_S

/* Time that a process's connection may stay open after the process has ended.
 * If it is still open then, the network was cut or a child of the process holds
 * it. */
#define LOST_NS NS_PER_S

static const char *signal_name(int signal)
{
	return signal == SIGINT    ? "INT"
	       : signal == SIGHUP  ? "HUP"
	       : signal == SIGKILL ? "KILL"
	                           : "TERM";
}

static void send_signal(const struct process *p, int signal)
{
	if (p->lifeline < 0)
		kill(p->pid, signal);
	else
		dprintf(p->lifeline, "%s\n", signal_name(signal));
}

static void kill_process(struct process *p)
{
	send_signal(p, SIGKILL);
	p->ending = ENDING_KILLED;
	p->ending_ns = clock_deadline(AGENT_NS);
}

static void start_ending(struct process *p)
{
	if (p->ending != ENDING_NOT)
		return;
	p->ending = ENDING_ASKED;
	p->ending_ns = clock_deadline(GRACE_NS);
}

void launch_end_all(struct launch *l, int signal)
{
	struct process *p = l->processes;

	for (; p < l->processes + l->n; p++)
		if (p->pid) {
			send_signal(p, signal);
			start_ending(p);
		}
}

/* Take the next step to end a process that has not ended in time. */
static void end_harder(struct process *p)
{
	switch (p->ending) {
	case ENDING_NOT:
	case ENDING_GIVEN_UP:
		break;
	case ENDING_ASKED:
		kill_process(p);
		break;
	case ENDING_KILLED:
		kill(p->pid, SIGKILL);
		p->ending = ENDING_GIVEN_UP;
		break;
	}
}

static int ending_signal(const struct process *p, int status)
{
	if (WIFSIGNALED(status))
		return WTERMSIG(status);
	status = WEXITSTATUS(status) - 128;
	return p->is_remote && status > 0 && status < NSIG ? status : 0;
}

static void report(const struct process *p, int status)
{
	const int signal = ending_signal(p, status);
	char where[320] = "", how[128];

	if (p->is_remote)
		snprintf(where, sizeof(where), "host %s", p->host);
	else
		snprintf(where, sizeof(where), "%s%s%spid %d",
		         p->host ? "host " : "", p->host ? p->host : "",
		         p->host ? ", " : "", (int)p->pid);
	if (signal)
		snprintf(how, sizeof(how), "was ended by signal %d (%s)",
		         signal, strsignal(signal));
	else
		snprintf(how, sizeof(how), "has exited with status %d",
		         WEXITSTATUS(status));
	cli_error("process %d (%s) %s", p->number, where, how);
}

/* Record the end of @p. Return its exit status. */
static int end_process(struct process *p, int status)
{
	p->has_failed = cli_exit_status(status) != 0;
	if (p->has_failed && p->ending == ENDING_NOT)
		report(p, status);
	p->pid = 0;
	p->notify_ns = clock_deadline(LOST_NS);
	if (p->lifeline >= 0)
		close(p->lifeline);
	p->lifeline = -1;
	return cli_exit_status(status);
}

/* Return the status of process @pid as waitpid() stores it, or -1 if it is
 * running. The process stays a zombie until the launcher ends, so that other
 * processes can see how it ended. */
static int status_of(pid_t pid)
{
	siginfo_t info = { .si_pid = 0 };

	if (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) ||
	    !info.si_pid)
		return -1;
	return info.si_code == CLD_EXITED ? info.si_status << 8
	                                  : info.si_status;
}

/* Record which processes have ended. Return the exit status of the first one
 * that failed, or 0. */
static int record_ends(struct launch *l)
{
	struct process *p = l->processes;
	int status, own, failed = 0;

	for (; p < l->processes + l->n; p++) {
		status = p->pid ? status_of(p->pid) : -1;
		if (status < 0)
			continue;
		own = end_process(p, status);
		failed = failed ? failed : own;
	}
	return failed;
}

/* Forward the first signal to the processes, and kill them at the second one.
 * If the signal is from the terminal, the processes on this host have already
 * received it. Agents have not, because they are in other process groups. */
static void forward(struct launch *l, const struct signalfd_siginfo *s)
{
	const bool is_second = l->was_signalled;
	struct process *p = l->processes;

	l->was_signalled = true;
	for (; p < l->processes + l->n; p++) {
		if (!p->pid)
			continue;
		if (is_second) {
			kill_process(p);
			continue;
		}
		if (p->is_remote || s->ssi_code != SI_KERNEL)
			send_signal(p, (int)s->ssi_signo);
		start_ending(p);
	}
}

/* Return whether it is time to notify the other processes of the end of @p. */
static bool is_due(const struct process *p, uint64_t now)
{
	if (p->is_notified)
		return false;
	return p->notify_ns ? p->notify_ns <= now || server_has_lost(p->number)
	                    : server_has_left(p->number);
}

/* Perform all actions that are due. Return the time of the next one, or
 * UINT64_MAX if there is none. */
static uint64_t do_due(struct launch *l)
{
	const uint64_t now = clock_now();
	uint64_t next = UINT64_MAX;
	struct process *p = l->processes;

	for (; p < l->processes + l->n; p++) {
		if (is_due(p, now)) {
			server_notify_end(p->number, p->has_failed);
			p->is_notified = true;
		}
		if (p->pid && p->ending != ENDING_NOT && p->ending_ns <= now)
			end_harder(p);
		if (p->notify_ns && !p->is_notified && p->notify_ns < next)
			next = p->notify_ns;
		if (p->pid && p->ending != ENDING_NOT &&
		    p->ending != ENDING_GIVEN_UP && p->ending_ns < next)
			next = p->ending_ns;
	}
	return next;
}

static bool runs(const struct launch *l)
{
	int i = 0;

	while (i < l->n && !l->processes[i].pid)
		i++;
	return i < l->n;
}

static void await(int signals, int wake, uint64_t until)
{
	struct pollfd fds[] = { { .fd = signals, .events = POLLIN },
		                { .fd = wake, .events = POLLIN } };
	const uint64_t now = clock_now();
	const struct timespec t = clock_timespec(until > now ? until - now : 0);

	ppoll(fds, 2, until == UINT64_MAX ? NULL : &t, NULL);
}

int launch_wait(struct launch *l, int signals, int wake)
{
	struct signalfd_siginfo s;
	struct process *p;
	eventfd_t count;
	int own, failed = 0;

	while (runs(l)) {
		await(signals, wake, do_due(l));
		while (read(signals, &s, sizeof(s)) == sizeof(s))
			if (s.ssi_signo != SIGCHLD)
				forward(l, &s);
		eventfd_read(wake, &count);
		for (p = l->processes; p < l->processes + l->n; p++)
			if (server_take_abort(p->number) && p->pid) {
				send_signal(p, SIGTERM);
				start_ending(p);
			}
		own = record_ends(l);
		failed = failed ? failed : own;
	}
	return failed;
}
