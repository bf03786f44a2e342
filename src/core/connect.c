/* SPDX-License-Identifier: Apache-2.0 */

#include "core/connect.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/status.h"
#include "base/text.h"
#include "base/thread.h"
#include "core/clique.h"
#include "core/native.h"
#include "core/window.h"

struct connection {
	/* Constant while the thread runs. */
	const struct platform *platform;
	int n;
	int *devices;
	ncclUniqueId id; /* of one rank that joins by it, */
	int rank;        /* its number, */
	int size;        /* and of how many; 0: all at once */
	struct comm_config config;
	char name[64];
	size_t words;             /* that each rank gets */
	struct split_rank *split; /* NULL: not that */
	bool is_alone;         /* it takes no other process to come to an end */
	struct clique *parent; /* which is split; a reference */
	pthread_t thread;

	/* Atomic; the thread, by its number in the system, 0: it has not begun.
	 * Relaxed: for people. */
	atomic_int tid;

	/* Atomic; the CUDA function that the thread is in, and for which rank; NULL:
	 * it is with NCCL.  Written in the opposite order.  Relaxed: for people. */
	const char *_Atomic at;
	atomic_int at_rank;

	/* Atomic; the thread's memory section, 0: none.  Exchanged by whoever ends it:
	 * the thread, or the caller, when it leaves. */
	atomic_uint section;

	/* Written by the thread before it is done. */
	ncclComm_t *native;
	struct connected *made;
	int status;
	char error[512];

	/* Guarded by lock. */
	pthread_mutex_t lock;
	pthread_cond_t changed; /* any of them */
	bool done;  /* by the thread, which then waits for one of the others */
	bool taken; /* the caller has what it got, and the rest */
	bool left;  /* the caller has: the thread cleans up */
};

static void connection_free(struct connection *c)
{
	pthread_cond_destroy(&c->changed);
	pthread_mutex_destroy(&c->lock);
	free(c->devices);
	free(c->native);
	free(c->made);
	free(c->split);
	if (c->parent)
		clique_put(c->parent);
	free(c);
}

static struct connection *connection_create(const struct platform *p,
                                            const int *devices, int n,
                                            const struct comm_config *config,
                                            size_t words, const char *name)
{
	struct connection *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	pthread_mutex_init(&c->lock, NULL);
	clock_cond_init(&c->changed);
	c->platform = p;
	c->n = n;
	c->config = *config;
	c->words = words;
	snprintf(c->name, sizeof(c->name), "%s", name);
	c->devices = malloc((size_t)n * sizeof(*c->devices));
	c->native = calloc((size_t)n, sizeof(*c->native));
	c->made = calloc((size_t)n, sizeof(*c->made));
	if (!c->devices || !c->native || !c->made) {
		connection_free(c);
		return NULL;
	}
	memcpy(c->devices, devices, (size_t)n * sizeof(*devices));
	return c;
}

/* ---- taking back ------------------------------------------------------ */

/* Say where the thread is. */
static void at(struct connection *c, const char *function, int i)
{
	atomic_store_explicit(&c->at_rank, i, memory_order_relaxed);
	atomic_store_explicit(&c->at, function, memory_order_relaxed);
}

/* A memory section of the thread, until its end or the caller's leaving. */
static void begin_section(struct connection *c)
{
	atomic_store(&c->section, window_take());
}

static void end_section(struct connection *c)
{
	window_give(atomic_exchange(&c->section, 0));
}

/* Before each step: if the caller has left meanwhile, it has given the section back, and
 * the thread goes on in another, which nobody gives back but the thread. */
static void keep_section(struct connection *c)
{
	if (!atomic_load(&c->section))
		begin_section(c);
}

/* Abort what is open, all together. */
static void abort_all(const struct platform *p, const struct connected *made,
                      int n)
{
	int i;

	p->ncclGroupStart();
	for (i = 0; i < n; i++)
		if (made[i].native)
			p->ncclCommAbort(made[i].native);
	p->ncclGroupEnd();
}

/* Give back what is there of a rank's, but for the communicator. */
static void give_back(const struct platform *p, int device,
                      const struct connected *made)
{
	if (!made->words && !made->stream)
		return;
	if (p->cudaSetDevice(device) != cudaSuccess)
		return;
	if (made->barrier)
		p->cudaFree(made->barrier);
	if (made->event)
		p->cudaEventDestroy(made->event);
	if (made->stream)
		p->cudaStreamDestroy(made->stream);
	if (made->words)
		p->cudaFreeHost(made->words);
}

