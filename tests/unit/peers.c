/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests of processes on one machine that watch each other
 *
 * The test is process 0, and its children are processes 1 and 2.
 */

#include <criterion/criterion.h>
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "core/agree_words.h"
#include "processes/peers.h"
#include "support/expect.h"
#include "support/place.h"
#include "unit/peer_clique.h"

#define PROCESSES 3
#define IDENTITY 7
#define SPLIT 9
#define SOON UINT64_C(20000000000)
#define BYTES 64

/* Memory that the processes share */
static struct shared {
	struct peer_address addresses[PROCESSES];
	atomic_int made, connected;

	/* next order for each child */
	_Atomic(char) order[PROCESSES];
	atomic_int done;
	/* set of processes whose data a child has received in an exchange */
	uint64_t came[COHORT_RANK_WORDS];
	uint64_t identity; /* identity of the clique that a child must attach */
	/* text of the clique's cause when it was attached, or "" */
	char text[128];
} * shared;

static struct peers *peers;
static struct clique *q;
static pid_t children[PROCESSES];

/* Process 0 drives ranks 0 and 1, process 1 ranks 2 and 3, process 2 rank 4. */
static const struct cohort_process facts[PROCESSES] = {
	{ .first_rank = 0, .ranks = 2 },
	{ .first_rank = 2, .ranks = 2 },
	{ .first_rank = 4, .ranks = 1 },
};

static void await(const atomic_int *word, int value)
{
	while (atomic_load(word) < value)
		sched_yield();
}

/* Create the peers of this process, and watch the other processes. Return true
 * if all of them are watched. */
static bool take_part(int process)
{
	bool all = true;
	int i;

	if (peers_create(process, PROCESSES, "g", &shared->addresses[process],
	                 &peers) != COHORT_OK)
		return false;
	atomic_fetch_add(&shared->made, 1);
	await(&shared->made, PROCESSES);
	peers_connect(peers, shared->addresses, NULL);
	for (i = 0; i < PROCESSES; i++)
		all &= peers_watches(peers, i);
	peers_set_ranks(peers, facts);
	q = make_peer_clique(IDENTITY);
	if (process)
		give_rank(q, process + 1);
	if (peers_attach(peers, q, NULL) != COHORT_OK)
		return false;
	atomic_fetch_add(&shared->connected, 1);
	return all;
}

static void leave(void)
{
	peers_detach(peers, q);
	peers_leave(peers);
	free_peer_clique(q);
}

static int gather(uint64_t *came, char *out)
{
	const struct patience patience = { .timeout_ns = SOON };
	char mine[BYTES] = "";

	mine[0] = 'a';
	return peers_gather(peers, mine, sizeof(mine), out, came, &patience);
}

static void tell_from(struct peers *p, const struct clique *c, int status,
                      int kind)
{
	const struct cohort_cause cause = {
		.status = status,
		.kind = kind,
		.rank = 3,
		.text = "the reason",
	};

	cr_assert(c->remote == &p->remote);
	peers_send_cause(c, &cause, 0);
}

static void tell(const struct clique *c, int kind)
{
	tell_from(peers, c, COHORT_ABORTED, kind);
}

/* Attach another clique, and store the text of its cause in shared->text. */
static void attach_another(void)
{
	struct clique *c = make_peer_clique(shared->identity);

	peers_attach(peers, c, NULL);
	if (cause_peek(c->end))
		snprintf(shared->text, sizeof(shared->text), "%.100s",
		         cause_peek(c->end)->text);
	peers_detach(peers, c);
	free_peer_clique(c);
}

/* Attach a clique that was split from q. Its rank 4 is the group's rank 3, and
 * publishes its calls. */
static void attach_split(void)
{
	struct clique *c = make_peer_clique(SPLIT);

	give_rank(c, 4);
	c->comms[0].world_rank = 3;
	c->agreed = agree_words(SLOTS);
	peers_attach(peers, c, q->end);
}

