/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests of the flight recorder's dumps: when they are written, and what they
 * contain. tests/system/dump.py reads dumps with an independent parser.
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

#include "support/clock.h"
#include "support/expect.h"
#include "support/native.h"
#include "support/ranks.h"
#include "support/spread.h"
#include "support/stuck.h"

/* A deadline that a collective of two ranks meets, even on a busy machine and
 * in QEMU */
#define SHORT_NS (RANKS_SOON / 40)

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

/* ---- files ------------------------------------------------------------ */

/*
 * Find the only file whose name is @name with the host, the pid and the serial
 * number of the process inserted.
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
 * Return the text of a file in the dump folder, which is valid until the next
 * call, or NULL if the file does not exist.
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
	uint64_t deadline = test_deadline(RANKS_SOON);
	const char *text;

	while (!(text = read_file(name)) && test_now() < deadline)
		test_nap();
	return text;
}

/* Wait until the file contains @what. Return false if that takes too long. */
static bool wait_for_text(const char *name, const char *what)
{
	uint64_t deadline = test_deadline(RANKS_SOON);
	const char *text;

	while ((!(text = read_file(name)) || !strstr(text, what)) &&
	       test_now() < deadline)
		test_nap();
	return text && strstr(text, what);
}

static void await_text(const char *name, const char *what)
{
	cr_assert(wait_for_text(name, what), "no %s in %s", what, name);
}

/* Wait until the file was modified after @before. Return the time of the
 * modification. */
static uint64_t await_later(const char *name, uint64_t before)
{
	static const char key[] = "\"monotonic_ns\":";
	uint64_t deadline = test_deadline(RANKS_SOON), moment = 0;
	const char *text;

	while (moment <= before && test_now() < deadline) {
		text = read_file(name);
		text = text ? strstr(text, key) : NULL;
		if (text)
			moment = strtoull(text + sizeof(key) - 1, NULL, 10);
		test_nap();
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

/* Return how often a file contains @what. */
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

/* ---- dumps by a call -------------------------------------------------- */

Test(dump, dump_has_completed_calls_and_calls_in_flight)
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
	expect_close(group);
}

Test(dump, dump_counts_lost_records)
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
	expect_close(group);
}

static void *sum_on_rank_1(void *arg)
{
	ranks_sum_wait(comms[1], &values[1]);
	return arg;
}

Test(dump, dump_marks_the_end_of_an_unobserved_call_as_upper_bound)
{
	struct cohort_stats stats = { .size = sizeof(stats) };
	pthread_t thread;

	group = ranks_ahead(2, &o, comms);
	pthread_create(&thread, NULL, sum_on_rank_1, NULL);
	/* Wait until rank 1 is waiting for its operation. */
	while (!stats.waits) {
		test_nap();
		ranks_must(cohort_stats(comms[1], &stats), "stats");
	}
	ranks_sum(comms[0], &values[0]);
	pthread_join(thread, NULL);
	/* Wait with CUDA, so that the library does not see the end of the
	 * operation. */
	cr_assert_eq(place_table()->cudaStreamSynchronize(
			     cohort_comm_stream(comms[0])),
	             cudaSuccess);
	cr_assert_eq(cohort_dump(group, folder), COHORT_OK);
	cr_assert_eq(count("fr_dp_g1_rank_0.json", "\"finished_at_most\":true"),
	             1);
	cr_assert_eq(count("fr_dp_g1_rank_0.json", "\"duration_ms\""), 0);
	cr_assert_eq(count("fr_dp_g1_rank_1.json", "\"finished_at_most\":true"),
	             0);
	cr_assert_eq(count("fr_dp_g1_rank_1.json", "\"state\":\"completed\""),
	             1);
	expect_close(group);
}

Test(dump, dump_waits_for_no_thread_inside_a_native_call)
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
	stuck_release();
	/* The other rank does not call, so end the group. */
	cohort_group_abort(group, NULL);
	pthread_join(thread, NULL);
	expect_close(group);
}

