/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Measures which calls CUDA blocks while another thread's call waits for the
 * device
 *
 * A stream waits for a word in memory. One thread makes a call that may wait
 * for this stream: a free, an allocation of pinned memory, or the first launch
 * of a kernel. Then new threads make one call each. A table shows how long each
 * call took, or that it returned only after the word was written. In the end,
 * all calls must have returned. NCCL aborts by a store to memory, which must
 * never be blocked.
 *
 * If there is a second device, the table also shows which calls are blocked on
 * it.
 */

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/backoff.h"
#include "base/clock.h"
#include "gpu/must.h"
#include "platform/platform.h"
#include "support/place.h"
#include "support/ranks.h"

/* Time in seconds after which the program ends, even if it hangs */
#define MOST_SECONDS 120

/* Time after which a call that has not returned counts as blocked */
#define PATIENCE_NS (NS_PER_S / 2)

static const struct platform *p;
static cudaStream_t held, idle;
static cudaEvent_t event;
/* three words: one that the blocked stream waits for, one that a mark sets, and
 * one that a store sets */
static uint32_t *words;
static void *pinned;

/* A communicator of one rank, with its stream and memory */
struct place {
	struct cohort_comm *comm;
	ncclComm_t native;
	cudaStream_t stream;
	void *memory;
};

/* Two communicators on device 0, and one on device 1 if it exists */
static struct place first, same, second;
static int devices;

/* ---- calls -------------------------------------------------------------- */

static void set_device(void)
{
	must((int)p->cudaSetDevice(0), "cudaSetDevice");
}

static void query_event(void)
{
	must((int)p->cudaEventQuery(event), "cudaEventQuery");
}

static void mark_stream(void)
{
	must((int)p->mark(idle, &words[1], 1), "mark");
}

static void sum(const struct place *at, ncclDataType_t type)
{
	must((int)p->ncclAllReduce(at->memory, at->memory, 1, type, ncclSum,
	                           at->native, at->stream),
	     "ncclAllReduce");
}

static void launch_again(void)
{
	sum(&same, ncclFloat32);
}

static void launch_on_second(void)
{
	sum(&second, ncclFloat32);
}

static void store(void)
{
	__atomic_store_n(&words[2], 1, __ATOMIC_SEQ_CST);
}

static void free_memory(void)
{
	void *other;

	must((int)p->cudaMalloc(&other, 1 << 20), "cudaMalloc");
	must((int)p->cudaFree(other), "cudaFree");
}

static void pin_memory(void)
{
	must((int)p->cudaHostAlloc(&pinned, 1 << 20, cudaHostAllocMapped),
	     "cudaHostAlloc");
}

static void launch_first(void)
{
	sum(&first, ncclFloat64);
}

struct call {
	const char *name;
	void (*make)(void);
};

static const struct call holders[] = {
	{ "cudaMalloc, cudaFree", free_memory },
	{ "cudaHostAlloc", pin_memory },
	{ "a kernel's first launch", launch_first },
};

static const struct call probes[] = {
	{ "cudaSetDevice", set_device },
	{ "cudaEventQuery", query_event },
	{ "a mark", mark_stream },
	{ "a launch", launch_again },
	{ "a store", store },
	{ "a launch on device 1", launch_on_second },
};

#define HOLDERS (sizeof(holders) / sizeof(holders[0]))
#define PROBES (sizeof(probes) / sizeof(probes[0]))
#define ON_SECOND (PROBES - 1)
#define STORE (PROBES - 2)

/* ---- threads ------------------------------------------------------------ */

/* A thread that makes one call */
struct trial {
	const struct call *call;
	pthread_t thread;
	uint64_t took_ns;
	atomic_bool is_back;
};

static void *try_call(void *arg)
{
	struct trial *t = arg;
	const uint64_t from = clock_now();

	t->call->make();
	t->took_ns = clock_now() - from;
	atomic_store(&t->is_back, true);
	return NULL;
}

/* Start a thread that makes the call. Return whether the call has returned
 * within PATIENCE_NS. */
static bool begin(struct trial *t, const struct call *call)
{
	const uint64_t until = clock_deadline(PATIENCE_NS);
	struct backoff b = BACKOFF;

	t->call = call;
	must(pthread_create(&t->thread, NULL, try_call, t), "pthread_create");
	while (!atomic_load(&t->is_back) && clock_now() < until)
		backoff_wait(&b, until);
	return atomic_load(&t->is_back);
}

