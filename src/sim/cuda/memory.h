/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_CUDA_MEMORY_H
#define SIM_CUDA_MEMORY_H

/*
 * The memory that CUDA knows: a table of what was given out or registered,
 * sorted by address, which tells it from the program's own memory
 *
 * In strict mode memory that is freed is kept for a while, out of the
 * allocator's hands, so that its use is seen for certain.
 */

#include <stdbool.h>
#include <stddef.h>

#include "platform/cuda_abi.h"

struct pool;

enum memory_kind {
	MEMORY_DEVICE,
	MEMORY_PINNED,     /* cudaHostAlloc() and cudaMallocHost() */
	MEMORY_MANAGED,    /* cudaMallocManaged() */
	MEMORY_REGISTERED, /* the program's, cudaHostRegister() */
	MEMORY_MAPPED,     /* a device's, the driver's cuMemMap() */
};

struct memory {
	char *start;
	size_t bytes;
	enum memory_kind kind;
	int device;         /* the current one when it was made */
	unsigned int flags; /* as asked for */
	struct pool *pool;  /* that it is from, or NULL */
	bool ending;        /* its stream-ordered free was queued */
	bool freed;         /* kept by strict mode only */
};

/* Store what is known of the memory that @p points into, which may have been
 * freed; false if it is the program's own. */
bool memory_find(const void *p, struct memory *out);

/* True if [@p, @p + @bytes) lies in one piece of memory that is known and not
 * freed: everything else is pageable. */
bool memory_is_known(const void *p, size_t bytes);

/* Allocate @m->bytes, which are not 0, and enter the memory in the table; or
 * enter memory of the program's.  False without memory. */
bool memory_allocate(struct memory *m);
bool memory_enter(const struct memory *m);

/* True if some of [@p, @p + @bytes) is known and not freed. */
bool memory_overlaps(const void *p, size_t bytes);

/* Take the live memory that starts at @p out of the table; false if there is
 * none or its kind is not in @kinds, a set of 1 << kind.  The caller owes
 * memory_discard(). */
bool memory_take(const void *p, unsigned int kinds, struct memory *out);

/* Give back what was taken. */
void memory_discard(const struct memory *m);

/* Note that the free of the live memory at @p is queued; false as in
 * memory_take(), or if it is already. */
bool memory_end(const void *p, unsigned int kinds);

/* How many freed pieces strict mode keeps. */
size_t memory_kept(void);

/* Free what belongs to @device, but for what pools have given out and what is mapped. */
void memory_reset(int device);

#endif
