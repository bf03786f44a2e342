/* SPDX-License-Identifier: Apache-2.0 */

/*
 * cohort watch: runs a program that uses NCCL, and reports which rank hangs in
 * which call, and why
 *
 * The program gets the shim instead of NCCL (src/shim).  This process, the
 * program's parent, reads the calls from shared memory, so it can report even
 * if every thread of the program hangs, is stopped or is gone.
 */

#include "cli/common/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/futex.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/environment.h"
#include "base/util.h"
#include "cli/common/cli_options.h"
#include "cli/watch/observed.h"
#include "dump/dump.h"

/* Exit status if the program was ended because of a hang, or did not fail after
 * its communicators were aborted. */
#define KILLED_STATUS 3

/* Interval at which the shared memory is read. */
#define PERIOD_NS (25 * NS_PER_S / 1000)

/* Time that the program may take to end after SIGTERM. */
#define GRACE_NS (5 * NS_PER_S)

#define STATUS_PERIOD_NS NS_PER_S

/* An interval longer than this means that this process was stopped. */
#define STOPPED_NS NS_PER_S

enum action { ACT_REPORT, ACT_DUMP, ACT_KILL, ACT_ABORT };

static const char *const action_names[] = { "report", "dump", "kill", "abort" };

/* clang-format off */
static const char help[] =
	"usage: cohort watch [OPTION]... [--] PROGRAM [ARGUMENT]...\n"
	"       cohort watch --pid PID\n"
	"\n"
	"Runs a program that uses NCCL, unchanged, with all processes that it starts on\n"
	"this machine.  When a collective makes no progress, reports on stderr which\n"
	"rank has not called it or has called something else, and what it does instead.\n"
	"\n"
	"  --deadline TIME    how long a collective may take: a time such as 500ms, 30s\n"
	"                     or 5m (default 30s)\n"
	"  --on-stall ACTION  report, dump, kill or abort (default report): dump also\n"
	"                     writes the calls of all ranks to files; kill and abort do\n"
	"                     so with --dumps; kill ends the program and all its\n"
	"                     processes; abort aborts all communicators, so that the\n"
	"                     program's calls return errors\n"
	"  --dumps DIRECTORY  folder of these files, which cohort trace and PyTorch's\n"
	"                     analyzer read\n"
	"  --marks WHEN       on or off (default on): whether each stream marks that a\n"
	"                     call is done; with off, calls that never end are not\n"
	"                     noticed\n"
	"  --pid PID          print what the ranks of a program are doing; PID is any\n"
	"                     process of a program that cohort watch has started\n"
	"  -h, --help         this text\n"
	"\n"
	"A report is repeated each time that the deadline passes.  SIGQUIT, which a\n"
	"terminal sends for Ctrl-\\, requests a report on all ranks at once.\n"
	"\n"
	"Ranks on other machines are not seen.  A program cannot be watched if NCCL is\n"
	"linked into it statically, or if the loader ignores LD_AUDIT, as it does for\n"
	"setuid programs.\n"
	"\n"
	"Exit status: that of PROGRAM, or 128 plus the number of its signal; 3 if it was\n"
	"ended because of a stall, or did not fail after an abort; 126 if it cannot be\n"
	"run; 127 if it is not found.\n";
/* clang-format on */

/* ---- the shared memory --------------------------------------------------- */

/* Create the shared memory, and seal its size: if a program shrank the memory,
 * this process would crash when reading it. */
static struct shared_calls *create(bool marks, bool aborts, int *fd_out)
{
	const int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
	struct shared_calls *all = MAP_FAILED;
	const int fd =
		memfd_create("cohort-watch", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd >= 0 && !fchmod(fd, 0600) && !ftruncate(fd, sizeof(*all)) &&
	    !fcntl(fd, F_ADD_SEALS, seals))
		all = mmap(NULL, sizeof(*all), PROT_READ | PROT_WRITE,
		           MAP_SHARED, fd, 0);
	if (all == MAP_FAILED) {
		cli_error("cannot create %zu bytes of shared memory: %s",
		          sizeof(*all), strerror(errno));
		return NULL;
	}
	all->magic = SHARED_MAGIC;
	all->marks = marks;
	all->aborts = aborts;
	*fd_out = fd;
	return all;
}

/* ---- the program ------------------------------------------------------- */

/* Return whether NCCL seems to be linked into a program: the file contains
 * strings of NCCL, but not the name of its library. */
