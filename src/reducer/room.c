/* SPDX-License-Identifier: Apache-2.0 */

/* Allocate all memory of a reducer when it is created, and free it */

#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "core/launch_lock.h"
#include "core/native.h"
#include "reducer/reducer.h"

static size_t words_bytes(size_t n)
{
	return (2 + REDUCER_FLOATS) * sizeof(double) +
	       n * (sizeof(uint32_t) + 1);
}

static void set_words(struct reducer_words *w, unsigned char *at, size_t n)
{
	w->memory = at;
	w->weight = (double *)(void *)at;
	w->scalars = w->weight + 2;
	w->order = (uint32_t *)(void *)(w->scalars + REDUCER_FLOATS);
	w->used = (uint8_t *)(w->order + n);
}

void reducer_free_host(struct cohort_reducer *r)
{
	free(r->items);
	free(r->names);
	free(r->plan.order);
	free(r->plan.begin);
	free(r->plan.bucket_of);
	free(r->plan_items);
	free(r->buckets);
	free(r->tensors);
	free(r->marked);
	free(r->observed);
	free(r);
}

/* Allocate @bytes of pinned memory, or free *@memory if @bytes is 0.  A copy
 * from pageable memory that is queued after a collective would block the thread
 * until the collective is done. */
static int change_pinned(struct cohort_reducer *r, size_t bytes, void **memory)
{
	const struct platform *p = r->comm->clique->platform;
	enum cudaStreamCaptureMode mode;
	struct device_scope scope;
	int rc;

	rc = comm_enter_on_device(r->comm, true, &scope);
	if (rc != COHORT_OK)
		return rc;
	/* Begin the memory section last: comm_enter_on_device() may wait for a
	 * launch, and a launch waits for memory sections to end. */
	memory_section_begin();
	mode = native_relax(p);
	if (bytes)
		rc = NATIVE_CUDA(p, cudaMallocHost, (memory, bytes));
	else
		rc = NATIVE_CUDA(p, cudaFreeHost, (*memory));
	native_restore(p, mode);
	memory_section_end();
	comm_leave_on_device(r->comm, &scope);
	return rc;
}

/* Allocate the host copy of struct reducer_words, followed by zeros. */
static int alloc_image(struct cohort_reducer *r)
{
	size_t words = reducer_align(r->words_bytes);
	size_t bytes = words + REDUCER_ZEROS_BYTES;
	void *image = NULL;
	int rc = change_pinned(r, bytes, &image);

	if (rc != COHORT_OK)
		return rc;
	set_words(&r->host, memset(image, 0, bytes), r->n);
	r->zeros = r->host.memory + words;
	return COHORT_OK;
}

int reducer_alloc_host(struct cohort_reducer *r, size_t names)
{
	size_t n = r->n;
	r->words_bytes = words_bytes(n);
	r->items = calloc(n, sizeof(*r->items));
	r->names = calloc(1, names);
	r->plan.order = calloc(n, sizeof(uint32_t));
	r->plan.begin = calloc(n + 1, sizeof(uint32_t));
	r->plan.bucket_of = calloc(n, sizeof(uint32_t));
	r->plan_items = calloc(n, sizeof(*r->plan_items));
	r->buckets = calloc(n, sizeof(*r->buckets));
	r->tensors =
		calloc(n * (r->options.sharded ? 3 : 1), sizeof(*r->tensors));
	r->marked = calloc(n, sizeof(*r->marked));
	r->observed = calloc(n, sizeof(*r->observed));
	if (r->items && r->names && r->plan.order && r->plan.begin &&
	    r->plan.bucket_of && r->plan_items && r->buckets && r->tensors &&
	    r->marked && r->observed)
		return alloc_image(r);
	return error_set(COHORT_NO_MEMORY, "no memory for %zu parameters", n);
}

/* Allocate zeroed device memory.  Does nothing for 0 bytes. */
static int alloc_zeroed(struct cohort_reducer *r, size_t bytes,
                        unsigned char **out)
{
	void *memory = NULL;
	int rc;

	if (!bytes)
		return COHORT_OK;
	rc = cohort_alloc(r->comm, bytes, &memory);
	if (rc != COHORT_OK)
		return rc;
	*out = memory;
	return reducer_clear(r, memory, bytes);
}

int reducer_alloc_device(struct cohort_reducer *r)
{
	unsigned char *words = NULL;
	int rc;

	rc = alloc_zeroed(r, r->words_bytes, &words);
	if (words)
		set_words(&r->device, words, r->n);
	if (rc == COHORT_OK)
		rc = alloc_zeroed(r, reducer_layout(r, NULL), &r->arena);
	return rc;
}

int reducer_create_sums(struct cohort_reducer *r)
{
	size_t i;
	unsigned k;
	int rc = COHORT_OK;

	for (i = 0; i < r->n && r->options.weighted && rc == COHORT_OK; i++) {
		k = reducer_float(r->items[i].type);
		if (!r->premul[k])
			rc = cohort_premul_sum_create(r->comm,
			                              &r->device.scalars[k],
			                              r->items[i].type,
			                              COHORT_SCALAR_DEVICE,
			                              &r->premul[k]);
	}
	return rc;
}

int reducer_free_device(struct cohort_reducer *r)
{
	unsigned char **memory[] = { &r->device.memory, &r->arena };
	void *pinned;
	size_t k;
	int rc = COHORT_OK;

	for (k = 0; k < REDUCER_FLOATS && rc == COHORT_OK; k++) {
		if (r->premul[k])
			rc = cohort_op_destroy(r->comm, r->premul[k]);
		/* The sum no longer exists, even after an error from NCCL. */
		if (rc == COHORT_OK || rc == COHORT_NCCL)
			r->premul[k] = 0;
	}
	for (k = 0; k < 2 && rc == COHORT_OK; k++) {
		rc = cohort_free(r->comm, *memory[k]);
		if (rc == COHORT_OK)
			*memory[k] = NULL;
	}
	pinned = r->host.memory;
	if (rc == COHORT_OK && pinned) {
		rc = change_pinned(r, 0, &pinned);
		if (rc == COHORT_OK)
			r->host.memory = NULL;
	}
	return rc;
}
