/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NATIVE_H
#define NATIVE_H

/*
 * Help for tests that call a platform table directly
 *
 * A failure in here ends the test with a message: the test's set-up is at
 * fault, not its subject.
 */

#include <pthread.h>
#include <semaphore.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "platform/platform.h"

/* place_open() */
const struct platform *native_open(int devices);

/*
 * The built-in host platform, whichever platform the other tests use: for tests
 * that call its functions beyond the table (sim/host.h).
 */
const struct platform *native_open_host(int devices);

/* End the program with a message unless @result is 0. */
void native_must(int result, const char *what);

/* A stream on @device that does not synchronize with the legacy stream. */
cudaStream_t native_stream(const struct platform *p, int device);

/*
 * A gate holds a stream: native_gate_hold() queues a host function that waits
 * for native_gate_open().  native_gate_reached() waits until that function
 * runs.
 */
struct native_gate {
	sem_t reached;
	sem_t open;
};

void native_gate_hold(const struct platform *p, struct native_gate *gate,
                      cudaStream_t stream);
void native_gate_reached(struct native_gate *gate);
void native_gate_open(struct native_gate *gate);

/*
 * A call on a thread of its own: native_call_begin() returns when the thread is
 * about to make the call, native_call_end() waits for it and returns its
 * result.
 */
typedef ncclResult_t native_call_fn(void *user);

struct native_call {
	native_call_fn *call;
	void *user;
	pid_t task; /* for native_await_sleep() */
	sem_t begins;
	pthread_t thread;
	ncclResult_t result;
};

void native_call_begin(struct native_call *call, native_call_fn *fn,
                       void *user);
ncclResult_t native_call_end(struct native_call *call);

/*
 * A clique: rank r on device r, with a stream and two buffers of its own.
 * Before every use each send[r] is set by native_fill(): element i of rank r
 * is (r + 1) * (i + 1), and recv[r] is all -1.
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

void native_clique_open(struct native_clique *clique, const struct platform *p,
                        int n);
void native_fill(struct native_clique *clique);

/* Rank @r's all-reduce (sum) of its buffers on its stream. */
ncclResult_t native_sum(struct native_clique *clique, int r);

/* Run native_sum() of every rank in one group, wait, and check the numbers. */
void native_sum_all(struct native_clique *clique);

/* How many elements of recv[@r] are not the sum over all ranks. */
int native_wrong(const struct native_clique *clique, int r);

/* How many elements of recv[@r] are not -1. */
int native_touched(const struct native_clique *clique, int r);

/* Destroy, or abort, all ranks in one group, and the streams. */
void native_clique_destroy(struct native_clique *clique);
void native_clique_abort(struct native_clique *clique);

/* A thread of this process whose name has @part in it, 0: there is none. */
pid_t native_find_thread(const char *part);

/* Wait until a thread of this process sleeps, by the kernel's account. */
void native_await_sleep(pid_t thread);

/* Milliseconds of the monotonic clock. */
double native_now_ms(void);

#endif
