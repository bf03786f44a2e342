/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Making and unmaking a clique
 */

#include "core/clique.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/pages.h"
#include "base/status.h"
#include "base/text.h"
#include "base/thread.h"
#include "core/batch.h"
#include "core/clique_tree.h"
#include "core/connect.h"
#include "core/native.h"
#include "core/pair.h"
#include "core/register.h"
#include "core/window.h"

/* ---- ranks ------------------------------------------------------------ */

static int comm_init(struct cohort_comm *c)
{
	struct clique *q = c->clique;
	size_t bytes = q->slots * sizeof(uint32_t);
	int rc;

	atomic_store(&c->pushed_shortest_ns, COHORT_FOREVER);
	atomic_store(&c->popped_shortest_ns, COHORT_FOREVER);
	rc = recorder_init(&c->recorder, q->slots);
	if (rc == COHORT_OK)
		rc = call_shapes_init(&c->shapes, q->slots);
	if (rc != COHORT_OK)
		return rc;
	c->done_then = malloc(bytes);
	c->agreed = pages_alloc(q->slots * sizeof(*c->agreed));
	if (!c->done_then || !c->agreed)
		return error_set(COHORT_NO_MEMORY, "no memory for %u tickets",
		                 q->slots);
	return COHORT_OK;
}

/* What it has got is the rank's. */
static void take_over(struct cohort_comm *c, const struct connected *from)
{
	c->native = from->native;
	c->stream = from->stream;
	c->event = from->event;
	c->barrier = from->barrier;
	c->done = from->words;
	c->started = c->done + c->clique->slots;
	c->after = c->started + c->clique->slots;
}

/* True while a stream may still look at a done word. */
static bool words_are_awaited(const struct cohort_comm *c)
{
	uint32_t k, first = c->after_count > AFTER_WORDS
	                            ? c->after_count - AFTER_WORDS + 1
	                            : 1;

	if (c->after_lost)
		return true;
	for (k = first; k <= c->after_count; k++)
		if (__atomic_load_n(&c->after[k % AFTER_WORDS],
		                    __ATOMIC_ACQUIRE) != k)
			return true;
	return false;
}

/* Give back the words.  What a stream still waits for stays: all of it is as far as
 * it is waited for. */
static void free_words(struct cohort_comm *c)
{
	if (c->done && !words_are_awaited(c))
		c->clique->platform->cudaFreeHost(c->done);
	c->done = NULL;
}

/* True if threads were left behind that may use the clique. */
static bool has_stragglers(const struct clique *q)
{
	return atomic_load(&clique_tree_root(q)->stragglers) > 0;
}

/* Give back what was taken over, if it was, once.  Stragglers may ask about their
 * tickets, and help their stream meanwhile, or be copying: the last one gives back the
 * words, the stream, and the staging memory. */
static void comm_release(struct cohort_comm *c)
{
	const struct platform *p = c->clique->platform;
	bool is_left_in = has_stragglers(c->clique);
	struct device_scope scope;

	if (!c->stream)
		return;
	window_memory_begin();
	if (device_enter(&scope, p, c->device) != COHORT_OK) {
		window_memory_end();
		return;
	}
	if (!c->is_released) {
		p->cudaFree(c->barrier);
		list_release(c);
		p->cudaEventDestroy(c->event);
	}
	c->is_released = true;
	if (!is_left_in) {
		staging_release(c);
		if (c->stream)
			p->cudaStreamDestroy(c->stream);
		c->stream = NULL;
		free_words(c);
	}
	device_leave(&scope);
	window_memory_end();
}

/* Undo comm_init(), however far it came. */
static void comm_fini(struct cohort_comm *c)
{
	comm_release(c);
	batch_free(c->batch);
	pairs_free(c->pairs);
	register_free_all(c->registrations);
	pages_free(c->agreed, c->clique->slots * sizeof(*c->agreed));
	free(c->done_then);
	list_cache_free(&c->cached);
	call_shapes_fini(&c->shapes);
	recorder_fini(&c->recorder);
}

void clique_release(struct clique *q)
{
	int r;

	for (r = 0; r < q->size; r++)
		comm_release(&q->comms[r]);
}

