/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Dumps of the flight recorder: when they are written, and what they contain;
 * tests/system has an independent parser check them
 */

#include <criterion/criterion.h>
#include <dirent.h>
#include <fcntl.h>
#include <glob.h>
#include <locale.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <wchar.h>

#include "base/backoff.h"
#include "base/clock.h"
#include "core/clique.h"
#include "support/native.h"
#include "support/ranks.h"
#include "support/spread.h"
#include "support/stuck.h"

static char folder[] = "/tmp/cohort-dump-XXXXXX";
static char fifo[64];
static struct cohort_group_options o;
static struct cohort_group *group;
static struct cohort_comm *comms[4];
static int32_t values[4];

static void set_up(void)
{
	ranks_must(mkdtemp(folder) ? COHORT_OK : COHORT_SYSTEM, "mkdtemp");
	snprintf(fifo, sizeof(fifo), "%s/fifo", folder);
	cohort_group_options_init(&o);
	o.name = "dp";
	o.warn_percent = 100;
}

static void tear_down(void)
{
	char path[512];
	struct dirent *entry;
	DIR *dir = opendir(folder);

	while (dir && (entry = readdir(dir))) {
		snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
		unlink(path);
	}
	closedir(dir);
	rmdir(folder);
}

TestSuite(dump, .init = set_up, .fini = tear_down, .timeout = 60);

/* ---- looking ---------------------------------------------------------- */

/*
 * Find the only file with this name: that of a dump without the part of its
 * name that tells processes apart, and with or without its serial number.
 */
static bool find_file(const char *name, char *path, size_t size)
{
	const char *g = strstr(name, "_g1_");
	glob_t found;
	bool any;

	if (g)
		snprintf(path, size, "%s/%.*s_g1_*.%d.%s%s", folder,
		         (int)(g - name), name, (int)getpid(),
		         g[4] == '1' ? "" : "*", g + (g[4] == '1' ? 4 : 3));
	else
		snprintf(path, size, "%s/%s", folder, name);
	any = !glob(path, 0, NULL, &found);
	if (any) {
		cr_assert_eq(found.gl_pathc, 1, "several %s", path);
		snprintf(path, size, "%s", found.gl_pathv[0]);
	}
	globfree(&found);
	return any;
}

/*
 * All of a file in the folder, NULL if there is none.  Valid until the next
 * call.
 */
static const char *read_file(const char *name)
{
	static char *text;
	char path[512];
	size_t n;
	FILE *f;

	f = find_file(name, path, sizeof(path)) ? fopen(path, "re") : NULL;
	if (!f)
		return NULL;
	free(text);
	text = calloc(1, (size_t)1 << 24);
	n = fread(text, 1, ((size_t)1 << 24) - 1, f);
	fclose(f);
	return n ? text : NULL;
}

static const char *await_file(const char *name)
{
	struct backoff b = BACKOFF;
	uint64_t deadline = clock_deadline(RANKS_SOON);
	const char *text;

	while (!(text = read_file(name)) && clock_now() < deadline)
		backoff_wait(&b, deadline);
	return text;
}

/* Wait until the file contains @what; false: it never does. */
static bool wait_for_text(const char *name, const char *what)
{
	struct backoff b = BACKOFF;
	uint64_t deadline = clock_deadline(RANKS_SOON);
	const char *text;

	while ((!(text = read_file(name)) || !strstr(text, what)) &&
	       clock_now() < deadline)
		backoff_wait(&b, deadline);
	return text && strstr(text, what);
}

static void await_text(const char *name, const char *what)
{
	cr_assert(wait_for_text(name, what), "no %s in %s", what, name);
}

/* Wait until the file is of a later time than @before; returns that time. */
static uint64_t await_later(const char *name, uint64_t before)
{
	static const char key[] = "\"monotonic_ns\":";
	struct backoff b = BACKOFF;
	uint64_t deadline = clock_deadline(RANKS_SOON), moment = 0;
	const char *text;

	while (moment <= before && clock_now() < deadline) {
		text = read_file(name);
		text = text ? strstr(text, key) : NULL;
		if (text)
			moment = strtoull(text + sizeof(key) - 1, NULL, 10);
		backoff_wait(&b, deadline);
	}
	cr_assert_gt(moment, before, "no later %s", name);
	return moment;
}

static void has(const char *name, const char *what)
{
	const char *text = read_file(name);

	cr_assert_not_null(text, "there is no %s", name);
	cr_assert_not_null(strstr(text, what), "no %s in %s: %.2000s", what,
	                   name, text);
}

/* How often @what is in a file. */
static int count(const char *name, const char *what)
{
	const char *at = read_file(name);
	int n = 0;

	for (; at && (at = strstr(at, what)); at++)
		n++;
	return n;
}

static bool is_there(const char *name)
{
	char path[512];

	return find_file(name, path, sizeof(path));
}

/* ---- calls ------------------------------------------------------------ */

static void sum_all(int n)
{
	int r;

	for (r = 0; r < n; r++)
		ranks_sum(comms[r], &values[r]);
	for (r = 0; r < n; r++)
		ranks_must(cohort_synchronize(comms[r], RANKS_SOON), "sum");
}

static void close_group(void)
{
	cr_assert_eq(cohort_group_close(group), COHORT_OK, "%s",
	             cohort_last_error());
}

/* ---- by a call -------------------------------------------------------- */