static void obey_one(char order)
{
	char all[PROCESSES * BYTES];

	if (order == 'l')
		leave();
	else if (order == 't')
		tell(q, COHORT_VERDICT_ABORTED);
	else if (order == 'k')
		tell(q, -1);
	else if (order == 'u')
		tell_from(peers, q, -777, COHORT_VERDICT_ABORTED);
	else if (order == 'g')
		gather(shared->came, all);
	else if (order == 'a')
		attach_another();
	else if (order == 's')
		attach_split();
	else if (order == 'e')
		_exit(3);
	else if (order == 'x')
		execl("/bin/sleep", "sleep", "60", (char *)NULL);
	atomic_fetch_add(&shared->done, 1);
	if (order == 'l')
		_exit(0);
}

/* Execute the orders of process 0. */
static void obey(int process)
{
	char order;

	for (;;) {
		order = atomic_exchange(&shared->order[process], 0);
		if (order)
			obey_one(order);
		sched_yield();
	}
}

static void start_child(int process)
{
	children[process] = fork();
	if (children[process])
		return;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (!take_part(process))
		_exit(1);
	obey(process);
}

static void tell_to(int process, char order)
{
	atomic_store(&shared->order[process], order);
}

static void set_up(void)
{
	int i;

	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
	              MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	cr_assert_neq(shared, MAP_FAILED);
	for (i = 1; i < PROCESSES; i++)
		start_child(i);
	cr_assert(take_part(0), "all are watched");
	await(&shared->connected, PROCESSES);
}

static void end_child(int process)
{
	if (children[process])
		kill(children[process], SIGKILL);
	waitpid(children[process], NULL, 0);
	children[process] = 0;
}

static void tear_down(void)
{
	int i;

	leave();
	for (i = 1; i < PROCESSES; i++)
		if (children[i])
			end_child(i);
}

TestSuite(peers, .init = set_up, .fini = tear_down, .timeout = 60);

/* Wait for a cause, and return it. */
static const struct cohort_cause *await_cause(const struct clique *c)
{
	const uint64_t deadline = clock_deadline(SOON);

	while (!cause_peek(c->end) && clock_now() < deadline)
		sched_yield();
	cr_assert(cause_peek(c->end));
	return cause_peek(c->end);
}

/* Check that process 1 has caused no end: processes are examined in order, and
 * the first cause comes from process 2. */
static void expect_nothing_of_1(void)
{
	tell_to(2, 't');
	cr_assert_eq(await_cause(q)->status, COHORT_ABORTED);
	cr_assert_not(peers_has_ended(peers, 1));
}

Test(peers, killed_process_is_named_with_its_ranks)
{
	const struct cohort_cause *cause;
	char text[128];

	cr_assert(peers_watches(peers, 1));
	kill(children[1], SIGKILL);
	cause = await_cause(q);
	cr_assert_eq(cause->status, COHORT_PROCESS_EXITED);
	cr_assert_eq(cause->kind, COHORT_VERDICT_PROCESS_EXITED);
	cr_assert_eq(cause->rank, 2);
	cr_assert_eq(cause->missing[0], 0xc);
	snprintf(text, sizeof(text),
	         "process 1 (pid %d), which drove ranks 2-3, was killed by "
	         "signal 9",
	         children[1]);
	cr_assert_str_eq(cause->text, text);
	cr_assert(peers_has_ended(peers, 1));
	cr_assert_not(peers_has_ended(peers, 2));
}

Test(peers, clique_attached_after_an_exit_names_the_exited_process)
{
	struct clique *next = make_peer_clique(8);
	char text[128];

	tell_to(2, 'e');
	await_cause(q);
	cr_assert_eq(peers_attach(peers, next, NULL), COHORT_OK);
	snprintf(text, sizeof(text),
	         "process 2 (pid %d), which drove rank 4, has exited with "
	         "status 3",
	         children[2]);
	cr_assert_str_eq(cause_peek(next->end)->text, text);
	peers_detach(peers, next);
	free_peer_clique(next);
}

