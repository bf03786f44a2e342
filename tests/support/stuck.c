/* SPDX-License-Identifier: Apache-2.0 */

#include "support/stuck.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "support/ranks.h"

static const struct platform *real;
static struct platform table;

static sem_t reached, resume, left;

/* Function whose next call gets stuck, or NULL if none was chosen or a call is
 * stuck */
static const char *_Atomic chosen;
static atomic_int chosen_rank;

static atomic_int async_rank = -1;
static atomic_int async_code, async_reported;

static atomic_int opened, aborted, held;

static void await(sem_t *sem, const char *what)
{
	if (clock_await(sem, clock_deadline(RANKS_SOON)))
		return;
	fprintf(stderr, "%s\n", what);
	exit(1);
}

static int rank_of(ncclComm_t comm)
{
	int rank = -1;

	if (comm)
		real->ncclCommUserRank(comm, &rank);
	return rank;
}

/* Block if this is the chosen call of the chosen rank. Return whether it is. */
static bool block_if_chosen_at(const char *function, int rank)
{
	const char *name = chosen;

	if (!name || strcmp(name, function) != 0 ||
	    (chosen_rank >= 0 && rank != chosen_rank) ||
	    !atomic_compare_exchange_strong(&chosen, &name, NULL))
		return false;
	sem_post(&reached);
	while (sem_wait(&resume))
		continue;
	return true;
}

static bool block_if_chosen(const char *function, ncclComm_t comm)
{
	return block_if_chosen_at(function, rank_of(comm));
}

static ncclResult_t leave(bool stayed, ncclResult_t result)
{
	if (stayed)
		sem_post(&left);
	return result;
}

static ncclResult_t init_all(ncclComm_t *comms, int n, const int *devices)
{
	bool stayed = block_if_chosen("ncclCommInitAll", NULL);
	ncclResult_t result = real->ncclCommInitAll(comms, n, devices);

	if (result == ncclSuccess)
		opened += n;
	return leave(stayed, result);
}

static ncclResult_t all_reduce(const void *send, void *recv, size_t count,
                               ncclDataType_t type, ncclRedOp_t op,
                               ncclComm_t comm, cudaStream_t stream)
{
	bool stayed = block_if_chosen("ncclAllReduce", comm);

	return leave(stayed, real->ncclAllReduce(send, recv, count, type, op,
	                                         comm, stream));
}

static ncclResult_t comm_split(ncclComm_t comm, int color, int key,
                               ncclComm_t *child, ncclConfig_t *config)
{
	bool stayed = block_if_chosen("ncclCommSplit", comm);

	return leave(stayed,
	             real->ncclCommSplit(comm, color, key, child, config));
}

static ncclResult_t group_end(void)
{
	bool stayed = block_if_chosen("ncclGroupEnd", NULL);

	return leave(stayed, real->ncclGroupEnd());
}

static ncclResult_t get_async_error(ncclComm_t comm, ncclResult_t *code)
{
	bool stayed = block_if_chosen("ncclCommGetAsyncError", comm);
	ncclResult_t result = real->ncclCommGetAsyncError(comm, code);

	if (async_rank >= 0 && async_rank == rank_of(comm)) {
		*code = (ncclResult_t)async_code;
		async_reported++;
	}
	return leave(stayed, result);
}

static cudaError_t event_query(cudaEvent_t event)
{
	bool stayed = block_if_chosen("cudaEventQuery", NULL);
	cudaError_t error = real->cudaEventQuery(event);

	leave(stayed, ncclSuccess);
	return error;
}

/* Return the name by which stuck_at() chooses this thread's cudaSetDevice(). */
static const char *set_device_of(void)
{
	char name[16] = "";

	pthread_getname_np(pthread_self(), name, sizeof(name));
	return strstr(name, "/probe")  ? "cudaSetDevice"
	       : strstr(name, "/reap") ? "cudaSetDevice of the reaper"
	                               : "";
}

static cudaError_t set_device(int device)
{
	bool stayed = block_if_chosen_at(set_device_of(), device);
	cudaError_t error = real->cudaSetDevice(device);

	leave(stayed, ncclSuccess);
	return error;
}

