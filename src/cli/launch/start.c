/* SPDX-License-Identifier: Apache-2.0 */

#include "cli/launch/job.h"

#include <argz.h>
#include <ctype.h>
#include <envz.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cli/common/cli.h"
#include "cli/launch/server.h"

#ifndef CLOSE_RANGE_CLOEXEC
#define CLOSE_RANGE_CLOEXEC 4
#endif

/* The most that an unprivileged process may give a pipe room for. */
#define ENVIRONMENT_MOST (1024 * 1024)

/*
 * What an agent's shell does.  "$1" is the folder; the rest is the program.
 *
 * The environment comes first, a variable in each line, up to an empty line:
 * the command line is for everybody to read, and the job's name is a secret.
 *
 * When an agent ends, what it has started goes on.  So a second shell reads the
 * names of signals from the agent, and ends the program at the end of the file.
 * A shell starts what it does not wait for with SIGINT ignored, unless env
 * undoes it.  The status is 128 and the signal if one ends the program.
 */
static const char script[] =
	"while IFS= read -r line && [ -n \"$line\" ]; do\n"
	"	export \"$line\"\n"
	"done\n"
	"cd -- \"$1\" || exit 126\n"
	"shift\n"
	"env --default-signal=INT,QUIT true 2>/dev/null &&\n"
	"	set -- env --default-signal=INT,QUIT \\\n"
	"		sh -c 'exec \"$0\" \"$@\"' \"$@\"\n"
	"exec 3<&0 </dev/null\n"
	"\"$@\" 3<&- &\n"
	"program=$!\n"
	"{\n"
	"	while read -r signal; do kill -s \"$signal\" $program; done\n"
	"	kill $program\n"
	"	sleep 5 <&-\n"
	"	kill -s KILL $program\n"
	"} <&3 >/dev/null 2>&1 &\n"
	"reader=$!\n"
	"exec 3<&-\n"
	"{ wait $program; } 2>/dev/null\n"
	"status=$?\n"
	"kill $reader 2>/dev/null\n"
	"exit $status\n";

/* ---- whether there is what is to be started ------------------------------ */

/* 0 or an errno. */
static int check_program(const char *path)
{
	struct stat s;

	if (stat(path, &s))
		return errno;
	if (S_ISDIR(s.st_mode))
		return EACCES;
	return access(path, X_OK) ? errno : 0;
}

/* Find @name as execvp() does.  0 and the path, for free(), or an errno. */
static int find_program(const char *name, char **path)
{
	const char *folders = getenv("PATH"), *end;
	int err, found = ENOENT;

	*path = NULL;
	if (!*name)
		return ENOENT;
	if (strchr(name, '/')) {
		err = check_program(name);
		*path = err ? NULL : strdup(name);
		return err;
	}
	for (folders = folders ? folders : "/bin:/usr/bin"; folders;
	     folders = *end ? end + 1 : NULL) {
		end = strchrnul(folders, ':');
		if (asprintf(path, "%.*s%s%s", (int)(end - folders), folders,
		             end > folders ? "/" : "./", name) < 0)
			return ENOMEM;
		err = check_program(*path);
		if (!err)
			return 0;
		if (err == EACCES)
			found = EACCES;
		free(*path);
		*path = NULL;
	}
	return found;
}

int launch_find_programs(struct launch *l)
{
	char *path;
	int err = 0;

	if (launch_has(l, true)) {
		err = find_program(l->words[0], &path);
		free(path);
	}
	if (err) {
		cli_complain("launch", "--agent: '%s': %s", l->agent,
		             strerror(err));
		return CLI_USAGE;
	}
	if (launch_has(l, false))
		err = find_program(l->program[0], &l->path);
	if (!err)
		return CLI_OK;
	cli_complain("launch", "%s: %s", l->program[0], strerror(err));
	return err == ENOENT ? CLI_NOT_FOUND : CLI_NOT_EXECUTABLE;
}

