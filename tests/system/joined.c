/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Runs one process whose ranks join by an id, for spread.sh
 *
 *  joined DEVICES MODE FILE
 *
 * Process 0 writes the id to FILE. The ranks of a process are not consecutive:
 * process p of n drives the ranks p, n + p, 2 n + p and so on. All ranks make
 * two sums. MODE says what rank n - 1 does instead of the second one:
 *
 *  sums     nothing else
 *  hang     it waits for the end of the communicator
 *  close    it closes its communicator
 *  count    it sums two elements instead of one
 *  kill     its process is killed
 *  exit     its process exits
 *  stop     its process is stopped
 *  late     it does not even join
 *  die      its process is killed while the others join
 *  fail     its process aborts its join while the others join
 *  split    as with hang, but the second sum is one of a split
 *
 * Process 0 prints the error of rank 0, or the sum.
 */

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cohort/cohort.h>

#define MOST 16 /* largest number of devices of a process */
#define SECOND UINT64_C(1000000000)

static const char *mode, *id_path;
static int process, processes, size;
static struct cohort_unique_id id;
static struct cohort_abort *end; /* ends the joins of this process */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static bool is(const char *name)
{
	return strcmp(mode, name) == 0;
}

static int sum(struct cohort_comm *comm, int32_t *of, size_t count)
{
	uint64_t ticket;
	int rc;

	of[0] = cohort_comm_rank(comm);
	rc = cohort_all_reduce(comm, of, of, count, COHORT_I32, COHORT_SUM,
	                       cohort_comm_stream(comm), &ticket);
	return rc == COHORT_OK ? cohort_wait(comm, ticket, 60 * SECOND) : rc;
}

static int await_end(struct cohort_comm *comm)
{
	struct cohort_abort *handle = cohort_comm_abort_handle(comm);

	while (!cohort_abort_fired(handle))
		sched_yield();
	cohort_abort_put(handle);
	return COHORT_OK;
}

/* Open a file whose name is that of the id's file and ".pid". */
static FILE *open_pid(const char *how)
{
	char name[256];

	snprintf(name, sizeof(name), "%s.pid", id_path);
	return fopen(name, how);
}

/* Stop this process until process 0 has ended. */
static void stop(void)
{
	FILE *f = open_pid("w");

	if (f) {
		fprintf(f, "%d", (int)getpid());
		fclose(f);
	}
	raise(SIGSTOP);
}

static void resume(void)
{
	FILE *f = open_pid("r");
	int pid = 0;

	if (f && fscanf(f, "%d", &pid) == 1 && pid > 0)
		kill(pid, SIGCONT);
	if (f)
		fclose(f);
}

/* Do what the last rank does instead of its second sum. */
static int misbehave(struct cohort_comm *comm, int32_t *of)
{
	if (is("kill"))
		kill(getpid(), SIGKILL);
	if (is("exit"))
		_exit(0);
	if (is("stop"))
		stop();
	if (is("count"))
		return sum(comm, of, 2);
	return is("close") ? COHORT_OK : await_end(comm);
}

/* Store the last sum in @last. */
static int work(struct cohort_comm *comm, int *last)
{
	const int rank = cohort_comm_rank(comm);
	struct cohort_comm *part = comm;
	void *of;
	int rc = cohort_alloc(comm, 2 * sizeof(int32_t), &of);

	if (rc == COHORT_OK)
		rc = sum(comm, of, 1);
	if (rc == COHORT_OK && is("split"))
		rc = cohort_comm_split(comm, 0, -rank, &part);
	if (rc == COHORT_OK && rank == processes - 1 && !is("sums"))
		return misbehave(part, of);
	if (rc == COHORT_OK)
		rc = sum(part, of, 1);
	if (rc == COHORT_OK)
		*last = *(int32_t *)of;
	return rc;
}

/* Wait until a rank of this process has begun to connect, in a thread of this
 * name. */
static void await_thread(const char *name)
{
	char command[128];

	snprintf(command, sizeof(command),
	         "grep -q '^%s' /proc/%d/task/*/comm 2>/dev/null", name,
	         (int)getpid());
	while (system(command) != 0)
		sched_yield();
}

static void *rank_main(void *arg)
{
	const int i = *(int *)arg, rank = i * processes + process;
	struct cohort_group_options o;
	struct cohort_comm *comm;
	struct cohort_cause cause;
	int last = 0, rc;

	if (rank == processes - 1 && is("late"))
		return NULL;
	if (rank == processes - 1 && (is("die") || is("fail"))) {
		await_thread("joined/init");
		if (is("die"))
			kill(getpid(), SIGKILL);
		cohort_abort_fire(end, "enough");
		return NULL;
	}
	cohort_group_options_init(&o);
	o.name = "joined";
	o.log = "none";
	o.deadlines.init_ns = 60 * SECOND;
	o.deadlines.join_ns = o.deadlines.exec_ns = SECOND;
	o.abort = end;
	if (is("late"))
		o.deadlines.init_ns = SECOND;
	rc = cohort_comm_join(&id, size, rank, process * size / processes + i,
	                      &o, &comm);
	if (rc != COHORT_OK) {
		if (rank == 0)
			printf("%d: %s\n", rc, cohort_last_error());
		return NULL;
	}
	rc = cohort_comm_bind(comm);
	if (rc == COHORT_OK)
		rc = work(comm, &last);
	pthread_mutex_lock(&lock);
	if (rank == 0 && rc == COHORT_OK)
		printf("%d ranks: the sum is %d\n", size, last);
	else if (rank == 0 && cohort_comm_cause(comm, &cause) == COHORT_OK)
		printf("%s, rank %d: %s\n", cohort_status_name(rc), cause.rank,
		       cohort_last_error());
	pthread_mutex_unlock(&lock);
	cohort_comm_close(comm);
	return NULL;
}

/* Process 0 creates the id; the others wait for its file. */
static bool share_id(void)
{
	char temporary[256];
	FILE *f;

	if (process == 0) {
		snprintf(temporary, sizeof(temporary), "%s.new", id_path);
		f = fopen(temporary, "w");
		return f && cohort_unique_id(COHORT_PLATFORM_AUTO, &id) == 0 &&
		       fwrite(&id, sizeof(id), 1, f) == 1 && fclose(f) == 0 &&
		       rename(temporary, id_path) == 0;
	}
	while (!(f = fopen(id_path, "r")))
		sched_yield();
	return fread(&id, sizeof(id), 1, f) == 1 && fclose(f) == 0;
}

int main(int argc, char **argv)
{
	pthread_t threads[MOST];
	int numbers[MOST], n, i;

	if (argc != 4 || (n = atoi(argv[1])) < 1 || n > MOST)
		return 2;
	mode = argv[2];
	process = atoi(getenv("COHORT_PROCESS"));
	processes = atoi(getenv("COHORT_PROCESSES"));
	size = n * processes;
	id_path = argv[3];
	if (!share_id())
		return 1;
	end = cohort_abort_create();
	for (i = 0; i < n; i++) {
		numbers[i] = i;
		pthread_create(&threads[i], NULL, rank_main, &numbers[i]);
	}
	for (i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
	cohort_abort_put(end);
	if (process == 0)
		resume();
	return 0;
}
