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
#include "core/native.h"

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
	struct split_rank *split; /* NULL: not that */
	pthread_t thread;

	/* Atomic; the thread, by its number in the system, 0: it has not begun.
	 * Relaxed: for people. */
	atomic_int tid;

	/* Written by the thread before it is done. */
	ncclComm_t *native;
	int status;
	char error[512];

	/* Guarded by lock. */
	pthread_mutex_t lock;
	pthread_cond_t changed; /* done */
	bool done;
	bool left; /* the caller has: the thread cleans up */
};

static void connection_free(struct connection *c)
{
	pthread_cond_destroy(&c->changed);
	pthread_mutex_destroy(&c->lock);
	free(c->devices);
	free(c->native);
	free(c->split);
	free(c);
}

static struct connection *connection_create(const struct platform *p,
                                            const int *devices, int n,
                                            const struct comm_config *config,
                                            const char *name)
{
	struct connection *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	pthread_mutex_init(&c->lock, NULL);
	clock_cond_init(&c->changed);
	c->platform = p;
	c->n = n;
	c->config = *config;
	snprintf(c->name, sizeof(c->name), "%s", name);
	c->devices = malloc((size_t)n * sizeof(*c->devices));
	c->native = calloc((size_t)n, sizeof(*c->native));
	if (!c->devices || !c->native) {
		connection_free(c);
		return NULL;
	}
	memcpy(c->devices, devices, (size_t)n * sizeof(*devices));
	return c;
}

/* Abort what is open, all together. */
static void take_back(struct connection *c)
{
	const struct platform *p = c->platform;
	int i;

	p->ncclGroupStart();
	for (i = 0; i < c->n; i++)
		if (c->native[i])
			p->ncclCommAbort(c->native[i]);
	p->ncclGroupEnd();
}

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
	ncclComm_t none;

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
	int rc;

	r->native = c->native[i];
	if (!r->native)
		return COHORT_OK;
	rc = native_nccl(p, "ncclCommUserRank", r->native,
	                 p->ncclCommUserRank(r->native, &r->rank));
	if (rc != COHORT_OK)
		return rc;
	return native_nccl(p, "ncclCommCount", r->native,
	                   p->ncclCommCount(r->native, &r->size));
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

/* What has failed there is told of none of them. */
static int all_at_once(struct connection *c)
{
	const struct platform *p = c->platform;
	char error[384], list[512];
	struct text t = { list, sizeof(list) };
	int rc = native_nccl(p, "ncclCommInitAll", NULL,
	                     p->ncclCommInitAll(c->native, c->n, c->devices));

	if (rc == COHORT_OK)
		return rc;
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

/* After a failure NCCL may have left some half open. */
static int open_all(struct connection *c)
{
	const struct platform *p = c->platform;
	int rc = native_cuda(p, "cudaSetDevice",
	                     p->cudaSetDevice(c->devices[0]));

	if (rc != COHORT_OK)
		return rc;
	rc = init(c);
	if (rc != COHORT_OK)
		take_back(c);
	return rc;
}

static void *connect_main(void *arg)
{
	struct connection *c = arg;
	bool left;

	atomic_store_explicit(&c->tid, thread_id(), memory_order_relaxed);
	native_thread(c->platform);
	c->status = open_all(c);
	text_add(&(struct text){ c->error, sizeof(c->error) }, "%s",
	         cohort_last_error());
	pthread_mutex_lock(&c->lock);
	c->done = true;
	left = c->left;
	pthread_cond_signal(&c->changed);
	pthread_mutex_unlock(&c->lock);
	if (!left)
		return NULL;
	if (c->status == COHORT_OK)
		take_back(c);
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

static int timed_out(const struct connection *c, uint64_t timeout_ns)
{
	char text[512];
	struct text t = { text, sizeof(text) };

	text_add(&t, "%s: ", cohort_verdict_text(COHORT_VERDICT_INIT_STUCK));
	if (c->size) {
		text_add(&t, "ncclCommInitRank of rank %d of %d, on device %d,",
		         c->rank, c->size, c->devices[0]);
	} else {
		text_add(&t, "%s of ",
		         config_is_default(&c->config)
		                 ? "ncclCommInitAll"
		                 : "ncclCommInitRankConfig");
		add_ranks(&t, c);
	}
	text_add(&t, " has not returned within %llu ms",
	         (unsigned long long)(timeout_ns / 1000000));
	add_thread(&t, c);
	if (!c->size && c->n > 1)
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

/* The connection is the thread's from now on; false if that is done just now, and
 * will not look at it again. */
static bool leave(struct connection *c)
{
	pthread_t thread = c->thread;
	bool done;

	pthread_mutex_lock(&c->lock);
	done = c->done;
	c->left = !done;
	pthread_mutex_unlock(&c->lock);
	if (!done)
		pthread_detach(thread);
	return !done;
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
	pthread_join(c->thread, NULL);
	return c->status == COHORT_OK ? COHORT_OK
	                              : error_set(c->status, "%s", c->error);
}

/* Have a thread open @c, which it or this frees. */
static int connect_by(struct connection *c, uint64_t timeout_ns,
                      ncclComm_t *native)
{
	int rc = start(c);

	if (rc != COHORT_OK)
		return rc;
	if (!await(c, timeout_ns)) {
		timed_out(c, timeout_ns); /* while it is ours */
		if (leave(c))
			return COHORT_INIT_TIMEOUT;
	}
	rc = end(c);
	if (rc == COHORT_OK)
		memcpy(native, c->native, (size_t)c->n * sizeof(*native));
	connection_free(c);
	return rc;
}

int connect_all(const struct platform *p, const int *devices, int n,
                const struct comm_config *config, uint64_t timeout_ns,
                const char *name, ncclComm_t *native)
{
	return connect_by(connection_create(p, devices, n, config, name),
	                  timeout_ns, native);
}

int connect_rank(const struct platform *p, const ncclUniqueId *id, int size,
                 int rank, int device, const struct comm_config *config,
                 uint64_t timeout_ns, const char *name, ncclComm_t *native)
{
	struct connection *c = connection_create(p, &device, 1, config, name);

	if (c) {
		c->id = *id;
		c->rank = rank;
		c->size = size;
	}
	return connect_by(c, timeout_ns, native);
}

/* ---- splitting -------------------------------------------------------- */

/* How long connect_is_done() waits. */
#define LOOK_NS (5 * UINT64_C(1000000))

int connect_split(const struct platform *p, const struct split_rank *ranks,
                  int n, const struct comm_config *config, const char *name,
                  struct connection **out)
{
	struct connection *c =
		connection_create(p, &ranks->device, 1, config, name);
	int rc;

	if (!c)
		return error_set(COHORT_NO_MEMORY, "no memory to connect");
	free(c->native);
	c->n = n;
	c->native = calloc((size_t)n, sizeof(*c->native));
	c->split = malloc((size_t)n * sizeof(*c->split));
	if (!c->native || !c->split) {
		connection_free(c);
		return error_set(COHORT_NO_MEMORY, "no memory to connect");
	}
	memcpy(c->split, ranks, (size_t)n * sizeof(*ranks));
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
	int rc = end(c);

	memcpy(ranks, c->split, (size_t)c->n * sizeof(*ranks));
	connection_free(c);
	return rc;
}

void connect_leave(struct connection *c)
{
	if (leave(c))
		return;
	end(c);
	if (c->status == COHORT_OK)
		take_back(c);
	connection_free(c);
}