/* ---- the environment --------------------------------------------------- */

/* What a process finds in its environment, or what an agent adds to that of its
 * host. */
struct environment {
	char *text; /* NAME=value, and a zero, for each variable */
	size_t size;
	char **lines;    /* in @text, and NULL */
	bool has_failed; /* memory was lacking */
};

/* Set what @line does: nothing else may set it. */
static void set(struct environment *e, const char *line)
{
	e->has_failed |= envz_merge(&e->text, &e->size, line, strlen(line) + 1,
	                            true) != 0;
}

__attribute__((format(printf, 2, 3))) static void
set_format(struct environment *e, const char *format, ...)
{
	char line[512];
	va_list args;

	va_start(args, format);
	vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	set(e, line);
}

static bool begins_with(const char *line, const char *begin)
{
	return strncmp(line, begin, strlen(begin)) == 0;
}

/* True for what another host does not have of its own. */
static bool goes_along(const char *line)
{
	return begins_with(line, "COHORT_") || begins_with(line, "NCCL_") ||
	       begins_with(line, "LD_LIBRARY_PATH=");
}

/* True for what names this host, and folders of it. */
static bool stays(const char *line)
{
	return begins_with(line, "PMIX_HOSTNAME=") ||
	       begins_with(line, "PMIX_SERVER_TMPDIR=") ||
	       begins_with(line, "PMIX_SYSTEM_TMPDIR=");
}

/* False after a complaint.  The caller frees text and lines. */
static bool make_environment(const struct launch *l, const struct process *p,
                             struct environment *e)
{
	char **pmix = server_environment(p->number), **line;

	if (!pmix)
		return false;
	for (line = environ; *line; line++)
		if (!p->is_remote || goes_along(*line))
			set(e, *line);
	for (line = pmix; *line; free(*line++))
		if (!p->is_remote || !stays(*line))
			set(e, *line);
	free(pmix);
	set_format(e, "COHORT_PROCESS=%d", p->number);
	set_format(e, "COHORT_PROCESSES=%d", l->n);
	set_format(e, "COHORT_JOB=%s", server_job());
	set_format(e, "COHORT_LOCAL_PROCESS=%d", p->local_number);
	set_format(e, "COHORT_LOCAL_PROCESSES=%d", p->local_count);
	e->lines = calloc(argz_count(e->text, e->size) + 1, sizeof(*e->lines));
	if (e->lines)
		argz_extract(e->text, e->size, e->lines);
	if (e->lines && !e->has_failed)
		return true;
	cli_complain("launch", "out of memory");
	return false;
}

/* ---- the command of an agent ------------------------------------------- */

/* One command for a POSIX shell; NULL if memory is lacking. */
static char *make_command(const struct launch *l)
{
	char *command = NULL, **word;
	size_t bytes;
	FILE *out = open_memstream(&command, &bytes);
	bool has_failed;

	if (!out)
		return NULL;
	fputs("exec sh -c ", out);
	cli_put_quoted(out, script);
	fputs(" sh ", out);
	cli_put_quoted(out, l->folder);
	for (word = l->program; *word; word++) {
		putc(' ', out);
		cli_put_quoted(out, *word);
	}
	has_failed = ferror(out);
	if (!fclose(out) && !has_failed)
		return command;
	free(command);
	return NULL;
}

/* ---- the new process --------------------------------------------------- */

struct image {
	const char *path;
	char **argv, **environment;
	int input; /* the end of a pipe that it reads, -1: none */
};

/* What it reads; true if that is there. */
static bool set_input(const struct process *p, const struct image *image)
{
	int fd = image->input;

	if (fd < 0 && p->number == 0)
		return true;
	if (fd < 0)
		fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	return fd >= 0 && dup2(fd, STDIN_FILENO) >= 0;
}