Test(dump, has_what_is_done_and_what_is_in_flight)
{
	group = ranks_ahead(3, &o, comms);
	sum_all(3);
	cohort_tag(comms[0], "step \"2\"");
	ranks_sum(comms[0], &values[0]);
	cr_assert_eq(cohort_dump(group, folder), COHORT_OK, "%s",
	             cohort_last_error());
	cr_assert_eq(count("fr_dp_g1_rank_0.json", "\"record_id\""), 2);
	cr_assert_eq(count("fr_dp_g1_rank_0.json", "\"state\":\"completed\""),
	             1);
	has("fr_dp_g1_rank_0.json", "\"tag\":\"step \\\"2\\\"\"");
	has("fr_dp_g1_rank_0.json", "\"last_enqueued_collective\":\"2\"");
	has("fr_dp_g1_rank_0.json", "\"last_completed_collective\":\"1\"");
	has("fr_dp_g1_rank_0.json", "\"trigger\":\"call\"");
	cr_assert_eq(count("fr_dp_g1_rank_1.json", "\"record_id\""), 1);
	cr_assert_eq(count("fr_dp_g1_merged.json", "\"record_id\""), 4);
	cr_assert_eq(count("fr_dp_g1_chrome.json", "\"arrival\""), 4);
	cr_assert_geq(count("fr_dp_g1_chrome.json", "\"waiting\""), 1);
	cohort_group_abort(group, NULL);
	close_group();
}

Test(dump, counts_lost_records)
{
	int i;

	o.recorder_slots = 16;
	group = ranks_split(1, &o, comms);
	for (i = 0; i < 40; i++)
		sum_all(1);
	cr_assert_eq(cohort_dump(group, folder), COHORT_OK);
	has("fr_dp_g1_rank_0.json", "\"recorded\":16,\"lost\":24");
	has("fr_dp_g1_rank_0.json", "\"record_id\":25");
	has("fr_dp_g1_rank_0.json", "\"record_id\":40");
	close_group();
}

/*
 * In each stream the first call hangs: nothing behind it has started, and that
 * includes aborted calls.
 */
Test(dump, marks_what_is_queued_behind_a_hang_in_every_stream)
{
	const struct platform *p = place_table();
	cudaStream_t stream;
	uint64_t t;
	int i;

	group = ranks_ahead(2, &o, comms);
	cr_assert_eq(p->cudaSetDevice(cohort_comm_device(comms[0])),
	             cudaSuccess);
	cr_assert_eq(p->cudaStreamCreateWithFlags(&stream,
	                                          cudaStreamNonBlocking),
	             cudaSuccess);
	ranks_sum(comms[0], &values[0]);
	for (i = 0; i < 3; i++)
		ranks_must(cohort_all_reduce(comms[0], &values[0], &values[0],
		                             1, COHORT_I32, COHORT_SUM, stream,
		                             &t),
		           "all_reduce");
	/* What a reader sees while they are being aborted. */
	recorder_saw_started(&comms[0]->recorder, t - 1, clock_now());
	recorder_saw_started(&comms[0]->recorder, t, clock_now());
	cohort_group_abort(group, NULL);
	cr_assert_eq(cohort_wait(comms[0], t, RANKS_SOON), COHORT_ABORTED);
	cr_assert_eq(cohort_dump(group, folder), COHORT_OK);
	cr_assert_geq(count("fr_dp_g1_rank_0.json", "\"state\":\"scheduled\""),
	              2);
	close_group();
	p->cudaStreamDestroy(stream);
}

static void *sum_on_rank_1(void *arg)
{
	ranks_sum_wait(comms[1], &values[1]);
	return arg;
}

Test(dump, says_of_an_end_that_no_wait_observed_that_it_is_an_upper_bound)
{
	struct backoff b = BACKOFF;
	uint64_t deadline = clock_deadline(RANKS_SOON), t;
	pthread_t thread;

	group = ranks_ahead(2, &o, comms);
	pthread_create(&thread, NULL, sum_on_rank_1, NULL);
	/* Rank 1 has found its operation not done. */
	while (!atomic_load(&comms[1]->thread.waits))
		backoff_wait(&b, deadline);
	t = ranks_sum(comms[0], &values[0]);
	pthread_join(thread, NULL);
	while (!comm_ticket_done(comms[0], t))
		comm_ticket_help(comms[0], t, deadline);
	cr_assert_eq(cohort_dump(group, folder), COHORT_OK);
	cr_assert_eq(count("fr_dp_g1_rank_0.json", "\"finished_at_most\":true"),
	             1);
	cr_assert_eq(count("fr_dp_g1_rank_0.json", "\"duration_ms\""), 0);
	cr_assert_eq(count("fr_dp_g1_rank_1.json", "\"finished_at_most\":true"),
	             0);
	cr_assert_eq(count("fr_dp_g1_rank_1.json", "\"state\":\"completed\""),
	             1);
	close_group();
}

/* A rank inside its native call keeps no thread from writing. */
Test(dump, is_not_held_up_by_a_thread_inside_a_native_call)
{
	pthread_t thread;

	place_need_built_in("functions that are stuck");
	stuck_install();
	group = ranks_ahead(2, &o, comms);
	sum_all(2);
	stuck_at("ncclAllReduce", 1);
	pthread_create(&thread, NULL, sum_on_rank_1, NULL);
	stuck_await();
	cr_assert_eq(cohort_dump(group, folder), COHORT_OK);
	has("fr_dp_g1_rank_1.json", "\"inside\":true");
	has("fr_dp_g1_rank_1.json", "\"outcome\":2");
	stuck_let_go();
	/* The other rank does not call. */
	cohort_group_abort(group, NULL);
	pthread_join(thread, NULL);
	close_group();
}

Test(dump, goes_to_the_directory_of_the_options_by_default)
{
	group = ranks_split(1, &o, comms);
	cr_assert_eq(cohort_dump(group, NULL), COHORT_INVALID);
	close_group();
	o.dump_directory = folder;
	group = ranks_split(1, &o, comms);
	cr_assert_eq(cohort_dump(group, NULL), COHORT_OK);
	cr_assert(is_there("fr_dp_g1_merged.json"));
	close_group();
}

