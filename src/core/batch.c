/* SPDX-License-Identifier: Apache-2.0 */

#include "core/batch.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "core/clique.h"
#include "core/owner.h"

/* Return the thread that has a batch open, or 0.  All accesses are relaxed,
 * because only the thread with the open batch depends on the value. */
static uintptr_t thread_of(const struct cohort_comm *c)
{
	return atomic_load_explicit(&c->lock.batching, memory_order_relaxed);
}

bool batch_is_open(const struct cohort_comm *c)
{
	return thread_of(c);
}

void batch_drop(struct cohort_comm *c)
{
	atomic_store_explicit(&c->lock.batching, 0, memory_order_relaxed);
}

int batch_check(const struct cohort_comm *c)
{
	uintptr_t thread = thread_of(c);

	if (thread == owner_self())
		return COHORT_OK;
	return thread ? error_set(COHORT_OWNER,
	                          "another thread has a batch open on rank %d",
	                          c->rank)
	              : error_set(COHORT_STATE, "no batch is open on rank %d",
	                          c->rank);
}

int batch_begin(struct cohort_comm *c)
{
	if (batch_is_open(c))
		return batch_check(c) != COHORT_OK
		               ? COHORT_OWNER
		               : error_set(COHORT_STATE,
		                           "a batch is open on rank %d "
		                           "already: batches "
		                           "do not nest",
		                           c->rank);
	if (!c->batch)
		c->batch = calloc(1, sizeof(*c->batch));
	if (!c->batch)
		return error_set(COHORT_NO_MEMORY, "no memory for a batch");
	c->batch->n = c->batch->tensor_count = 0;
	c->batch->status = COHORT_OK;
	atomic_store_explicit(&c->lock.batching, owner_self(),
	                      memory_order_relaxed);
	return COHORT_OK;
}

void batch_free(struct batch *b)
{
	if (b) {
		free(b->calls);
		free(b->tensors);
	}
	free(b);
}

/* Return the array with room for @more elements after its first @n, or NULL if
 * out of memory.  *@room is its capacity; @size is the size of an element. */
static void *grow(void *array, size_t n, size_t more, size_t *room, size_t size)
{
	size_t wanted = *room ? *room : 16;
	void *bigger;

	if (n + more <= *room)
		return array;
	while (wanted < n + more)
		wanted *= 2;
	bigger = realloc(array, wanted * size);
	if (bigger)
		*room = wanted;
	return bigger;
}

static int append_call(struct batch *b, const struct op *call)
{
	void *calls = grow(b->calls, b->n, 1, &b->room, sizeof(*b->calls));
	void *tensors = NULL;

	if (calls) {
		b->calls = calls;
		tensors = grow(b->tensors, b->tensor_count, call->n,
		               &b->tensor_room, sizeof(*b->tensors));
	}
	if (!tensors)
		return error_set(COHORT_NO_MEMORY,
		                 "no memory for a batch of %zu calls",
		                 b->n + 1);
	b->tensors = tensors;
	memcpy(b->tensors + b->tensor_count, call->tensors,
	       call->n * sizeof(*b->tensors));
	b->tensor_count += call->n;
	b->calls[b->n++] = *call;
	return COHORT_OK;
}

static int call_check(const struct cohort_comm *c, const struct op *call,
                      bool has_ticket)
{
	if (has_ticket)
		return error_set(COHORT_INVALID,
		                 "%s: ticket is not NULL, but a batch is open: "
		                 "cohort_batch_end() returns its one ticket",
		                 op_name(call->kind));
	if (call->kind == OP_COPY || call->kind == OP_SPLIT)
		return error_set(COHORT_STATE,
		                 "%s: rank %d has an open batch, which can "
		                 "contain only collectives, sends and "
		                 "receives: end it first",
		                 op_name(call->kind), c->rank);
	return op_check_call(call, c->rank, c->clique->world_size);
}

int batch_add(struct cohort_comm *c, const struct op *call, bool has_ticket)
{
	struct batch *b;
	int rc = batch_check(c);

	if (rc != COHORT_OK)
		return rc;
	/* Load the pointer only after the check: until this thread is known to
	 * have the batch open, another thread may be allocating it. */
	b = c->batch;
	rc = call_check(c, call, has_ticket);
	if (rc == COHORT_OK)
		rc = append_call(b, call);
	if (rc != COHORT_OK && b->status == COHORT_OK) {
		b->status = rc;
		text_set(b->error, sizeof(b->error), "batch: call %zu: %s",
		         b->n + 1, cohort_last_error());
	}
	return rc;
}

/* Set the batch's stream in every call.  Fail if a call names another
 * stream. */
static int set_streams(struct batch *b, void *stream)
{
	size_t i;

	for (i = 0; i < b->n; i++) {
		if (b->calls[i].stream && b->calls[i].stream != stream)
			return error_set(COHORT_INVALID,
			                 "batch: call %zu: %s: stream is %p, "
			                 "but the batch's is %p",
			                 i + 1, op_name(b->calls[i].kind),
			                 b->calls[i].stream, stream);
		b->calls[i].stream = stream;
	}
	return COHORT_OK;
}

/* Point each call to its tensors, which may have moved when the array grew. */
static void set_tensors(struct batch *b)
{
	const struct cohort_tensor *at = b->tensors;
	size_t i;

	for (i = 0; i < b->n; i++) {
		b->calls[i].tensors = at;
		at += b->calls[i].n;
	}
}

int batch_end(struct cohort_comm *c, void *stream, struct op *out)
{
	struct batch *b = c->batch;
	int rc;

	if (b->status != COHORT_OK)
		return error_set(b->status, "%s", b->error);
	rc = set_streams(b, stream);
	if (rc != COHORT_OK)
		return rc;
	set_tensors(b);
	*out = (struct op){
		.kind = OP_BATCH,
		.n = b->n,
		.stream = stream,
		.calls = b->calls,
	};
	return COHORT_OK;
}
