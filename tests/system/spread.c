/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Runs one process of a group, for spread.sh
 *
 *  spread DEVICES MODE N
 *
 * The group makes N sums. MODE says what else happens before the last sum:
 *
 *  sums      nothing
 *  stall     the last process's first rank does not call
 *  stop      the last process is stopped by a signal
 *  close     the last process's first rank closes its communicator
 *  part      the last process closes its ranks of two splits
 *  pause     the last process's first rank pauses for twice the deadline
 *  extra     nothing, but rank 0 makes one more sum when the others have left
 *  chain     each rank waits for the next one in a split of the two; the last
 *            rank waits for none
 *  circle    as with chain, but the last rank waits for the first one
 *  eddy      as with chain, but a later rank waits for the previous one
 *  relay     each rank receives from the next one; the last sends nothing
 *  ring      as with relay, but the last rank receives from the first one
 *  gather    rank 0 receives from all in one batch; the last process's first
 *            rank sends nothing
 *  behind    as with gather, but rank 1, which waits for rank 0, has the
 *            deadline
 *  gone      as with gather, but process 1's first rank closes its communicator
 *  exchange  each rank sends to the next and receives from the previous one in
 *            one batch, except the last process's first rank
 *  same      all processes open the same devices
 *  away      process 3 is stopped while rank 0 waits in a pair for a message
 *            of rank 3, the pair's rank 1; process 1 has closed its group
 *  die       process 1 is killed
 *  drop      as with stall, and the others continue without the last process,
 *            which lives until process 0 has ended
 *
 * Process 0 prints what has happened.
 */

#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cohort/bootstrap.h>
#include <cohort/cohort.h>

#define MOST 64 /* largest number of devices of a process */
#define SOON UINT64_C(60000000000)

static struct run {
	int process, processes;
	int first; /* first rank of the last process */
	int sums;
	int stalls, stops, dies, closes, parts, pauses, drops, away, extra;
	int chains, is_closed, by_messages, gathers, exchanges;
	int gone;    /* the rank that does not send, or -1 */
	int hurried; /* the rank that has a deadline */
	int eddy;    /* the rank that waits for the previous one, or -1 */
} run;

static const struct cohort_deadlines soon = {
	.join_ns = UINT64_C(1000000000),
	.exec_ns = UINT64_C(1000000000),
};

/*
 * Return the sum of the ranks' numbers in the first generation, or an error.
 * @memory is memory of this process, which a simulated device can use.
 */
static int sum(struct cohort_comm *comm, int32_t *memory)
{
	uint64_t ticket;
	int rc;

	*memory = cohort_comm_origin(comm);
	rc = cohort_all_reduce(comm, memory, memory, 1, COHORT_I32, COHORT_SUM,
	                       cohort_comm_stream(comm), &ticket);
	if (rc == COHORT_OK)
		rc = cohort_wait(comm, ticket, SOON);
	return rc == COHORT_OK ? *memory : rc;
}

/* Close @closed unless it is NULL, then wait until the others have given up. */
static int stay_outside(struct cohort_comm *comm, struct cohort_comm *closed)
{
	struct cohort_abort *handle = cohort_comm_abort_handle(comm);
	int rc = closed ? cohort_comm_close(closed) : COHORT_OK;

	while (rc == COHORT_OK && !cohort_abort_fired(handle))
		sched_yield();
	cohort_abort_put(handle);
	return rc;
}

static const struct timespec two_seconds = { 2, 0 };

/* Pause for longer than the deadline. */
static int pause_for_long(struct cohort_comm *comm)
{
	int rc = cohort_pause(comm);

	if (rc == COHORT_OK)
		nanosleep(&two_seconds, NULL);
	return rc == COHORT_OK ? cohort_resume(comm) : rc;
}

/* Return the sum of the group ranks of the members of @part, or -1 if one is
 * unknown. */
static int sum_of(struct cohort_comm *part, int size)
{
	const int n = cohort_comm_size(part);
	int r, rank, all = 0;

	for (r = 0; r < n; r++) {
		rank = cohort_comm_group_rank(part, r);
		if (rank < 0 || rank >= size)
			return -1;
		all += rank;
	}
	return all;
}

/* Receive a number from rank @from, which sends none. */
static int receive(struct cohort_comm *comm, int32_t *memory, int from)
{
	uint64_t ticket;
	int rc = cohort_recv(comm, memory, 1, COHORT_I32, from,
	                     cohort_comm_stream(comm), &ticket);

	return rc == COHORT_OK ? cohort_wait(comm, ticket, SOON) : rc;
}

