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
#include "cli/commands.h"
#include "cli/common/cli.h"
#include "cli/common/cli_options.h"
#include "cli/launch/server.h"

#define AGENT                                                                  \
	"ssh -o BatchMode=yes -o ServerAliveInterval=1 -o "                    \
	"ServerAliveCountMax=5"

static void print_help(void)
{
	/* clang-format off */
	puts("usage: cohort launch -n N [OPTION]... [--] PROGRAM [ARGUMENT]...\n"
	     "\n"
	     "Starts N processes of a program, here or on several hosts, and acts as their\n"
	     "PMIx server.  When a process ends, the others live on and are told of it.\n"
	     "\n"
	     "  -n, --processes N  number of processes\n"
	     "  --hosts A,B,...    spread them over these hosts, in blocks; localhost and the\n"
	     "                     own name of this machine need no agent\n"
	     "  --agent COMMAND    what starts a process on a host: COMMAND HOST LINE runs\n"
	     "                     LINE there in a POSIX shell, passes on its standard\n"
	     "                     input, and ends with LINE's status (default: ssh, which\n"
	     "                     gives up a host that does not answer for 5 s)\n"
	     "  --interface NAME   the network interface at which other hosts reach this one\n"
	     "                     (default: the first that is not the loopback)\n"
	     "  -h, --help         this text\n"
	     "\n"
	     "Each process finds its number in COHORT_PROCESS, and how many there are in\n"
	     "COHORT_PROCESSES; COHORT_LOCAL_PROCESS and COHORT_LOCAL_PROCESSES count those\n"
	     "of its host.  On another host it gets the launcher's current folder, and from\n"
	     "its environment COHORT_..., NCCL_... and LD_LIBRARY_PATH.  You must have the\n"
	     "same user and group IDs there.\n"
	     "\n"
	     "Process 0 reads the standard input, if it is on this machine; the others read\n"
	     "nothing.  SIGINT, SIGTERM and SIGHUP are passed to all processes.  What is left\n"
	     "after 5 s, or at a second signal, is killed.\n"
	     "\n"
	     "libpmix.so.2 has to be installed; the Debian package is libpmix2.\n"
	     "\n"
	     "Exit status: 0 if all processes exit with 0, else that of the first to fail, or\n"
	     "128 and its signal's number; 126 or 127 if PROGRAM cannot be run or is not\n"
	     "found.");
	/* clang-format on */
}

/* ---- hosts ------------------------------------------------------------- */

static bool is_here(const char *host)
{
	char own[HOST_NAME_MAX + 1] = "";

	gethostname(own, HOST_NAME_MAX);
	return strcmp(host, "localhost") == 0 || strcmp(host, own) == 0;
}

/* Cut @list, which @text is a copy of, at its commas.  The number of hosts, or
 * 0 after a complaint. */
