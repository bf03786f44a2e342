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

/* After a failure NCCL may have left some half open. */
static int open_all(struct connection *c)
{
	const struct platform *p = c->platform;
	int rc = native_cuda(p, "cudaSetDevice",
	                     p->cudaSetDevice(c->devices[0]));

	if (rc != COHORT_OK)
		return rc;
	rc = native_nccl(p, "ncclCommInitAll", NULL,
	                 p->ncclCommInitAll(c->native, c->n, c->devices));
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

/* Wait for the thread; false if it takes too long, and is left alone. */
static bool await(struct connection *c, uint64_t deadline_ns)
{
	struct timespec until = clock_timespec(deadline_ns);
	int err = 0;
	bool done;

	pthread_mutex_lock(&c->lock);
	while (!c->done && !err)
		err = pthread_cond_timedwait(&c->changed, &c->lock, &until);
	done = c->done;
	c->left = !done;
	pthread_mutex_unlock(&c->lock);
	return done;
}

static int timed_out(const int *devices, int n, uint64_t timeout_ns)
{
	char list[256];
	struct text t = { list, sizeof(list) };
	int i;

	for (i = 0; i < n; i++)
		text_add(&t, " %d", devices[i]);
	return error_set(COHORT_INIT_TIMEOUT,
	                 "%s: ncclCommInitAll of devices%s has not returned "
	                 "within %llu ms",
	                 cohort_verdict_text(COHORT_VERDICT_INIT_STUCK), list,
	                 (unsigned long long)(timeout_ns / 1000000));
}

int connect_all(const struct platform *p, const int *devices, int n,
                uint64_t timeout_ns, const char *name, ncclComm_t *native)
{
	struct connection *c = connection_create(p, devices, n);
	uint64_t deadline = clock_deadline(timeout_ns);
	pthread_t thread;
	int err, rc;

	if (!c)
		return error_set(COHORT_NO_MEMORY, "no memory for %d ranks", n);
	err = thread_start(&thread, connect_main, c, "%.8s/init", name);
	if (err) {
		connection_free(c);
		return error_set(COHORT_SYSTEM,
		                 "cannot start the thread that connects: %s",
		                 strerror(err));
	}
	if (!await(c, deadline)) {
		pthread_detach(thread);
		return timed_out(devices, n, timeout_ns);
	}
	pthread_join(thread, NULL);
	rc = c->status;
	if (rc == COHORT_OK)
		memcpy(native, c->native, (size_t)n * sizeof(*native));
	else
		error_set(rc, "%s", c->error);
	connection_free(c);
	return rc;
}