static ncclResult_t comm_abort(ncclComm_t comm)
{
	bool stayed = block_if_chosen("ncclCommAbort", comm);

	aborted++;
	return leave(stayed, real->ncclCommAbort(comm));
}

/* ---- resources of a rank on its device -------------------------------- */

static int current_device(void)
{
	int device = -1;

	real->cudaGetDevice(&device);
	return device;
}

/* Define a wrapper that counts resources. @change is 1 if the function creates
 * one, -1 if it frees one, and 0 otherwise. */
#define COUNTED(name, change, parameters, arguments)                           \
	static cudaError_t counted_##name parameters                           \
	{                                                                      \
		bool stayed = block_if_chosen_at(#name, current_device());     \
		cudaError_t error = real->name arguments;                      \
                                                                               \
		if (error == cudaSuccess)                                      \
			held += change;                                        \
		leave(stayed, ncclSuccess);                                    \
		return error;                                                  \
	}

COUNTED(cudaHostAlloc, 1, (void **m, size_t bytes, unsigned flags),
        (m, bytes, flags))
COUNTED(cudaStreamCreateWithFlags, 1, (cudaStream_t * s, unsigned flags),
        (s, flags))
COUNTED(cudaEventCreateWithFlags, 1, (cudaEvent_t * e, unsigned flags),
        (e, flags))
COUNTED(cudaMalloc, 1, (void **m, size_t bytes), (m, bytes))
COUNTED(cudaMemsetAsync, 0, (void *m, int v, size_t n, cudaStream_t s),
        (m, v, n, s))
COUNTED(cudaStreamSynchronize, 0, (cudaStream_t s), (s))
COUNTED(cudaFreeHost, -1, (void *m), (m))
COUNTED(cudaStreamDestroy, -1, (cudaStream_t s), (s))
COUNTED(cudaEventDestroy, -1, (cudaEvent_t e), (e))
COUNTED(cudaFree, -1, (void *m), (m))

static void install_counted(void)
{
	table.cudaHostAlloc = counted_cudaHostAlloc;
	table.cudaStreamCreateWithFlags = counted_cudaStreamCreateWithFlags;
	table.cudaEventCreateWithFlags = counted_cudaEventCreateWithFlags;
	table.cudaMalloc = counted_cudaMalloc;
	table.cudaMemsetAsync = counted_cudaMemsetAsync;
	table.cudaStreamSynchronize = counted_cudaStreamSynchronize;
	table.cudaFreeHost = counted_cudaFreeHost;
	table.cudaStreamDestroy = counted_cudaStreamDestroy;
	table.cudaEventDestroy = counted_cudaEventDestroy;
	table.cudaFree = counted_cudaFree;
}

int stuck_held(void)
{
	return held;
}

void stuck_install(void)
{
	real = place_table();
	sem_init(&reached, 0, 0);
	sem_init(&resume, 0, 0);
	sem_init(&left, 0, 0);
	table = *real;
	table.ncclCommInitAll = init_all;
	table.ncclAllReduce = all_reduce;
	table.ncclCommSplit = comm_split;
	table.ncclGroupEnd = group_end;
	table.ncclCommGetAsyncError = get_async_error;
	table.ncclCommAbort = comm_abort;
	table.cudaEventQuery = event_query;
	table.cudaSetDevice = set_device;
	install_counted();
	platform_override(&table);
}

void stuck_at(const char *function, int rank)
{
	chosen_rank = rank;
	chosen = function;
}

void stuck_await(void)
{
	await(&reached, "no call is stuck in time");
}

void stuck_release(void)
{
	sem_post(&resume);
	await(&left, "the call that was let go does not return");
}

void stuck_async_error(int rank, ncclResult_t code)
{
	async_code = (int)code;
	async_rank = rank;
}

int stuck_async_reported(void)
{
	return async_reported;
}

int stuck_opened(void)
{
	return opened;
}

int stuck_aborted(void)
{
	return aborted;
}