static int split_hosts(const char *text, char *list, const char **hosts,
                       int most)
{
	char *rest = list, *host;
	int n = 0;

	while ((host = strsep(&rest, ","))) {
		if (!*host || *host == '-') {
			cli_complain("launch", "--hosts: '%s' has %s", text,
			             *host ? "a host that begins with '-'"
			                   : "an empty name");
			return 0;
		}
		if (n < most)
			hosts[n] = host;
		n++;
	}
	if (n <= most)
		return n;
	cli_complain("launch", "--hosts: '%s' names %d hosts for %d process%s",
	             text, n, most, most == 1 ? "" : "es");
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

static void count_local(struct launch *l)
{
	struct process *p, *other;

	for (p = l->processes; p < l->processes + l->n; p++)
		for (other = l->processes; other < l->processes + l->n; other++)
			if (are_together(p, other)) {
				p->local_count++;
				p->local_number += other < p;
			}
}

/* @list: a copy of @text that outlives the processes; both NULL: all are here.
 *        */
static int place(struct launch *l, const char *text, char *list)
{
	const char *hosts[COHORT_MAX_RANKS];
	int i, n = text ? split_hosts(text, list, hosts, l->n) : 0;

	if (text && !n)
		return CLI_USAGE;
	for (i = 0; i < l->n; i++) {
		l->processes[i].number = i;
		l->processes[i].lifeline = -1;
		l->processes[i].host = n ? hosts[i * n / l->n] : NULL;
		l->processes[i].is_remote = n && !is_here(l->processes[i].host);
	}
	count_local(l);
	return CLI_OK;
}

/* ---- running ----------------------------------------------------------- */

/* Block what launch_wait() reads, before there are other threads.  A signal
 * that is ignored stays so. */
static int open_signals(struct launch *l)
{
	static const int passed[] = { SIGINT, SIGTERM, SIGHUP };
	struct sigaction action;
	sigset_t read, blocked;
	size_t i;

	/* If it were ignored, the system would reap the processes. */
	signal(SIGCHLD, SIG_DFL);
	sigemptyset(&read);
	sigaddset(&read, SIGCHLD);
	for (i = 0; i < ARRAY_SIZE(passed); i++)
		if (!sigaction(passed[i], NULL, &action) &&
		    action.sa_handler != SIG_IGN)
			sigaddset(&read, passed[i]);
	blocked = read;
	/* An agent may have ended before it has read its line. */
	sigaddset(&blocked, SIGPIPE);
	sigprocmask(SIG_BLOCK, &blocked, &l->mask);
	return signalfd(-1, &read, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* The server has a connection to each process. */
static void allow_files(struct launch *l)
{
	struct rlimit most;

	getrlimit(RLIMIT_NOFILE, &l->files);
	most = l->files;
	most.rlim_cur = most.rlim_max;
	setrlimit(RLIMIT_NOFILE, &most);
}

static int start_and_wait(struct launch *l, int signals, int wake)
{
	int i, own, rc = CLI_OK;

	for (i = 0; i < l->n && rc == CLI_OK; i++)
		rc = launch_start(l, &l->processes[i]);
	if (rc != CLI_OK)
		launch_end_all(l, SIGTERM);
	own = launch_wait(l, signals, wake);
	return rc == CLI_OK ? own : rc;
}

static int run(struct launch *l)
{
	int signals = open_signals(l);
	int wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	int rc;

	allow_files(l);
	if (signals < 0 || wake < 0) {
		cli_complain("launch", "%s: %s",
		             signals < 0 ? "signalfd" : "eventfd",
		             strerror(errno));
		rc = CLI_FAILED;
	} else {
		rc = server_start(l, wake);
		if (rc == CLI_OK) {
			rc = start_and_wait(l, signals, wake);
			server_stop();
		}
	}
	if (signals >= 0)
		close(signals);
	if (wake >= 0)
		close(wake);
	return rc;
}

/* Cut @agent, a copy of what was given, at its spaces. */
static int split_agent(struct launch *l, char *agent)
{
	char *word;

	while ((word = strtok_r(agent, " ", &agent)))
		l->words[l->n_words++] = word;
	if (l->n_words)
		return CLI_OK;
	cli_complain("launch", "--agent: '%s' is no command", l->agent);
	return CLI_USAGE;
}

/* @hosts: as given, or NULL. */
static int launch(struct launch *l, const char *hosts)
{
	char *list = hosts ? cli_need("launch", strdup(hosts)) : NULL;
	char *agent = cli_need("launch", strdup(l->agent));
	int rc;

	l->processes =
		cli_need("launch", calloc((size_t)l->n, sizeof(*l->processes)));
	l->words = cli_need("launch",
	                    calloc(strlen(l->agent) + 3, sizeof(*l->words)));
	l->folder = get_current_dir_name();
	if (!l->folder) {
		cli_complain("launch", "the current folder: %s",
		             strerror(errno));
		return CLI_FAILED;
	}
	rc = place(l, hosts, list);
	if (rc == CLI_OK)
		rc = split_agent(l, agent);
	if (rc == CLI_OK)
		rc = launch_find_programs(l);
	return rc == CLI_OK ? run(l) : rc;
}

/* ---- options ----------------------------------------------------------- */

static int read_interface(const struct cli_option *option, const char *text)
{
	*(const char **)option->value = text;
	if (if_nametoindex(text))
		return CLI_OK;
	cli_complain("launch",
	             "--interface: '%s' is no network interface of this "
	             "machine",
	             text);
	return CLI_USAGE;
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
	bool help;
	int status =
		cli_options("launch", argc, argv, options, print_help, &help);

	if (status != CLI_OK || help)
		return status;
	if (!l.n) {
		cli_complain("launch", "no number of processes given, see "
		                       "cohort launch --help");
		return CLI_USAGE;
	}
	if (optind == argc) {
		cli_complain("launch",
		             "no program given, see cohort launch --help");
		return CLI_USAGE;
	}
	l.program = argv + optind;
	return launch(&l, hosts);
}