void clique_forget_calls(struct clique *q)
{
	struct cohort_comm *c = q->comms;

	if (clique_look(q) != CLIQUE_RECLAIMED)
		return;
	for (; c < q->comms + q->size; c++) {
		list_cache_free(&c->cached);
		call_shapes_forget(&c->shapes);
		recorder_forget(&c->recorder);
		pages_forget(c->agreed, q->slots * sizeof(*c->agreed));
	}
}

/* ---- the clique ------------------------------------------------------- */

/* Where nothing can be left any more. */
static ncclComm_t no_orphans[1];

bool clique_leave_orphans(struct clique *q, ncclComm_t *natives)
{
	ncclComm_t *none = NULL;

	return atomic_compare_exchange_strong(&q->orphans, &none, natives);
}

ncclComm_t *clique_take_orphans(struct clique *q)
{
	ncclComm_t *natives = atomic_exchange(&q->orphans, no_orphans);

	return natives == no_orphans ? NULL : natives;
}

static int open_native(struct clique *q, const int *devices)
{
	struct connected *connected =
		calloc((size_t)q->size, sizeof(*connected));
	int i, rc;

	if (!connected)
		return error_set(COHORT_NO_MEMORY, "no memory for %d ranks",
		                 q->size);
	rc = connect_all(q->platform, devices, q->size, &q->config,
	                 clique_words(q->slots), q->deadlines.init_ns, q->name,
	                 connected);
	for (i = 0; rc == COHORT_OK && i < q->size; i++)
		take_over(&q->comms[i], &connected[i]);
	free(connected);
	return rc;
}

static int start_reaper(struct clique *q)
{
	int err =
		thread_start(&q->reaper, reaper_main, q, "%.8s/reap", q->name);

	if (err)
		return error_set(COHORT_SYSTEM,
		                 "cannot start the reaper's thread: %s",
		                 strerror(err));
	return COHORT_OK;
}

/* End a reaper that has nothing to reap. */
static void stop_reaper(struct clique *q)
{
	sem_post(&q->end->caused);
	pthread_join(q->reaper, NULL);
}

static void clique_free(struct clique *q, int comms)
{
	struct clique *parent = q->parent;

	clique_tree_free(q);
	while (comms--)
		comm_fini(&q->comms[comms]);
	sem_destroy(&q->unused);
	if (q->end)
		cause_put(q->end);
	free(clique_take_orphans(q));
	free(q->agreed);
	free(q);
	if (parent)
		clique_put(parent);
}

/* A number of its own, for what is told of it outside of the process. */
static unsigned next_serial(void)
{
	/* Atomic; the last one.  Relaxed: it orders nothing. */
	static atomic_uint last;

	return atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) + 1;
}

static struct clique *clique_alloc(const struct platform *platform,
                                   const int *devices, int n,
                                   const struct clique_options *options)
{
	size_t bytes =
		sizeof(struct clique) + (size_t)n * sizeof(struct cohort_comm);
	struct clique *q = aligned_alloc(_Alignof(struct clique), bytes);
	struct cohort_comm *c;
	int i;

	if (!q)
		return NULL;
	memset(q, 0, bytes);
	q->platform = platform;
	q->serial = next_serial();
	q->size = n;
	q->world = options->connected ? options->world : n;
	q->slots = options->slots;
	q->allow_capture = options->allow_capture;
	q->together = options->launch
	                      ? options->launch == COHORT_LAUNCH_TOGETHER
	                      : !platform->launches_ahead;
	q->deadlines = options->deadlines;
	q->generation = options->generation;
	q->config = options->config;
	q->list_policy_asked = options->list_policy;
	q->list_policy =
		list_policy_for(&platform->lists, &options->list_policy);
	atomic_store(&q->users, 1);
	atomic_store(&q->open, n);
	text_copy(q->name, sizeof(q->name), options->name);
	for (i = 0, c = q->comms; i < n; i++, c++) {
		c->clique = q;
		c->device = devices[i];
		c->rank = options->connected ? options->ranks[i] : i;
		c->origin = options->origins ? options->origins[i] : c->rank;
	}
	sem_init(&q->unused, 0, 0);
	q->end = cause_create();
	q->agreed = agree_words(q->slots);
	if (q->end && q->agreed)
		return q;
	clique_free(q, 0);
	return NULL;
}

