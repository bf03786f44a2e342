/* SPDX-License-Identifier: Apache-2.0 */

#include "cli/launch/job.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cohort/cohort.h>

#include "base/util.h"
#include "cli/common/cli.h"
#include "cli/common/cli_options.h"

#define AGENT                                                                  \
	"ssh -o BatchMode=yes -o ServerAliveInterval=1 -o "                    \
	"ServerAliveCountMax=5"

/* clang-format off */
static const char help[] =
	"usage: cohort launch -n N [OPTION]... [--] PROGRAM [ARGUMENT]...\n"
	"\n"
	"Starts N processes of a program, here or on several hosts, and acts as their\n"
	"PMIx server.  When a process ends, the others continue and are notified.\n"
	"\n"
	"  -n, --processes N  number of processes\n"
	"  --hosts A,B,...    spread them over these hosts, in blocks; localhost and the\n"
	"                     name of this machine need no agent\n"
	"  --agent COMMAND    how to start a process on a host: COMMAND HOST LINE must\n"
	"                     run LINE there in a POSIX shell, forward its standard\n"
	"                     input, and exit with LINE's status (default: ssh, which\n"
	"                     gives up on a host that does not answer for 5 s)\n"
	"  --interface NAME   the network interface by which other hosts reach this one\n"
	"                     (default: the first that is not the loopback)\n"
	"  -h, --help         this text\n"
	"\n"
	"Each process gets its number in COHORT_PROCESS and the number of processes in\n"
	"COHORT_PROCESSES.  COHORT_LOCAL_PROCESS and COHORT_LOCAL_PROCESSES are the same\n"
	"for its host.  On another host it runs in the launcher's current folder, and\n"
	"gets COHORT_..., NCCL_... and LD_LIBRARY_PATH from the launcher's environment.\n"
	"You must have the same user and group IDs there.\n"
	"\n"
	"Process 0 reads the standard input if it is on this machine; the others read\n"
	"nothing.  SIGINT, SIGTERM and SIGHUP are forwarded to all processes.  Processes\n"
	"that are left after 5 s, or at a second signal, are killed.\n"
	"\n"
	"Needs libpmix.so.2 (Debian: libpmix2).\n"
	"\n"
	"Exit status: 0 if all processes exit with 0; otherwise that of the first to\n"
	"fail, or 128 plus the number of its signal; 126 or 127 if PROGRAM cannot be\n"
	"run or is not found.\n";
/* clang-format on */

static bool is_here(const char *host)
{
	char own[HOST_NAME_MAX + 1] = "";

	gethostname(own, HOST_NAME_MAX);
	return strcmp(host, "localhost") == 0 || strcmp(host, own) == 0;
}

/* Split @list, a copy of @text, at its commas. Return the number of hosts, or 0
 * after printing an error. */
static int split_hosts(const char *text, char *list, const char **hosts,
                       int most)
{
	char *rest = list, *host;
	int n = 0;

	while ((host = strsep(&rest, ","))) {
		if (!*host || *host == '-') {
			cli_error("--hosts: \"%s\" has %s", text,
			          *host ? "a host that starts with -"
			                : "an empty name");
			return 0;
		}
		if (n < most)
			hosts[n] = host;
		n++;
	}
	if (n <= most)
		return n;
	cli_error("--hosts: \"%s\" names %d hosts for %d process%s", text, n,
	          most, most == 1 ? "" : "es");
	return 0;
}

bool launch_has(const struct launch *l, bool is_remote)
{
	int i = 0;

	while (i < l->n && l->processes[i].is_remote != is_remote)
		i++;
	return i < l->n;
}

static bool are_together(const struct process *a, const struct process *b)
{
	return a->is_remote ? b->is_remote && strcmp(a->host, b->host) == 0
	                    : !b->is_remote;
}

/* Place the processes on hosts. @list is a copy of @text that must outlive the
 * processes. Both are NULL if all processes run on this host. */
static int place(struct launch *l, const char *text, char *list)
{
	const char *hosts[COHORT_MAX_RANKS];
	struct process *p, *other;
	int i, n = text ? split_hosts(text, list, hosts, l->n) : 0;

	if (text && !n)
		return CLI_USAGE;
	for (i = 0; i < l->n; i++) {
		l->processes[i].number = i;
		l->processes[i].lifeline = -1;
		l->processes[i].host = n ? hosts[i * n / l->n] : NULL;
		l->processes[i].is_remote = n && !is_here(l->processes[i].host);
	}
	for (p = l->processes; p < l->processes + l->n; p++)
		for (other = l->processes; other < l->processes + l->n; other++)
			if (are_together(p, other)) {
				p->local_count++;
				p->local_number += other < p;
			}
	return CLI_OK;
}