Test(dump, dump_uses_the_directory_of_the_options_by_default)
{
	group = ranks_split(1, &o, comms);
	cr_assert_eq(cohort_dump(group, NULL), COHORT_INVALID);
	expect_close(group);
	o.dump_directory = folder;
	group = ranks_split(1, &o, comms);
	cr_assert_eq(cohort_dump(group, NULL), COHORT_OK);
	cr_assert(is_there("fr_dp_g1_merged.json"));
	expect_close(group);
}

Test(dump, dump_error_names_the_file_that_cannot_be_written)
{
	group = ranks_split(1, &o, comms);
	cr_assert_eq(cohort_dump(NULL, folder), COHORT_INVALID);
	cr_assert_eq(cohort_dump(group, "/dev/null/x"), COHORT_SYSTEM);
	expect_text(cohort_last_error(), "/dev/null/x");
	cr_assert_eq(cohort_dump(group, ""), COHORT_INVALID);
	expect_text(cohort_last_error(), "directory is \"\"");
	expect_close(group);
}

/*
 * If the process exceeds its limit on the size of files, it gets a signal.
 */
Test(dump, dump_that_exceeds_the_file_limit_fails_without_a_signal)
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
	expect_text(cohort_last_error(), "File too large");
	sigpending(&pending);
	cr_assert_not(sigismember(&pending, SIGXFSZ));
	cr_assert_eq(cohort_dump(group, folder), COHORT_OK);
	expect_close(group);
}

Test(dump, dump_file_names_are_portable_for_any_group_name)
{
	o.name = "a/../b c";
	group = ranks_split(1, &o, comms);
	cr_assert_eq(cohort_dump(group, folder), COHORT_OK);
	has("fr_a_.._b_c_g1_rank_0.json", "\"group\":\"a/../b c\"");
	expect_close(group);
}

static void is_utf8(const char *name)
{
	const char *text = read_file(name);
	mbstate_t state = { 0 };

	cr_assert_not_null(text, "there is no %s", name);
	cr_assert_neq(mbsrtowcs(NULL, &text, 0, &state), (size_t)-1, "%s",
	              name);
}

/* Names of groups, threads and calls can be truncated, or contain bytes that
 * are not UTF-8. */
Test(dump, dump_is_valid_utf8_for_any_bytes_in_names)
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
	/* The tag is truncated between two characters. */
	has("fr_____g1_rank_0.json",
	    "word:\u20ac\u20ac\u20ac\u20ac\u20ac\u20ac\u20ac...\"");
	expect_close(group);
}

/* The open must find the error, because only the open can return it. */
Test(dump, open_refuses_a_dump_directory_that_is_not_writable)
{
	char deep[128], path[160];

	place_need(1);
	o.platform = place_platform();
	o.dump_directory = "/dev/null/x";
	cr_assert_eq(cohort_group_open(NULL, 1, &o, &group), COHORT_INVALID);
	expect_text(cohort_last_error(),
	            "dump_directory is \"/dev/null/x\": Not a "
	            "directory");
	o.dump_directory = "/proc/self";
	cr_assert_eq(cohort_group_open(NULL, 1, &o, &group), COHORT_INVALID);
	snprintf(deep, sizeof(deep), "%s/a/b", folder);
	o.dump_directory = deep;
	group = ranks_split(1, &o, comms);
	cr_assert_eq(rmdir(deep), 0, "something is left in it");
	cr_assert_eq(cohort_dump(group, NULL), COHORT_OK);
	expect_close(group);
	snprintf(path, sizeof(path), "rm -r %s/a", folder);
	cr_assert_eq(system(path), 0);
}