Test(dump, says_which_file_cannot_be_written)
{
	group = ranks_split(1, &o, comms);
	cr_assert_eq(cohort_dump(NULL, folder), COHORT_INVALID);
	cr_assert_eq(cohort_dump(group, "/dev/null/x"), COHORT_SYSTEM);
	cr_assert_not_null(strstr(cohort_last_error(), "/dev/null/x"));
	cr_assert_eq(cohort_dump(group, ""), COHORT_INVALID);
	cr_assert_not_null(strstr(cohort_last_error(), "directory is \"\""));
	close_group();
}

/*
 * The process may write files up to that size, and would get a signal beyond
 * it.
 */
Test(dump, fails_without_a_signal_if_it_is_too_large)
{
	struct rlimit limit, few;
	sigset_t pending;
	int rc;

	group = ranks_split(1, &o, comms);
	cr_assert_eq(getrlimit(RLIMIT_FSIZE, &limit), 0);
	few = (struct rlimit){ 100, limit.rlim_max };
	cr_assert_eq(setrlimit(RLIMIT_FSIZE, &few), 0);
	rc = cohort_dump(group, folder);
	cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
	cr_assert_eq(rc, COHORT_SYSTEM);
	cr_assert_not_null(strstr(cohort_last_error(), "File too large"), "%s",
	                   cohort_last_error());
	sigpending(&pending);
	cr_assert_not(sigismember(&pending, SIGXFSZ));
	cr_assert_eq(cohort_dump(group, folder), COHORT_OK);
	close_group();
}

/* A file name has only portable characters, whatever the group is called. */
Test(dump, makes_a_file_name_of_any_name)
{
	o.name = "a/../b c";
	group = ranks_split(1, &o, comms);
	cr_assert_eq(cohort_dump(group, folder), COHORT_OK);
	has("fr_a_.._b_c_g1_rank_0.json", "\"group\":\"a/../b c\"");
	close_group();
}

static void is_utf8(const char *name)
{
	const char *text = read_file(name);
	mbstate_t state = { 0 };

	cr_assert_not_null(text, "there is no %s", name);
	cr_assert_neq(mbsrtowcs(NULL, &text, 0, &state), (size_t)-1, "%s",
	              name);
}

/* Names of groups, threads and calls may be cut, or not be text at all. */
Test(dump, is_utf8_whatever_bytes_names_have)
{
	const char *tag =
		"a tag of one long "
		"word:\u20ac\u20ac\u20ac\u20ac\u20ac\u20ac\u20ac\u20ac\u20ac";

	cr_assert_not_null(setlocale(LC_CTYPE, "C.UTF-8"));
	o.name = "\xff\xe2\x82";
	group = ranks_split(1, &o, comms);
	pthread_setname_np(pthread_self(), "half: \xc3");
	cr_assert_eq(cohort_tag(comms[0], tag), COHORT_OK);
	sum_all(1);
	cr_assert_eq(cohort_dump(group, folder), COHORT_OK);
	is_utf8("fr_____g1_rank_0.json");
	is_utf8("fr_____g1_merged.json");
	is_utf8("fr_____g1_chrome.json");
	has("fr_____g1_rank_0.json", "\"group\":\"\\ufffd\\ufffd\\ufffd\"");
	has("fr_____g1_rank_0.json", "\"thread\":\"half: \\ufffd\"");
	/* The rest of the tag consists of whole characters. */
	has("fr_____g1_rank_0.json",
	    "word:\u20ac\u20ac\u20ac\u20ac\u20ac\u20ac\u20ac...\"");
	close_group();
}

/* Found at a time when a caller can be told. */
Test(dump, needs_a_writable_directory)
{
	char deep[128], path[160];

	place_need(1);
	o.platform = place_platform();
	o.dump_directory = "/dev/null/x";
	cr_assert_eq(cohort_group_open(NULL, 1, &o, &group), COHORT_INVALID);
	cr_assert_not_null(strstr(cohort_last_error(),
	                          "dump_directory is \"/dev/null/x\": Not a "
	                          "directory"));
	o.dump_directory = "/proc/self";
	cr_assert_eq(cohort_group_open(NULL, 1, &o, &group), COHORT_INVALID);
	snprintf(deep, sizeof(deep), "%s/a/b", folder);
	o.dump_directory = deep;
	group = ranks_split(1, &o, comms);
	cr_assert_eq(rmdir(deep), 0, "something is left in it");
	cr_assert_eq(cohort_dump(group, NULL), COHORT_OK);
	close_group();
	snprintf(path, sizeof(path), "rm -r %s/a", folder);
	cr_assert_eq(system(path), 0);
}

/* An obstacle to one file harms no other file. */
Test(dump, goes_on_after_a_file_that_cannot_be_written)
{
	char path[512];

	group = ranks_ahead(2, &o, comms);
	cr_assert_eq(cohort_dump(group, folder), COHORT_OK);
	cr_assert(find_file("fr_dp_g1_rank_0.json", path, sizeof(path)));
	cr_assert_eq(unlink(path), 0);
	cr_assert_eq(mkdir(path, 0700), 0);
	sum_all(2);
	cr_assert_eq(cohort_dump(group, folder), COHORT_SYSTEM);
	cr_assert_not_null(strstr(cohort_last_error(), "_rank_0.json of /tmp"));
	cr_assert_eq(count("fr_dp_g1_rank_1.json", "\"record_id\""), 1);
	cr_assert_eq(count("fr_dp_g1_merged.json", "\"record_id\""), 2);
	cr_assert_eq(rmdir(path), 0);
	close_group();
}

/*
 * Two groups of one name, and a third after them: none overwrites another's
 * files.
 */
