/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Races streams of the host platform with each other
 *
 * Several threads queue host functions, copies, events and waits across
 * streams, while streams are created and destroyed. Each thread carries a token
 * from stream to stream: work on one stream reads the token, adds one and
 * writes it, and the next stream waits for this work by an event or a mark. At
 * the end the token must equal the number of hops. One of the streams is the
 * thread's own default stream. Some hops are queued as graphs with a fork
 * and a join, each of which counts as two hops.
 */

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "sim/host.h"
#include "support/native.h"
#include "support/ranks.h"
#include "support/stress.h"

#define THREADS 3
#define STREAMS 4
#define HOPS 100

static const struct platform *p;

struct token {
	uint64_t seed;
	uint64_t value; /* not atomic: protected only by stream order */
	uint64_t copies[HOPS];
	uint32_t *word; /* word in pinned host memory */
	int device;     /* device of the stream that the token is on */
	uint64_t extra; /* number of hops that have added 2 instead of 1 */
};

static void add_one(void *arg)
{
	struct token *t = arg;

	t->value++;
}

static void must(cudaError_t error)
{
	native_must((int)error, "native call");
}

/* Make @to wait for the work now on @from, which is a stream of @device. */
static void link_streams(struct token *t, cudaStream_t from, int device,
                         cudaStream_t to, uint32_t hop)
{
	cudaEvent_t event;

	if (stress_random(&t->seed) % 2) {
		must(p->mark(from, t->word, hop));
		must(p->await_mark(to, t->word, hop));
		return;
	}
	must(p->cudaSetDevice(device));
	must(p->cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
	must(p->cudaEventRecord(event, from));
	must(p->cudaSetDevice(0));
	must(p->cudaStreamWaitEvent(to, event, 0));
	must(p->cudaEventDestroy(event));
}

/*
 * Queue two hops on @at as a graph: one on @at, and one on a stream that forks
 * from @at and joins it again.
 */
static void hop_in_graph(struct token *t, cudaStream_t at)
{
	cudaStream_t branch = native_stream(p, 0);
	cudaGraphExec_t exec;
	cudaGraph_t graph;
	cudaEvent_t event;

	must(p->cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
	must(host_cudaStreamBeginCapture(branch,
	                                 cudaStreamCaptureModeThreadLocal));
	must(p->cudaLaunchHostFunc(branch, add_one, t));
	must(p->cudaEventRecord(event, branch));
	must(p->cudaStreamWaitEvent(at, event, 0));
	must(p->cudaLaunchHostFunc(at, add_one, t));
	must(p->cudaSetDevice(t->device));
	must(p->cudaEventDestroy(event));
	must(p->cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
	must(p->cudaEventRecord(event, at));
	must(p->cudaStreamWaitEvent(branch, event, 0));
	must(p->cudaSetDevice(0));
	must(host_cudaStreamEndCapture(branch, &graph));
	must(host_cudaGraphInstantiate(&exec, graph, 0));
	must(host_cudaGraphDestroy(graph));
	must(host_cudaGraphLaunch(exec, at));
	must(host_cudaGraphExecDestroy(exec));
	must(p->cudaEventDestroy(event));
	must(p->cudaStreamDestroy(branch));
}

static void *thread(void *arg)
{
	struct token *t = arg;
	cudaStream_t s[STREAMS];
	uint32_t hop, base = *t->word;
	int i, at = 0, next;

	for (i = 0; i < STREAMS; i++)
		s[i] = i ? native_stream(p, i) : cudaStreamPerThread;
	for (hop = 0; hop < HOPS; hop++) {
		if (stress_random(&t->seed) % 16 == 0) {
			t->device = at;
			hop_in_graph(t, s[at]);
			t->extra++;
		} else {
			must(p->cudaLaunchHostFunc(s[at], add_one, t));
		}
		must(p->cudaMemcpyAsync(&t->copies[hop], &t->value,
		                        sizeof(t->value), cudaMemcpyDefault,
		                        s[at]));
		next = (int)(stress_random(&t->seed) % STREAMS);
		if (next != at)
			link_streams(t, s[at], at, s[next], base + hop + 1);
		at = next;
		if (stress_random(&t->seed) % 16 == 0)
			p->cudaStreamQuery(s[at]);
		if (stress_random(&t->seed) % 4 == 0)
			p->flush(at, s[at]);
	}
	must(p->cudaStreamSynchronize(s[at]));
	for (i = 1; i < STREAMS; i++)
		must(p->cudaStreamDestroy(s[i]));
	return NULL;
}

static void check(const struct token *t)
{
	uint64_t i;

	if (t->value != HOPS + t->extra)
		stress_fail("the token is %lu", (unsigned long)t->value);
	for (i = 1; i < HOPS; i++)
		if (t->copies[i] <= t->copies[i - 1])
			stress_fail("copy %lu is %lu", (unsigned long)i,
			            (unsigned long)t->copies[i]);
}

int main(int argc, char **argv)
{
	static struct token tokens[THREADS];
	pthread_t threads[THREADS];
	unsigned long rounds;
	int i;

	p = native_open_host(STREAMS);
	for (i = 0; i < THREADS; i++) {
		must(p->cudaMallocHost((void **)&tokens[i].word,
		                       sizeof(uint32_t)));
		*tokens[i].word = 0;
		tokens[i].seed = (uint64_t)i << 40;
	}
	for (rounds = 0; stress_continue(argc, argv); rounds++) {
		for (i = 0; i < THREADS; i++) {
			tokens[i].value = 0;
			tokens[i].extra = 0;
			pthread_create(&threads[i], NULL, thread, &tokens[i]);
		}
		for (i = 0; i < THREADS; i++) {
			pthread_join(threads[i], NULL);
			check(&tokens[i]);
		}
	}
	for (i = 0; i < THREADS; i++)
		p->cudaFreeHost(tokens[i].word);
	printf("%lu rounds of %d tokens\n", rounds, THREADS);
	return 0;
}
