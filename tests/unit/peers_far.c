/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests of processes on several machines, which share no memory
 *
 * Three parts of a group run in this one process, and each acts as if it were
 * on its own machine. Messages between them are delivered immediately.
 */

#include <criterion/criterion.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "processes/peers.h"
#include "unit/peer_clique.h"

#define PROCESSES 3
#define IDENTITY 7
#define SOON UINT64_C(20000000000)
#define BYTES 64

TestSuite(peers_far, .timeout = 60);

/* Process 0 has ranks 0 and 1, process 1 ranks 2 and 3, process 2 rank 4. */
static const struct cohort_process facts[PROCESSES] = {
	{ .first_rank = 0, .ranks = 2, .pid = 4710, .host = "a" },
	{ .first_rank = 2, .ranks = 2, .pid = 4711, .host = "b" },
	{ .first_rank = 4, .ranks = 1, .pid = 4712, .host = "c" },
};

static struct part {
	struct peers *peers;
	struct clique *q;
	struct peer_line line;

	/* guards listener and is_deaf */
	pthread_mutex_t lock;
	struct peers *listener;
	bool is_deaf;
} parts[PROCESSES];

static int process_of(const struct part *part)
{
	return (int)(part - parts);
}

static void deliver(struct part *to, const struct part *from,
                    const void *message, size_t bytes)
{
	pthread_mutex_lock(&to->lock);
	if (to->listener && !to->is_deaf)
		peers_receive(to->listener, process_of(from), message, bytes);
	pthread_mutex_unlock(&to->lock);
}

static void send_by_line(void *info, int process, const void *message,
                         size_t bytes)
{
	struct part *from = info, *to;

	for (to = parts; to < parts + PROCESSES; to++)
		if (to != from && (process < 0 || process == process_of(to)))
			deliver(to, from, message, bytes);
}

static void listen_by_line(void *info, struct peers *peers)
{
	struct part *part = info;

	pthread_mutex_lock(&part->lock);
	part->listener = peers;
	pthread_mutex_unlock(&part->lock);
}

/* Notify all parts that a process has ended. */
static void tell_end(int process)
{
	struct part *to;

	for (to = parts; to < parts + PROCESSES; to++) {
		pthread_mutex_lock(&to->lock);
		if (to->listener)
			peers_receive_end(to->listener, process);
		pthread_mutex_unlock(&to->lock);
	}
}

/* Open the parts. Part i is on machine number machines[i], counted from the
 * real machine, or on an unknown machine if machines[i] is -1. */
static void open_on(const int machines[PROCESSES])
{
	struct peer_address all[PROCESSES];
	struct part *part = parts;
	int i;

	for (i = 0; i < PROCESSES; i++, part++) {
		pthread_mutex_init(&part->lock, NULL);
		part->line = (struct peer_line){ send_by_line, listen_by_line,
			                         part };
		cr_assert_eq(peers_create(i, PROCESSES, "g", &all[i],
		                          &part->peers),
		             COHORT_OK);
		all[i].machine =
			machines[i] < 0
				? 0
				: all[i].machine + (uint64_t)machines[i];
		all[i].pid = facts[i].pid;
	}
	for (i = 0, part = parts; i < PROCESSES; i++, part++) {
		peers_connect(part->peers, all, &part->line);
		peers_set_ranks(part->peers, facts);
		part->q = make_peer_clique(IDENTITY);
		give_rank(part->q, facts[i].first_rank);
		cr_assert_eq(peers_attach(part->peers, part->q, NULL),
		             COHORT_OK);
	}
}

static void open_parts(void)
{
	open_on((const int[PROCESSES]){ 0, 1, 2 });
}

static void leave(struct part *part)
{
	peers_detach(part->peers, part->q);
	peers_leave(part->peers);
	free_peer_clique(part->q);
	part->peers = NULL;
}

static void close_parts(void)
{
	struct part *part;

	for (part = parts; part < parts + PROCESSES; part++)
		if (part->peers)
			leave(part);
}

static void tell(const struct part *part)
{
	const struct cohort_cause cause = {
		.status = COHORT_ABORTED,
		.kind = COHORT_VERDICT_ABORTED,
		.rank = 0,
		.text = "the reason",
	};

	peers_send_cause(part->q, &cause, 0);
}

static const struct cohort_cause *await_cause(const struct part *part)
{
	const uint64_t deadline = clock_deadline(SOON);

	while (!cause_peek(part->q->end) && clock_now() < deadline)
		sched_yield();
	cr_assert(cause_peek(part->q->end));
	return cause_peek(part->q->end);
}