Test(dump, is_not_overwritten_by_another_group_of_the_same_name)
{
	struct cohort_group *other;
	struct cohort_comm *comm;
	char pattern[128];
	glob_t found;

	place_need(1);
	group = ranks_split(1, &o, comms);
	other = ranks_split(1, &o, &comm);
	cr_assert_eq(cohort_dump(group, folder), COHORT_OK);
	cr_assert_eq(cohort_dump(other, folder), COHORT_OK);
	close_group();
	cr_assert_eq(cohort_group_close(other), COHORT_OK);
	group = ranks_split(1, &o, comms);
	cr_assert_eq(cohort_dump(group, folder), COHORT_OK);
	cr_assert_eq(cohort_dump(group, folder), COHORT_OK);
	close_group();
	snprintf(pattern, sizeof(pattern), "%s/fr_dp_g1_*_rank_0.json", folder);
	cr_assert_eq(glob(pattern, 0, NULL, &found), 0);
	cr_assert_eq(found.gl_pathc, 3);
	globfree(&found);
}

/* ---- split communicators ---------------------------------------------- */

static atomic_int has_summed;

/* Rank 0 dumps while both children exist, and when its own is closed. */
static int split_and_dump(struct cohort_comm *c, void *unused)
{
	int rank = cohort_comm_rank(c);
	struct cohort_comm *child;
	struct backoff b = BACKOFF;

	(void)unused;
	ranks_must(cohort_comm_split(c, rank / 2, 0, &child), "split");
	ranks_must(ranks_sum_wait(child, &values[rank]), "sum");
	atomic_fetch_add(&has_summed, 1);
	while (rank == 0 && atomic_load(&has_summed) < 4)
		backoff_wait(&b, UINT64_MAX);
	if (rank == 0)
		ranks_must(cohort_dump(group, folder), "dump");
	ranks_must(ranks_sum_wait(c, &values[rank]), "sum of all");
	ranks_must(cohort_comm_close(child), "close");
	if (rank == 0)
		ranks_must(cohort_dump(group, folder), "dump again");
	return 0;
}

Test(dump, has_split_communicators_too)
{
	spread_not("dumps are of a process's own ranks");
	place_need(4);
	group = ranks_open(4, &o);
	ranks_must(cohort_group_run(group, split_and_dump, NULL, NULL), "run");
	has("fr_dp_g1_rank_3.json", "\"profiling_name\":\"nccl:split\"");
	has("fr_dp.0_g1_rank_1.json", "\"group\":\"dp.0\"");
	has("fr_dp.1_g1_rank_0.json", "\"profiling_name\":\"nccl:all_reduce\"");
	has("fr_dp.1_g1_merged.json", "\"trigger\":\"call\"");
	close_group();
}

/* ---- what was left behind --------------------------------------------- */

static void leave_behind(char *path, size_t size, const char *host, int pid,
                         const char *end)
{
	FILE *f;

	snprintf(path, size, "%s/.fr_dp_g1_%s.%d.1_rank_0.json.%d-%s", folder,
	         host, pid, pid, end);
	f = fopen(path, "we");
	cr_assert_not_null(f);
	fclose(f);
}

/* A number that no process has: that of a child that has ended. */
static int dead_process(void)
{
	pid_t pid = fork();

	if (!pid)
		_exit(0);
	waitpid(pid, NULL, 0);
	return pid;
}

Test(dump, removes_the_files_of_dead_processes)
{
	char dead[512], alive[512], elsewhere[512], other[512], held[512];
	char host[64];
	int pid = dead_process(), fd;

	cr_assert_eq(gethostname(host, sizeof(host)), 0);
	leave_behind(dead, sizeof(dead), host, pid, "0");
	leave_behind(alive, sizeof(alive), host, getppid(), "0");
	leave_behind(elsewhere, sizeof(elsewhere), "another-host", pid, "0");
	leave_behind(other, sizeof(other), host, pid, "0.txt");
	leave_behind(held, sizeof(held), host, pid, "1");
	fd = open(held, O_RDONLY | O_CLOEXEC);
	cr_assert_eq(flock(fd, LOCK_EX), 0);
	group = ranks_split(1, &o, comms);
	cr_assert_eq(cohort_dump(group, folder), COHORT_OK);
	cr_assert_neq(access(dead, F_OK), 0);
	cr_assert_eq(access(alive, F_OK), 0);
	cr_assert_eq(access(elsewhere, F_OK), 0);
	cr_assert_eq(access(other, F_OK), 0);
	cr_assert_eq(access(held, F_OK), 0);
	close(fd);
	cr_assert_eq(cohort_dump(group, folder), COHORT_OK);
	cr_assert_neq(access(held, F_OK), 0);
	close_group();
}

/* ---- by a verdict ----------------------------------------------------- */

Test(dump, is_written_with_a_verdict)
{
	struct cohort_cause cause;
	uint64_t t;

	o.dump_directory = folder;
	o.deadlines.join_ns = 20000000;
	group = ranks_ahead(2, &o, comms);
	sum_all(2);
	t = ranks_sum(comms[0], &values[0]);
	cr_assert_eq(cohort_wait(comms[0], t, RANKS_SOON), COHORT_STALLED);
	cohort_group_cause(group, &cause);
	close_group();
	has("fr_dp_g1_merged.json", "\"trigger\":\"verdict\"");
	has("fr_dp_g1_merged.json",
	    "\"verdict\":{\"kind\":\"busy in the program\",\"stage\":\"ended\","
	    "\"rank\":1,\"collective\":2,");
	has("fr_dp_g1_merged.json", "\"joined\":[0],\"missing\":[1]");
	/* Calls that were cut short are not completed. */
	cr_assert_eq(count("fr_dp_g1_rank_0.json", "\"state\":\"completed\""),
	             1);
	cr_assert_eq(count("fr_dp_g1_rank_0.json", "\"record_id\""), 2);
}

