/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NATIVE_H
#define NATIVE_H

/*
 * Helpers for tests that call a platform table directly
 *
 * If a helper fails, it ends the test with a message, because the setup is
 * broken, not the code under test.
 */

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "platform/platform.h"

/* Open the platform, as place_open() does. */
const struct platform *native_open(int devices);

/*
 * Open the built-in host platform, even if other tests use another one. Use
 * this in tests that also call functions of sim/host.h that are not in the
 * table.
 */
const struct platform *native_open_host(int devices);

/* End the program with a message unless @result is 0. */
void native_must(int result, const char *what);

/* Create a stream on @device that does not synchronize with the legacy
 * stream. */
cudaStream_t native_stream(const struct platform *p, int device);

/* A gate that blocks a stream until it is opened */
struct native_gate {
	sem_t reached;
	sem_t open;
};

/* Enqueue a host function that waits until the gate is opened. */
void native_gate_hold(const struct platform *p, struct native_gate *gate,
                      cudaStream_t stream);

/* Wait until the host function of the gate runs. */
void native_gate_reached(struct native_gate *gate);

void native_gate_open(struct native_gate *gate);

/* A call that another thread makes */
typedef ncclResult_t native_call_fn(void *user);

struct native_call {
	native_call_fn *call;
	void *user;
	pid_t task; /* thread id, to pass to native_await_sleep() */
	sem_t begins;
	pthread_t thread;
	ncclResult_t result;
};

/* Start a thread that calls @fn. Return when it is about to make the call. */
void native_call_begin(struct native_call *call, native_call_fn *fn,
                       void *user);

/* Wait for the call, and return its result. */
ncclResult_t native_call_end(struct native_call *call);

/*
 * A clique of ranks.  Rank r is on device r, with its own stream and two
 * buffers.  native_fill() sets element i of send[r] to (r + 1) * (i + 1), and
 * every element of recv[r] to -1.
 */
#define NATIVE_RANKS 8
#define NATIVE_COUNT 5

struct native_clique {
	const struct platform *p;
	int n;
	ncclComm_t comm[NATIVE_RANKS];
	cudaStream_t stream[NATIVE_RANKS];
	int32_t send[NATIVE_RANKS][NATIVE_COUNT];
	int32_t recv[NATIVE_RANKS][NATIVE_COUNT];
};

/* Open a clique of @n ranks and fill its buffers. */
void native_clique_open(struct native_clique *clique, const struct platform *p,
                        int n);

/* Open the platform with @n devices, and a clique of @n ranks. Return the
 * platform. */
const struct platform *native_clique_begin(struct native_clique *clique, int n);

/* Fill all buffers as described above. */
void native_fill(struct native_clique *clique);

/* Enqueue rank @r's all-reduce (sum) of its buffers on its stream. */
ncclResult_t native_sum(struct native_clique *clique, int r);

/* Call native_sum() for every rank in one group, wait for the result, and check
 * it. */
void native_sum_all(struct native_clique *clique);

/* Return how many elements of recv[@r] are not the sum over all ranks. */
int native_wrong(const struct native_clique *clique, int r);

/* Return how many elements of recv[@r] are not -1. */
int native_touched(const struct native_clique *clique, int r);

/* Destroy all communicators in one group, and the streams. */
void native_clique_destroy(struct native_clique *clique);

/* Abort all communicators in one group, and destroy the streams. */
void native_clique_abort(struct native_clique *clique);

/* Return a thread of this process whose name contains @part, or 0. */
pid_t native_find_thread(const char *part);

/* Wait until the kernel reports that @thread of this process is asleep. */
void native_await_sleep(pid_t thread);

/* Wait until *@thread is a thread id and this thread has been asleep for longer
 * than a wait for a mutex would take. */
void native_await_wait(const atomic_int *thread);

/* Return the time of the monotonic clock, in milliseconds. */
double native_now_ms(void);

#endif