static int exchange(struct cohort_comm *comm, int32_t *memory)
{
	const int n = cohort_comm_size(comm), rank = cohort_comm_rank(comm);
	void *stream = cohort_comm_stream(comm);
	const bool receives = !run.gathers || rank == 0;
	uint64_t ticket;
	int rc = cohort_batch_begin(comm), i;

	if (rc == COHORT_OK && (!run.gathers || rank))
		rc = cohort_send(comm, memory, 1, COHORT_I32,
		                 run.gathers ? 0 : (rank + 1) % n, stream,
		                 NULL);
	for (i = 1; rc == COHORT_OK && receives && i < n; i++)
		if (run.gathers || i == n - 1)
			rc = cohort_recv(comm, &memory[i], 1, COHORT_I32,
			                 (rank + i) % n, stream, NULL);
	if (rc == COHORT_OK)
		rc = cohort_batch_end(comm, stream, &ticket);
	return rc == COHORT_OK ? cohort_wait(comm, ticket, SOON) : rc;
}

static int wait_for_next(struct cohort_comm *comm, int32_t *memory)
{
	const int rank = cohort_comm_rank(comm);
	const int ranks = cohort_comm_size(comm);
	struct cohort_comm *part[2];
	int rc = COHORT_OK, i;

	/* Split with the next rank, and with the previous one. */
	for (i = 0; rc == COHORT_OK && i < 2; i++)
		rc = cohort_comm_split(comm, (rank + i) / 2 % (ranks / 2), 0,
		                       &part[i]);
	/* Wait until all ranks have split before any of them waits. */
	if (rc == COHORT_OK)
		rc = sum(comm, memory);
	if (rc >= 0 && rank == run.hurried)
		rc = cohort_deadline_push(run.by_messages || run.gathers ||
		                                          run.exchanges
		                                  ? comm
		                                  : part[0],
		                          &soon);
	if (rc < 0)
		return rc;
	if (rank == run.eddy)
		return receive(comm, memory, rank - 1);
	if (rank == run.gone)
		return stay_outside(comm, comm);
	if (rank == run.first && !run.is_closed && run.gone < 0)
		return stay_outside(comm, NULL);
	if (run.gathers || run.exchanges)
		rc = exchange(comm, memory);
	if (rc == COHORT_OK && run.gone >= 0)
		return stay_outside(comm, NULL);
	if (run.gathers || run.exchanges)
		return rc == COHORT_OK ? sum(comm, memory) : rc;
	return run.by_messages ? receive(comm, memory, (rank + 1) % ranks)
	                       : sum(part[rank % 2], memory);
}

static int wait_in_pair(struct cohort_comm *comm, int32_t *memory)
{
	const int rank = cohort_comm_rank(comm);
	struct cohort_comm *pair;
	int rc = cohort_comm_split(comm, rank % 3, 0, &pair);

	if (rc == COHORT_OK)
		rc = sum(comm, memory);
	if (rc < 0 || rank == 1)
		return rc < 0 ? rc : COHORT_OK;
	if (rank == 2)
		return stay_outside(comm, NULL);
	if (rank == 3)
		raise(SIGSTOP);
	rc = cohort_deadline_push(pair, &soon);
	return rc == COHORT_OK && rank == 0 ? receive(pair, memory, 1) : rc;
}

static int work(struct cohort_comm *comm, void *unused)
{
	const int origin = cohort_comm_origin(comm);
	const int lasts = cohort_comm_generation(comm) > 1;
	const int size = cohort_comm_size(comm);
	struct cohort_comm *part = comm;
	bool is_last, is_it;
	void *memory;
	int rc, i;

	(void)unused;
	rc = cohort_alloc(comm, MOST * sizeof(int32_t), &memory);
	if (rc == COHORT_OK && run.chains)
		return wait_for_next(comm, memory);
	if (rc == COHORT_OK && run.away)
		return wait_in_pair(comm, memory);
	if (rc == COHORT_OK && run.parts)
		rc = cohort_comm_split(comm, origin % 2, 0, &part);
	for (i = 0; rc >= 0 && i < run.sums; i++) {
		is_last = i == run.sums - 1;
		is_it = is_last && origin == run.first;
		if (is_last && (run.stalls || run.stops || run.pauses))
			rc = cohort_deadline_push(comm, &soon);
		if (run.stalls && is_it)
			return stay_outside(comm, NULL);
		if ((run.closes && is_it) ||
		    (run.parts && is_last && origin >= run.first))
			return stay_outside(comm, part);
		if (run.pauses && is_it)
			rc = pause_for_long(comm);
		if (run.stops && is_it)
			raise(SIGSTOP);
		if (run.dies && !lasts && is_last && run.process == 1)
			raise(SIGKILL);
		if (rc >= 0)
			rc = sum(part, memory);
		if (rc >= 0 && !lasts && rc != sum_of(part, size))
			return -1;
	}
	if (rc >= 0 && run.extra && origin == 0) {
		nanosleep(&two_seconds, NULL);
		rc = sum(part, memory);
	}
	if (rc >= 0 && cohort_comm_rank(comm) == 0)
		printf("%d ranks, generation %d: %d sums, the last is %d\n",
		       size, cohort_comm_generation(comm), run.sums, rc);
	return rc < 0 ? rc : 0;
}