Test(peers, process_that_executes_another_program_counts_as_ended)
{
	tell_to(1, 'x');
	cr_assert_eq(await_cause(q)->status, COHORT_PROCESS_EXITED);
	expect_text(cause_peek(q->end)->text, " is gone");
}

Test(peers, process_that_leaves_its_group_is_not_reported_as_ended)
{
	tell_to(1, 'l');
	waitpid(children[1], NULL, 0);
	children[1] = 0;
	expect_nothing_of_1();
}

Test(peers, stopped_process_is_not_reported_as_ended)
{
	int status;

	kill(children[1], SIGSTOP);
	waitpid(children[1], &status, WUNTRACED);
	expect_nothing_of_1();
}

Test(peers, cause_names_the_process_that_it_comes_from)
{
	const struct cohort_cause *cause;
	char text[64];

	tell_to(1, 't');
	cause = await_cause(q);
	cr_assert_eq(cause->status, COHORT_ABORTED);
	cr_assert_eq(cause->rank, 3);
	snprintf(text, sizeof(text), "process 1 (pid %d): the reason",
	         children[1]);
	cr_assert_str_eq(cause->text, text);
}

Test(peers, cause_does_not_affect_another_clique)
{
	struct clique *other = make_peer_clique(9);

	cr_assert_eq(peers_attach(peers, other, NULL), COHORT_OK);
	tell_to(1, 't');
	await_cause(q);
	cr_assert_null(cause_peek(other->end));
	peers_detach(peers, other);
	free_peer_clique(other);
}

/* An unknown kind would be an index beyond the array of counters. */
Test(peers, cause_of_an_unknown_kind_gets_the_kind_none)
{
	tell_to(1, 'k');
	cr_assert_eq(await_cause(q)->kind, COHORT_VERDICT_NONE);
}

Test(peers, cause_of_an_unknown_status_is_a_system_error)
{
	tell_to(1, 'u');
	cr_assert_eq(await_cause(q)->status, COHORT_SYSTEM);
}

/* Return the text of the cause that process 2 sees for cliques of @identity, or
 * "" if there is none. */
static const char *told_to_2(uint64_t identity)
{
	const int done = atomic_load(&shared->done);

	shared->identity = identity;
	tell_to(2, 'a');
	await(&shared->done, done + 1);
	return shared->text;
}

/* Process 0 must not report process 1's cause as its own, even if process 0
 * aborts later. */
Test(peers, cause_of_another_process_is_not_passed_on)
{
	const char *text;

	tell_to(1, 't');
	await_cause(q);
	end_child(1);
	while (!peers_has_ended(peers, 1))
		sched_yield();
	tell(q, COHORT_VERDICT_ABORTED);
	text = told_to_2(IDENTITY);
	cr_assert_eq(strncmp(text, "process 1 ", 10), 0, "%s", text);
}

/* When a group ends, each process itself ends the cliques that were split from
 * the group. */
Test(peers, cause_of_a_split_is_not_sent_once_its_group_has_ended)
{
	struct clique *child = make_peer_clique(9),
		      *other = make_peer_clique(10);

	cr_assert_eq(peers_attach(peers, child, q->end), COHORT_OK);
	cr_assert_eq(peers_attach(peers, other, q->end), COHORT_OK);
	tell(other, COHORT_VERDICT_ABORTED);
	cause_set_aborted(q->end, NULL);
	tell(child, COHORT_VERDICT_ABORTED);
	cr_assert_str_eq(told_to_2(9), "");
	cr_assert_eq(strncmp(told_to_2(10), "process 0 ", 10), 0);
	peers_detach(peers, child);
	peers_detach(peers, other);
	free_peer_clique(child);
	free_peer_clique(other);
}