Test(peers_far, processes_of_other_machines_are_watched)
{
	int i;

	open_parts();
	for (i = 0; i < PROCESSES; i++)
		cr_assert(peers_watches(parts[0].peers, i));
	close_parts();
}

Test(peers_far, other_machines_cannot_be_watched_without_a_connection)
{
	struct peer_address all[2];
	struct peers *two[2];
	int i;

	for (i = 0; i < 2; i++) {
		cr_assert_eq(peers_create(i, 2, "g", &all[i], &two[i]),
		             COHORT_OK);
		all[i].machine += (uint64_t)i;
	}
	peers_connect(two[0], all, NULL);
	cr_assert_not(peers_watches(two[0], 1));
	for (i = 0; i < 2; i++)
		peers_leave(two[i]);
}

Test(peers_far, cause_from_another_machine_names_process_and_host)
{
	const struct cohort_cause *cause;

	open_parts();
	tell(&parts[1]);
	cause = await_cause(&parts[2]);
	cr_assert_eq(cause->status, COHORT_ABORTED);
	cr_assert_eq(cause->rank, 0);
	cr_assert_str_eq(cause->text,
	                 "process 1 (host b, pid 4711): the reason");
	await_cause(&parts[0]);
	close_parts();
}

Test(peers_far, ended_process_of_another_machine_is_named_with_its_ranks)
{
	const struct cohort_cause *cause;

	open_parts();
	tell_end(1);
	cause = await_cause(&parts[0]);
	cr_assert_eq(cause->status, COHORT_PROCESS_EXITED);
	cr_assert_eq(cause->rank, 2);
	cr_assert_eq(cause->missing[0], 0xc);
	cr_assert_str_eq(cause->text, "process 1 (host b, pid 4711), which "
	                              "drove ranks 2-3, is gone");
	cr_assert(peers_has_ended(parts[0].peers, 1));
	cr_assert(peers_is_futile(parts[0].peers, false));
	close_parts();
}

Test(peers_far, connecting_cannot_succeed_once_a_process_has_given_up)
{
	open_parts();
	peers_open(parts[0].peers, 7);
	peers_give_up(parts[1].peers, 6);
	tell(&parts[1]); /* arrives after process 1 has given up attempt 6 */
	await_cause(&parts[0]);
	cr_assert_not(peers_is_futile(parts[0].peers, false),
	              "it was another attempt");
	peers_give_up(parts[1].peers, 7);
	while (!peers_is_futile(parts[0].peers, false))
		sched_yield();
	peers_open(parts[0].peers, 8);
	cr_assert_not(peers_is_futile(parts[0].peers, false));
	close_parts();
}

/* A process that has left its group ends at some later time, which is no
 * failure. Process 2's cause arrives after the end of process 1. */
Test(peers_far, remote_process_that_leaves_is_not_reported_as_ended)
{
	open_parts();
	leave(&parts[1]);
	tell_end(1);
	tell(&parts[2]);
	cr_assert_eq(await_cause(&parts[0])->status, COHORT_ABORTED);
	cr_assert_not(peers_has_ended(parts[0].peers, 1));
	close_parts();
}

/* All processes must receive messages in the same way. */
Test(peers_far, all_processes_use_messages_if_one_is_on_another_machine)
{
	open_on((const int[PROCESSES]){ 0, 0, 1 });
	tell(&parts[1]);
	cr_assert_str_eq(await_cause(&parts[0])->text,
	                 "process 1 (host b, pid 4711): the reason");
	close_parts();
}

Test(peers_far, all_processes_use_messages_if_no_machine_is_known)
{
	open_on((const int[PROCESSES]){ -1, -1, -1 });
	tell(&parts[1]);
	cr_assert_str_eq(await_cause(&parts[2])->text,
	                 "process 1 (host b, pid 4711): the reason");
	close_parts();
}

static void await_end(const struct part *part, int process)
{
	const uint64_t deadline = clock_deadline(SOON);

	while (!peers_has_ended(part->peers, process) && clock_now() < deadline)
		sched_yield();
	cr_assert(peers_has_ended(part->peers, process));
}

/* If the watching thread wakes up only once for two ends, it must handle
 * both. */
Test(peers_far, processes_that_end_at_the_same_time_are_all_noticed)
{
	int i;

	for (i = 0; i < 200; i++) {
		open_parts();
		tell_end(1);
		tell_end(2);
		await_end(&parts[0], 1);
		await_end(&parts[0], 2);
		close_parts();
	}
}

/* The other processes may have continued without the ended process. */
Test(peers_far, messages_of_a_process_are_ignored_after_its_end)
{
	open_parts();
	tell_end(1);
	await_end(&parts[0], 1);
	leave(&parts[1]); /* process 1 sends a message when it leaves */
	tell_end(1);
	cr_assert(peers_has_ended(parts[0].peers, 1));
	close_parts();
}