void connect_discard(const struct platform *p, const int *devices, int n,
                     const struct connected *made)
{
	struct device_scope scope;
	int i;

	window_memory_begin();
	if (device_enter(&scope, p, devices[0]) == COHORT_OK) {
		scope.leaves = true; /* abort_all() may leave another, too */
		abort_all(p, made, n);
		for (i = 0; i < n; i++)
			give_back(p, devices[i], &made[i]);
		device_leave(&scope);
	}
	window_memory_end();
}

/* True if the reaper of the clique that is split aborts the communicators. */
static bool hand_over(struct connection *c)
{
	if (!c->parent || !clique_leave_orphans(c->parent, c->native))
		return false;
	c->native = NULL;
	return true;
}

static void take_back(struct connection *c)
{
	int i;

	at(c, NULL, -1);
	for (i = 0; i < c->n; i++)
		c->made[i].native = c->native[i];
	keep_section(c);
	if (!hand_over(c))
		abort_all(c->platform, c->made, c->n);
	for (i = 0; i < c->n; i++) {
		keep_section(c);
		at(c, "cudaFree", i);
		give_back(c->platform, c->devices[i], &c->made[i]);
	}
}

/* ---- connecting ------------------------------------------------------- */

/* One rank, of all or of those that join, with a config if there is one. */
static int init_rank(struct connection *c, int i)
{
	const struct platform *p = c->platform;
	ncclConfig_t config = config_native(&c->config, c->name);
	int size = c->size ? c->size : c->n;
	int rank = c->size ? c->rank : i;

	if (config_is_default(&c->config))
		return native_nccl(p, "ncclCommInitRank", NULL,
		                   p->ncclCommInitRank(&c->native[i], size,
		                                       c->id, rank));
	return native_nccl(p, "ncclCommInitRankConfig", NULL,
	                   p->ncclCommInitRankConfig(&c->native[i], size, c->id,
	                                             rank, &config));
}

/* A rank that there cannot be: the open group has failed, and its end drops what is
 * in it.  Else that would wait for the ranks that are missing. */
static void spoil_group(struct connection *c)
{
	ncclComm_t none = NULL; /* NCCL looks at it also where it fails */

	c->platform->ncclCommInitRankConfig(&none, c->n, c->id, -1, NULL);
}

/* What ncclCommInitAll() does, which takes no config. */
static int init_group(struct connection *c)
{
	const struct platform *p = c->platform;
	ncclResult_t ended;
	int i, rc;

	rc = native_nccl(p, "ncclGetUniqueId", NULL,
	                 p->ncclGetUniqueId(&c->id));
	if (rc == COHORT_OK)
		rc = native_nccl(p, "ncclGroupStart", NULL,
		                 p->ncclGroupStart());
	if (rc != COHORT_OK)
		return rc;
	for (i = 0; i < c->n && rc == COHORT_OK; i++) {
		rc = native_cuda(p, "cudaSetDevice",
		                 p->cudaSetDevice(c->devices[i]));
		if (rc == COHORT_OK)
			rc = init_rank(c, i);
	}
	if (rc != COHORT_OK)
		spoil_group(c);
	ended = p->ncclGroupEnd();
	return rc != COHORT_OK ? rc
	                       : native_nccl(p, "ncclGroupEnd", NULL, ended);
}

/* Which place a rank has got. */
static int find_place(struct connection *c, int i)
{
	const struct platform *p = c->platform;
	struct split_rank *r = &c->split[i];
	ncclComm_t native = c->native[i];
	int rc;

	if (!native)
		return COHORT_OK;
	rc = native_nccl(p, "ncclCommUserRank", native,
	                 p->ncclCommUserRank(native, &r->rank));
	if (rc != COHORT_OK)
		return rc;
	return native_nccl(p, "ncclCommCount", native,
	                   p->ncclCommCount(native, &r->size));
}

static int split_rank(struct connection *c, int i)
{
	const struct platform *p = c->platform;
	const struct split_rank *r = &c->split[i];
	ncclConfig_t config = config_native(&c->config, c->name);
	int rc = native_cuda(p, "cudaSetDevice", p->cudaSetDevice(r->device));

	if (rc != COHORT_OK)
		return rc;
	return native_nccl(p, "ncclCommSplit", r->parent,
	                   p->ncclCommSplit(r->parent, r->color, r->key,
	                                    &c->native[i], &config));
}

