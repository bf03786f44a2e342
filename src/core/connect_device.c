/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Connecting: what a rank needs of its device, and giving all back
 */

#include <stdlib.h>
#include <string.h>

#include "core/clique.h"
#include "core/connection.h"
#include "core/launch_lock.h"
#include "core/native.h"

/* Say where the thread is. */
static void at(struct connection *c, const char *function, int i)
{
	atomic_store_explicit(&c->at_rank, i, memory_order_relaxed);
	atomic_store_explicit(&c->at, function, memory_order_relaxed);
}

void connection_begin_section(struct connection *c)
{
	atomic_store(&c->section, launch_lock_take());
}

void connection_end_section(struct connection *c)
{
	launch_lock_give(atomic_exchange(&c->section, 0));
	launch_lock_give_alone(atomic_exchange(&c->alone, 0));
}

void connection_begin_alone(struct connection *c)
{
	if (!c->is_alone)
		return;
	connection_end_section(c);
	atomic_store(&c->alone, launch_lock_take_alone());
}

void connection_end_alone(struct connection *c)
{
	if (!c->is_alone)
		return;
	connection_end_section(c);
	connection_begin_section(c);
}

/* Before each step: a caller that has left meanwhile has ended the section, and
 * the thread goes on in another one, which only the thread ends. */
static void keep_section(struct connection *c)
{
	if (!atomic_load(&c->section))
		connection_begin_section(c);
}

/* ---- making ----------------------------------------------------------- */

#define CALL(function, arguments)                                              \
	(keep_section(c), at(c, #function, i),                                 \
	 native_set_cuda_error(c->platform, #function,                         \
	                       c->platform->function arguments))

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

/* On the rank's own stream: on the legacy default stream this would wait for
 * all that the program has queued on the device. */
static int clear_barrier(struct connection *c, int i)
{
	const struct connected *made = &c->made[i];
	int rc = CALL(cudaMemsetAsync,
	              (made->barrier, 0, sizeof(int32_t), made->stream));

	return rc == COHORT_OK ? CALL(cudaStreamSynchronize, (made->stream))
	                       : rc;
}

/* Each of these calls may hang with the device. */
static int make_rest(struct connection *c, int i)
{
	struct connected *made = &c->made[i];
	int rc = CALL(cudaSetDevice, (c->devices[i]));

	if (rc == COHORT_OK)
		rc = make_words(c, i);
	if (rc == COHORT_OK)
		rc = CALL(cudaStreamCreateWithPriority,
		          (&made->stream, cudaStreamNonBlocking,
		           c->config.stream_priority));
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

int connection_make(struct connection *c)
{
	int i, rc = COHORT_OK;

	for (i = 0; i < c->n && rc == COHORT_OK; i++)
		if (c->native[i])
			rc = make_rest(c, i);
	return rc == COHORT_OK || c->split ? rc
	                                   : connection_error_at(c, i - 1, rc);
}

/* ---- giving back ------------------------------------------------------ */

/* Abort the communicators that are open, in one group. */
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

/* Give back what a rank has of its device. */
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

	memory_section_begin();
	if (device_enter(&scope, p, devices[0]) == COHORT_OK) {
		scope.leaves = true; /* abort_all() may leave another, too */
		abort_all(p, made, n);
		for (i = 0; i < n; i++)
			give_back(p, devices[i], &made[i]);
		device_leave(&scope);
	}
	memory_section_end();
}

/* Leave the communicators to the reaper of the clique that is split.  False:
 * that is not possible, and they are still here. */
static bool hand_over(struct connection *c)
{
	if (!c->native) /* it has them already */
		return true;
	if (!c->parent || !clique_leave_orphans(c->parent, c->native))
		return false;
	c->native = NULL;
	return true;
}

void connection_take_back(struct connection *c)
{
	int i;

	at(c, NULL, -1);
	for (i = 0; i < c->n; i++)
		c->made[i].native = c->native ? c->native[i] : NULL;
	keep_section(c);
	if (!hand_over(c))
		abort_all(c->platform, c->made, c->n);
	for (i = 0; i < c->n; i++) {
		keep_section(c);
		at(c, "cudaFree", i);
		give_back(c->platform, c->devices[i], &c->made[i]);
	}
}