/* ---- queries ---------------------------------------------------------- */

static struct remote_rank answers[8];

/* Names of the processes that have not answered */
static char silent[128];

static int ask(const struct part *part, uint64_t ns)
{
	const struct missing question = { .identity = part->q->identity,
		                          .number = 1 };
	struct text t = { silent, sizeof(silent) };

	silent[0] = '\0';
	part->peers->remote.patience_ns = ns;
	return peers_ask(&part->peers->remote, part->q, &question, answers, 8,
	                 &t);
}

Test(peers_far, processes_say_what_their_ranks_do_and_on_which_host)
{
	char host[64] = "", name[128];
	int i, ranks = 0;

	gethostname(host, sizeof(host) - 1);
	open_parts();
	cr_assert_eq(ask(&parts[0], SOON), 2);
	for (i = 0; i < 2; i++) {
		ranks |= 1 << answers[i].rank;
		cr_assert_eq(answers[i].kind, COHORT_VERDICT_NEVER_CALLED);
		snprintf(name, sizeof(name),
		         "rank %d (host %s, pid %d, device 0) has ",
		         answers[i].rank, host, getpid());
		cr_assert_eq(strncmp(answers[i].text, name, strlen(name)), 0,
		             "%s", answers[i].text);
	}
	cr_assert_eq(ranks, 1 << 2 | 1 << 4);
	close_parts();
}

Test(peers_far, remote_process_reports_a_rank_that_has_not_joined_a_transfer)
{
	struct missing question = {
		.number = 1,
		.is_transfer = true,
		.sends = true,
		.rank = 4,
		.other = 0,
	};
	struct text t = { silent, sizeof(silent) };
	char host[64] = "", text[128];

	silent[0] = '\0';
	gethostname(host, sizeof(host) - 1);
	open_parts();
	question.identity = parts[0].q->identity;
	parts[0].peers->remote.patience_ns = SOON;
	cr_assert_eq(peers_ask(&parts[0].peers->remote, parts[0].q, &question,
	                       answers, 8, &t),
	             1);
	cr_assert_eq(answers[0].rank, 4);
	snprintf(text, sizeof(text),
	         "rank 4 (host %s, pid %d, device 0) has not called its send, "
	         "and ",
	         host, getpid());
	cr_assert_eq(strncmp(answers[0].text, text, strlen(text)), 0, "%s",
	             answers[0].text);
	close_parts();
}

Test(peers_far, process_that_does_not_report_on_its_ranks_is_named)
{
	open_parts();
	parts[2].is_deaf = true;
	cr_assert_eq(ask(&parts[0], SOON / 40), 1);
	cr_assert_str_eq(silent, "process 2 (host c, pid 4712)");
	cr_assert_eq(answers[0].rank, 2);
	close_parts();
}

/* ---- exchanges -------------------------------------------------------- */

struct gathering {
	struct part *part;
	uint64_t came[COHORT_RANK_WORDS];
	char all[PROCESSES * BYTES];
	int rc;
};

static void *gather(void *user)
{
	const struct patience patience = { .timeout_ns = SOON };
	struct gathering *g = user;
	char mine[BYTES] = "";

	mine[0] = (char)('a' + process_of(g->part));
	g->rc = peers_gather(g->part->peers, mine, sizeof(mine), g->all,
	                     g->came, &patience);
	return NULL;
}

/* Gather in all processes except @process. Each must receive the data of the
 * processes in the set @came. */
static void gather_without(int process, uint64_t came)
{
	struct gathering g[PROCESSES] = { 0 };
	pthread_t threads[PROCESSES];
	int i, k;

	for (i = 0; i < PROCESSES; i++) {
		g[i].part = &parts[i];
		if (i != process)
			pthread_create(&threads[i], NULL, gather, &g[i]);
	}
	for (i = 0; i < PROCESSES; i++) {
		if (i == process)
			continue;
		pthread_join(threads[i], NULL);
		cr_assert_eq(g[i].rc, COHORT_OK);
		cr_assert_eq(g[i].came[0], came);
		for (k = 0; k < PROCESSES; k++)
			cr_assert_eq(g[i].all[k * BYTES],
			             came >> k & 1 ? 'a' + k : 0);
	}
}

Test(peers_far, processes_of_several_machines_can_gather_repeatedly)
{
	int i;

	open_parts();
	for (i = 0; i < 20; i++)
		gather_without(-1, 7);
	close_parts();
}

Test(peers_far, exchange_omits_an_ended_process_of_another_machine)
{
	open_parts();
	gather_without(-1, 7);
	tell_end(2);
	gather_without(2, 3);
	close_parts();
}

