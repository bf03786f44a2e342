/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Making and unmaking a clique, its cause, and its tickets' done words
 */

#include "core/clique.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/backoff.h"
#include "base/clock.h"
#include "base/status.h"
#include "base/thread.h"
#include "core/native.h"

/* ---- ranks ------------------------------------------------------------ */

static int comm_init_memory(struct cohort_comm *c)
{
	struct clique *q = c->clique;
	const struct platform *p = q->platform;
	size_t bytes = q->slots * sizeof(uint32_t);
	void *words;
	int rc = recorder_init(&c->recorder, q->slots);

	if (rc != COHORT_OK)
		return rc;
	c->done_then = malloc(bytes);
	if (!c->done_then)
		return error_set(COHORT_NO_MEMORY, "no memory for %u tickets",
		                 q->slots);
	rc = native_cuda(p, "cudaHostAlloc",
	                 p->cudaHostAlloc(&words, bytes,
	                                  cudaHostAllocPortable |
	                                          cudaHostAllocMapped));
	if (rc != COHORT_OK)
		return rc;
	memset(words, 0, bytes);
	c->done = words;
	return COHORT_OK;
}

/* Called with the rank's device current. */
static int comm_init_device(struct cohort_comm *c)
{
	const struct platform *p = c->clique->platform;
	int rc;

	rc = native_cuda(p, "cudaStreamCreateWithFlags",
	                 p->cudaStreamCreateWithFlags(&c->stream,
	                                              cudaStreamNonBlocking));
	if (rc != COHORT_OK)
		return rc;
	rc = native_cuda(p, "cudaEventCreateWithFlags",
	                 p->cudaEventCreateWithFlags(&c->event,
	                                             cudaEventDisableTiming));
	if (rc != COHORT_OK)
		return rc;
	rc = native_cuda(p, "cudaMalloc",
	                 p->cudaMalloc(&c->barrier, sizeof(int32_t)));
	if (rc != COHORT_OK)
		return rc;
	return native_cuda(p, "cudaMemset",
	                   p->cudaMemset(c->barrier, 0, sizeof(int32_t)));
}

static int comm_init(struct clique *q, int rank, int device)
{
	struct cohort_comm *c = &q->comms[rank];
	struct device_scope scope;
	int rc;

	c->clique = q;
	c->rank = rank;
	c->device = device;
	rc = comm_init_memory(c);
	if (rc != COHORT_OK)
		return rc;
	rc = device_enter(&scope, q->platform, device);
	if (rc != COHORT_OK)
		return rc;
	rc = comm_init_device(c);
	device_leave(&scope);
	return rc;
}

/* Undo comm_init(), however far it came. */
static void comm_fini(struct cohort_comm *c)
{
	const struct platform *p = c->clique->platform;
	struct device_scope scope;

	if (device_enter(&scope, p, c->device) == COHORT_OK) {
		if (c->barrier)
			p->cudaFree(c->barrier);
		if (c->event)
			p->cudaEventDestroy(c->event);
		if (c->stream)
			p->cudaStreamDestroy(c->stream);
		if (c->done)
			p->cudaFreeHost(c->done);
		device_leave(&scope);
	}
	free(c->done_then);
	recorder_fini(&c->recorder);
}

/* ---- the clique ------------------------------------------------------- */

/* Open all ranks.  After a failure NCCL may have left some half open: they are
 * aborted together. */
static int open_native(struct clique *q, const int *devices)
{
	const struct platform *p = q->platform;
	ncclComm_t *native = calloc((size_t)q->size, sizeof(*native));
	ncclResult_t result;
	int i, rc;

	if (!native)
		return error_set(COHORT_NO_MEMORY, "no memory for %d ranks",
		                 q->size);
	result = p->ncclCommInitAll(native, q->size, devices);
	rc = native_nccl(p, "ncclCommInitAll", NULL, result);
	if (rc != COHORT_OK) {
		p->ncclGroupStart();
		for (i = 0; i < q->size; i++)
			if (native[i])
				p->ncclCommAbort(native[i]);
		p->ncclGroupEnd();
	}
	for (i = 0; rc == COHORT_OK && i < q->size; i++)
		q->comms[i].native = native[i];
	free(native);
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

/* After open_native() has succeeded and the reaper could not be started. */
static void close_native(struct clique *q)
{
	const struct platform *p = q->platform;
	int i;

	p->ncclGroupStart();
	for (i = 0; i < q->size; i++)
		p->ncclCommDestroy(q->comms[i].native);
	p->ncclGroupEnd();
}

static struct clique *clique_alloc(const struct platform *platform, int n,
                                   const struct clique_options *options)
{
	struct clique *q =
		calloc(1, sizeof(*q) + (size_t)n * sizeof(q->comms[0]));

	if (!q)
		return NULL;
	q->platform = platform;
	q->size = n;
	q->slots = options->slots;
	q->close_timeout_ns = options->close_timeout_ns;
	q->abort_timeout_ns = options->abort_timeout_ns;
	snprintf(q->name, sizeof(q->name), "%s", options->name);
	q->closing.what.status = COHORT_OK;
	sem_init(&q->caused, 0, 0);
	return q;
}

static void clique_free(struct clique *q, int comms)
{
	while (comms--)
		comm_fini(&q->comms[comms]);
	sem_destroy(&q->caused);
	free(q);
}

int clique_create(const struct platform *platform, const int *devices, int n,
                  const struct clique_options *options, struct clique **out)
{
	struct clique *q = clique_alloc(platform, n, options);
	int made = 0, rc = COHORT_OK;

	if (!q)
		return error_set(COHORT_NO_MEMORY, "no memory for %d ranks", n);
	while (rc == COHORT_OK && made < n) {
		rc = comm_init(q, made, devices[made]);
		made++; /* comm_fini() also undoes a half-made one */
	}
	if (rc != COHORT_OK)
		goto err_after_alloc;
	rc = open_native(q, devices);
	if (rc != COHORT_OK)
		goto err_after_alloc;
	rc = start_reaper(q);
	if (rc != COHORT_OK)
		goto err_after_native;
	*out = q;
	return COHORT_OK;

err_after_native:
	close_native(q);
err_after_alloc:
	clique_free(q, made);
	return rc;
}

void clique_destroy(struct clique *q)
{
	pthread_join(q->reaper, NULL);
	clique_free(q, q->size);
}

/* Kept, so that a leak checker can tell this from a mistake. */
void clique_leak(struct clique *q)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static struct clique *leaked; /* guarded by lock */

	pthread_detach(q->reaper);
	pthread_mutex_lock(&lock);
	q->next_leaked = leaked;
	leaked = q;
	pthread_mutex_unlock(&lock);
}