static long status_of(const char *name)
{
	char line[128];
	long value = -1;
	FILE *file = fopen("/proc/self/status", "r");

	while (file && fgets(line, sizeof(line), file))
		if (strncmp(line, name, strlen(name)) == 0)
			value = atol(line + strlen(name));
	if (file)
		fclose(file);
	return value;
}

/* Report which process is the last one, and let it continue. */
static void resume_last(struct cohort_group *group)
{
	struct cohort_process all[MOST];
	int last = cohort_group_processes(group, all, MOST) - 1;

	printf("the last process is %d (pid %lld)\n", last,
	       (long long)all[last].pid);
	kill((pid_t)all[last].pid, SIGCONT);
}

/* Wait until process 0 has ended. */
static void outlive_first(struct cohort_group *group)
{
	struct cohort_process first;

	cohort_group_processes(group, &first, 1);
	while (kill((pid_t)first.pid, 0) == 0)
		sched_yield();
}

/* Respawn the group without the lost ranks.  Return true on success. */
static bool respawned(struct cohort_group *group)
{
	int lost[MOST], rc;

	rc = cohort_group_respawn(group, lost,
	                          cohort_group_lost(group, lost, MOST));
	if (!run.drops || run.process < run.processes - 1)
		return rc == COHORT_OK;
	if (rc == COHORT_STATE &&
	    cohort_group_respawn(group, NULL, 0) == COHORT_STATE)
		outlive_first(group);
	return false;
}

static int worked(struct cohort_group *group)
{
	struct cohort_cause cause;
	int rc;

	while ((rc = cohort_group_run(group, work, NULL, &cause)) ==
	               COHORT_PROCESS_EXITED ||
	       (run.drops && rc == COHORT_STALLED)) {
		if (!respawned(group))
			return 1;
	}
	if (run.process == 0 && rc != COHORT_OK)
		printf("%s\n", cause.text);
	if (run.process == 0 && run.stops)
		resume_last(group);
	return rc != ((run.stalls && !run.drops) || run.stops || run.closes ||
	                              run.parts || run.extra || run.chains
	                      ? COHORT_STALLED
	                      : COHORT_OK);
}

int main(int argc, char **argv)
{
	const struct cohort_bootstrap bootstrap = {
		.size = sizeof(bootstrap),
		.kind = COHORT_BOOTSTRAP_AUTO,
	};
	struct cohort_group_options options;
	struct cohort_group *group;
	int devices[MOST], i, n, failed;

	if (argc < 4)
		return 2;
	n = atoi(argv[1]) < MOST ? atoi(argv[1]) : MOST;
	run.process = atoi(getenv("COHORT_PROCESS"));
	run.processes = atoi(getenv("COHORT_PROCESSES"));
	run.first = (run.processes - 1) * n;
	run.drops = strcmp(argv[2], "drop") == 0;
	run.stalls = run.drops || strcmp(argv[2], "stall") == 0;
	run.away = strcmp(argv[2], "away") == 0;
	run.stops = run.away || strcmp(argv[2], "stop") == 0;
	run.closes = strcmp(argv[2], "close") == 0;
	run.parts = strcmp(argv[2], "part") == 0;
	run.pauses = strcmp(argv[2], "pause") == 0;
	run.extra = strcmp(argv[2], "extra") == 0;
	run.by_messages =
		strcmp(argv[2], "relay") == 0 || strcmp(argv[2], "ring") == 0;
	run.eddy = strcmp(argv[2], "eddy") == 0 ? run.first + (n > 1) : -1;
	run.is_closed = run.eddy >= 0 || strcmp(argv[2], "circle") == 0 ||
	                strcmp(argv[2], "ring") == 0;
	run.gone = strcmp(argv[2], "gone") == 0 ? n : -1;
	run.hurried = strcmp(argv[2], "behind") == 0;
	run.gathers =
		run.gone >= 0 || run.hurried || strcmp(argv[2], "gather") == 0;
	run.exchanges = strcmp(argv[2], "exchange") == 0;
	run.chains = run.by_messages || run.is_closed || run.gathers ||
	             run.exchanges || strcmp(argv[2], "chain") == 0;
	run.dies = strcmp(argv[2], "die") == 0;
	run.sums = atoi(argv[3]);
	for (i = 0; i < n; i++)
		devices[i] =
			i +
			(strcmp(argv[2], "same") == 0 ? 0 : run.process * n);
	cohort_group_options_init(&options);
	options.bootstrap = &bootstrap;
	if (cohort_group_open(devices, n, &options, &group) != COHORT_OK) {
		fprintf(stderr, "%s\n", cohort_last_error());
		return 1;
	}
	failed = worked(group);
	if (run.process == 0 && !failed)
		fprintf(stderr,
		        "process 0, with %d ranks: %ld threads, %ld KiB\n", n,
		        status_of("Threads:"), status_of("VmRSS:"));
	if (cohort_group_close(group) != COHORT_OK)
		fprintf(stderr, "%s\n", cohort_last_error());
	return failed;
}