/* Data that a process contributed before it ended counts in every other
 * process. */
Test(peers_far, exchange_includes_messages_sent_before_a_process_ends)
{
	struct gathering last = { .part = &parts[2] };
	pthread_t thread;

	open_parts();
	pthread_create(&thread, NULL, gather, &last);
	/* A message is delivered to process 0 first, then to process 1. */
	while (!has_contributed(parts[0].peers, 2, 1) ||
	       !has_contributed(parts[1].peers, 2, 1))
		sched_yield();
	tell_end(2);
	gather_without(2, 7);
	pthread_join(thread, NULL);
	close_parts();
}

/* Once a process counts as ended, no other process uses data that it
 * contributes. */
Test(peers_far, exchange_ignores_messages_sent_after_a_process_ends)
{
	struct gathering last = { .part = &parts[2] };
	pthread_t thread;

	open_parts();
	tell_end(2);
	pthread_create(&thread, NULL, gather, &last);
	gather_without(2, 3);
	pthread_join(thread, NULL);
	cr_assert_not(has_contributed(parts[0].peers, 2, 1));
	close_parts();
}

/* ---- peers_await_noted() --------------------------------------------- */

struct noting {
	struct part *part;
	uint64_t ns;
};

static void *note(void *user)
{
	struct noting *n = user;

	peers_await_noted(n->part->peers, n->part->q, clock_deadline(n->ns));
	return NULL;
}

/* Call peers_await_noted() for the first @n parts. Return true if no call has
 * waited until its deadline. */
static bool note_first(int n, uint64_t ns)
{
	const uint64_t deadline = clock_deadline(ns);
	struct noting notings[PROCESSES];
	pthread_t threads[PROCESSES];
	int i;

	for (i = 0; i < n; i++) {
		notings[i] = (struct noting){ &parts[i], ns };
		pthread_create(&threads[i], NULL, note, &notings[i]);
	}
	for (i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
	return clock_now() < deadline;
}

Test(peers_far, peers_await_noted_waits_until_all_processes_have_called_it)
{
	open_parts();
	cr_assert_not(note_first(1, SOON / 100), "two others have not");
	cr_assert(note_first(PROCESSES, SOON));
	close_parts();
}

Test(peers_far, wait_for_snapshots_skips_processes_that_close_the_clique)
{
	int i;

	open_parts();
	for (i = 1; i < PROCESSES; i++)
		parts[i].q->remote->publish_event(parts[i].q->comms,
		                                  REMOTE_NOTED);
	cr_assert(note_first(1, SOON));
	close_parts();
}

Test(peers_far, wait_for_snapshots_skips_ended_and_detached_processes)
{
	open_parts();
	peers_detach(parts[1].peers, parts[1].q);
	tell_end(2);
	cr_assert(note_first(1, SOON));
	cr_assert_eq(peers_attach(parts[1].peers, parts[1].q, NULL), COHORT_OK);
	close_parts();
}

/* ---- invalid messages ------------------------------------------------- */

#define LONGEST (16 * 1024)

/* The kind, the place, the number, the length and the content of a message can
 * all be wrong. */
Test(peers_far, invalid_messages_of_a_process_do_no_harm)
{
	static unsigned char message[1 + LONGEST]; /* unaligned */
	const size_t lengths[] = { 0,  1,   8,    15,   16,   24,
		                   32, 120, 1000, 4112, 4113, LONGEST };
	uint32_t kind, place;
	size_t i;

	open_parts();
	memset(message, 0xff, sizeof(message));
	for (kind = 0; kind < 11; kind++) {
		for (place = 0; place < 6; place++) {
			memcpy(message + 1, &kind, sizeof(kind));
			memcpy(message + 5, &place, sizeof(place));
			for (i = 0; i < sizeof(lengths) / sizeof(*lengths); i++)
				/* kind 1 is valid with any length */
				if (kind != 1)
					peers_receive(parts[0].peers, 1,
					              message + 1, lengths[i]);
		}
	}
	peers_receive(parts[0].peers, -1, message, 16);
	peers_receive(parts[0].peers, PROCESSES, message, 16);
	/* A message from process 0 to itself is ignored. */
	peers_receive(parts[0].peers, 0, message, 16);
	peers_receive_end(parts[0].peers, -1);
	peers_receive_end(parts[0].peers, PROCESSES);
	peers_receive_end(parts[0].peers, 0);
	cr_assert_eq(ask(&parts[0], SOON), 2);
	cr_assert_not(cause_peek(parts[0].q->end));
	gather_without(-1, 7);
	close_parts();
}
