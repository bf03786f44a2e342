/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A program for cohort watch: ranks that call in turn, one of which makes a
 * mistake in the middle
 *
 *	watched FAULT RANKS threads|processes [SECONDS MILLISECONDS]
 *
 * Rank 1 makes the mistake, which is the FAULT:
 *
 *	none     nothing
 *	late     sleeps for 0.4 s before a call
 *	ahead    no fault: the root of a broadcast calls 4 s before the others
 *	forks    no fault: each rank forks a process, which ends
 *	missing  never calls again
 *	group    calls in a group that it never ends
 *	blocked  blocks its stream, and calls
 *	memory   never calls again, but allocates and frees device memory
 *	hung     does not call until its communicator has an error; each rank then
 *	         destroys its communicator, and fails
 *	exit     its thread or its process ends
 *	killed   its process is killed
 *	exec     its process executes another program
 *	stopped  its process is stopped
 *	kind, count, type, root    calls another collective, or with another
 *	         argument
 *	child    never calls in a communicator that was split; the last rank was
 *	         left out of a shrink before
 *	split    never calls the split
 *	init     never creates its communicator
 *	pending  never creates its communicator, which is nonblocking
 *	polled   never calls in a nonblocking communicator that was split
 *	send     never receives
 *	order    uses two communicators in the other order
 *	destroy  never destroys its communicator
 *	finalize never finalizes its communicator
 *	soak     no fault: for SECONDS, all ranks make random calls, and sleep now
 *	         and then for up to MILLISECONDS
 */

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "program.h"

#define STEPS 12
#define VICTIM 1

static const char *fault;
static int ranks, soak_seconds, most_ms;
static ncclUniqueId id;

/* Ranks of one process use a communicator only after all were created, because
 * creating one may wait for a collective on another device. */
static pthread_barrier_t created;

static int is(const struct rank *r, const char *name)
{
	return r->rank == VICTIM && strcmp(fault, name) == 0;
}

static void never(void)
{
	for (;;)
		pause();
}

/* Exit with the communicator's error, if it has one. */
static void check_error(struct rank *r, int is_waiting)
{
	const struct timespec pause = { .tv_nsec = 1000000 };
	ncclResult_t error = ncclSuccess;

	NCCL(ncclCommGetAsyncError(r->comm, &error));
	while (is_waiting && error == ncclSuccess) {
		nanosleep(&pause, NULL);
		NCCL(ncclCommGetAsyncError(r->comm, &error));
	}
	if (error == ncclSuccess)
		return;
	CHECK(ncclAllReduce(r->send, r->recv, COUNT, ncclFloat, ncclSum,
	                    r->comm, r->stream) == error);
	NCCL(ncclCommDestroy(r->comm));
	pthread_barrier_wait(&created);
	NCCL(error);
}

/* Make a call that differs from the others' on the rank with the fault. */
static void odd_call(struct rank *r)
{
	const int root = is(r, "root") ? 1 : 0;
	const size_t count = is(r, "count") ? COUNT - 1 : COUNT;
	const ncclDataType_t type = is(r, "type") ? ncclInt32 : ncclFloat;

	if (strcmp(fault, "root") == 0)
		NCCL(ncclBroadcast(r->send, r->recv, count, type, root, r->comm,
		                   r->stream));
	else if (is(r, "kind"))
		NCCL(ncclReduce(r->send, r->recv, count, type, ncclSum, 0,
		                r->comm, r->stream));
	else
		NCCL(ncclAllReduce(r->send, r->recv, count, type, ncclSum,
		                   r->comm, r->stream));
}

static void call(struct rank *r, ncclComm_t comm)
{
	NCCL(ncclAllReduce(r->send, r->recv, COUNT, ncclFloat, ncclSum, comm,
	                   r->stream));
	CUDA(cudaStreamSynchronize(r->stream));
}

