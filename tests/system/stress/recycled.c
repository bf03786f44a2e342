/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Waits for a device while its destroyed streams are reused on another device
 *
 * The wait must not include work that is then queued on these streams. Work on
 * device 0 completes immediately. Work on the streams of device 1 completes
 * only after all threads that wait for device 0 have returned. If one of them
 * waits for device 1, this test hangs.
 */

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>

#include "support/native.h"
#include "support/ranks.h"
#include "support/stress.h"

#define WAITERS 3
#define STREAMS 12

struct waiter {
	pthread_t thread;
	int i;
	atomic_ulong times; /* number of its waits that have returned */
};

static const struct platform *p;
static struct waiter waiters[WAITERS];

/* seq_cst; set when the waiters must end. */
static atomic_bool is_over;

static void must(cudaError_t error)
{
	native_must((int)error, "native call");
}

/* Wait for the whole device or for its legacy default stream. */
static void wait_for_device(int i)
{
	static char to[WAITERS][8];

	must(p->cudaSetDevice(0));
	if (i % 2)
		must(p->cudaMemcpyAsync(to[i], "waiting", sizeof(to[i]),
		                        cudaMemcpyDefault, cudaStreamLegacy));
	must(i % 2 ? p->cudaStreamSynchronize(cudaStreamLegacy)
	           : p->cudaDeviceSynchronize());
}

static void *wait_again(void *arg)
{
	struct waiter *w = arg;

	while (!atomic_load(&is_over)) {
		wait_for_device(w->i);
		atomic_fetch_add(&w->times, 1);
	}
	return NULL;
}

/* Wait until each thread has completed a wait that started after this call. */
static void await_waiters(void)
{
	unsigned long before[WAITERS];
	int i;

	for (i = 0; i < WAITERS; i++)
		before[i] = atomic_load(&waiters[i].times);
	for (i = 0; i < WAITERS; i++)
		while (atomic_load(&waiters[i].times) < before[i] + 2)
			sched_yield();
}

/* Create blocking streams, for which the legacy default stream waits. */
static void make_streams(int device, cudaStream_t *streams)
{
	int i;

	must(p->cudaSetDevice(device));
	for (i = 0; i < STREAMS; i++)
		must(p->cudaStreamCreateWithFlags(&streams[i],
		                                  cudaStreamDefault));
}

static void destroy_streams(cudaStream_t *streams)
{
	int i;

	for (i = 0; i < STREAMS; i++)
		must(p->cudaStreamDestroy(streams[i]));
}

static void run_round(cudaStream_t own, uint32_t *word, uint32_t number)
{
	cudaStream_t streams[STREAMS];
	int i;

	make_streams(0, streams);
	destroy_streams(streams);
	/* Now the waiters have seen these streams. */
	await_waiters();
	must(p->cudaSetDevice(1));
	for (i = 0; i < STREAMS; i++) {
		must(p->cudaStreamCreateWithFlags(&streams[i],
		                                  cudaStreamDefault));
		must(p->await_mark(streams[i], word, number));
	}
	await_waiters();
	must(p->mark(own, word, number));
	for (i = 0; i < STREAMS; i++)
		must(p->cudaStreamSynchronize(streams[i]));
	destroy_streams(streams);
}

int main(int argc, char **argv)
{
	cudaStream_t blocking[STREAMS], own;
	unsigned long rounds;
	uint32_t *word;
	int i;

	place_need_no_sync(
		"copies that wait for a device wait for all devices");
	p = native_open_host(2);
	/*
	 * The legacy default stream waits for other streams only while some
	 * exist.
	 */
	make_streams(0, blocking);
	own = native_stream(p, 1);
	must(p->cudaMallocHost((void **)&word, sizeof(*word)));
	*word = 0;
	for (i = 0; i < WAITERS; i++) {
		waiters[i].i = i;
		pthread_create(&waiters[i].thread, NULL, wait_again,
		               &waiters[i]);
	}
	for (rounds = 0; stress_continue(argc, argv); rounds++)
		run_round(own, word, (uint32_t)rounds + 1);
	atomic_store(&is_over, true);
	for (i = 0; i < WAITERS; i++)
		pthread_join(waiters[i].thread, NULL);
	must(p->cudaStreamDestroy(own));
	destroy_streams(blocking);
	must(p->cudaFreeHost(word));
	printf("%lu rounds of %d streams\n", rounds, STREAMS);
	return 0;
}