static bool has_own_nccl(const char *path)
{
	size_t bytes = 0;
	const char *image = cli_map_file(path, &bytes);

	return image && cli_has_text(image, bytes, "NCCL_LAUNCH_MODE") &&
	       cli_has_text(image, bytes, "NCCL version ") &&
	       !cli_has_text(image, bytes, "libnccl.so");
}

/* Refuse a program that cannot be watched.  Programs in PATH are not
 * checked. */
static int check_program(const char *path)
{
	struct stat file;

	if (!strchr(path, '/') || stat(path, &file))
		return CLI_OK;
	if (file.st_mode & (S_ISUID | S_ISGID))
		return cli_misuse("%s: the loader ignores LD_AUDIT in a setuid "
		                  "program, so it cannot be watched",
		                  path);
	if (has_own_nccl(path))
		return cli_misuse(
			"%s seems to have NCCL linked statically, so it "
			"cannot be watched: link it with libnccl.so",
			path);
	return CLI_OK;
}

/* Start the program with the variables that make the loader use the shim. */
static int start(struct started *s, char **argv, int fd, const sigset_t *mask)
{
	char own[PATH_MAX], folder[PATH_MAX], name[64];
	char audit[2 * PATH_MAX];
	const char *const variables[] = { name, audit, NULL };
	const char *old = getenv("LD_AUDIT");
	int status =
		cli_find_libraries("watch", "libcohort-audit.so", own, folder);

	if (status == CLI_OK)
		status = check_program(argv[0]);
	if (status != CLI_OK)
		return status;
	snprintf(name, sizeof(name), "COHORT_WATCH=/proc/%d/fd/%d", getpid(),
	         fd);
	/* If cohort watch is itself watched, LD_AUDIT already has the hook. */
	if (old && strstr(old, "/libcohort-audit.so"))
		snprintf(audit, sizeof(audit), "LD_AUDIT=%s", old);
	else
		snprintf(audit, sizeof(audit),
		         "LD_AUDIT=%s/libcohort-audit.so%s%s", folder,
		         old ? ":" : "", old ? old : "");
	return started_run(s, argv, variables, mask);
}

/* ---- the loop ------------------------------------------------------------ */

struct loop {
	struct watch w;
	struct started started;
	bool has_status; /* stderr is a terminal, for a status line */
	uint64_t next_status_ns;
	enum action action;
	const char *dumps; /* directory for dumps, or NULL */
	int signals;
	bool was_killed, was_aborted;
	uint64_t kill_ns;   /* time of SIGKILL, or 0 */
	uint64_t looked_ns; /* time at which the last look() returned, or 0 */
};

static void erase_status(const struct loop *l)
{
	if (l->has_status)
		fputs("\r\033[K", stderr);
}

static void show_status(struct loop *l)
{
	int n = 0, waits = 0;

	if (!l->has_status || clock_now() < l->next_status_ns)
		return;
	l->next_status_ns = clock_deadline(STATUS_PERIOD_NS);
	for (const struct observed *o = l->w.all; o; o = o->next, n++)
		waits += o->now.front != 0;
	erase_status(l);
	fprintf(stderr,
	        "cohort watch: %d communicator%s, %d with a collective in "
	        "flight",
	        n, n == 1 ? "" : "s", waits);
	fflush(stderr);
}

static void act(struct loop *l)
{
	if (l->action == ACT_ABORT) {
		l->was_aborted = true;
		cli_error("aborting all communicators, because of "
		          "--on-stall abort");
		atomic_fetch_add(&l->w.shared->abort, 1);
		syscall(SYS_futex, &l->w.shared->abort, FUTEX_WAKE, INT_MAX);
	}
	if (l->action != ACT_KILL || l->was_killed)
		return;
	l->was_killed = true;
	l->kill_ns = clock_deadline(GRACE_NS);
	cli_error("ending the program, because of --on-stall kill");
	started_signal(SIGCONT);
	started_signal(SIGTERM);
}

/* Judge all communicators, or if @is_early only the communicators without a
 * hang in this round.  Return whether one of them hangs. */
static bool judge_all(struct loop *l, bool is_early)
{
	bool hangs = false;
	enum finding found;

	for (struct observed *o = l->w.all; o; o = o->next) {
		if (is_early && o->hangs)
			continue;
		found = observed_judge(&l->w, o, is_early);
		o->hangs = found == FOUND_HANG;
		hangs |= o->hangs;
		if (found == FOUND_NOTHING)
			continue;
		erase_status(l);
		cli_print_block(stderr, 0, o->verdict.text);
		fflush(stderr);
		if (l->dumps && found == FOUND_HANG)
			observed_dump(&l->w, o, l->dumps);
	}
	return hangs;
}