/* Let the root finish a broadcast that no other rank has called. */
static void broadcast_ahead(struct rank *r)
{
	const struct timespec ahead = { .tv_sec = 4 };

	if (r->rank)
		nanosleep(&ahead, NULL);
	NCCL(ncclBroadcast(r->send, r->recv, COUNT, ncclFloat, 0, r->comm,
	                   r->stream));
	CUDA(cudaStreamSynchronize(r->stream));
	if (!r->rank)
		nanosleep(&ahead, NULL);
}

/* Allocate until an allocation waits for the kernels of other ranks. */
static void allocate(void)
{
	void *memory;

	for (;;) {
		CUDA(cudaMalloc(&memory, 4096));
		CUDA(cudaFree(memory));
	}
}

static void block(void *unused)
{
	(void)unused;
	never();
}

/* Execute the fault before the call or in place of it.  Return whether the rank
 * ends. */
static int misbehave(struct rank *r)
{
	const struct timespec late = { .tv_nsec = 400000000 };

	if (strcmp(fault, "ahead") == 0)
		broadcast_ahead(r);
	if (is(r, "late"))
		nanosleep(&late, NULL);
	if (is(r, "group")) {
		NCCL(ncclGroupStart());
		NCCL(ncclAllReduce(r->send, r->recv, COUNT, ncclFloat, ncclSum,
		                   r->comm, r->stream));
	}
	if (is(r, "missing") || is(r, "group"))
		never();
	if (is(r, "blocked"))
		CUDA(cudaLaunchHostFunc(r->stream, block, NULL));
	if (is(r, "memory"))
		allocate();
	if (is(r, "hung"))
		check_error(r, 1);
	if (strcmp(fault, "forks") == 0 && fork() == 0)
		exit(0);
	if (is(r, "killed"))
		raise(SIGKILL);
	if (is(r, "exec"))
		execlp("sleep", "sleep", "300", NULL);
	if (is(r, "stopped"))
		raise(SIGSTOP);
	return is(r, "exit");
}

/* Create a communicator without the last rank. */
static void shrink(struct rank *r)
{
	int last = ranks - 1;
	ncclComm_t child;

	if (r->rank != last)
		NCCL(ncclCommShrink(r->comm, &last, 1, &child, NULL,
		                    NCCL_SHRINK_DEFAULT));
	pthread_barrier_wait(&created);
}

/* Return the communicator of the even ranks or of the odd ranks. */
static ncclComm_t use_child(struct rank *r)
{
	ncclComm_t child;

	if (strcmp(fault, "child") == 0)
		shrink(r);
	if (is(r, "split"))
		never();
	NCCL(ncclCommSplit(r->comm, r->rank % 2, r->rank, &child, NULL));
	pthread_barrier_wait(&created);
	if (is(r, "child"))
		never();
	call(r, child);
	return child;
}

static void send_to_victim(struct rank *r)
{
	if (r->rank == 0)
		NCCL(ncclSend(r->send, COUNT, ncclFloat, VICTIM, r->comm,
		              r->stream));
	if (is(r, "send"))
		never();
	if (r->rank == VICTIM)
		NCCL(ncclRecv(r->recv, COUNT, ncclFloat, 0, r->comm,
		              r->stream));
	CUDA(cudaStreamSynchronize(r->stream));
}

/* Use two communicators of the same ranks in turn. */
static void use_two(struct rank *r)
{
	ncclComm_t twin;

	NCCL(ncclCommSplit(r->comm, 0, r->rank, &twin, NULL));
	pthread_barrier_wait(&created);
	call(r, is(r, "order") ? twin : r->comm);
	call(r, is(r, "order") ? r->comm : twin);
}

/* ---- nonblocking communicators --------------------------------------------- */

/* Check the result of a call, and poll until the call is done. */
static void await(ncclResult_t result, const ncclComm_t *comm)
{
	CHECK(result == ncclSuccess || result == ncclInProgress);
	do {
		sched_yield();
		NCCL(ncclCommGetAsyncError(*comm, &result));
	} while (result == ncclInProgress);
	NCCL(result);
}

