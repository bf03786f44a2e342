/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Helpers for tests of the platform table
 *
 * Buffers are plain arrays, because on the host platform device memory is the
 * program's own memory.
 */

#include "native.h"

#include <dirent.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "support/place.h"

void native_must(int result, const char *what)
{
	if (result == 0)
		return;
	fprintf(stderr, "%s: %d: %s\n", what, result, cohort_last_error());
	abort();
}

const struct platform *native_open(int devices)
{
	return place_open(devices);
}

const struct platform *native_open_host(int devices)
{
	place_skip_on_nvidia("the test is of the built-in host platform");
	unsetenv("TEST_DEVICES");
	setenv("COHORT_PLATFORM", "host", 1);
	return native_open(devices);
}

cudaStream_t native_stream(const struct platform *p, int device)
{
	cudaStream_t stream;
	int before;

	native_must(p->cudaGetDevice(&before), "cudaGetDevice");
	native_must(p->cudaSetDevice(device), "cudaSetDevice");
	native_must(p->cudaStreamCreateWithFlags(&stream,
	                                         cudaStreamNonBlocking),
	            "cudaStreamCreateWithFlags");
	native_must(p->cudaSetDevice(before), "cudaSetDevice");
	return stream;
}

static void native_wait(sem_t *semaphore)
{
	while (sem_wait(semaphore) != 0)
		continue;
}

static void native_gate_run(void *user)
{
	struct native_gate *gate = user;

	sem_post(&gate->reached);
	native_wait(&gate->open);
}

void native_gate_hold(const struct platform *p, struct native_gate *gate,
                      cudaStream_t stream)
{
	native_must(sem_init(&gate->reached, 0, 0), "sem_init");
	native_must(sem_init(&gate->open, 0, 0), "sem_init");
	native_must(p->cudaLaunchHostFunc(stream, native_gate_run, gate),
	            "cudaLaunchHostFunc");
}

void native_gate_reached(struct native_gate *gate)
{
	native_wait(&gate->reached);
}

void native_gate_open(struct native_gate *gate)
{
	sem_post(&gate->open);
}

static void *native_call_run(void *user)
{
	struct native_call *c = user;

	c->task = gettid();
	sem_post(&c->begins);
	c->result = c->call(c->user);
	return NULL;
}

void native_call_begin(struct native_call *c, native_call_fn *fn, void *user)
{
	c->call = fn;
	c->user = user;
	native_must(sem_init(&c->begins, 0, 0), "sem_init");
	native_must(pthread_create(&c->thread, NULL, native_call_run, c),
	            "pthread_create");
	native_wait(&c->begins);
}

ncclResult_t native_call_end(struct native_call *c)
{
	native_must(pthread_join(c->thread, NULL), "pthread_join");
	return c->result;
}

void native_clique_open(struct native_clique *clique, const struct platform *p,
                        int n)
{
	int r;

	memset(clique, 0, sizeof(*clique));
	clique->p = p;
	clique->n = n;
	native_must(p->ncclCommInitAll(clique->comm, n, NULL),
	            "ncclCommInitAll");
	for (r = 0; r < n; r++)
		clique->stream[r] = native_stream(p, r);
	native_fill(clique);
}

const struct platform *native_clique_begin(struct native_clique *clique, int n)
{
	const struct platform *p = native_open(n);

	native_clique_open(clique, p, n);
	return p;
}

void native_fill(struct native_clique *clique)
{
	int r;
	int i;

	for (r = 0; r < clique->n; r++)
		for (i = 0; i < NATIVE_COUNT; i++) {
			clique->send[r][i] = (r + 1) * (i + 1);
			clique->recv[r][i] = -1;
		}
}

ncclResult_t native_sum(struct native_clique *clique, int r)
{
	return clique->p->ncclAllReduce(clique->send[r], clique->recv[r],
	                                NATIVE_COUNT, ncclInt32, ncclSum,
	                                clique->comm[r], clique->stream[r]);
}

void native_sum_all(struct native_clique *clique)
{
	const struct platform *p = clique->p;
	int r;

	native_fill(clique);
	native_must(p->ncclGroupStart(), "ncclGroupStart");
	for (r = 0; r < clique->n; r++)
		native_must(native_sum(clique, r), "ncclAllReduce");
	native_must(p->ncclGroupEnd(), "ncclGroupEnd");
	for (r = 0; r < clique->n; r++) {
		native_must(p->cudaStreamSynchronize(clique->stream[r]),
		            "cudaStreamSynchronize");
		native_must(native_wrong(clique, r), "wrong sums");
	}
}

int native_wrong(const struct native_clique *clique, int r)
{
	int ranks = clique->n * (clique->n + 1) / 2;
	int wrong = 0;
	int i;

	for (i = 0; i < NATIVE_COUNT; i++)
		wrong += clique->recv[r][i] != ranks * (i + 1);
	return wrong;
}

int native_touched(const struct native_clique *clique, int r)
{
	int touched = 0;
	int i;

	for (i = 0; i < NATIVE_COUNT; i++)
		touched += clique->recv[r][i] != -1;
	return touched;
}

static void native_clique_end(struct native_clique *clique,
                              ncclResult_t (*end)(ncclComm_t comm))
{
	const struct platform *p = clique->p;
	int r;

	native_must(p->ncclGroupStart(), "ncclGroupStart");
	for (r = 0; r < clique->n; r++)
		native_must(end(clique->comm[r]), "ending a communicator");
	native_must(p->ncclGroupEnd(), "ncclGroupEnd");
	for (r = 0; r < clique->n; r++)
		native_must(p->cudaStreamDestroy(clique->stream[r]),
		            "cudaStreamDestroy");
}

void native_clique_destroy(struct native_clique *clique)
{
	native_clique_end(clique, clique->p->ncclCommDestroy);
}

void native_clique_abort(struct native_clique *clique)
{
	native_clique_end(clique, clique->p->ncclCommAbort);
}

pid_t native_find_thread(const char *part)
{
	DIR *tasks = opendir("/proc/self/task");
	char path[300], name[32];
	struct dirent *e;
	pid_t found = 0;
	FILE *f;

	native_must(!tasks, "/proc/self/task");
	while (!found && (e = readdir(tasks))) {
		snprintf(path, sizeof(path), "/proc/self/task/%s/comm",
		         e->d_name);
		f = fopen(path, "r");
		if (!f)
			continue;
		if (fgets(name, sizeof(name), f) && strstr(name, part))
			found = (pid_t)atoi(e->d_name);
		fclose(f);
	}
	closedir(tasks);
	return found;
}

/* Return the state of @thread in /proc, such as 'S' if it sleeps. */
static char thread_state(pid_t thread)
{
	char path[64];
	char state = '?';
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)thread);
	file = fopen(path, "r");
	native_must(!file, path);
	if (fscanf(file, "%*d (%*[^)]) %c", &state) != 1)
		state = '?';
	fclose(file);
	return state;
}

void native_await_sleep(pid_t thread)
{
	while (thread_state(thread) != 'S')
		sched_yield();
}

void native_await_wait(const atomic_int *thread)
{
	int i;

	while (!atomic_load(thread))
		sched_yield();
	for (i = 0; i < 20; i++) {
		native_await_sleep(atomic_load(thread));
		usleep(1000);
	}
}

double native_now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}