Test(dump, dump_writes_other_files_if_one_cannot_be_written)
{
	char path[512];

	group = ranks_ahead(2, &o, comms);
	cr_assert_eq(cohort_dump(group, folder), COHORT_OK);
	cr_assert(find_file("fr_dp_g1_rank_0.json", path, sizeof(path)));
	cr_assert_eq(unlink(path), 0);
	cr_assert_eq(mkdir(path, 0700), 0);
	sum_all(2);
	cr_assert_eq(cohort_dump(group, folder), COHORT_SYSTEM);
	expect_text(cohort_last_error(), "_rank_0.json of /tmp");
	cr_assert_eq(count("fr_dp_g1_rank_1.json", "\"record_id\""), 1);
	cr_assert_eq(count("fr_dp_g1_merged.json", "\"record_id\""), 2);
	cr_assert_eq(rmdir(path), 0);
	expect_close(group);
}

/*
 * Groups with equal names must not overwrite each other's files: neither two
 * groups at the same time, nor a third group after them.
 */
Test(dump, groups_with_equal_names_do_not_overwrite_each_others_dumps)
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
	expect_close(group);
	expect_close(other);
	group = ranks_split(1, &o, comms);
	cr_assert_eq(cohort_dump(group, folder), COHORT_OK);
	cr_assert_eq(cohort_dump(group, folder), COHORT_OK);
	expect_close(group);
	snprintf(pattern, sizeof(pattern), "%s/fr_dp_g1_*_rank_0.json", folder);
	cr_assert_eq(glob(pattern, 0, NULL, &found), 0);
	cr_assert_eq(found.gl_pathc, 3);
	globfree(&found);
}

/* ---- split communicators ---------------------------------------------- */

static atomic_int has_summed;

/* Dump on rank 0 while both children exist, and again after rank 0 has closed
 * its child. */
static int split_and_dump(struct cohort_comm *c, void *unused)
{
	int rank = cohort_comm_rank(c);
	struct cohort_comm *child;

	(void)unused;
	ranks_must(cohort_comm_split(c, rank / 2, 0, &child), "split");
	ranks_must(ranks_sum_wait(child, &values[rank]), "sum");
	atomic_fetch_add(&has_summed, 1);
	while (rank == 0 && atomic_load(&has_summed) < 4)
		test_nap();
	if (rank == 0)
		ranks_must(cohort_dump(group, folder), "dump");
	ranks_must(ranks_sum_wait(c, &values[rank]), "sum of all");
	ranks_must(cohort_comm_close(child), "close");
	if (rank == 0)
		ranks_must(cohort_dump(group, folder), "dump again");
	return 0;
}

Test(dump, dump_includes_split_communicators)
{
	spread_not("dumps are of a process's own ranks");
	place_need(4);
	group = ranks_open(4, &o);
	ranks_must(cohort_group_run(group, split_and_dump, NULL, NULL), "run");
	has("fr_dp_g1_rank_3.json", "\"profiling_name\":\"nccl:split\"");
	has("fr_dp.0_g1_rank_1.json", "\"group\":\"dp.0\"");
	has("fr_dp.1_g1_rank_0.json", "\"profiling_name\":\"nccl:all_reduce\"");
	has("fr_dp.1_g1_merged.json", "\"trigger\":\"call\"");
	expect_close(group);
}

/* ---- files of dead processes ------------------------------------------ */

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

/* Return the pid of a child that has ended. */
static int dead_process(void)
{
	pid_t pid = fork();

	if (!pid)
		_exit(0);
	waitpid(pid, NULL, 0);
	return pid;
}

Test(dump, dump_removes_the_files_of_dead_processes)
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
	expect_close(group);
}

/* ---- dumps by a verdict ----------------------------------------------- */