static void use_nonblocking(struct rank *r)
{
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
	ncclComm_t child;

	config.blocking = 0;
	await(ncclCommInitRankConfig(&r->comm, ranks, id, r->rank, &config),
	      &r->comm);
	pthread_barrier_wait(&created);
	await(ncclCommSplit(r->comm, 0, r->rank, &child, NULL), &r->comm);
	await(ncclSuccess, &child);
	pthread_barrier_wait(&created);
	if (is(r, "polled"))
		never();
	await(ncclAllReduce(r->send, r->recv, COUNT, ncclFloat, ncclSum, child,
	                    r->stream),
	      &child);
	CUDA(cudaStreamSynchronize(r->stream));
}

/* ---- soak ------------------------------------------------------------------ */

static void exchange(struct rank *r)
{
	NCCL(ncclGroupStart());
	NCCL(ncclSend(r->send, COUNT, ncclFloat, (r->rank + 1) % ranks, r->comm,
	              r->stream));
	NCCL(ncclRecv(r->recv, COUNT, ncclFloat, (r->rank + ranks - 1) % ranks,
	              r->comm, r->stream));
	NCCL(ncclGroupEnd());
}

static void random_call(struct rank *r, ncclComm_t child, unsigned *random)
{
	const int kind = rand_r(random) % 6, root = rand_r(random) % ranks;
	ncclComm_t comm = rand_r(random) % 2 ? r->comm : child;

	if (kind == 0)
		exchange(r);
	else if (kind <= 2)
		NCCL(ncclBroadcast(r->send, r->recv, COUNT, ncclFloat,
		                   comm == child ? 0 : root, comm, r->stream));
	else if (kind == 3)
		NCCL(ncclReduce(r->send, r->recv, COUNT, ncclFloat, ncclSum,
		                comm == child ? 0 : root, comm, r->stream));
	else
		NCCL(ncclAllReduce(r->send, r->recv, COUNT, ncclFloat, ncclSum,
		                   comm, r->stream));
}

/* Make calls, and sleep at most once.  Return, on every rank, whether rank 0's
 * time is over. */
static int soak_round(struct rank *r, ncclComm_t child, unsigned *random,
                      unsigned *own, time_t end)
{
	const int calls = rand_r(random) % 8, sleeps_at = rand_r(own) % 32;
	const long ms = rand_r(own) % (most_ms + 1);
	const struct timespec skew = { .tv_sec = ms / 1000,
		                       .tv_nsec = ms % 1000 * 1000000 };
	float over = time(NULL) >= end;
	int i;

	CUDA(cudaMemcpyAsync(r->send, &over, sizeof(over),
	                     cudaMemcpyHostToDevice, r->stream));
	for (i = 0; i <= calls; i++) {
		if (i == sleeps_at)
			nanosleep(&skew, NULL);
		if (i < calls)
			random_call(r, child, random);
	}
	NCCL(ncclBroadcast(r->send, r->send, 1, ncclFloat, 0, r->comm,
	                   r->stream));
	NCCL(ncclAllReduce(r->send, r->recv, 1, ncclFloat, ncclMax, r->comm,
	                   r->stream));
	CUDA(cudaMemcpyAsync(&over, r->recv, sizeof(over),
	                     cudaMemcpyDeviceToHost, r->stream));
	CUDA(cudaStreamSynchronize(r->stream));
	return over != 0;
}

/* Use two communicators at random, and replace one of them now and then.  No
 * rank waits while it is replaced. */
static void soak(struct rank *r)
{
	const time_t end = time(NULL) + soak_seconds;
	unsigned random = 1, own = (unsigned)r->rank + 2;
	ncclComm_t child = NULL;
	int i, is_over = 0;

	exchange(r);
	for (i = 0; !is_over; i++) {
		if (i % 32 == 0) {
			pthread_barrier_wait(&created);
			if (child)
				NCCL(ncclCommDestroy(child));
			NCCL(ncclCommSplit(r->comm, r->rank % 2, r->rank,
			                   &child, NULL));
			pthread_barrier_wait(&created);
		}
		is_over = soak_round(r, child, &random, &own, end);
	}
	NCCL(ncclCommDestroy(child));
}

