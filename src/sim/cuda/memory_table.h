/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_CUDA_MEMORY_TABLE_H
#define SIM_CUDA_MEMORY_TABLE_H

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
	int device;             /* the current one when it was made */
	unsigned int flags;     /* as asked for */
	struct pool *pool;      /* that it is from, or NULL */
	bool ending;            /* its stream-ordered free was queued */
	bool no_read, no_write; /* the driver's cuMemSetAccess() */
	bool sync_memops;       /* the driver's attribute of that name */
	bool freed;             /* kept by strict mode only */
};

/* Store what is known of the memory that @p points into, which may have been
 * freed; false if it is the program's own. */
bool memory_find(const void *p, struct memory *out);

/* True if [@p, @p + @bytes) lies in one piece of memory that is known and not
 * freed: everything else is pageable. */
bool memory_is_known(const void *p, size_t bytes);

/*
 * True if a device may read [@p, @p + @bytes), or write there: the range is
 * inside of one allocation, inside of pieces that are mapped one behind the
 * other, or in memory of the program's own.  False for memory that was freed,
 * addresses that only are reserved, and a range that wraps.
 */
bool memory_may_use(const void *p, size_t bytes, bool write);

/* Allocate @m->bytes, which are not 0, and enter the memory in the table; or
 * enter memory of the program's.  False without memory, of the device as
 * well. */
bool memory_allocate(struct memory *m);
bool memory_enter(const struct memory *m);

/* What other processes can map of it; see arena.h. */
struct arena_share;
bool memory_share(struct arena_share *out);

/* Memory of @bytes, zeros, that other processes can map and that the program
 * does not know of: it is not in the table, and is never given back.  NULL if
 * there is none. */
void *memory_share_more(size_t bytes);

/* Count @bytes of @device's memory as used; false if it has not so much.  And
 * count them no more. */
bool memory_claim(int device, size_t bytes);
void memory_unclaim(int device, size_t bytes);

/* How much of @device's memory is not used. */
size_t memory_unused(int device);

/* Say that [@start, @start + @bytes) are addresses for devices, where memory of
 * the program's own never is (false without memory); and that they are no
 * more. */
bool memory_reserve(const void *start, size_t bytes);
void memory_unreserve(const void *start);

/* Say what devices may do with the mapped memory that starts at @start. */
void memory_protect(const void *start, bool read, bool write);

/* Say whether the program wants copies of the memory that @p points into to be
 * synchronous; false if it is not known. */
bool memory_set_sync(const void *p, bool sync);

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

/* How many freed pieces of the heap strict mode keeps. */
size_t memory_kept(void);

/* Free what belongs to @device, but for what pools have given out and what is
 * mapped. */
void memory_reset(int device);

#endif