static void look(struct loop *l)
{
	const uint64_t now = clock_now();

	/* If this process was stopped (Ctrl-Z, or a paused container), the
	 * program was stopped as well, so the time does not count. */
	if (l->looked_ns && now - l->looked_ns > STOPPED_NS)
		l->w.resumed_ns = now;
	observed_update(&l->w);
	if (!l->was_killed && judge_all(l, false)) {
		judge_all(l, true);
		act(l);
	}
	observed_drop(&l->w);
	if (l->kill_ns && clock_now() >= l->kill_ns) {
		started_signal(SIGKILL);
		l->kill_ns = 0;
	}
	show_status(l);
	l->looked_ns = clock_now();
}

static void print_all(struct watch *w, FILE *out)
{
	if (!w->all)
		fputs("NOW    there is no communicator\n", out);
	for (struct observed *o = w->all; o; o = o->next)
		if (!o->is_over)
			observed_print(w, o, out);
	fflush(out);
}

/* Handle a signal.  Do not forward signals from the terminal, because the
 * program has already received them. */
static void take_signal(struct loop *l, const struct signalfd_siginfo *s)
{
	if (s->ssi_signo == SIGQUIT) {
		erase_status(l);
		print_all(&l->w, stderr);
	} else if (s->ssi_signo != SIGCHLD && s->ssi_code != SI_KERNEL &&
	           l->started.program) {
		kill(l->started.program, (int)s->ssi_signo);
	}
}

static void loop(struct loop *l)
{
	const struct timespec period = clock_timespec(PERIOD_NS);
	struct pollfd fd = { .fd = l->signals, .events = POLLIN };
	struct signalfd_siginfo s;
	bool has_ended;

	do {
		ppoll(&fd, 1, &period, NULL);
		while (read(l->signals, &s, sizeof(s)) == sizeof(s))
			take_signal(l, &s);
		/* Reap before looking, so that the last look() sees the
		 * program's last calls. */
		has_ended = started_reap(&l->started);
		look(l);
		/* After SIGTERM, the program may end before its children. */
	} while (!has_ended || (l->kill_ns && l->started.has_children));
	erase_status(l);
}

static int finish(const struct loop *l)
{
	const int status = l->started.status;
	const uint32_t missed = atomic_load(&l->w.shared->missed);

	if (missed)
		cli_error("%u ranks were not watched: at most %d can be "
		          "watched at a time",
		          missed, SHARED_RANKS);
	if (l->was_killed || (l->was_aborted && !status))
		return KILLED_STATUS;
	return cli_exit_status(status);
}

/* Block the signals that the loop reads.  Return their descriptor, or -1 after
 * printing an error. */
static int open_signals(sigset_t *former)
{
	static const int taken[] = { SIGCHLD, SIGINT,  SIGTERM, SIGHUP,
		                     SIGUSR1, SIGUSR2, SIGQUIT };
	sigset_t set;
	int fd;

	signal(SIGCHLD, SIG_DFL);
	sigemptyset(&set);
	for (size_t i = 0; i < ARRAY_SIZE(taken); i++)
		sigaddset(&set, taken[i]);
	sigprocmask(SIG_BLOCK, &set, former);
	fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (fd < 0)
		cli_error("signalfd: %s", strerror(errno));
	return fd;
}

static int watch(struct loop *l, bool marks, char **argv)
{
	sigset_t mask;
	int fd = -1, status;

	l->w.started = &l->started;
	/* The program must continue even if nobody reads the reports. */
	l->started.on_sigpipe = signal(SIGPIPE, SIG_IGN);
	l->w.shared = create(marks, l->action == ACT_ABORT, &fd);
	l->signals = open_signals(&mask);
	l->has_status = isatty(STDERR_FILENO);
	if (!l->w.shared || l->signals < 0)
		return CLI_FAILED;
	status = start(&l->started, argv, fd, &mask);
	if (status != CLI_OK)
		return status;
	/* Do not let a report wait for a debuginfod server. */
	unsetenv("DEBUGINFOD_URLS");
	loop(l);
	return finish(l);
}

/* ---- a program that another process watches ------------------------------ */

/* Find COHORT_WATCH in the environment of process @pid.  Return false if it is
 * not set or cannot be read. */