Test(dump, verdict_writes_a_dump)
{
	struct cohort_cause cause;
	uint64_t t;

	o.dump_directory = folder;
	o.deadlines.join_ns = SHORT_NS;
	group = ranks_ahead(2, &o, comms);
	sum_all(2);
	t = ranks_sum(comms[0], &values[0]);
	cr_assert_eq(cohort_wait(comms[0], t, RANKS_SOON), COHORT_STALLED);
	cohort_group_cause(group, &cause);
	expect_close(group);
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
 * The first dump of a stall is evidence, which a later dump on demand must not
 * overwrite.
 */
Test(dump, dump_on_demand_does_not_replace_a_verdicts_dump)
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
	/* the first collective may take longer, so it is not counted */
	sum_all(2);
	ranks_sum(comms[0], &values[0]);
	await_text(merged, "\"missing\":[1]");
	/* End the stall, so that the verdict is not repeated. */
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
	expect_close(group);
}

/*
 * A stall that is reported several times counts as one verdict. The abort after
 * it is a second verdict.
 */
Test(dump, second_verdict_does_not_replace_the_first_ones_dump)
{
	static const char merged[] = "fr_dp_g1_1_merged.json";
	uint64_t before = 0;
	int i;

	o.dump_directory = folder;
	o.policy = COHORT_POLICY_REPORT;
	o.deadlines.join_ns = SHORT_NS;
	group = ranks_ahead(2, &o, comms);
	/* the first collective may take longer, so it is not counted */
	sum_all(2);
	ranks_sum(comms[0], &values[0]);
	for (i = 0; i < 3; i++)
		before = await_later(merged, before);
	cohort_group_abort(group, "enough");
	expect_close(group);
	has(merged, "\"missing\":[1]");
	has(merged, "\"stage\":\"expired\"");
	has("fr_dp_g1_1_v2_merged.json", "\"stage\":\"ended\"");
	has("fr_dp_g1_1_v2_merged.json", "enough");
	cr_assert_not(is_there("fr_dp_g1_1_v3_merged.json"));
}

/* Number of callbacks at the ends of groups, and number of callbacks for which
 * the dump already existed */
static atomic_int recorded_verdicts, found;

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
		atomic_fetch_add(&recorded_verdicts, 1);
	}
	return 0;
}

static void stall(void)
{
	uint64_t t;

	o.dump_directory = folder;
	o.on_verdict = look_for_files;
	o.deadlines.join_ns = SHORT_NS;
	group = ranks_ahead(2, &o, comms);
	sum_all(2);
	t = ranks_sum(comms[0], &values[0]);
	cr_assert_eq(cohort_wait(comms[0], t, RANKS_SOON), COHORT_STALLED);
}

/* A supervisor's callback may read the dump or end the process. */
Test(dump, dump_is_written_before_on_verdict_is_called)
{
	stall();
	expect_close(group);
	cr_assert_eq(atomic_load(&recorded_verdicts), 1);
	cr_assert_eq(atomic_load(&found), 1);
}

static atomic_bool disk_hangs;

/* Replaces libc's fsync(), to simulate a disk that hangs. */
int fsync(int fd)
{
	while (atomic_load(&disk_hangs))
		test_nap();
	return (int)syscall(SYS_fsync, fd);
}

Test(dump, dump_to_a_disk_that_hangs_does_not_delay_on_verdict)
{
	uint64_t deadline = test_deadline(RANKS_SOON);

	atomic_store(&disk_hangs, true);
	o.deadlines.abort_ns = RANKS_SOON;
	stall();
	while (atomic_load(&recorded_verdicts) < 1 && test_now() < deadline)
		test_nap();
	cr_assert_eq(atomic_load(&recorded_verdicts), 1);
	cr_assert_eq(atomic_load(&found), 0);
	atomic_store(&disk_hangs, false);
	expect_close(group);
	cr_assert(is_dumped());
}

Test(dump, orderly_close_writes_no_dump)
{
	o.dump_directory = folder;
	group = ranks_ahead(2, &o, comms);
	sum_all(2);
	expect_close(group);
	cr_assert_not(is_there("fr_dp_g1_merged.json"));
}

Test(dump, environment_can_set_the_dump_directory)
{
	setenv("COHORT_DUMP_DIR", folder, 1);
	group = ranks_split(1, &o, comms);
	cohort_group_abort(group, "enough");
	expect_close(group);
	unsetenv("COHORT_DUMP_DIR");
	has("fr_dp_g1_merged.json", "\"kind\":\"abort requested\"");
	has("fr_dp_g1_merged.json", "enough");
}

