/* SPDX-License-Identifier: Apache-2.0 */

/* Connecting: allocates and frees the device resources of the ranks */

#include <string.h>

#include "core/clique.h"
#include "core/connection.h"
#include "core/launch_lock.h"
#include "core/native.h"

static void publish_call(struct connection *c, const char *function, int i)
{
	atomic_store_explicit(&c->at_rank, i, memory_order_relaxed);
	atomic_store_explicit(&c->at, function, memory_order_relaxed);
}

void connection_begin_section(struct connection *c)
{
	atomic_store(&c->stay, launch_lock_begin_section());
}

void connection_end_section(struct connection *c)
{
	launch_lock_end(atomic_exchange(&c->stay, 0));
}

void connection_begin_alone(struct connection *c)
{
	if (!c->is_alone)
		return;
	connection_end_section(c);
	atomic_store(&c->stay, launch_lock_begin_connection());
}

void connection_end_alone(struct connection *c)
{
	if (!c->is_alone)
		return;
	connection_end_section(c);
	connection_begin_section(c);
}

/* Begin a new section if a caller that stopped waiting has ended the previous
 * one.  Only the connecting thread ends the new section.  Call this before each
 * step. */
static void keep_section(struct connection *c)
{
	if (!atomic_load(&c->stay))
		connection_begin_section(c);
}

#define CALL(function, arguments)                                              \
	(keep_section(c), publish_call(c, #function, i),                       \
	 NATIVE_CUDA(c->platform, function, arguments))

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

/* Zero the barrier's memory on the rank's own stream.  On the legacy default
 * stream this would wait for all work that the program has queued on the
 * device. */
static int clear_barrier(struct connection *c, int i)
{
	const struct connected *made = &c->made[i];
	int rc = CALL(cudaMemsetAsync,
	              (made->barrier, 0, sizeof(int32_t), made->stream));

	return rc == COHORT_OK ? CALL(cudaStreamSynchronize, (made->stream))
	                       : rc;
}

/* Allocate the device resources of a rank.  Each of the calls may hang if the
 * device does. */
static int create_rank_resources(struct connection *c, int i)
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

int connection_make(struct connection *c)
{
	int i, rc = COHORT_OK;

	for (i = 0; i < c->n && rc == COHORT_OK; i++)
		if (c->native[i])
			rc = create_rank_resources(c, i);
	return rc == COHORT_OK || c->split ? rc
	                                   : connection_error_at(c, i - 1, rc);
}

static void release_resources(const struct platform *p, int device,
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

void connect_discard(const struct platform *p, const struct new_rank *ranks,
                     int n)
{
	struct device_scope scope;
	int i;

	/* Skip ranks that are not connected, because their devices may hang. */
	for (; n && !ranks->connected.native; n--)
		ranks++;
	if (!n)
		return;
	memory_section_begin();
	if (device_enter(&scope, p, ranks->device) == COHORT_OK) {
		scope.leaves = true; /* ncclCommAbort() may change the device */
		p->ncclGroupStart();
		for (i = 0; i < n; i++)
			if (ranks[i].connected.native)
				p->ncclCommAbort(ranks[i].connected.native);
		p->ncclGroupEnd();
		for (i = 0; i < n; i++)
			release_resources(p, ranks[i].device,
			                  &ranks[i].connected);
		device_leave(&scope);
	}
	memory_section_end();
}

/* In a split, transfer the new communicators to the parent's reaper.  Return
 * false if @c is not a split, or if the reaper takes no more communicators; @c
 * then still owns them. */
static bool transfer_to_reaper(struct connection *c)
{
	if (!c->native) /* the reaper has taken them already */
		return true;
	if (!c->parent || !clique_leave_orphans(c->parent, c->native))
		return false;
	c->native = NULL;
	return true;
}

void connection_release_resources(struct connection *c)
{
	const struct platform *p = c->platform;
	int i;

	publish_call(c, NULL, -1);
	keep_section(c);
	if (!transfer_to_reaper(c)) {
		p->ncclGroupStart();
		for (i = 0; i < c->n; i++)
			if (c->native[i])
				p->ncclCommAbort(c->native[i]);
		p->ncclGroupEnd();
	}
	for (i = 0; i < c->n; i++) {
		keep_section(c);
		publish_call(c, "cudaFree", i);
		release_resources(p, c->devices[i], &c->made[i]);
	}
}