/* The kernel does not let a thread poll more descriptors than RLIMIT_NOFILE. */
Test(peers, processes_are_watched_if_poll_cannot_wait_for_all)
{
	struct rlimit limit, low;

	getrlimit(RLIMIT_NOFILE, &limit);
	low = limit;
	low.rlim_cur = 4;
	setrlimit(RLIMIT_NOFILE, &low);
	end_child(1);
	cr_assert_eq(await_cause(q)->status, COHORT_PROCESS_EXITED);
	tell_to(2, 'l');
	waitpid(children[2], NULL, 0);
	children[2] = 0;
	setrlimit(RLIMIT_NOFILE, &limit);
}

Test(peers, processes_are_not_watched_if_no_thread_can_be_started)
{
	struct clique *other = make_peer_clique(IDENTITY);
	struct peer_address all[PROCESSES];
	pthread_attr_t usual, huge;
	struct peers *p;

	memcpy(all, shared->addresses, sizeof(all));
	pthread_getattr_default_np(&usual);
	pthread_attr_init(&huge);
	pthread_attr_setstacksize(&huge, (size_t)1 << 47);
	cr_assert_eq(pthread_setattr_default_np(&huge), 0);
	cr_assert_eq(peers_create(0, PROCESSES, "h", &all[0], &p), COHORT_OK);
	peers_connect(p, all, NULL);
	pthread_setattr_default_np(&usual);
	cr_assert_not(peers_watches(p, 1));
	peers_set_ranks(p, facts);
	cr_assert_eq(peers_attach(p, other, NULL), COHORT_OK);
	tell_from(p, other, COHORT_ABORTED, COHORT_VERDICT_ABORTED);
	peers_await_noted(p, other, clock_deadline(SOON));
	peers_detach(p, other);
	peers_leave(p);
	free_peer_clique(other);
	pthread_attr_destroy(&usual);
	pthread_attr_destroy(&huge);
}

/* ---- queries ---------------------------------------------------------- */

static struct remote_rank answers[PROCESSES];

/* Names of the processes that have not answered */
static char silent[128];

/* Query the other processes about a clique, with room for @room answers. Return
 * the number of answers. */
static int ask_for(const struct clique *c, int room, uint64_t within_ns)
{
	const struct missing question = { .identity = c->identity,
		                          .number = 1 };
	struct text t = { silent, sizeof(silent) };
	uint64_t since_ns;
	int n;

	silent[0] = '\0';
	peers->remote.patience_ns = within_ns;
	since_ns = clock_now();
	n = peers_ask(&peers->remote, c, &question, answers, room, &t);
	cr_assert(within_ns < SOON || clock_now() - since_ns < within_ns,
	          "it has waited until the deadline");
	return n;
}

static int ask(const struct clique *c, uint64_t within_ns)
{
	return ask_for(c, PROCESSES, within_ns);
}

Test(peers, processes_say_what_their_ranks_are_doing)
{
	char name[64];
	int i, r;

	cr_assert_eq(ask(q, SOON), 2);
	cr_assert_str_eq(silent, "");
	for (i = 0; i < 2; i++) {
		r = answers[i].rank;
		cr_assert(r == 2 || r == 3);
		cr_assert_not(answers[i].joined);
		cr_assert_eq(answers[i].kind, COHORT_VERDICT_NEVER_CALLED);
		snprintf(name, sizeof(name), "rank %d (pid %d, device 0) has ",
		         r, children[r - 1]);
		cr_assert_eq(strncmp(answers[i].text, name, strlen(name)), 0,
		             "%s", answers[i].text);
		snprintf(name, sizeof(name),
		         "rank %d (pid %d) has never called anything", r,
		         children[r - 1]);
		cr_assert_str_eq(answers[i].brief, name);
	}
}

/* Query the other processes about rank @asked's half of a transfer with rank
 * @asking. Return the number of answers. */
