/* SPDX-License-Identifier: Apache-2.0 */

/* Connecting: runs the connecting thread, and lets its callers wait for it */

#include "core/connect.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/status.h"
#include "base/text.h"
#include "base/thread.h"
#include "core/clique.h"
#include "core/connection.h"
#include "core/native.h"

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

/* Create a connection; the caller must set the devices. */
static struct connection *connection_create(const struct platform *p, int n,
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
	if (c->devices && c->native && c->made)
		return c;
	connection_free(c);
	return NULL;
}

/* Call @fn, which calls NCCL.  If ranks of other threads or processes take
 * part, leave the memory section for the duration of the call, because those
 * ranks may be waiting for a collective with this process. */
static int call_nccl(struct connection *c, int (*fn)(struct connection *c))
{
	int rc;

	if (c->is_alone)
		return fn(c);
	connection_end_section(c);
	rc = fn(c);
	connection_begin_section(c);
	return rc;
}

/* Open all communicators and allocate their device resources.  On error, free
 * everything, because NCCL may have left some communicators half open. */
static int open_in_section(struct connection *c)
{
	const struct platform *p = c->platform;
	int rc = native_set_cuda_error(p, "cudaSetDevice",
	                               native_thread_init(p, c->devices[0]));

	if (rc != COHORT_OK)
		return c->split ? rc : connection_error_at(c, 0, rc);
	rc = call_nccl(c, connection_init);
	/* NCCL's first call has added the settings from its files to the
	 * environment. */
	if (environment_check() != COHORT_OK)
		rc = COHORT_INVALID;
	if (rc == COHORT_OK)
		rc = connection_make(c);
	if (rc == COHORT_OK)
		rc = call_nccl(c, connection_warm_up);
	if (rc != COHORT_OK)
		connection_release_resources(c);
	return rc;
}

static void *connect_main(void *arg)
{
	struct connection *c = arg;
	bool left;

	atomic_store_explicit(&c->tid, thread_id(), memory_order_relaxed);
	connection_begin_section(c);
	c->status = open_in_section(c);
	connection_end_section(c);
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
		connection_release_resources(c);
		connection_end_section(c);
	}
	connection_free(c);
	return NULL;
}

static void add_thread(struct text *t, const struct connection *c)
{
	int tid = atomic_load_explicit(&c->tid, memory_order_relaxed);
	char state[THREAD_STATE_SIZE] = "";

	if (tid)
		thread_state(tid, state);
	if (*state)
		text_add(t, "; its thread %d is %s", tid, state);
}

const char *connect_native_name(const struct connection *c)
{
	const char *connecting =
		atomic_load_explicit(&c->connecting, memory_order_relaxed);

	if (connecting)
		return connecting;
	if (c->split)
		return "ncclCommSplit";
	if (!config_is_default(&c->config))
		return "ncclCommInitRankConfig";
	return c->size ? "ncclCommInitRank" : "ncclCommInitAll";
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
	if (i < 0) {
		text_add(&t, "%s of ", connect_native_name(c));
		connection_add_ranks(&t, c);
	} else {
		text_add(&t, "%s, for rank %d,", place, c->first + i);
	}
	text_add(&t, " has not returned within %llu ms",
	         (unsigned long long)(timeout_ns / 1000000));
	add_thread(&t, c);
	if (i < 0 && !c->size && c->n > 1)
		text_add(&t, "; NCCL does not say which of them it waits for");
	return error_set(COHORT_INIT_TIMEOUT, "%s", text);
}

/* Maximum time that connect_is_done() waits, and the interval at which await()
 * checks for a reason to stop waiting. */
#define LOOK_NS (5 * UINT64_C(1000000))

/* Wait for the thread.  Return false on timeout, on abort, or if other ranks
 * will never connect; set @futile in the last case. */
