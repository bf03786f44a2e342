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

#ifndef CLOSE_RANGE_CLOEXEC
#define CLOSE_RANGE_CLOEXEC 4
#endif

/* Largest capacity of a pipe that an unprivileged process can set */
#define ENVIRONMENT_MOST (1024 * 1024)

/*
 * The script that an agent's shell runs. "$1" is the folder, and the other
 * arguments are the program.
 *
 * The script first reads the environment, one variable per line up to an empty
 * line. The command line must not contain the environment: everyone can read
 * command lines, and the name of the job is a secret.
 *
 * If an agent ends, the process that it has started continues. So a second
 * shell reads the names of signals from the agent, and kills the program when
 * this input ends. A shell starts background processes with SIGINT ignored; env
 * restores the default. If a signal ends the program, the exit status is 128
 * plus the signal.
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

/* Return 0 if the file @path can be executed, or an errno. */
static int check_program(const char *path)
{
	struct stat s;

	if (stat(path, &s))
		return errno;
	if (S_ISDIR(s.st_mode))
		return EACCES;
	return access(path, X_OK) ? errno : 0;
}

/* Find @name as execvp() does. Return 0 and store the path, which the caller
 * frees, or return an errno. */
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
	if (err)
		return cli_misuse("--agent: \"%s\": %s", l->agent,
		                  strerror(err));
	if (launch_has(l, false))
		err = find_program(l->program[0], &l->path);
	if (!err)
		return CLI_OK;
	return cli_cannot_run(l->program[0], err);
}

/* The environment of a process, or the part of it that an agent adds to the
 * environment of its host */
struct environment {
	char *text; /* NAME=value and a zero byte for each variable */
	size_t size;
	char **lines; /* pointers into @text, and NULL at the end */
};

static void set(struct environment *e, const char *line)
{
	if (envz_merge(&e->text, &e->size, line, strlen(line) + 1, true))
		cli_need(NULL);
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

/* Return whether a variable is copied to processes on other hosts. */
static bool is_forwarded(const char *line)
{
	return cli_starts_with(line, "COHORT_") ||
	       cli_starts_with(line, "NCCL_") ||
	       cli_starts_with(line, "LD_LIBRARY_PATH=");
}

/* Return whether a variable names this host or a folder on it. */
static bool is_for_this_host(const char *line)
{
	return cli_starts_with(line, "PMIX_HOSTNAME=") ||
	       cli_starts_with(line, "PMIX_SERVER_TMPDIR=") ||
	       cli_starts_with(line, "PMIX_SYSTEM_TMPDIR=");
}

/* Build the environment of @p. Return false after printing an error. The caller
 * frees @e->text and @e->lines. */
static bool make_environment(const struct launch *l, const struct process *p,
                             struct environment *e)
{
	char **pmix = server_environment(p->number), **line;

	if (!pmix)
		return false;
	for (line = environ; *line; line++)
		if (!p->is_remote || is_forwarded(*line))
			set(e, *line);
	for (line = pmix; *line; free(*line++))
		if (!p->is_remote || !is_for_this_host(*line))
			set(e, *line);
	free(pmix);
	set_format(e, "COHORT_PROCESS=%d", p->number);
	set_format(e, "COHORT_PROCESSES=%d", l->n);
	set_format(e, "COHORT_JOB=%s", server_job());
	set_format(e, "COHORT_LOCAL_PROCESS=%d", p->local_number);
	set_format(e, "COHORT_LOCAL_PROCESSES=%d", p->local_count);
	e->lines = cli_need(
		calloc(argz_count(e->text, e->size) + 1, sizeof(*e->lines)));
	argz_extract(e->text, e->size, e->lines);
	return true;
}

/* Return the command for a POSIX shell. */
static char *make_command(const struct launch *l)
{
	char *command = NULL;
	size_t bytes;
	FILE *out = cli_need(open_memstream(&command, &bytes));

	fputs("exec sh -c ", out);
	cli_put_quoted(out, script);
	fputs(" sh ", out);
	cli_put_quoted(out, l->folder);
	for (char **word = l->program; *word; word++) {
		putc(' ', out);
		cli_put_quoted(out, *word);
	}
	return cli_need(fclose(out) ? NULL : command);
}

struct image {
	const char *path;
	char **argv, **environment;
	/* read end of a pipe for its standard input, or -1 if there is none */
	int input;
};

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
	/* A terminal sends signals to all processes of the group, and these
	 * would end an agent too early. */
	if (p->is_remote)
		setpgid(0, 0);
	if (prctl(PR_SET_PDEATHSIG, SIGTERM) || getppid() != launcher)
		_exit(CLI_NOT_EXECUTABLE);
#ifdef SYS_close_range
	/* Also close libpmix's connections to other processes. */
	syscall(SYS_close_range, STDERR_FILENO + 1, ~0U, CLOSE_RANGE_CLOEXEC);
#endif
	if (set_input(p, image)) {
		setrlimit(RLIMIT_NOFILE, &l->files);
		sigprocmask(SIG_SETMASK, &l->mask, NULL);
		execvpe(image->path, image->argv, image->environment);
	}
	_exit(cli_cannot_run(image->path, errno));
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
	return cli_fail("fork: %s", strerror(errno));
}

/* Return whether the shell's export accepts a line. */
static bool is_for_shell(const char *line)
{
	const size_t name = strspn(line, "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	                                 "abcdefghijklmnopqrstuvwxyz"
	                                 "_0123456789");

	return name && !isdigit((unsigned char)line[0]) && line[name] == '=' &&
	       !strchr(line, '\n');
}

/* Write the environment to the agent. The pipe has room for all of it. Return
 * false after printing an error. */
static bool send_environment(const struct process *p, char **environment)
{
	char *text = NULL, **line;
	size_t bytes;
	FILE *out = cli_need(open_memstream(&text, &bytes));
	bool is_sent;

	for (line = environment; *line; line++)
		if (is_for_shell(*line))
			fprintf(out, "%s\n", *line);
	fputc('\n', out);
	fclose(out);
	fcntl(p->lifeline, F_SETPIPE_SZ, ENVIRONMENT_MOST);
	is_sent = text && bytes <= ENVIRONMENT_MOST &&
	          write(p->lifeline, text, bytes) == (ssize_t)bytes;
	if (!is_sent)
		cli_error("process %d: cannot send its environment (%zu bytes)",
		          p->number, bytes);
	free(text);
	return is_sent;
}

static int start_agent(const struct launch *l, struct process *p,
                       char **environment)
{
	char *command = make_command(l);
	int ends[2], rc = CLI_FAILED;

	l->words[l->n_words] = (char *)(uintptr_t)p->host;
	l->words[l->n_words + 1] = command;
	if (pipe2(ends, O_CLOEXEC)) {
		cli_error("pipe: %s", strerror(errno));
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