static _Noreturn void become(const struct launch *l, const struct process *p,
                             const struct image *image, pid_t launcher)
{
	int err;

	/* A terminal sends its signals to the processes themselves; one of an
	 * agent would be cut off by them. */
	if (p->is_remote)
		setpgid(0, 0);
	if (prctl(PR_SET_PDEATHSIG, SIGTERM) || getppid() != launcher)
		_exit(CLI_NOT_EXECUTABLE);
#ifdef SYS_close_range
	/* libpmix's connections to other processes among them. */
	syscall(SYS_close_range, STDERR_FILENO + 1, ~0U, CLOSE_RANGE_CLOEXEC);
#endif
	if (set_input(p, image)) {
		setrlimit(RLIMIT_NOFILE, &l->files);
		sigprocmask(SIG_SETMASK, &l->mask, NULL);
		execvpe(image->path, image->argv, image->environment);
	}
	err = errno;
	cli_complain("launch", "%s: %s", image->path, strerror(err));
	_exit(err == ENOENT ? CLI_NOT_FOUND : CLI_NOT_EXECUTABLE);
}

static int spawn(const struct launch *l, struct process *p,
                 const struct image *image)
{
	const pid_t launcher = getpid();

	p->pid = fork();
	if (p->pid == 0)
		become(l, p, image, launcher);
	if (p->pid > 0)
		return CLI_OK;
	p->pid = 0;
	cli_complain("launch", "fork: %s", strerror(errno));
	return CLI_FAILED;
}

/* What export takes. */
static bool is_for_shell(const char *line)
{
	const size_t name = strspn(line, "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	                                 "abcdefghijklmnopqrstuvwxyz"
	                                 "_0123456789");

	return name && !isdigit((unsigned char)line[0]) && line[name] == '=' &&
	       !strchr(line, '\n');
}

/* Write the environment to the agent, whose pipe has room for it.  False after
 * a complaint. */
static bool send_environment(const struct process *p, char **environment)
{
	FILE *out;
	char *text = NULL, **line;
	size_t bytes;
	bool is_sent;

	out = open_memstream(&text, &bytes);
	if (!out) {
		cli_complain("launch", "out of memory");
		return false;
	}
	for (line = environment; *line; line++)
		if (is_for_shell(*line))
			fprintf(out, "%s\n", *line);
	fputc('\n', out);
	fclose(out);
	fcntl(p->lifeline, F_SETPIPE_SZ, ENVIRONMENT_MOST);
	is_sent = text && bytes <= ENVIRONMENT_MOST &&
	          write(p->lifeline, text, bytes) == (ssize_t)bytes;
	if (!is_sent)
		cli_complain(
			"launch",
			"process %d: its environment, of %zu bytes, cannot "
			"be sent",
			p->number, bytes);
	free(text);
	return is_sent;
}

static int start_agent(const struct launch *l, struct process *p,
                       char **environment)
{
	char *command = make_command(l);
	int ends[2], rc = CLI_FAILED;

	if (!command) {
		cli_complain("launch", "out of memory");
		return CLI_FAILED;
	}
	l->words[l->n_words] = (char *)(uintptr_t)p->host;
	l->words[l->n_words + 1] = command;
	if (pipe2(ends, O_CLOEXEC)) {
		cli_complain("launch", "pipe: %s", strerror(errno));
	} else {
		rc = spawn(l, p,
		           &(struct image){ l->words[0], l->words, environ,
		                            ends[0] });
		p->lifeline = ends[1];
		if (rc == CLI_OK && !send_environment(p, environment))
			rc = CLI_FAILED;
		close(ends[0]);
	}
	free(command);
	return rc;
}

int launch_start(const struct launch *l, struct process *p)
{
	struct environment e = { .size = 0 };
	int rc = CLI_FAILED;

	if (make_environment(l, p, &e))
		rc = p->is_remote ? start_agent(l, p, e.lines)
		                  : spawn(l, p,
		                          &(struct image){ l->path, l->program,
		                                           e.lines, -1 });
	free(e.lines);
	free(e.text);
	return rc;
}