static int ask_for_half_of(int asked, int asking)
{
	const struct missing question = {
		.identity = q->identity,
		.number = 1,
		.is_transfer = true,
		.rank = asked,
		.other = asking,
	};
	struct text t = { silent, sizeof(silent) };

	silent[0] = '\0';
	peers->remote.patience_ns = SOON;
	return peers_ask(&peers->remote, q, &question, answers, PROCESSES, &t);
}

static int ask_for_half(int asking)
{
	return ask_for_half_of(3, asking);
}

Test(peers, process_says_what_a_rank_does_about_a_transfer)
{
	char text[64];

	cr_assert_eq(ask_for_half(0), 1);
	cr_assert_str_eq(silent, "");
	cr_assert_eq(answers[0].rank, 3);
	cr_assert_not(answers[0].joined);
	cr_assert_eq(answers[0].kind, COHORT_VERDICT_NEVER_CALLED);
	snprintf(text, sizeof(text),
	         "rank 3 (pid %d, device 0) has not called its recv, and ",
	         children[2]);
	cr_assert_eq(strncmp(answers[0].text, text, strlen(text)), 0, "%s",
	             answers[0].text);
	/* Process 0 does not have rank 3, and the other two numbers are no
	 * ranks. */
	cr_assert_eq(ask_for_half(3), 0);
	cr_assert_eq(ask_for_half(-1), 0);
	cr_assert_eq(ask_for_half(1 << 20), 0);
}

Test(peers, processes_report_nothing_about_an_unknown_clique)
{
	struct clique *other = make_peer_clique(9);

	cr_assert_eq(ask(other, SOON), 0);
	free_peer_clique(other);
}

static void stop_child(int i)
{
	int status;

	kill(children[i], SIGSTOP);
	waitpid(children[i], &status, WUNTRACED);
}

/* Check that the answer about @rank says that process 1 is stopped, with the
 * phrase @how. */
static void expect_stopped(const struct remote_rank *x, int rank,
                           const char *how)
{
	char text[128];

	snprintf(text, sizeof(text),
	         "process 1 (pid %d), which drives ranks 2-3, %s", children[1],
	         how);
	cr_assert_eq(x->rank, rank);
	cr_assert_eq(x->kind, COHORT_VERDICT_PROCESS_STOPPED);
	cr_assert_not(x->joined);
	cr_assert_str_eq(x->text, text);
}

/* Processes 1 and 2 both claim to have rank 3. Process 2 answers first. */
Test(peers, stopped_process_is_named_with_its_ranks)
{
	stop_child(1);
	cr_assert_eq(ask_for(q, 1, SOON), 1);
	cr_assert_eq(answers[0].rank, 3);
	cr_assert_eq(answers[0].kind, COHORT_VERDICT_NEVER_CALLED);
	cr_assert_eq(ask(q, SOON), 2);
	expect_stopped(&answers[1], 2, "is stopped");
	cr_assert_str_eq(silent, "");
	cr_assert_eq(ask_for_half_of(2, 0), 1);
	expect_stopped(&answers[0], 2, "is stopped");
	end_child(1);
	while (!peers_has_ended(peers, 1))
		sched_yield();
}

/* Processes 1 and 2 have recorded no completions. */
Test(peers, completions_of_stopped_processes_are_not_awaited_for_long)
{
	uint64_t deadline;

	stop_child(1);
	stop_child(2);
	deadline = clock_deadline(SOON);
	peers_await_noted(peers, q, deadline);
	cr_assert_lt(clock_now(), deadline);
}

static void stop_thread(pid_t tid)
{
	cr_assert_eq(ptrace(PTRACE_SEIZE, tid, NULL, NULL), 0);
	cr_assert_eq(ptrace(PTRACE_INTERRUPT, tid, NULL, NULL), 0);
	cr_assert_eq(waitpid(tid, NULL, __WALL), tid);
}

static void resume_thread(pid_t tid)
{
	cr_assert_eq(ptrace(PTRACE_DETACH, tid, NULL, NULL), 0);
}

