/* SPDX-License-Identifier: Apache-2.0 */

#include "support/doomed.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/place.h"

static void child_main(doomed_fn act, int out)
{
	static struct native_clique clique;

	dup2(out, STDERR_FILENO);
	setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 });
	signal(SIGABRT, SIG_DFL);
	setenv("COHORT_HOST_STRICT", "1", 1);
	native_clique_open(&clique, native_open(3), 3);
	act(&clique);
	_exit(0);
}

static void read_all(int from, char *text, size_t room)
{
	size_t length = 0;
	ssize_t n;

	while ((n = read(from, text + length, room - 1 - length)) > 0)
		length += (size_t)n;
	text[length] = '\0';
}

/* Run @act in a child process. Store in @text what it prints to stderr. Return
 * its wait status. */
static int run_in_child(doomed_fn act, char *text, size_t room)
{
	int ends[2], status;
	char *end;
	pid_t id;

	place_need_built_in("strict mode");
	cr_assert_eq(pipe(ends), 0);
	id = fork();
	if (id == 0)
		child_main(act, ends[1]);
	close(ends[1]);
	read_all(ends[0], text, room);
	close(ends[0]);
	cr_assert_eq(waitpid(id, &status, 0), id);
	/* QEMU adds a line about the signal. */
	end = strstr(text, "qemu: uncaught target signal");
	if (end)
		*end = '\0';
	return status;
}

void doomed_expect(doomed_fn act, const char *line)
{
	char text[1024], wanted[512];
	int status = run_in_child(act, text, sizeof(text));

	snprintf(wanted, sizeof(wanted), "strict host platform: %s\n", line);
	cr_assert_str_eq(text, wanted);
	cr_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

void doomed_expect_legal(doomed_fn act)
{
	char text[1024];
	int status = run_in_child(act, text, sizeof(text));

	cr_assert_str_empty(text);
	cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}