/* All that may fail behind the connecting, which nobody could undo in time. */
static int prepare(struct clique *q, int *made)
{
	int rc = COHORT_OK;

	while (rc == COHORT_OK && *made < q->size)
		rc = comm_init(&q->comms[(*made)++]); /* undone if half made */
	return rc == COHORT_OK ? start_reaper(q) : rc;
}

static int connect_ranks(struct clique *q, const int *devices,
                         const struct connected *connected)
{
	int i, rc = COHORT_OK;

	for (i = 0; connected && i < q->size; i++)
		take_over(&q->comms[i], &connected[i]);
	if (!connected)
		rc = open_native(q, devices);
	if (rc != COHORT_OK)
		stop_reaper(q);
	return rc;
}

int clique_create(const struct platform *platform, const int *devices, int n,
                  const struct clique_options *options, struct clique **out)
{
	struct clique *q = clique_alloc(platform, devices, n, options);
	int made = 0, rc;

	rc = q ? prepare(q, &made)
	       : error_set(COHORT_NO_MEMORY, "no memory for %d ranks", n);
	if (rc != COHORT_OK && options->connected)
		connect_discard(platform, devices, n, options->connected);
	if (rc == COHORT_OK)
		rc = connect_ranks(q, devices, options->connected);
	if (rc == COHORT_OK) {
		clique_tree_enter(q);
		*out = q;
		return COHORT_OK;
	}
	if (q)
		clique_free(q, made);
	return rc;
}

void clique_get(struct clique *q)
{
	/* Relaxed: the caller's reference keeps it alive. */
	atomic_fetch_add_explicit(&q->users, 1, memory_order_relaxed);
}

void clique_put(struct clique *q)
{
	/* Acquire and release: the last one sees what the others did. */
	if (atomic_fetch_sub_explicit(&q->users, 1, memory_order_acq_rel) > 1)
		return;
	clique_free(q, q->size);
}

void clique_get_straggler(struct clique *q)
{
	clique_get(q);
	atomic_fetch_add(&q->stragglers, 1);
}

void clique_put_straggler(struct clique *q)
{
	atomic_fetch_sub(&q->stragglers, 1);
	clique_put(q);
}

void clique_retire(struct clique *q)
{
	struct clique *root = clique_tree_root(q);

	pthread_join(q->reaper, NULL);
	clique_tree_leave(q);
	clique_tree_part(q);
	if (root != q && has_stragglers(q))
		clique_tree_keep(root, q);
	else
		clique_put(q);
}

/* Kept, so that a leak checker can tell this from a mistake. */
void clique_leak(struct clique *q)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static struct clique *leaked; /* guarded by lock */

	pthread_detach(q->reaper);
	clique_tree_leave(q);
	clique_tree_part(q);
	pthread_mutex_lock(&lock);
	q->next_leaked = leaked;
	leaked = q;
	pthread_mutex_unlock(&lock);
}

/* ---- ranks' calls ----------------------------------------------------- */

struct limits comm_limits(const struct cohort_comm *c, bool is_first)
{
	const struct cohort_deadlines *d = &c->clique->deadlines;
	struct limits pushed = { 0, 0 }, l = { d->join_ns, d->exec_ns };

	if (is_first)
		l = (struct limits){ d->first_ns, d->first_ns };
	if (c->pushed_count)
		pushed = c->pushed[c->pushed_count - 1];
	if (pushed.join_ns)
		l.join_ns = pushed.join_ns;
	if (pushed.exec_ns)
		l.exec_ns = pushed.exec_ns;
	return l;
}

const struct cohort_comm *clique_rank(const struct clique *q, int rank)
{
	int i;

	/* Of all ranks each has its own place. */
	if (rank >= 0 && rank < q->size && q->comms[rank].rank == rank)
		return &q->comms[rank];
	for (i = 0; i < q->size; i++)
		if (q->comms[i].rank == rank)
			return &q->comms[i];
	return NULL;
}