/*
 * The first dump of a stall is evidence: no later dump on demand may destroy
 * it.
 */
Test(dump, of_a_verdict_is_not_replaced_by_a_dump_on_demand)
{
	static const char merged[] = "fr_dp_g1_1_merged.json";
	static const char asked[] = "fr_dp_g1_1_asked_merged.json";
	int fd;

	o.dump_directory = folder;
	o.dump_fifo = fifo;
	o.dump_signal = SIGUSR2;
	o.policy = COHORT_POLICY_REPORT;
	o.deadlines.join_ns = RANKS_SOON / 10;
	group = ranks_ahead(2, &o, comms);
	sum_all(2); /* the first collective may take longer */
	ranks_sum(comms[0], &values[0]);
	await_text(merged, "\"missing\":[1]");
	/* The group goes on: the verdict is not repeated. */
	ranks_sum(comms[1], &values[1]);
	ranks_must(cohort_synchronize(comms[1], RANKS_SOON), "sum");
	cr_assert_eq(cohort_dump(group, NULL), COHORT_OK);
	has(merged, "\"trigger\":\"verdict\"");
	has(asked, "\"trigger\":\"call\"");
	has(asked, "\"verdict\":null");
	raise(SIGUSR2);
	await_text(asked, "\"trigger\":\"signal\"");
	fd = open(fifo, O_WRONLY | O_CLOEXEC);
	cr_assert_eq(write(fd, "\n", 1), 1);
	close(fd);
	await_text(asked, "\"trigger\":\"fifo\"");
	has(merged, "\"missing\":[1]");
	close_group();
}

/*
 * A stall that is reported again and again, and then the end that the program
 * asked for, are two verdicts.
 */
Test(dump, of_a_verdict_is_not_replaced_by_the_next_verdict)
{
	static const char merged[] = "fr_dp_g1_1_merged.json";
	uint64_t before = 0;
	int i;

	o.dump_directory = folder;
	o.policy = COHORT_POLICY_REPORT;
	o.deadlines.join_ns = 20000000;
	group = ranks_ahead(2, &o, comms);
	sum_all(2); /* the first collective may take longer */
	ranks_sum(comms[0], &values[0]);
	for (i = 0; i < 3; i++)
		before = await_later(merged, before);
	cohort_group_abort(group, "enough");
	close_group();
	has(merged, "\"missing\":[1]");
	has(merged, "\"stage\":\"expired\"");
	has("fr_dp_g1_1_v2_merged.json", "\"stage\":\"ended\"");
	has("fr_dp_g1_1_v2_merged.json", "enough");
	cr_assert_not(is_there("fr_dp_g1_1_v3_merged.json"));
}

/* How many callbacks of the end were made, and how many found the files. */
static atomic_int told, found;

static bool is_dumped(void)
{
	return is_there("fr_dp_g1_rank_1.json") &&
	       is_there("fr_dp_g1_merged.json");
}

static int look_for_files(const struct cohort_verdict *v, void *user)
{
	(void)user;
	if (v->stage == COHORT_STAGE_ENDED) {
		atomic_fetch_add(&found, is_dumped());
		atomic_fetch_add(&told, 1);
	}
	return 0;
}

static void look_for_files_at_abort(const struct cohort_cause *cause,
                                    void *user)
{
	(void)cause;
	(void)user;
	atomic_fetch_add(&found, is_dumped());
	atomic_fetch_add(&told, 1);
}

static void stall(void)
{
	uint64_t t;

	o.dump_directory = folder;
	o.on_verdict = look_for_files;
	o.on_abort = look_for_files_at_abort;
	o.deadlines.join_ns = 20000000;
	group = ranks_ahead(2, &o, comms);
	sum_all(2);
	t = ranks_sum(comms[0], &values[0]);
	cr_assert_eq(cohort_wait(comms[0], t, RANKS_SOON), COHORT_STALLED);
}

/* A supervisor may end the process, or read the files, in its callback. */
Test(dump, is_there_when_the_callbacks_are_called)
{
	stall();
	close_group();
	cr_assert_eq(atomic_load(&told), 2);
	cr_assert_eq(atomic_load(&found), 2);
}

static atomic_bool disk_hangs;

/* Replaces libc's function: a disk that hangs. */
int fsync(int fd)
{
	struct backoff b = BACKOFF;

	while (atomic_load(&disk_hangs))
		backoff_wait(&b, UINT64_MAX);
	return (int)syscall(SYS_fsync, fd);
}

Test(dump, does_not_keep_the_callbacks_waiting_for_a_disk_that_hangs)
{
	struct backoff b = BACKOFF;
	uint64_t deadline = clock_deadline(RANKS_SOON);

	atomic_store(&disk_hangs, true);
	o.deadlines.abort_ns = RANKS_SOON;
	stall();
	while (atomic_load(&told) < 2 && clock_now() < deadline)
		backoff_wait(&b, deadline);
	cr_assert_eq(atomic_load(&told), 2);
	cr_assert_eq(atomic_load(&found), 0);
	atomic_store(&disk_hangs, false);
	close_group();
	cr_assert(is_dumped());
}

Test(dump, is_not_written_at_an_orderly_end)
{
	o.dump_directory = folder;
	group = ranks_ahead(2, &o, comms);
	sum_all(2);
	close_group();
	cr_assert_not(is_there("fr_dp_g1_merged.json"));
}

Test(dump, can_be_asked_for_by_the_environment)
{
	setenv("COHORT_DUMP_DIR", folder, 1);
	group = ranks_split(1, &o, comms);
	cohort_group_abort(group, "enough");
	close_group();
	unsetenv("COHORT_DUMP_DIR");
	has("fr_dp_g1_merged.json", "\"kind\":\"abort asked for\"");
	has("fr_dp_g1_merged.json", "enough");
}