static void print(const struct trial *t, bool was_back)
{
	if (was_back)
		printf("  %-24s %8.1f us\n", t->call->name,
		       (double)t->took_ns / 1e3);
	else
		printf("  %-24s is held up\n", t->call->name);
}

/* ---- the table ---------------------------------------------------------- */

static void hold(uint32_t value)
{
	__atomic_store_n(&words[0], value - 1, __ATOMIC_SEQ_CST);
	must((int)p->await_mark(held, &words[0], value), "await_mark");
}

static void look_beside(const struct call *holder, uint32_t value)
{
	const size_t probe_count = devices > 1 ? PROBES : ON_SECOND;
	struct trial holding = { .took_ns = 0 };
	struct trial trials[PROBES] = { { .took_ns = 0 } };
	bool was_back[PROBES], holder_was_back;
	size_t i;

	hold(value);
	holder_was_back = begin(&holding, holder);
	for (i = 0; i < probe_count; i++)
		was_back[i] = begin(&trials[i], &probes[i]);
	__atomic_store_n(&words[0], value, __ATOMIC_SEQ_CST);
	pthread_join(holding.thread, NULL);
	for (i = 0; i < probe_count; i++)
		pthread_join(trials[i].thread, NULL);
	printf("while a stream waits:\n");
	print(&holding, holder_was_back);
	printf(" beside it:\n");
	for (i = 0; i < probe_count; i++)
		print(&trials[i], was_back[i]);
	must(!was_back[STORE], "a store is held up");
}

static void set_up(struct place *at, struct cohort_comm *comm)
{
	void *native;

	at->comm = comm;
	at->stream = cohort_comm_stream(comm);
	must(cohort_comm_native_enter(comm, &native), "enter");
	at->native = native;
	must(cohort_comm_native_leave(comm), "leave");
	must(cohort_alloc(comm, 64, &at->memory), "alloc");
	sum(at, ncclFloat32);
	must((int)p->cudaStreamSynchronize(at->stream), "synchronize");
}

static struct cohort_group *open_on(int device, struct cohort_comm **comm)
{
	struct cohort_group *group;

	must(cohort_group_open(&device, 1, NULL, &group), "open");
	must(cohort_group_split(group, comm), "split");
	return group;
}

static void close_all(struct cohort_group *groups[])
{
	int i;

	must(cohort_free(first.comm, first.memory), "free");
	must(cohort_free(same.comm, same.memory), "free");
	if (devices > 1)
		must(cohort_free(second.comm, second.memory), "free");
	must(cohort_comm_close(same.comm), "close");
	for (i = 0; i < devices && i < 2; i++)
		must(cohort_group_close(groups[i]), "close");
}

int main(void)
{
	struct cohort_group *groups[2];
	struct cohort_comm *comm;
	void *w;
	size_t i;

	alarm(MOST_SECONDS);
	p = place_table();
	must((int)p->cudaGetDeviceCount(&devices), "cudaGetDeviceCount");
	groups[0] = open_on(0, &comm);
	set_up(&first, comm);
	must(cohort_comm_split(first.comm, 0, 0, &comm), "split");
	set_up(&same, comm);
	if (devices > 1) {
		groups[1] = open_on(1, &comm);
		set_up(&second, comm);
	}
	must((int)p->cudaSetDevice(0), "cudaSetDevice");
	must((int)p->cudaStreamCreateWithFlags(&held, cudaStreamNonBlocking),
	     "stream");
	must((int)p->cudaStreamCreateWithFlags(&idle, cudaStreamNonBlocking),
	     "stream");
	must((int)p->cudaEventCreateWithFlags(&event, cudaEventDisableTiming),
	     "event");
	must((int)p->cudaHostAlloc(&w, 4096, cudaHostAllocMapped), "words");
	words = w;
	for (i = 0; i < HOLDERS; i++)
		look_beside(&holders[i], (uint32_t)i + 1);
	must((int)p->cudaStreamSynchronize(first.stream), "synchronize");
	must((int)p->cudaStreamSynchronize(held), "synchronize");
	must((int)p->cudaFreeHost(pinned), "cudaFreeHost");
	must((int)p->cudaFreeHost(words), "cudaFreeHost");
	must((int)p->cudaEventDestroy(event), "cudaEventDestroy");
	must((int)p->cudaStreamDestroy(held), "cudaStreamDestroy");
	must((int)p->cudaStreamDestroy(idle), "cudaStreamDestroy");
	close_all(groups);
	return 0;
}