static bool await(struct connection *c, const struct patience *patience,
                  bool *futile)
{
	const uint64_t deadline = clock_deadline(patience->timeout_ns);
	struct timespec until;
	uint64_t look;
	bool done;

	*futile = false;
	pthread_mutex_lock(&c->lock);
	while (!c->done && !patience_is_aborted(patience) &&
	       clock_now() < deadline) {
		pthread_mutex_unlock(&c->lock);
		*futile = c->is_futile &&
		          c->is_futile(c->of, atomic_load(&c->is_native));
		pthread_mutex_lock(&c->lock);
		if (c->done || *futile)
			break;
		look = c->is_futile || patience->abort ? clock_deadline(LOOK_NS)
		                                       : deadline;
		until = clock_timespec(look < deadline ? look : deadline);
		pthread_cond_timedwait(&c->changed, &c->lock, &until);
	}
	done = c->done;
	pthread_mutex_unlock(&c->lock);
	return done;
}

void connect_abandon(struct connection *c)
{
	pthread_t thread = c->thread;

	/* End the thread's memory section here, because the thread cannot end
	 * it if its call never returns. */
	connection_end_section(c);
	pthread_mutex_lock(&c->lock);
	c->left = true;
	if (c->abortable)
		connection_abort_locked(c);
	pthread_cond_signal(&c->changed);
	pthread_mutex_unlock(&c->lock);
	pthread_detach(thread);
}

/* Start the thread of connection @c.  On error, free @c. */
static int start(struct connection *c)
{
	int err =
		thread_start(&c->thread, connect_main, c, "%.8s/init", c->name);
	if (!err)
		return COHORT_OK;
	connection_free(c);
	return error_set(COHORT_SYSTEM,
	                 "cannot start the thread that connects: %s",
	                 strerror(err));
}

/* Join the connecting thread after it is done.  Return its result. */
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

/* Connect the ranks of @c on a separate thread and wait for that thread.  Frees
 * @c; if the wait fails, the connecting thread frees @c. */
static int connect_by(struct connection *c, const struct patience *patience,
                      struct new_rank *ranks)
{
	bool futile;
	int i, rc = start(c);

	if (rc != COHORT_OK)
		return rc;
	if (!await(c, patience, &futile)) {
		if (patience_is_aborted(patience))
			rc = patience_error(patience);
		else if (futile)
			rc = error_set(
				COHORT_PROCESS_EXITED,
				"a process has exited or given up before its "
				"ranks were connected");
		else
			rc = timed_out(c, patience->timeout_ns);
		/* From now on, the connecting thread owns @c. */
		connect_abandon(c);
		return rc;
	}
	rc = end(c);
	for (i = 0; rc == COHORT_OK && i < c->n; i++)
		ranks[i].connected = c->made[i];
	connection_free(c);
	return rc;
}

int connect_ranks(const struct platform *p, struct new_rank *ranks, int n,
                  const struct connect_world *world,
                  const struct comm_config *config, size_t words,
                  const struct patience *patience, const char *name)
{
	struct connection *c = connection_create(p, n, config, words, name);
	int i;

	if (!c)
		return error_set(COHORT_NO_MEMORY, "no memory to connect");
	for (i = 0; i < n; i++)
		c->devices[i] = ranks[i].device;
	c->first = ranks->rank;
	c->is_alone = !world || world->size == n;
	if (world) {
		c->id = world->id;
		c->size = world->size;
		c->is_futile = world->is_futile;
		c->of = world->of;
	}
	return connect_by(c, patience, ranks);
}

int connect_split(struct clique *parent, const struct split_rank *ranks,
                  struct connection **out)
{
	const size_t n = (size_t)parent->size;
	struct connection *c =
		connection_create(parent->platform, parent->size,
	                          &parent->config, comm_words(parent->slots),
	                          parent->name);
	size_t i;
	int rc;

	if (c)
		c->split = malloc(n * sizeof(*c->split));
	if (!c || !c->split) {
		if (c)
			connection_free(c);
		return error_set(COHORT_NO_MEMORY, "no memory to connect");
	}
	for (i = 0; i < n; i++)
		c->devices[i] = ranks[i].device;
	memcpy(c->split, ranks, n * sizeof(*ranks));
	c->is_alone = parent->size == parent->world_size;
	clique_get(parent);
	c->parent = parent;
	rc = start(c);
	if (rc == COHORT_OK)
		*out = c;
	return rc;
}

bool connect_is_done(struct connection *c)
{
	bool futile;

	return await(c, &(struct patience){ .timeout_ns = LOOK_NS }, &futile);
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