/* Call @debug for each thread of process @i. */
static void debug_child(int i, void (*debug)(pid_t tid))
{
	char path[64];
	struct dirent *entry;
	DIR *d;

	snprintf(path, sizeof(path), "/proc/%d/task", children[i]);
	d = opendir(path);
	while ((entry = readdir(d)))
		if (atoi(entry->d_name))
			debug(atoi(entry->d_name));
	closedir(d);
}

Test(peers, process_stopped_by_a_debugger_is_recognized)
{
	place_skip_in_qemu("no ptrace()");
	debug_child(1, stop_thread);
	cr_assert_eq(ask(q, SOON), 2);
	expect_stopped(&answers[1], 2, "is stopped by a debugger");
	debug_child(1, resume_thread);
}

/* Query about a clique that was split from q, while process 1 is stopped.
 * Return the number of answers. */
static int ask_for_split(void)
{
	struct clique *c = make_peer_clique(SPLIT);
	int n;

	c->slots = SLOTS;
	cr_assert_eq(peers_attach(peers, c, q->end), COHORT_OK);
	stop_child(1);
	n = ask(c, SOON);
	peers_detach(peers, c);
	free_peer_clique(c);
	return n;
}

Test(peers, stopped_process_is_named_with_its_ranks_of_a_split)
{
	char text[128];

	tell_to(1, 's');
	await(&shared->done, 1);
	cr_assert_eq(ask_for_split(), 1);
	snprintf(text, sizeof(text),
	         "process 1 (pid %d), which drives rank 3, is stopped",
	         children[1]);
	cr_assert_eq(answers[0].rank, 4);
	cr_assert_eq(answers[0].world, 3);
	cr_assert_str_eq(answers[0].text, text);
}

Test(peers, stopped_process_without_published_ranks_is_named)
{
	char name[64];

	cr_assert_eq(ask_for_split(), 0);
	snprintf(name, sizeof(name), "process 1 (pid %d), which is stopped",
	         children[1]);
	cr_assert_str_eq(silent, name);
}

Test(peers, reason_for_a_missing_process_says_if_it_is_stopped)
{
	char text[64] = "", expected[64];
	struct text t = { text, sizeof(text) };

	cr_assert_not(peers_add_stop(peers, 1, &t));
	stop_child(1);
	cr_assert(peers_add_stop(peers, 1, &t));
	snprintf(expected, sizeof(expected), "; process 1 (pid %d) is stopped",
	         children[1]);
	cr_assert_str_eq(text, expected);
}

/* After the clique has ended, no verdict is needed. */
Test(peers, stopped_process_is_not_awaited_after_the_clique_ended)
{
	int status;

	kill(children[1], SIGSTOP);
	waitpid(children[1], &status, WUNTRACED);
	cause_set_aborted(q->end, NULL);
	ask(q, SOON);
}

/* Process 0 has rank 2, so process 1's answer about rank 2 does not count. */
Test(peers, report_on_a_rank_of_the_requesting_process_is_ignored)
{
	give_rank(q, 2);
	cr_assert_eq(ask(q, SOON), 1);
	cr_assert_eq(answers[0].rank, 3);
	cr_assert_eq(ask_for(q, 0, SOON), 0, "there is no room");
}

/* ---- exchanges -------------------------------------------------------- */

Test(peers, exchange_omits_a_process_that_has_ended)
{
	uint64_t came[COHORT_RANK_WORDS];
	char all[PROCESSES * BYTES] = "";

	end_child(2);
	tell_to(1, 'g');
	cr_assert_eq(gather(came, all), COHORT_OK);
	cr_assert_eq(came[0], 3);
	cr_assert_eq(all[BYTES], 'a');
	cr_assert_eq(all[2 * BYTES], 0);
	await(&shared->done, 1);
	cr_assert_eq(shared->came[0], 3);
}

