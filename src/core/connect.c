/* SPDX-License-Identifier: Apache-2.0 */

#include "core/connect.h"

#include <pthread.h>
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
	free(c);
}

static struct connection *connection_create(const struct platform *p,
                                            const int *devices, int n)
{
	struct connection *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	pthread_mutex_init(&c->lock, NULL);
	clock_cond_init(&c->changed);
	c->platform = p;
	c->n = n;
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

static int init(struct connection *c)
{
	const struct platform *p = c->platform;

	if (c->size)
		return native_nccl(p, "ncclCommInitRank", NULL,
		                   p->ncclCommInitRank(c->native, c->size,
		                                       c->id, c->rank));
	return native_nccl(p, "ncclCommInitAll", NULL,
	                   p->ncclCommInitAll(c->native, c->n, c->devices));
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

static int timed_out(const struct connection *c, uint64_t timeout_ns)
{
	unsigned long long ms = timeout_ns / 1000000;
	char list[256];
	struct text t = { list, sizeof(list) };
	int i;

	for (i = 0; i < c->n; i++)
		text_add(&t, " %d", c->devices[i]);
	if (c->size)
		return error_set(COHORT_INIT_TIMEOUT,
		                 "%s: ncclCommInitRank of rank %d of %d, on "
		                 "device%s, has not returned within %llu ms",
		                 cohort_verdict_text(COHORT_VERDICT_INIT_STUCK),
		                 c->rank, c->size, list, ms);
	return error_set(COHORT_INIT_TIMEOUT,
	                 "%s: ncclCommInitAll of devices%s has not returned "
	                 "within %llu ms",
	                 cohort_verdict_text(COHORT_VERDICT_INIT_STUCK), list,
	                 ms);
}

/* Wait for the thread; false if it takes too long: that is this thread's error,
 * and the connection is that thread's from now on. */
static bool await(struct connection *c, uint64_t timeout_ns)
{
	struct timespec until = clock_timespec(clock_deadline(timeout_ns));
	int err = 0;
	bool done;

	pthread_mutex_lock(&c->lock);
	while (!c->done && !err)
		err = pthread_cond_timedwait(&c->changed, &c->lock, &until);
	done = c->done;
	c->left = !done;
	if (!done)
		timed_out(c, timeout_ns);
	pthread_mutex_unlock(&c->lock);
	return done;
}

/* Have a thread open @c, which it or this frees. */
static int connect_by(struct connection *c, uint64_t timeout_ns,
                      const char *name, ncclComm_t *native)
{
	pthread_t thread;
	int rc, err;

	if (!c)
		return error_set(COHORT_NO_MEMORY, "no memory to connect");
	err = thread_start(&thread, connect_main, c, "%.8s/init", name);
	if (err) {
		connection_free(c);
		return error_set(COHORT_SYSTEM,
		                 "cannot start the thread that connects: %s",
		                 strerror(err));
	}
	if (!await(c, timeout_ns)) {
		pthread_detach(thread);
		return COHORT_INIT_TIMEOUT;
	}
	pthread_join(thread, NULL);
	rc = c->status;
	if (rc == COHORT_OK)
		memcpy(native, c->native, (size_t)c->n * sizeof(*native));
	else
		error_set(rc, "%s", c->error);
	connection_free(c);
	return rc;
}

int connect_all(const struct platform *p, const int *devices, int n,
                uint64_t timeout_ns, const char *name, ncclComm_t *native)
{
	return connect_by(connection_create(p, devices, n), timeout_ns, name,
	                  native);
}

int connect_rank(const struct platform *p, const ncclUniqueId *id, int size,
                 int rank, int device, uint64_t timeout_ns, const char *name,
                 ncclComm_t *native)
{
	struct connection *c = connection_create(p, &device, 1);

	if (c) {
		c->id = *id;
		c->rank = rank;
		c->size = size;
	}
	return connect_by(c, timeout_ns, name, native);
}