/* All ranks of this process in one group: one alone would wait for the others. */
static int init_split(struct connection *c)
{
	const struct platform *p = c->platform;
	ncclResult_t ended;
	int i, rc;

	rc = native_nccl(p, "ncclGroupStart", NULL, p->ncclGroupStart());
	if (rc != COHORT_OK)
		return rc;
	for (i = 0; i < c->n && rc == COHORT_OK; i++) {
		rc = split_rank(c, i);
		c->split[i].has_failed = rc != COHORT_OK;
	}
	if (rc != COHORT_OK)
		spoil_group(c);
	ended = p->ncclGroupEnd();
	if (rc == COHORT_OK)
		rc = native_nccl(p, "ncclGroupEnd", NULL, ended);
	for (i = 0; i < c->n && rc == COHORT_OK; i++)
		rc = find_place(c, i);
	return rc;
}

/* "ranks 0-3, on devices 0 1 2 3". */
static void add_ranks(struct text *t, const struct connection *c)
{
	int i;

	text_add(t, c->n > 1 ? "ranks 0-%d, on devices" : "rank %d, on device",
	         c->n - 1);
	for (i = 0; i < c->n; i++)
		text_add(t, " %d", c->devices[i]);
}

/* Each listed device, once: ncclCommInitAll() leaves its group open if one cannot be
 * made current. */
static int visit_devices(struct connection *c)
{
	const struct platform *p = c->platform;
	char error[384];
	int i, rc = COHORT_OK;

	for (i = 0; i < c->n && rc == COHORT_OK; i++)
		rc = native_cuda(p, "cudaSetDevice",
		                 p->cudaSetDevice(c->devices[i]));
	if (rc == COHORT_OK)
		return rc;
	text_set(error, sizeof(error), "%s", cohort_last_error());
	return error_set(rc, "rank %d, device %d: %s", i - 1, c->devices[i - 1],
	                 error);
}

/* Without one this does nothing: then the group's end is refused. */
static void end_group_left_open(struct connection *c)
{
	spoil_group(c);
	c->platform->ncclGroupEnd();
}

/* What has failed there is told of none of them. */
static int all_at_once(struct connection *c)
{
	const struct platform *p = c->platform;
	char error[384], list[512];
	struct text t = { list, sizeof(list) };
	int rc = visit_devices(c);

	if (rc != COHORT_OK)
		return rc;
	rc = native_nccl(p, "ncclCommInitAll", NULL,
	                 p->ncclCommInitAll(c->native, c->n, c->devices));
	if (rc == COHORT_OK)
		return rc;
	end_group_left_open(c);
	text_set(error, sizeof(error), "%s", cohort_last_error());
	add_ranks(&t, c);
	return error_set(rc, "%s; of %s: NCCL does not say of which", error,
	                 list);
}

static int init(struct connection *c)
{
	if (c->split)
		return init_split(c);
	if (c->size)
		return init_rank(c, 0);
	if (!config_is_default(&c->config))
		return init_group(c);
	return all_at_once(c);
}

/* ---- what a rank needs of its device ---------------------------------- */