/* ---- dumps by a signal or a FIFO ---------------------------------------- */

static bool is_default(int number)
{
	struct sigaction now;

	sigaction(number, NULL, &now);
	return now.sa_handler == SIG_DFL;
}

Test(dump, dump_is_written_at_a_signal)
{
	o.dump_directory = folder;
	o.dump_signal = SIGUSR2;
	group = ranks_split(1, &o, comms);
	cr_assert_not(is_default(SIGUSR2));
	raise(SIGUSR2);
	cr_assert_not_null(await_file("fr_dp_g1_rank_0.json"));
	has("fr_dp_g1_rank_0.json", "\"trigger\":\"signal\"");
	expect_close(group);
	cr_assert(is_default(SIGUSR2));
}

/*
 * Some runtimes give their threads a small alternate stack for signals.
 */
Test(dump, dump_signal_works_on_an_alternate_stack)
{
	struct sigaction now;

	o.dump_directory = folder;
	o.dump_signal = SIGUSR2;
	group = ranks_split(1, &o, comms);
	sigaction(SIGUSR2, NULL, &now);
	cr_assert(now.sa_flags & SA_ONSTACK);
	cr_assert(now.sa_flags & SA_RESTART);
	expect_close(group);
}

/* The dumper writes all requested dumps before it ends. So if there is no dump
 * after the close, the child's signal was ignored. */
Test(dump, dump_signal_to_a_forked_child_is_ignored)
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
	expect_close(group);
	cr_assert_not(is_there("fr_dp_g1_rank_0.json"));
}

static void own_handler(int number)
{
	(void)number;
}

Test(dump, dump_signal_with_a_handler_of_the_program_is_left_alone)
{
	signal(SIGUSR2, own_handler);
	o.dump_directory = folder;
	o.dump_signal = SIGUSR2;
	cr_assert_eq(cohort_group_open(NULL, 1, &o, &group), COHORT_INVALID);
	expect_text(cohort_last_error(), "dump_signal is 12");
	o.dump_signal = SIGKILL;
	cr_assert_eq(cohort_group_open(NULL, 1, &o, &group), COHORT_INVALID);
	o.dump_signal = 12345;
	cr_assert_eq(cohort_group_open(NULL, 1, &o, &group), COHORT_INVALID);
}

/* A handler of a fault cannot return: the fault would occur again. */
Test(dump, open_refuses_fault_and_reserved_signals_as_dump_signal)
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
		expect_text(cohort_last_error(), option);
		o.dump_signal = 0;
		setenv("COHORT_DUMP_SIGNAL", number, 1);
		cr_assert_eq(cohort_group_open(NULL, 1, &o, &group),
		             COHORT_INVALID, "signal %s", number);
		expect_text(cohort_last_error(), variable);
		unsetenv("COHORT_DUMP_SIGNAL");
		sigaction(refused[i], NULL, &now);
		cr_assert_eq(now.sa_handler, before.sa_handler);
	}
}

Test(dump, write_to_a_dump_fifo_makes_all_its_groups_dump)
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
	expect_close(group);
	cr_assert(is_there("fifo"));
	expect_close(other);
	cr_assert_not(is_there("fifo"));
}

/* is_hanging makes the replaced mkfifo() hang, as on a hung file system;
 * is_hung is true once it does */
static atomic_bool is_hanging, is_hung;