/* ---- ranks ------------------------------------------------------------------ */

/* Return whether the rank ends. */
static int steps(struct rank *r)
{
	ncclComm_t child;
	int i;

	for (i = 0; i < STEPS; i++) {
		if (i == STEPS / 2 && misbehave(r))
			return 0;
		call(r, r->comm);
		check_error(r, 0);
	}
	child = use_child(r);
	if (strcmp(fault, "order") == 0)
		use_two(r);
	if (ranks > VICTIM)
		send_to_victim(r);
	odd_call(r);
	CUDA(cudaStreamSynchronize(r->stream));
	call(r, r->comm);
	/* At this point no rank waits for this one while it frees memory. */
	NCCL(ncclCommDestroy(child));
	return 1;
}

static int run_rank(int rank)
{
	struct rank r = { .rank = rank };
	int is_complete;

	if (is(&r, "init") || is(&r, "pending"))
		never();
	rank_open(&r, rank, ranks);
	if (strcmp(fault, "pending") == 0 || strcmp(fault, "polled") == 0)
		use_nonblocking(&r);
	NCCL(ncclCommInitRank(&r.comm, ranks, id, rank));
	pthread_barrier_wait(&created);
	if (soak_seconds)
		soak(&r);
	is_complete = soak_seconds || steps(&r);
	if (!is_complete)
		return 3;
	if (is(&r, "destroy") || is(&r, "finalize"))
		never();
	if (strcmp(fault, "finalize") == 0)
		NCCL(ncclCommFinalize(r.comm));
	NCCL(ncclCommDestroy(r.comm));
	rank_close(&r);
	return 0;
}

static void *run_thread(void *rank)
{
	run_rank((int)(intptr_t)rank);
	return NULL;
}

static void run_threads(void)
{
	pthread_t threads[MAX_RANKS];
	int r;

	pthread_barrier_init(&created, NULL, (unsigned)ranks);
	NCCL(ncclGetUniqueId(&id));
	for (r = 0; r < ranks; r++)
		CHECK(!pthread_create(&threads[r], NULL, run_thread,
		                      (void *)(intptr_t)r));
	for (r = 0; r < ranks; r++)
		pthread_join(threads[r], NULL);
}

/* Rank 0 sends the id to the others through pipes. */
static int run_child(int (*pipes)[2], int rank)
{
	int r;

	if (rank)
		CHECK(read(pipes[rank][0], &id, sizeof(id)) == sizeof(id));
	else
		NCCL(ncclGetUniqueId(&id));
	for (r = 1; r < ranks && !rank; r++)
		CHECK(write(pipes[r][1], &id, sizeof(id)) == sizeof(id));
	return run_rank(rank);
}

static int run_processes(void)
{
	int pipes[MAX_RANKS][2], r, status, failures = 0;

	pthread_barrier_init(&created, NULL, 1);
	for (r = 0; r < ranks; r++)
		CHECK(pipe(pipes[r]) == 0);
	for (r = 0; r < ranks; r++)
		if (fork() == 0)
			_exit(run_child(pipes, r));
	while (wait(&status) > 0)
		failures += status != 0;
	return failures;
}

int main(int argc, char **argv)
{
	CHECK(argc == 4 || argc == 6);
	fault = argv[1];
	ranks = atoi(argv[2]);
	if (strcmp(fault, "soak") == 0) {
		soak_seconds = atoi(argv[4]);
		most_ms = atoi(argv[5]);
	}
	CHECK(ranks >= 1 && ranks <= MAX_RANKS);
	if (strcmp(argv[3], "threads") == 0)
		run_threads();
	else
		CHECK(run_processes() == 0);
	puts("OK");
	return 0;
}