#define CALL(function, arguments)                                              \
	(keep_section(c), at(c, #function, i),                                 \
	 native_cuda(c->platform, #function, c->platform->function arguments))

static int make_words(struct connection *c, int i)
{
	const size_t bytes = c->words * sizeof(uint32_t);
	void *words;
	int rc = CALL(cudaHostAlloc,
	              (&words, bytes,
	               cudaHostAllocPortable | cudaHostAllocMapped));

	if (rc == COHORT_OK)
		c->made[i].words = memset(words, 0, bytes);
	return rc;
}

/* On its own stream: on the legacy default stream it would wait for all that the
 * program has on the device. */
static int clear_barrier(struct connection *c, int i)
{
	const struct connected *made = &c->made[i];
	int rc = CALL(cudaMemsetAsync,
	              (made->barrier, 0, sizeof(int32_t), made->stream));

	return rc == COHORT_OK ? CALL(cudaStreamSynchronize, (made->stream))
	                       : rc;
}

/* Each of them may wait for what hangs on the device. */
static int make_rest(struct connection *c, int i)
{
	struct connected *made = &c->made[i];
	int rc = CALL(cudaSetDevice, (c->devices[i]));

	if (rc == COHORT_OK)
		rc = make_words(c, i);
	if (rc == COHORT_OK)
		rc = CALL(cudaStreamCreateWithFlags,
		          (&made->stream, cudaStreamNonBlocking));
	if (rc == COHORT_OK)
		rc = CALL(cudaEventCreateWithFlags,
		          (&made->event, cudaEventDisableTiming));
	if (rc == COHORT_OK)
		rc = CALL(cudaMalloc, (&made->barrier, sizeof(int32_t)));
	if (rc == COHORT_OK)
		rc = clear_barrier(c, i);
	if (rc == COHORT_OK)
		made->native = c->native[i];
	else if (c->split)
		c->split[i].has_failed = true;
	return rc;
}

#undef CALL

static int make_all_rest(struct connection *c)
{
	int i, rc = COHORT_OK;

	for (i = 0; i < c->n && rc == COHORT_OK; i++)
		if (c->native[i])
			rc = make_rest(c, i);
	return rc;
}

/* ---- the thread ------------------------------------------------------- */

/* init() outside of the section where it waits for other processes, which may wait for
 * a collective with this one. */
static int init_in_section(struct connection *c)
{
	int rc;

	if (c->is_alone)
		return init(c);
	end_section(c);
	rc = init(c);
	begin_section(c);
	return rc;
}

/* After a failure NCCL may have left some half open. */
static int open_in_section(struct connection *c)
{
	const struct platform *p = c->platform;
	int rc = native_cuda(p, "cudaSetDevice",
	                     native_thread(p, c->devices[0]));

	if (rc != COHORT_OK)
		return rc;
	rc = init_in_section(c);
	/* NCCL's first call has read its files of settings. */
	if (environment_check() != COHORT_OK)
		rc = COHORT_INVALID;
	if (rc == COHORT_OK)
		rc = make_all_rest(c);
	if (rc != COHORT_OK)
		take_back(c);
	return rc;
}

static int open_all(struct connection *c)
{
	int rc;

	begin_section(c);
	rc = open_in_section(c);
	end_section(c);
	return rc;
}

static void *connect_main(void *arg)
{
	struct connection *c = arg;
	bool left;

	atomic_store_explicit(&c->tid, thread_id(), memory_order_relaxed);
	c->status = open_all(c);
	text_add(&(struct text){ c->error, sizeof(c->error) }, "%s",
	         cohort_last_error());
	pthread_mutex_lock(&c->lock);
	c->done = true;
	pthread_cond_signal(&c->changed);
	while (!c->taken && !c->left)
		pthread_cond_wait(&c->changed, &c->lock);
	left = c->left;
	pthread_mutex_unlock(&c->lock);
	if (!left)
		return NULL;
	if (c->status == COHORT_OK) {
		take_back(c);
		end_section(c);
	}
	connection_free(c);
	return NULL;
}

/* What the thread that does not come back is doing. */
static void add_thread(struct text *t, const struct connection *c)
{
	int tid = atomic_load_explicit(&c->tid, memory_order_relaxed);
	char state[THREAD_STATE_SIZE] = "";

	if (tid)
		thread_state(tid, state);
	if (*state)
		text_add(t, "; thread %d, which is in it, is %s", tid, state);
}

/* What of NCCL's it is in. */
static void add_native(struct text *t, const struct connection *c)
{
	if (c->size) {
		text_add(t, "ncclCommInitRank of rank %d of %d, on device %d,",
		         c->rank, c->size, c->devices[0]);
		return;
	}
	text_add(t, "%s of ",
	         config_is_default(&c->config) ? "ncclCommInitAll"
	                                       : "ncclCommInitRankConfig");
	add_ranks(t, c);
}

int connect_place(const struct connection *c, char *text, size_t size)
{
	const char *at = atomic_load_explicit(&c->at, memory_order_relaxed);
	int i = atomic_load_explicit(&c->at_rank, memory_order_relaxed);

	if (!at || i < 0)
		return -1;
	snprintf(text, size, "%s on device %d", at, c->devices[i]);
	return i;
}

static int timed_out(const struct connection *c, uint64_t timeout_ns)
{
	char text[512], place[64];
	struct text t = { text, sizeof(text) };
	int i = connect_place(c, place, sizeof(place));

	text_add(&t, "%s: ", cohort_verdict_text(COHORT_VERDICT_INIT_STUCK));
	if (i < 0)
		add_native(&t, c);
	else
		text_add(&t, "%s, for rank %d,", place, c->size ? c->rank : i);
	text_add(&t, " has not returned within %llu ms",
	         (unsigned long long)(timeout_ns / 1000000));
	add_thread(&t, c);
	if (i < 0 && !c->size && c->n > 1)
		text_add(&t, "; which of them it waits for, NCCL does not say");
	return error_set(COHORT_INIT_TIMEOUT, "%s", text);
}

/* Wait for the thread; false if it takes too long. */
static bool await(struct connection *c, uint64_t timeout_ns)
{
	struct timespec until = clock_timespec(clock_deadline(timeout_ns));
	int err = 0;
	bool done;

	pthread_mutex_lock(&c->lock);
	while (!c->done && !err)
		err = pthread_cond_timedwait(&c->changed, &c->lock, &until);
	done = c->done;
	pthread_mutex_unlock(&c->lock);
	return done;
}

/* The connection is the thread's from now on, which takes back what it gets: that may
 * wait for the device, which the caller must not. */
static void leave(struct connection *c)
{
	pthread_t thread = c->thread;

	end_section(c); /* what the thread is in may never end */
	pthread_mutex_lock(&c->lock);
	c->left = true;
	pthread_cond_signal(&c->changed);
	pthread_mutex_unlock(&c->lock);
	pthread_detach(thread);
}

/* Have a thread open @c, which is freed if there is none. */
static int start(struct connection *c)
{
	int err;

	if (!c)
		return error_set(COHORT_NO_MEMORY, "no memory to connect");
	err = thread_start(&c->thread, connect_main, c, "%.8s/init", c->name);
	if (!err)
		return COHORT_OK;
	connection_free(c);
	return error_set(COHORT_SYSTEM,
	                 "cannot start the thread that connects: %s",
	                 strerror(err));
}

/* The end of one whose thread is done, and what that found. */
static int end(struct connection *c)
{
	pthread_mutex_lock(&c->lock);
	c->taken = true;
	pthread_cond_signal(&c->changed);
	pthread_mutex_unlock(&c->lock);
	pthread_join(c->thread, NULL);
	return c->status == COHORT_OK ? COHORT_OK
	                              : error_set(c->status, "%s", c->error);
}

/* Have a thread open @c, which it or this frees. */
static int connect_by(struct connection *c, uint64_t timeout_ns,
                      struct connected *connected)
{
	int rc = start(c);

	if (rc != COHORT_OK)
		return rc;
	if (!await(c, timeout_ns)) {
		rc = timed_out(c, timeout_ns); /* while it is ours */
		leave(c);
		return rc;
	}
	rc = end(c);
	if (rc == COHORT_OK)
		memcpy(connected, c->made, (size_t)c->n * sizeof(*connected));
	connection_free(c);
	return rc;
}

int connect_all(const struct platform *p, const int *devices, int n,
                const struct comm_config *config, size_t words,
                uint64_t timeout_ns, const char *name,
                struct connected *connected)
{
	struct connection *c =
		connection_create(p, devices, n, config, words, name);

	if (c)
		c->is_alone = true;
	return connect_by(c, timeout_ns, connected);
}

int connect_rank(const struct platform *p, const ncclUniqueId *id, int size,
                 int rank, int device, const struct comm_config *config,
                 size_t words, uint64_t timeout_ns, const char *name,
                 struct connected *connected)
{
	struct connection *c =
		connection_create(p, &device, 1, config, words, name);

	if (c) {
		c->id = *id;
		c->rank = rank;
		c->size = size;
	}
	return connect_by(c, timeout_ns, connected);
}

/* ---- splitting -------------------------------------------------------- */

/* How long connect_is_done() waits. */
#define LOOK_NS (5 * UINT64_C(1000000))

int connect_split(struct clique *parent, const struct split_rank *ranks,
                  struct connection **out)
{
	const size_t n = (size_t)parent->size;
	int *devices = malloc(n * sizeof(*devices));
	struct connection *c = NULL;
	size_t i;
	int rc;

	for (i = 0; devices && i < n; i++)
		devices[i] = ranks[i].device;
	if (devices)
		c = connection_create(parent->platform, devices, parent->size,
		                      &parent->config,
		                      clique_words(parent->slots),
		                      parent->name);
	free(devices);
	if (c)
		c->split = malloc(n * sizeof(*c->split));
	if (!c || !c->split) {
		if (c)
			connection_free(c);
		return error_set(COHORT_NO_MEMORY, "no memory to connect");
	}
	memcpy(c->split, ranks, n * sizeof(*ranks));
	c->is_alone = parent->size == parent->world;
	clique_get(parent);
	c->parent = parent;
	rc = start(c);
	if (rc == COHORT_OK)
		*out = c;
	return rc;
}

bool connect_is_done(struct connection *c)
{
	return await(c, LOOK_NS);
}

int connect_end(struct connection *c, struct split_rank *ranks)
{
	int i, rc = end(c);

	for (i = 0; i < c->n; i++)
		c->split[i].connected = c->made[i];
	memcpy(ranks, c->split, (size_t)c->n * sizeof(*ranks));
	connection_free(c);
	return rc;
}

void connect_leave(struct connection *c)
{
	leave(c);
}