int mkfifo(const char *path, mode_t mode)
{
	while (atomic_load(&is_hanging)) {
		atomic_store(&is_hung, true);
		test_nap();
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

Test(dump, dump_fifo_that_hangs_does_not_delay_other_groups_dumps)
{
	struct cohort_group *hung = NULL;
	pthread_t thread;

	o.dump_directory = folder;
	o.platform = place_platform();
	atomic_store(&is_hanging, true);
	pthread_create(&thread, NULL, open_with_fifo, &hung);
	while (!atomic_load(&is_hung))
		test_nap();
	group = ranks_split(1, &o, comms);
	cr_assert_eq(cohort_dump(group, folder), COHORT_OK);
	expect_close(group);
	atomic_store(&is_hanging, false);
	pthread_join(thread, NULL);
	expect_close(hung);
	cr_assert_not(is_there("fifo"));
}

static atomic_bool is_endless;

/* Replaces libc's read(), to simulate a FIFO whose writer is always faster than
 * its reader. */
ssize_t read(int fd, void *bytes, size_t n)
{
	struct stat status;

	if (atomic_load(&is_endless) && !fstat(fd, &status) &&
	    S_ISFIFO(status.st_mode))
		return (ssize_t)n;
	return syscall(SYS_read, fd, bytes, n);
}

Test(dump, group_can_close_although_its_dump_fifo_is_never_empty)
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
	expect_close(group);
	close(fd);
}

/* Number of descriptors to check */
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

/*
 * Wait until the process has exactly @n descriptors more than @before, because
 * a thread of the library may have a file open for a moment. Return false if
 * that takes too long.
 */
static bool keeps(int n, uint64_t before)
{
	const uint64_t until = test_deadline(RANKS_SOON);
	uint64_t now;

	do {
		now = open_descriptors();
		if ((now & before) == before &&
		    __builtin_popcountll(now & ~before) == n)
			return true;
		test_nap();
	} while (test_now() < until);
	return false;
}

/* A program can close all descriptors without harm if the library has none
 * open. */
Test(dump, library_keeps_no_file_open_except_the_dump_fifos)
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
	expect_close(group);
	o.dump_fifo = fifo;
	group = ranks_ahead(2, &o, comms);
	sum_all(2);
	cr_assert(keeps(1, before));
	expect_close(group);
	cr_assert(keeps(0, before));
}

/* Inode of the program's file on each descriptor from 3 on, or 0 if the library
 * has reopened its FIFO on that descriptor */
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

/* Return how many of the program's files were changed. */
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

/* Close all file descriptors from 3 on, open files of the program in their
 * place, and check that dumps still work. Run this in a child process, because
 * Criterion also uses descriptors. */
static int close_all_and_go_on(void)
{
	static const char asked[] = "fr_dp_g1_1_asked_merged.json";
	static const struct cohort_deadlines without = {
		.init_ns = COHORT_FOREVER,
		.join_ns = COHORT_FOREVER,
		.exec_ns = COHORT_FOREVER,
	};
	static const struct cohort_deadlines soon = {
		.join_ns = SHORT_NS,
	};
	int fd;

	o.dump_directory = folder;
	o.dump_fifo = fifo;
	o.dump_signal = SIGUSR2;
	o.stack_signal = SIGRTMIN + 1;
	o.policy = COHORT_POLICY_REPORT;
	/* No deadlines, because the watchdog opens files while a deadline
	 * runs. */
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
 * Run @steps in a child process, because they close all descriptors. @steps
 * returns 0 or the number of the step that failed.
 */
static void expect_all_steps(int (*steps)(void))
{
	int status = -1;
	pid_t child;

	place_need_one_process("a platform without descriptors of its own");
	child = fork();
	if (!child) {
		/* ends a hanging child before the test times out */
		alarm(50);
		_exit(steps());
	}
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_assert(WIFEXITED(status), "signal %d", WTERMSIG(status));
	cr_assert_eq(WEXITSTATUS(status), 0, "step %d", WEXITSTATUS(status));
}

/* A program can close descriptors that the library has opened. */
Test(dump, library_does_not_write_to_a_file_that_reuses_its_descriptor)
{
	expect_all_steps(close_all_and_go_on);
}

/* Do the steps of close_all_and_go_on(), but rename the FIFO temporarily. */
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
	/* When this dump exists, the dumper has already failed to find the
	 * FIFO. */
	if (!wait_for_text(asked, "\"trigger\":\"signal\""))
		return 2;
	if (rename(away, fifo))
		return 3;
	/* blocks until the library opens the FIFO for reading */
	fd = open(fifo, O_WRONLY | O_CLOEXEC);
	if (write(fd, "\n", 1) != 1)
		return 4;
	if (!wait_for_text(asked, "\"trigger\":\"fifo\""))
		return 5;
	close(fd);
	if (cohort_group_close(group) != COHORT_OK)
		return 6;
	return is_there("fifo") ? 7 : 0;
}