/* Data that a process contributed before it ended counts in every other
 * process. */
Test(peers, exchange_includes_data_of_a_process_that_has_exited)
{
	uint64_t came[COHORT_RANK_WORDS];
	char all[PROCESSES * BYTES] = "";

	tell_to(2, 'g');
	while (atomic_load(&shared->order[2]))
		sched_yield();
	while (!has_contributed(peers, 2, 1))
		sched_yield();
	end_child(2);
	await_cause(q);
	tell_to(1, 'g');
	cr_assert_eq(gather(came, all), COHORT_OK);
	cr_assert_eq(came[0], 7);
	cr_assert_eq(all[2 * BYTES], 'a');
	await(&shared->done, 1);
	cr_assert_eq(shared->came[0], 7);
}

Test(peers, exchange_waits_for_missing_processes_until_the_deadline)
{
	uint64_t came[COHORT_RANK_WORDS];
	char mine[BYTES] = "", all[PROCESSES * BYTES];

	cr_assert_eq(peers_gather(peers, mine, sizeof(mine), all, came,
	                          &(struct patience){ .timeout_ns = 0 }),
	             COHORT_TIMED_OUT);
	cr_assert_eq(came[0], 1);
}

/* ---- invalid data from other processes --------------------------------- */

static int count_descriptors(void)
{
	DIR *d = opendir("/proc/self/fd");
	int n = 0;

	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

/* Return whether the process at the address @given can be watched, as process 1
 * of another group. */
static bool is_watched_at(const struct peer_address *given)
{
	struct peer_address all[PROCESSES] = { { .machine = 0 } };
	struct peers *p;
	bool watched;

	cr_assert_eq(peers_create(0, PROCESSES, "h", &all[0], &p), COHORT_OK);
	all[1] = *given;
	peers_connect(p, all, NULL);
	watched = peers_watches(p, 1);
	peers_leave(p);
	return watched;
}

/* Kill process @i, and leave it a zombie. */
static void kill_child(int i)
{
	siginfo_t info;

	kill(children[i], SIGKILL);
	cr_assert_eq(waitid(P_PID, (id_t)children[i], &info, WEXITED | WNOWAIT),
	             0);
}

static void await_end(const struct peers *p, int i)
{
	while (!peers_has_ended(p, i))
		sched_yield();
}

/* A process can be killed after it has sent its address and before the others
 * watch it. */
Test(peers, process_that_ended_before_it_was_watched_is_noticed)
{
	struct peer_address all[PROCESSES];
	struct clique *other = make_peer_clique(IDENTITY);
	const struct cohort_cause *cause;
	struct peers *p;
	char text[128];

	snprintf(text, sizeof(text),
	         "process 1 (pid %d), which drove ranks 2-3, is gone",
	         children[1]);
	memcpy(all, shared->addresses, sizeof(all));
	kill_child(1);
	waitpid(children[1], NULL, 0);
	children[1] = 0;
	kill_child(2);
	cr_assert_eq(peers_create(0, PROCESSES, "h", &all[0], &p), COHORT_OK);
	peers_connect(p, all, NULL);
	peers_set_ranks(p, facts);
	cr_assert(peers_has_ended(p, 1),
	          "a process that does not exist has ended");
	cr_assert(peers_is_futile(p, false), "no one can wait for its ranks");
	await_end(p, 2); /* process 2 is a zombie */
	cr_assert_not(peers_watches(p, 1));
	cr_assert_eq(peers_attach(p, other, NULL), COHORT_OK);
	cause = cause_peek(other->end);
	cr_assert_eq(cause->status, COHORT_PROCESS_EXITED);
	cr_assert_str_eq(cause->text, text);
	peers_detach(p, other);
	peers_leave(p);
	free_peer_clique(other);
}

/* Watch the other processes, with an address that makes process 2's page
 * impossible to open, like that of a process that is about to end. */
static struct peers *watch_but_2(void)
{
	struct peer_address all[PROCESSES];
	struct peers *p;

	memcpy(all, shared->addresses, sizeof(all));
	all[2].page = -1;
	cr_assert_eq(peers_create(0, PROCESSES, "h", &all[0], &p), COHORT_OK);
	peers_connect(p, all, NULL);
	peers_set_ranks(p, facts);
	cr_assert(peers_watches(p, 1));
	cr_assert_not(peers_watches(p, 2));
	cr_assert_not(peers_is_futile(p, false));
	return p;
}

Test(peers, end_of_a_process_that_cannot_be_watched_is_noticed)
{
	struct peers *p = watch_but_2();

	kill_child(2);
	await_end(p, 2);
	while (!peers_is_futile(p, false))
		sched_yield();
	peers_leave(p);
}

/* The process may have closed its group before it ended. */
Test(peers, end_of_an_unwatched_process_is_ignored_after_the_open)
{
	struct peers *p = watch_but_2();

	peers_settle(p);
	kill_child(2);
	kill_child(1);
	await_end(p, 1);
	cr_assert_not(peers_has_ended(p, 2));
	peers_leave(p);
}

Test(peers, process_with_an_invalid_address_is_not_watched)
{
	const struct peer_address good = shared->addresses[1];
	const int before = count_descriptors();
	struct peer_address a = good;

	cr_assert(is_watched_at(&a));
	a.token++;
	cr_assert_not(is_watched_at(&a), "another page");
	a = good;
	a.page = 0;
	cr_assert_not(is_watched_at(&a), "no page");
	a.page = -1;
	cr_assert_not(is_watched_at(&a), "nothing");
	a = good;
	a.wake_pipe = a.page;
	cr_assert_not(is_watched_at(&a), "no wake pipe");
	a = good;
	a.machine++;
	cr_assert_not(is_watched_at(&a), "another machine");
	a = good;
	a.pid = 0;
	cr_assert_not(is_watched_at(&a), "no process");
	a.pid = INT64_MAX;
	cr_assert_not(is_watched_at(&a), "no process");
	cr_assert_eq(count_descriptors(), before);
}

/* Return whether a process is watched through a copy of its page in the file
 * @to. The copy has the right size and contents, but no seals. */
static bool is_watched_in(int to)
{
	struct peer_address a = shared->addresses[0];
	char path[64], bytes[4096];
	int from;
	ssize_t n;

	cr_assert(is_watched_at(&a), "the original");
	snprintf(path, sizeof(path), "/proc/self/fd/%d", a.page);
	from = open(path, O_RDONLY | O_CLOEXEC);
	cr_assert(from >= 0 && to >= 0);
	while ((n = read(from, bytes, sizeof(bytes))) > 0)
		cr_assert_eq(write(to, bytes, (size_t)n), n);
	close(from);
	a.page = to;
	return is_watched_at(&a);
}

Test(peers, shared_page_that_could_shrink_is_refused)
{
	char path[] = "/tmp/cohort-peers-XXXXXX";
	int to = memfd_create("copy", MFD_CLOEXEC);

	cr_assert_not(is_watched_in(to), "no seals");
	close(to);
	to = mkstemp(path);
	unlink(path);
	cr_assert_not(is_watched_in(to), "a file, which has none");
	close(to);
}

Test(peers, processes_cannot_write_to_each_others_pages)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/self/fd/%d",
	         shared->addresses[0].page);
	fd = open(path, O_RDWR | O_CLOEXEC);
	/* Without F_SEAL_FUTURE_WRITE, the kernel lets processes of the same
	 * user write to the page, so skip the check. */
	if (fd < 0 || !(fcntl(fd, F_GET_SEALS) & 0x10))
		return;
	cr_assert_eq(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
	                  0),
	             MAP_FAILED);
	cr_assert_lt(write(fd, "", 1), 0);
	cr_assert_neq(ftruncate(fd, 0), 0);
	close(fd);
}