/* ---- by a signal, by a FIFO ------------------------------------------- */

static bool is_default(int number)
{
	struct sigaction now;

	sigaction(number, NULL, &now);
	return now.sa_handler == SIG_DFL;
}

Test(dump, is_written_at_a_signal)
{
	o.dump_directory = folder;
	o.dump_signal = SIGUSR2;
	group = ranks_split(1, &o, comms);
	cr_assert_not(is_default(SIGUSR2));
	raise(SIGUSR2);
	cr_assert_not_null(await_file("fr_dp_g1_rank_0.json"));
	has("fr_dp_g1_rank_0.json", "\"trigger\":\"signal\"");
	close_group();
	cr_assert(is_default(SIGUSR2));
}

/*
 * A thread with a small stack, as some runtimes have, has another stack for
 * signals.
 */
Test(dump, can_be_asked_for_on_the_stack_of_signals)
{
	struct sigaction now;

	o.dump_directory = folder;
	o.dump_signal = SIGUSR2;
	group = ranks_split(1, &o, comms);
	sigaction(SIGUSR2, NULL, &now);
	cr_assert(now.sa_flags & SA_ONSTACK);
	cr_assert(now.sa_flags & SA_RESTART);
	close_group();
}

/* The dumper does what it was asked to do before it was told to stop. */
Test(dump, ignores_a_signal_to_a_child)
{
	pid_t child;

	o.dump_directory = folder;
	o.dump_signal = SIGUSR2;
	group = ranks_split(1, &o, comms);
	child = fork();
	if (!child) {
		raise(SIGUSR2);
		_exit(0);
	}
	cr_assert_gt(child, 0);
	cr_assert_eq(waitpid(child, NULL, 0), child);
	close_group();
	cr_assert_not(is_there("fr_dp_g1_rank_0.json"));
}

static void own_handler(int number)
{
	(void)number;
}

Test(dump, leaves_a_signal_to_the_programs_handler)
{
	signal(SIGUSR2, own_handler);
	o.dump_directory = folder;
	o.dump_signal = SIGUSR2;
	cr_assert_eq(cohort_group_open(NULL, 1, &o, &group), COHORT_INVALID);
	cr_assert_not_null(strstr(cohort_last_error(), "dump_signal is 12"));
	o.dump_signal = SIGKILL;
	cr_assert_eq(cohort_group_open(NULL, 1, &o, &group), COHORT_INVALID);
	o.dump_signal = 12345;
	cr_assert_eq(cohort_group_open(NULL, 1, &o, &group), COHORT_INVALID);
}

/* A fault would be raised for ever after a handler that returns. */
Test(dump, refuses_faults_and_signals_that_the_system_sends_itself)
{
	static const int refused[] = { SIGSEGV, SIGBUS, SIGFPE,  SIGILL,
		                       SIGTRAP, SIGSYS, SIGABRT, SIGCHLD,
		                       SIGKILL, SIGSTOP };
	char number[8], option[32], variable[32];
	struct sigaction before, now;
	size_t i;

	o.dump_directory = folder;
	for (i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		sigaction(refused[i], NULL, &before);
		snprintf(number, sizeof(number), "%d", refused[i]);
		snprintf(option, sizeof(option),
		         "dump_signal is %d: ", refused[i]);
		snprintf(variable, sizeof(variable), "DUMP_SIGNAL is \"%d\" ",
		         refused[i]);
		o.dump_signal = refused[i];
		cr_assert_eq(cohort_group_open(NULL, 1, &o, &group),
		             COHORT_INVALID, "signal %s", number);
		cr_assert_not_null(strstr(cohort_last_error(), option));
		o.dump_signal = 0;
		setenv("COHORT_DUMP_SIGNAL", number, 1);
		cr_assert_eq(cohort_group_open(NULL, 1, &o, &group),
		             COHORT_INVALID, "signal %s", number);
		cr_assert_not_null(strstr(cohort_last_error(), variable));
		unsetenv("COHORT_DUMP_SIGNAL");
		sigaction(refused[i], NULL, &now);
		cr_assert_eq(now.sa_handler, before.sa_handler);
	}
}

/* One write reaches all groups that have the FIFO. */
Test(dump, is_written_by_all_groups_at_a_write_to_a_fifo)
{
	struct cohort_group *other;
	struct cohort_comm *comm;
	int fd;

	place_need(1);
	o.dump_directory = folder;
	o.dump_fifo = fifo;
	group = ranks_split(1, &o, comms);
	o.name = "other";
	other = ranks_split(1, &o, &comm);
	fd = open(fifo, O_WRONLY | O_CLOEXEC);
	cr_assert_geq(fd, 0);
	cr_assert_eq(write(fd, "\n", 1), 1);
	close(fd);
	cr_assert_not_null(await_file("fr_dp_g1_rank_0.json"));
	cr_assert_not_null(await_file("fr_other_g1_rank_0.json"));
	has("fr_dp_g1_rank_0.json", "\"trigger\":\"fifo\"");
	close_group();
	cr_assert(is_there("fifo"));
	cr_assert_eq(cohort_group_close(other), COHORT_OK);
	cr_assert_not(is_there("fifo"));
}

/* A file system that hangs, simulated by replacing libc's function. */
static atomic_bool is_hanging, is_hung;

int mkfifo(const char *path, mode_t mode)
{
	struct backoff b = BACKOFF;

	while (atomic_load(&is_hanging)) {
		atomic_store(&is_hung, true);
		backoff_wait(&b, UINT64_MAX);
	}
	return mknod(path, S_IFIFO | mode, 0);
}

