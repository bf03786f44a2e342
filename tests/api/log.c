/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests of the log line on stderr, and of COHORT_LOG and options.log, which
 * control it
 */

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/expect.h"
#include "support/ranks.h"

#define MISSPELT                                                               \
	"cohort: COHORT_PLATFROM is set in the environment, but Cohort has "   \
	"no such variable; did you mean COHORT_PLATFORM?\n"

/* Ends of a pipe that replaces stderr */
static int ends[2];
static char printed[32768];

static void redirect(void)
{
	unsetenv("COHORT_LOG");
	cr_assert_eq(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
	/* Make the pipe block, like most programs' stderr, so that a write to a
	 * full pipe would block. */
	cr_assert_eq(fcntl(ends[1], F_SETFL, 0), 0);
	dup2(ends[1], STDERR_FILENO);
	close(ends[1]);
}

TestSuite(log, .init = redirect, .timeout = 30);

/* Return the text printed since the last call. */
static const char *output(void)
{
	size_t used = 0;
	ssize_t n;

	while ((n = read(ends[0], printed + used, sizeof(printed) - 1 - used)) >
	       0)
		used += (size_t)n;
	printed[used] = '\0';
	return printed;
}

static struct cohort_group_options named(const char *log)
{
	struct cohort_group_options o;

	cohort_group_options_init(&o);
	o.name = "logged";
	o.log = log;
	return o;
}

/* Open a group, abort it and close it. */
static void abort_one(const char *log, const char *reason)
{
	struct cohort_group_options o = named(log);
	struct cohort_group *group = ranks_open(2, &o);

	cr_assert_eq(cohort_group_abort(group, reason), COHORT_OK);
	cohort_group_close(group);
}

static int lines(const char *text)
{
	int n = 0;

	while ((text = strchr(text, '\n'))) {
		text++;
		n++;
	}
	return n;
}

static int fail_rank_1(struct cohort_comm *comm, void *unused)
{
	(void)unused;
	return cohort_comm_rank(comm) == 1 ? 7 : 0;
}

Test(log, group_that_ends_with_a_cause_logs_one_line)
{
	struct cohort_group_options o = named(NULL);
	struct cohort_group *group = ranks_open(2, &o);
	char wanted[500];

	expect_end_of_run(group, fail_rank_1, NULL, COHORT_WORKER);
	snprintf(wanted, sizeof(wanted),
	         "cohort: group \"logged\" (generation 1) ended: %s\n",
	         cohort_last_error());
	cohort_group_close(group);
	cr_assert_str_eq(output(), wanted);
}

Test(log, orderly_close_logs_nothing)
{
	ranks_must(cohort_group_close(ranks_open(2, NULL)), "close");
	cr_assert_str_eq(output(), "");
}

Test(log, refused_call_logs_nothing)
{
	expect(cohort_group_open(NULL, -1, NULL, NULL), COHORT_INVALID,
	       "group is NULL");
	cr_assert_str_eq(output(), "");
}

static int split_and_fail(struct cohort_comm *comm, void *unused)
{
	struct cohort_comm *child;

	(void)unused;
	/* Rank 1's error may end the group while rank 0 is still in the
	 * split. */
	if (cohort_comm_split(comm, 0, 0, &child) != COHORT_OK)
		return cohort_comm_rank(comm) == 1 ? 8 : 0;
	return cohort_comm_rank(comm) == 1 ? 7 : 0;
}

Test(log, child_that_ends_with_its_group_logs_no_line)
{
	struct cohort_group *group = ranks_open(2, NULL);
	struct cohort_cause cause;

	cause = expect_end_of_run(group, split_and_fail, NULL, COHORT_WORKER);
	cr_assert_eq(cause.worker, 7, "%s", cause.text);
	cohort_group_close(group);
	cr_assert_eq(lines(output()), 1, "%s", printed);
}

Test(log, each_generation_that_ends_with_a_cause_logs_a_line)
{
	struct cohort_group *group = ranks_open(2, NULL);

	cohort_group_abort(group, "the first");
	ranks_must(cohort_group_respawn(group, NULL, 0), "respawn");
	cohort_group_abort(group, "the second");
	cohort_group_close(group);
	cr_assert_eq(lines(output()), 2, "%s", printed);
	expect_text(printed, "(generation 1) ended");
	expect_text(printed, "(generation 2) ended");
}

Test(log, control_characters_are_replaced_in_the_log_line)
{
	abort_one(NULL, "one\ntwo\033[31m");
	cr_assert_eq(lines(output()), 1, "%s", printed);
	expect_text(printed, "one two [31m");
}

Test(log, long_log_line_is_cut_at_500_bytes)
{
	char name[5000];

	memset(name, 'X', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	memcpy(name, "COHORT_", 7);
	setenv(name, "", 1);
	ranks_must(cohort_group_close(ranks_open(1, NULL)), "close");
	cr_assert_eq(strlen(output()), 500);
	cr_assert_str_eq(printed + 496, "...\n");
}

Test(log, first_open_logs_misspelled_variables)
{
	setenv("COHORT_PLATFROM", "gpu", 1);
	expect(cohort_group_open(NULL, -1, NULL, NULL), COHORT_INVALID,
	       "group is NULL");
	cr_assert_str_eq(output(), "");
	ranks_must(cohort_group_close(ranks_open(1, NULL)), "close");
	cr_assert_str_eq(output(), MISSPELT);
	ranks_must(cohort_group_close(ranks_open(1, NULL)), "close");
	cr_assert_str_eq(output(), "");
}

Test(log, first_join_logs_misspelled_variables)
{
	struct cohort_group_options o = named(NULL);
	struct cohort_unique_id id;
	struct cohort_comm *comm;

	setenv("COHORT_UNLIKE_ANY_OTHER", "", 1);
	cr_assert_eq(cohort_unique_id(COHORT_PLATFORM_AUTO, &id), COHORT_OK);
	cr_assert_eq(cohort_comm_join(&id, 1, 0, 0, &o, &comm), COHORT_OK, "%s",
	             cohort_last_error());
	cr_assert_str_eq(output(), "cohort: COHORT_UNLIKE_ANY_OTHER is set in "
	                           "the environment, but Cohort has no such "
	                           "variable.\n");
	ranks_must(cohort_comm_close(comm), "close");
}

Test(log, log_none_prints_nothing)
{
	setenv("COHORT_PLATFROM", "gpu", 1);
	abort_one("none", "unseen");
	cr_assert_str_eq(output(), "");
}

Test(log, log_verdict_prints_a_report_on_each_rank)
{
	abort_one("verdict", "in full");
	output();
	cr_assert_eq(lines(printed), 3, "%s", printed);
	cr_assert_eq(strncmp(printed, "cohort: group \"logged\" ", 23), 0);
	expect_text(printed, "in full");
	expect_text(printed, "\n  rank 0 ");
	expect_text(printed, "\n  rank 1 ");
}

Test(log, environment_overrides_the_log_option)
{
	setenv("COHORT_LOG", "line", 1);
	abort_one("none", "seen");
	cr_assert_eq(lines(output()), 1, "%s", printed);
	setenv("COHORT_LOG", "", 1);
	abort_one("none", "unseen");
	cr_assert_str_eq(output(), "");
}

Test(log, log_file_receives_the_lines_instead_of_stderr)
{
	char folder[] = "/tmp/cohort-log-XXXXXX", path[64], text[4096];
	struct stat facts;
	FILE *file;
	size_t n;

	cr_assert_not_null(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/log", folder);
	setenv("COHORT_PLATFROM", "gpu", 1);
	abort_one(path, "the first");
	abort_one(path, "the second");
	cr_assert_str_eq(output(), "");

	cr_assert_eq(stat(path, &facts), 0);
	cr_assert_eq(facts.st_mode & 0777, 0600);
	file = fopen(path, "r");
	cr_assert_not_null(file);
	n = fread(text, 1, sizeof(text) - 1, file);
	text[n] = '\0';
	fclose(file);
	cr_assert_eq(lines(text), 7, "%s", text);
	cr_assert_eq(strncmp(text, MISSPELT, strlen(MISSPELT)), 0, "%s", text);
	expect_text(text, "the first");
	expect_text(text, "the second");
	unlink(path);
	rmdir(folder);
}

Test(log, log_file_that_cannot_be_opened_is_replaced_by_stderr)
{
	char folder[] = "/tmp/cohort-log-XXXXXX", path[64] = "";
	struct cohort_group_options o = named(path);
	struct cohort_group *group;

	cr_assert_not_null(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/log", folder);
	group = ranks_open(2, &o);
	unlink(path);
	rmdir(folder);
	cohort_group_abort(group, "not lost");
	cohort_group_close(group);
	cr_assert_not_null(strstr(output(), "not lost"), "%s", printed);
}

Test(log, open_refuses_an_invalid_log_value)
{
	struct cohort_group_options o = named("nonne");
	struct cohort_group *group;

	expect(cohort_group_open(NULL, 0, &o, &group), COHORT_INVALID,
	       "options->log is \"nonne\", not none, line, verdict or a path "
	       "with a / (./nonne for a file of that name)");
	o.log = "/does/not/exist/log";
	expect(cohort_group_open(NULL, 0, &o, &group), COHORT_INVALID,
	       "options->log is \"/does/not/exist/log\": No such file or "
	       "directory");
	setenv("COHORT_LOG", "/", 1);
	expect(cohort_group_open(NULL, 0, NULL, &group), COHORT_INVALID,
	       "COHORT_LOG is \"/\": Is a directory");
	cr_assert_str_eq(output(), "");
}

/* Fill the pipe, so that its reader seems to be stopped. */
static void fill_stderr(void)
{
	char zeros[4096] = { 0 };

	fcntl(STDERR_FILENO, F_SETFL, O_NONBLOCK);
	while (write(STDERR_FILENO, zeros, sizeof(zeros)) > 0)
		;
	fcntl(STDERR_FILENO, F_SETFL, 0);
}

Test(log, log_line_is_dropped_and_counted_if_stderr_is_full)
{
	fill_stderr();
	abort_one(NULL, "lost");
	abort_one(NULL, "lost");
	while (read(ends[0], printed, sizeof(printed)) > 0)
		;
	abort_one(NULL, "written");
	cr_assert_eq(lines(output()), 1, "%s", printed);
	cr_assert_null(strstr(printed, "aborted: lost"));
	expect_text(printed, "cohort: (2 earlier lines were lost: "
	                     "stderr was full) group");
}

/* An unprotected write would raise SIGPIPE in the thread that opens the
 * group. */
Test(log, log_line_to_a_closed_pipe_does_not_end_the_process)
{
	setenv("COHORT_PLATFROM", "gpu", 1);
	close(ends[0]);
	abort_one(NULL, "unread");
}