/* Block the signals that launch_wait() reads, before other threads start. A
 * signal that is ignored stays ignored. */
static int open_signals(struct launch *l)
{
	static const int passed[] = { SIGINT, SIGTERM, SIGHUP };
	struct sigaction action;
	sigset_t read, blocked;

	/* If SIGCHLD were ignored, the kernel would reap the processes. */
	signal(SIGCHLD, SIG_DFL);
	sigemptyset(&read);
	sigaddset(&read, SIGCHLD);
	for (size_t i = 0; i < ARRAY_SIZE(passed); i++)
		if (!sigaction(passed[i], NULL, &action) &&
		    action.sa_handler != SIG_IGN)
			sigaddset(&read, passed[i]);
	blocked = read;
	/* An agent may exit before it has read the environment. */
	sigaddset(&blocked, SIGPIPE);
	sigprocmask(SIG_BLOCK, &blocked, &l->mask);
	return signalfd(-1, &read, SFD_CLOEXEC | SFD_NONBLOCK);
}

static int start_and_wait(struct launch *l, int signals, int wake)
{
	int own, rc = server_start(l, wake);

	if (rc != CLI_OK)
		return rc;
	for (int i = 0; i < l->n && rc == CLI_OK; i++)
		rc = launch_start(l, &l->processes[i]);
	if (rc != CLI_OK)
		launch_end_all(l, SIGTERM);
	own = launch_wait(l, signals, wake);
	server_stop();
	return rc == CLI_OK ? own : rc;
}

static int run(struct launch *l)
{
	const int signals = open_signals(l);
	const int wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	struct rlimit most;

	/* The server needs a descriptor for its connection to each process. */
	getrlimit(RLIMIT_NOFILE, &l->files);
	most = l->files;
	most.rlim_cur = most.rlim_max;
	setrlimit(RLIMIT_NOFILE, &most);
	if (signals >= 0 && wake >= 0)
		return start_and_wait(l, signals, wake);
	return cli_fail("%s: %s", signals < 0 ? "signalfd" : "eventfd",
	                strerror(errno));
}

/* Run the job. @hosts is the value of the option, or NULL. */
static int launch(struct launch *l, const char *hosts)
{
	char *list = hosts ? cli_need(strdup(hosts)) : NULL;
	char *agent = cli_need(strdup(l->agent)), *word;
	int rc;

	l->processes = cli_need(calloc((size_t)l->n, sizeof(*l->processes)));
	l->words = cli_need(calloc(strlen(l->agent) + 3, sizeof(*l->words)));
	l->folder = get_current_dir_name();
	if (!l->folder)
		return cli_fail("the current folder: %s", strerror(errno));
	rc = place(l, hosts, list);
	while ((word = strtok_r(agent, " ", &agent)))
		l->words[l->n_words++] = word;
	if (rc == CLI_OK && !l->n_words)
		return cli_misuse("--agent: \"%s\" is not a command", l->agent);
	if (rc == CLI_OK)
		rc = launch_find_programs(l);
	return rc == CLI_OK ? run(l) : rc;
}

static int read_interface(const struct cli_option *option, const char *text)
{
	*(const char **)option->value = text;
	if (if_nametoindex(text))
		return CLI_OK;
	return cli_misuse(
		"--interface: \"%s\" is not a network interface of this "
		"machine",
		text);
}

int launch_main(int argc, char **argv)
{
	struct launch l = { .agent = AGENT };
	const char *hosts = NULL;
	const struct cli_option options[] = {
		{ "processes", 'n', CLI_INT, &l.n, .least = 1,
		  .most = COHORT_MAX_RANKS },
		{ "hosts", 0, CLI_TEXT, .value = &hosts },
		{ "agent", 0, CLI_TEXT, .value = &l.agent },
		{ "interface", 0, CLI_READ, &l.interface,
		  .read = read_interface },
		{ .kind = CLI_PROGRAM },
	};
	int status;

	if (!cli_options("launch", argc, argv, options, help, &status))
		return status;
	if (!l.n)
		return cli_misuse("no number of processes (-n) given; see "
		                  "cohort launch --help");
	if (optind == argc)
		return cli_misuse("no program given; see cohort launch --help");
	l.program = argv + optind;
	return launch(&l, hosts);
}