static void *open_with_fifo(void *out)
{
	struct cohort_group_options with = o;

	with.dump_fifo = fifo;
	ranks_must(cohort_group_open(NULL, 1, &with, out), "open");
	return NULL;
}

Test(dump, goes_on_for_others_while_one_fifo_hangs)
{
	struct cohort_group *hung = NULL;
	struct backoff b = BACKOFF;
	pthread_t thread;

	o.dump_directory = folder;
	o.platform = place_platform();
	atomic_store(&is_hanging, true);
	pthread_create(&thread, NULL, open_with_fifo, &hung);
	while (!atomic_load(&is_hung))
		backoff_wait(&b, UINT64_MAX);
	group = ranks_split(1, &o, comms);
	cr_assert_eq(cohort_dump(group, folder), COHORT_OK);
	close_group();
	atomic_store(&is_hanging, false);
	pthread_join(thread, NULL);
	cr_assert_eq(cohort_group_close(hung), COHORT_OK);
	cr_assert_not(is_there("fifo"));
}

static atomic_bool is_endless;

/* Replaces libc's function: a FIFO whose writer is always faster. */
ssize_t read(int fd, void *bytes, size_t n)
{
	struct stat status;

	if (atomic_load(&is_endless) && !fstat(fd, &status) &&
	    S_ISFIFO(status.st_mode))
		return (ssize_t)n;
	return syscall(SYS_read, fd, bytes, n);
}