Test(dump, dump_fifo_that_cannot_be_reopened_is_retried)
{
	expect_all_steps(close_all_while_the_fifo_is_away);
}

/* Before the close, the FIFO's name is given to another file. */
Test(dump, close_removes_only_the_dump_fifo_that_its_group_created)
{
	FILE *f;

	o.dump_directory = folder;
	o.dump_fifo = fifo;
	group = ranks_split(1, &o, comms);
	cr_assert_eq(unlink(fifo), 0);
	f = fopen(fifo, "we");
	cr_assert_not_null(f);
	fclose(f);
	expect_close(group);
	cr_assert(is_there("fifo"));
}

Test(dump, open_refuses_invalid_dump_options)
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
	expect_text(cohort_last_error(), "not a FIFO");
	memset(longer, 'x', sizeof(longer) - 1);
	longer[sizeof(longer) - 1] = '\0';
	o.dump_fifo = NULL;
	o.dump_directory = longer;
	cr_assert_eq(cohort_group_open(NULL, 1, &o, &group), COHORT_INVALID);
	o.dump_directory = folder;
	o.dump_signal = o.stack_signal = SIGRTMIN + 3;
	cr_assert_eq(cohort_group_open(NULL, 1, &o, &group), COHORT_INVALID);
	expect_text(cohort_last_error(), "are both");
	o.dump_signal = 0;
	setenv("COHORT_DUMP_SIGNAL", "USR1", 1);
	cr_assert_eq(cohort_group_open(NULL, 1, &o, &group), COHORT_INVALID);
	setenv("COHORT_DUMP_SIGNAL", "4294967297", 1);
	cr_assert_eq(cohort_group_open(NULL, 1, &o, &group), COHORT_INVALID);
	unsetenv("COHORT_DUMP_SIGNAL");
}

Test(dump, open_names_the_dump_setting_that_lacks_a_directory)
{
	setenv("COHORT_DUMP_SIGNAL", "10", 1);
	expect(cohort_group_open(NULL, 1, &o, &group), COHORT_INVALID,
	       "COHORT_DUMP_SIGNAL asks for dumps, but there is no directory: "
	       "set options->dump_directory or COHORT_DUMP_DIR");
	unsetenv("COHORT_DUMP_SIGNAL");
	setenv("COHORT_DUMP_FIFO", fifo, 1);
	expect(cohort_group_open(NULL, 1, &o, &group), COHORT_INVALID,
	       "COHORT_DUMP_FIFO asks for dumps");
	unsetenv("COHORT_DUMP_FIFO");
	o.dump_fifo = fifo;
	expect(cohort_group_open(NULL, 1, &o, &group), COHORT_INVALID,
	       "options->dump_fifo asks for dumps");
	o.dump_signal = SIGUSR1;
	expect(cohort_group_open(NULL, 1, &o, &group), COHORT_INVALID,
	       "options->dump_signal asks for dumps");
}

/* ---- dumps of split communicators ------------------------------------- */

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

Test(dump, end_of_a_group_dumps_its_split_communicators)
{
	o.dump_directory = folder;
	group = ranks_open(2, &o);
	expect_run_in(group, split_and_abort, NULL);
	expect_close(group);
	has("fr_dp.7_g1_merged.json", "enough");
	cr_assert_not(is_there("fr_dp_g1_merged.json"));
}