/* ---- the cause -------------------------------------------------------- */

static struct cause *load_cause(const struct clique *q)
{
	/* seq_cst, see gate. */
	return atomic_load(&q->cause);
}

const struct cohort_cause *clique_cause(const struct clique *q)
{
	const struct cause *cause = load_cause(q);

	return cause && cause != &q->closing ? &cause->what : NULL;
}

/* Make @cause the cause, if there is none. */
static int swap_cause(struct clique *q, struct cause *cause)
{
	struct cause *none = NULL;

	cause->time_ns = clock_now();
	if (!atomic_compare_exchange_strong(&q->cause, &none, cause))
		return COHORT_ALREADY;
	sem_post(&q->caused);
	return COHORT_OK;
}

int clique_fire(struct clique *q, const struct cohort_cause *cause,
                const char *format, ...)
{
	struct cause *slot;
	unsigned i;
	va_list args;

	if (load_cause(q))
		return COHORT_ALREADY;
	/* Out of slots: that many others are about to set theirs. */
	i = atomic_fetch_add_explicit(&q->causes_used, 1, memory_order_relaxed);
	if (i >= CLIQUE_CAUSES)
		return COHORT_ALREADY;
	slot = &q->causes[i];
	slot->what = *cause;
	va_start(args, format);
	vsnprintf(slot->what.text, sizeof(slot->what.text), format, args);
	va_end(args);
	return swap_cause(q, slot);
}

int clique_close(struct clique *q)
{
	return swap_cause(q, &q->closing);
}

/* ---- the end ---------------------------------------------------------- */

enum clique_state clique_look(struct clique *q)
{
	const struct cause *cause = load_cause(q);
	/* Acquire: what the reaper did before it moved the state. */
	int state = atomic_load_explicit(&q->state, memory_order_acquire);

	while (cause && state < CLIQUE_QUIESCED &&
	       clock_now() - cause->time_ns > q->abort_timeout_ns) {
		if (atomic_compare_exchange_strong(&q->state, &state,
		                                   CLIQUE_WEDGED))
			return CLIQUE_WEDGED;
	}
	return (enum clique_state)state;
}

int clique_answer(struct clique *q)
{
	const struct cohort_cause *cause = clique_cause(q);
	enum clique_state state = clique_look(q);

	if (state == CLIQUE_WEDGED)
		return error_set(
			COHORT_WEDGED,
			"the abort did not complete within %llu ms: "
			"%s",
			(unsigned long long)(q->abort_timeout_ns / 1000000),
			cause->text);
	if (state >= CLIQUE_QUIESCED)
		return error_set(cause->status, "%s", cause->text);
	return COHORT_TIMED_OUT;
}

int clique_await_answer(struct clique *q)
{
	struct backoff b = BACKOFF;
	int rc;

	while ((rc = clique_answer(q)) == COHORT_TIMED_OUT)
		backoff_wait(&b, UINT64_MAX);
	return rc;
}

enum clique_state clique_await_end(struct clique *q, uint64_t deadline_ns)
{
	struct backoff b = BACKOFF;
	enum clique_state state;

	for (;;) {
		state = clique_look(q);
		if (state >= CLIQUE_RECLAIMED || clock_now() >= deadline_ns)
			return state;
		backoff_wait(&b, deadline_ns);
	}
}

/* ---- tickets ---------------------------------------------------------- */

/* @word is the newest done ticket of @ticket's slot, when @last was the last
 * given out.  A slot is taken again only when its operation is done. */
static bool is_done(const struct clique *q, uint64_t ticket, uint32_t word,
                    uint64_t last)
{
	if (last >= ticket && last - ticket >= q->slots)
		return true;
	return (int32_t)(word - (uint32_t)ticket) >= 0;
}

bool comm_ticket_done(const struct cohort_comm *c, uint64_t ticket)
{
	const struct clique *q = c->clique;
	/* Acquire: what the operation wrote.  Pairs with the mark. */
	uint32_t word = __atomic_load_n(&c->done[ticket & (q->slots - 1)],
	                                __ATOMIC_ACQUIRE);
	uint64_t last = atomic_load_explicit(&c->last, memory_order_acquire);

	return is_done(q, ticket, word, last);
}

bool comm_ticket_was_done(const struct cohort_comm *c, uint64_t ticket)
{
	const struct clique *q = c->clique;

	return is_done(q, ticket, c->done_then[ticket & (q->slots - 1)],
	               c->last_then);
}