/* A writer that is faster than the reader cannot keep a group open. */
Test(dump, lets_a_group_close_although_its_fifo_is_never_empty)
{
	int fd;

	o.dump_directory = folder;
	o.dump_fifo = fifo;
	o.deadlines.close_ns = o.deadlines.abort_ns = COHORT_FOREVER;
	group = ranks_split(1, &o, comms);
	atomic_store(&is_endless, true);
	fd = open(fifo, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
	cr_assert_eq(write(fd, "x", 1), 1);
	cr_assert_not_null(await_file("fr_dp_g1_merged.json"));
	close_group();
	close(fd);
}

/* How many descriptors the test looks at. */
#define DESCRIPTORS 64

static uint64_t open_descriptors(void)
{
	uint64_t set = 0;
	int fd;

	for (fd = 0; fd < DESCRIPTORS; fd++)
		if (fcntl(fd, F_GETFD) >= 0)
			set |= UINT64_C(1) << fd;
	return set;
}

/* True once there are @n descriptors beside those in @before: a thread of the library's may
 * have a file open for a moment. */
static bool keeps(int n, uint64_t before)
{
	const uint64_t until = clock_deadline(RANKS_SOON);
	struct backoff b = BACKOFF;
	uint64_t now;

	do {
		now = open_descriptors();
		if ((now & before) == before &&
		    __builtin_popcountll(now & ~before) == n)
			return true;
		backoff_wait(&b, until);
	} while (clock_now() < until);
	return false;
}

/* A descriptor that does not exist cannot be closed by others. */
Test(dump, keeps_no_descriptor_except_the_fifos)
{
	uint64_t before;

	place_need_one_process("a platform without descriptors of its own");
	before = open_descriptors();
	o.dump_directory = folder;
	o.dump_signal = SIGUSR2;
	o.stack_signal = SIGRTMIN + 1;
	group = ranks_ahead(2, &o, comms);
	sum_all(2);
	cr_assert(keeps(0, before));
	close_group();
	o.dump_fifo = fifo;
	group = ranks_ahead(2, &o, comms);
	sum_all(2);
	cr_assert(keeps(1, before));
	close_group();
	cr_assert(keeps(0, before));
}

/* Files of the program's own, one for each descriptor from 3 on; 0 for one on which the
 * library has already opened its FIFO again. */
static ino_t own_files[DESCRIPTORS];

static void own_all_descriptors(void)
{
	char path[64];
	struct stat status;
	int fd;

	for (fd = 3; fd < 1024; fd++)
		close(fd);
	snprintf(path, sizeof(path), "%s/own", folder);
	do {
		fd = open(path, O_RDWR | O_CREAT, 0600);
		ranks_must(fd < 0 || fstat(fd, &status) ? COHORT_SYSTEM : 0,
		           "a file");
		own_files[fd] = status.st_ino;
		unlink(path);
	} while (fd < DESCRIPTORS - 1);
}

/* How many of these files were changed. */
static int changed_files(void)
{
	struct stat status;
	int fd, n = 0;

	for (fd = 3; fd < DESCRIPTORS; fd++)
		n += own_files[fd] &&
		     (fstat(fd, &status) || status.st_ino != own_files[fd] ||
		      status.st_size || lseek(fd, 0, SEEK_CUR));
	return n;
}

/* Runs in a child, because Criterion has descriptors, too. */
static int close_all_and_go_on(void)
{
	static const char asked[] = "fr_dp_g1_1_asked_merged.json";
	static const struct cohort_deadlines without = {
		.init_ns = COHORT_FOREVER,
		.join_ns = COHORT_FOREVER,
		.exec_ns = COHORT_FOREVER,
	};
	static const struct cohort_deadlines soon = {
		.join_ns = 20000000,
	};
	int fd;

	o.dump_directory = folder;
	o.dump_fifo = fifo;
	o.dump_signal = SIGUSR2;
	o.stack_signal = SIGRTMIN + 1;
	o.policy = COHORT_POLICY_REPORT;
	/* While a deadline runs, the watchdog opens files now and then. */
	o.deadlines = without;
	group = ranks_ahead(2, &o, comms);
	sum_all(2);
	own_all_descriptors();
	ranks_must(cohort_deadline_push(comms[0], &soon), "push");
	ranks_sum(comms[0], &values[0]);
	if (!await_file("fr_dp_g1_1_merged.json"))
		return 1;
	raise(SIGUSR2);
	if (!wait_for_text(asked, "\"trigger\":\"signal\""))
		return 2;
	fd = open(fifo, O_WRONLY | O_CLOEXEC);
	if (write(fd, "\n", 1) != 1)
		return 3;
	if (!wait_for_text(asked, "\"trigger\":\"fifo\""))
		return 4;
	close(fd);
	cohort_group_abort(group, NULL);
	if (cohort_group_close(group) != COHORT_OK)
		return 5;
	return changed_files() ? 6 : is_there("fifo") ? 7 : 0;
}

/*
 * Run @steps in a child, whose descriptors they close; each step that fails
 * returns its number.
 */
static void expect_all_steps(int (*steps)(void))
{
	int status = -1;
	pid_t child;

	place_need_one_process("a platform without descriptors of its own");
	child = fork();
	if (!child) {
		alarm(50); /* less than the test may take */
		_exit(steps());
	}
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_assert(WIFEXITED(status), "signal %d", WTERMSIG(status));
	cr_assert_eq(WEXITSTATUS(status), 0, "step %d", WEXITSTATUS(status));
}

/* A program may close descriptors that it does not own. */
Test(dump, leaves_program_files_alone_that_got_its_descriptor_numbers)
{
	expect_all_steps(close_all_and_go_on);
}

/* Like close_all_and_go_on(), while the FIFO has another name. */
static int close_all_while_the_fifo_is_away(void)
{
	static const char asked[] = "fr_dp_g1_1_asked_merged.json";
	char away[sizeof(fifo) + 5];
	int fd;

	snprintf(away, sizeof(away), "%s.away", fifo);
	o.dump_directory = folder;
	o.dump_fifo = fifo;
	o.dump_signal = SIGUSR2;
	group = ranks_split(2, &o, comms);
	if (rename(fifo, away))
		return 1;
	own_all_descriptors();
	raise(SIGUSR2);
	/* The dumper checks the FIFO before it writes to it. */
	if (!wait_for_text(asked, "\"trigger\":\"signal\""))
		return 2;
	if (rename(away, fifo))
		return 3;
	fd = open(fifo, O_WRONLY | O_CLOEXEC); /* waits for a reader */
	if (write(fd, "\n", 1) != 1)
		return 4;
	if (!wait_for_text(asked, "\"trigger\":\"fifo\""))
		return 5;
	close(fd);
	if (cohort_group_close(group) != COHORT_OK)
		return 6;
	return is_there("fifo") ? 7 : 0;
}

Test(dump, retries_a_fifo_that_cannot_be_opened_again_at_once)
{
	expect_all_steps(close_all_while_the_fifo_is_away);
}

/* The FIFO's name belongs to another file by then. */
Test(dump, removes_only_the_fifo_that_it_made)
{
	FILE *f;

	o.dump_directory = folder;
	o.dump_fifo = fifo;
	group = ranks_split(1, &o, comms);
	cr_assert_eq(unlink(fifo), 0);
	f = fopen(fifo, "we");
	cr_assert_not_null(f);
	fclose(f);
	close_group();
	cr_assert(is_there("fifo"));
}

Test(dump, refuses_options_that_are_not_valid)
{
	char longer[600];

	o.dump_signal = SIGUSR2;
	cr_assert_eq(cohort_group_open(NULL, 1, &o, &group), COHORT_INVALID);
	o.dump_signal = 0;
	o.dump_fifo = fifo;
	cr_assert_eq(cohort_group_open(NULL, 1, &o, &group), COHORT_INVALID);
	o.dump_directory = folder;
	o.dump_fifo = "/dev/null";
	cr_assert_eq(cohort_group_open(NULL, 1, &o, &group), COHORT_INVALID);
	cr_assert_not_null(strstr(cohort_last_error(), "not a FIFO"));
	memset(longer, 'x', sizeof(longer) - 1);
	longer[sizeof(longer) - 1] = '\0';
	o.dump_fifo = NULL;
	o.dump_directory = longer;
	cr_assert_eq(cohort_group_open(NULL, 1, &o, &group), COHORT_INVALID);
	o.dump_directory = folder;
	o.dump_signal = o.stack_signal = SIGRTMIN + 3;
	cr_assert_eq(cohort_group_open(NULL, 1, &o, &group), COHORT_INVALID);
	cr_assert_not_null(strstr(cohort_last_error(), "but stack_signal is"));
	o.dump_signal = 0;
	setenv("COHORT_DUMP_SIGNAL", "USR1", 1);
	cr_assert_eq(cohort_group_open(NULL, 1, &o, &group), COHORT_INVALID);
	setenv("COHORT_DUMP_SIGNAL", "4294967297", 1);
	cr_assert_eq(cohort_group_open(NULL, 1, &o, &group), COHORT_INVALID);
	unsetenv("COHORT_DUMP_SIGNAL");
}

/* ---- split communicators, once more ----------------------------------- */

static int split_and_abort(struct cohort_comm *comm, void *user)
{
	struct cohort_comm *child;
	struct cohort_abort *handle;

	(void)user;
	ranks_must(cohort_comm_split(comm, 7, 0, &child), "split");
	handle = cohort_comm_abort_handle(child);
	cohort_abort_fire(handle, "enough");
	cohort_abort_put(handle);
	return 0;
}

Test(dump, is_written_for_split_communicators)
{
	o.dump_directory = folder;
	group = ranks_open(2, &o);
	cr_assert_eq(cohort_group_run(group, split_and_abort, NULL, NULL),
	             COHORT_OK);
	close_group();
	has("fr_dp.7_g1_merged.json", "enough");
	cr_assert_not(is_there("fr_dp_g1_merged.json"));
}