static bool find_memory(int64_t pid, char name[64])
{
	static const char variable[] = "COHORT_WATCH=";
	char path[64], *entry = NULL;
	size_t room = 0, n = sizeof(variable) - 1;
	bool is_found = false;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%" PRId64 "/environ", pid);
	file = fopen(path, "re");
	while (file && !is_found && getdelim(&entry, &room, '\0', file) > 0) {
		is_found = strncmp(entry, variable, n) == 0 &&
		           strlen(entry + n) < 64;
		if (is_found)
			strcpy(name, entry + n);
	}
	free(entry);
	if (file)
		fclose(file);
	return is_found;
}

/* Map the memory @name.  The name is untrusted, because the process may belong
 * to another user: it must have the form that start() stores. */
static struct shared_calls *map_memory(const char *name)
{
	struct shared_calls *all = MAP_FAILED;
	int pid, number, fd = -1, seals;
	struct stat file;
	char more;

	if (sscanf(name, "/proc/%d/fd/%d%c", &pid, &number, &more) == 2)
		fd = open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return NULL;
	/* Without the seal, the memory could shrink while this process reads
	 * it. */
	seals = fcntl(fd, F_GET_SEALS);
	if (seals >= 0 && seals & F_SEAL_SHRINK && !fstat(fd, &file) &&
	    file.st_size == sizeof(*all))
		all = mmap(NULL, sizeof(*all), PROT_READ, MAP_SHARED, fd, 0);
	close(fd);
	return all == MAP_FAILED || all->magic != SHARED_MAGIC ? NULL : all;
}

/* Print what the ranks are doing in the program that process @pid belongs
 * to. */
static int look_at(struct loop *l, int pid)
{
	char name[64];

	if (find_memory(pid, name))
		l->w.shared = map_memory(name);
	if (!l->w.shared)
		return cli_fail("--pid: process %d does not run under cohort "
		                "watch, or belongs to another user",
		                pid);
	l->w.started = &l->started;
	observed_update(&l->w);
	print_all(&l->w, stdout);
	return CLI_OK;
}

/* ---- options ------------------------------------------------------------- */

static int read_deadline(const struct cli_option *option, const char *text)
{
	if (environment_read_time(text, option->value))
		return CLI_OK;
	return cli_misuse(
		"--deadline: \"%s\" is not a time such as 500ms, 30s, 5m "
		"or 1h",
		text);
}

static const char *action_name(int action)
{
	return action_names[action];
}

/* Check that --dumps names a usable directory if dumps will be written. */
static int check_dumps(const struct loop *l)
{
	const int error = l->dumps ? dump_try(l->dumps) : 0;

	if (error)
		return cli_misuse("--dumps: %s: %s", l->dumps, strerror(error));
	if (l->dumps && l->action == ACT_REPORT)
		return cli_misuse(
			"--dumps needs --on-stall dump, kill or abort");
	if (!l->dumps && l->action == ACT_DUMP)
		return cli_misuse("--on-stall dump needs --dumps DIRECTORY");
	return CLI_OK;
}

static const char *marks_name(int marks)
{
	return marks ? "on" : "off";
}

int watch_main(int argc, char **argv)
{
	struct loop l = { .w.deadline_ns = 30 * NS_PER_S };
	int action = ACT_REPORT, marks = 1, pid = 0;
	const struct cli_option options[] = {
		{ "deadline", 0, CLI_READ, &l.w.deadline_ns,
		  .read = read_deadline },
		{ "on-stall", 0, CLI_NAME, &action, ACT_REPORT, ACT_ABORT,
		  .name_of = action_name,
		  .says = "is not report, dump, kill or abort" },
		{ "dumps", 0, CLI_TEXT, .value = &l.dumps },
		{ "marks", 0, CLI_NAME, &marks, 0, 1, .name_of = marks_name,
		  .says = "is neither on nor off" },
		{ "pid", 0, CLI_INT, &pid, .least = 1, .most = INT_MAX },
		{ .kind = CLI_PROGRAM },
	};
	int status;

	if (!cli_options("watch", argc, argv, options, help, &status))
		return status;
	if (pid && optind < argc)
		return cli_misuse("--pid and the program %s cannot be "
		                  "combined",
		                  argv[optind]);
	if (pid)
		return look_at(&l, pid);
	if (optind == argc)
		return cli_misuse("no program given; see cohort watch --help");
	l.action = (enum action)action;
	status = check_dumps(&l);
	return status == CLI_OK ? watch(&l, marks, argv + optind) : status;
}
