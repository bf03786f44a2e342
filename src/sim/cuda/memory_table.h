/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_CUDA_MEMORY_TABLE_H
#define SIM_CUDA_MEMORY_TABLE_H

/*
 * The table of all memory that was allocated or registered through CUDA, sorted
 * by address
 *
 * The table distinguishes this memory from the program's other memory.  In
 * strict mode, freed memory is kept for a while and not reused, so that a later
 * use is detected.
 */

#include <stdbool.h>
#include <stddef.h>

#include "platform/cuda_abi.h"

struct pool;

enum memory_kind {
	MEMORY_DEVICE,
	MEMORY_PINNED,     /* from cudaHostAlloc() or cudaMallocHost() */
	MEMORY_MANAGED,    /* from cudaMallocManaged() */
	MEMORY_REGISTERED, /* from cudaHostRegister() */
	MEMORY_MAPPED,     /* from cuMemMap(), or opened from another process */
};

struct memory {
	char *start;
	size_t bytes;
	enum memory_kind kind;
	/* current device at the time of the allocation */
	int device;
	unsigned int flags;     /* flags that the program requested */
	struct pool *pool;      /* pool of the allocation, or NULL */
	bool ending;            /* true if its stream-ordered free is queued */
	bool no_read, no_write; /* access forbidden by cuMemSetAccess() */
	bool sync_memops;       /* value of CU_POINTER_ATTRIBUTE_SYNC_MEMOPS */
	/* true if freed; such an entry is kept only in strict mode */
	bool freed;
};

/* Store the entry of the memory that contains @p, even if strict mode keeps it
 * after it was freed.  Return false if no entry contains @p. */
bool memory_find(const void *p, struct memory *out);

/* Return true if [@p, @p + @bytes) lies in one live entry of the table.  All
 * other memory is pageable. */
bool memory_is_known(const void *p, size_t bytes);

/*
 * Return true if a device may read [@p, @p + @bytes) or, if @write, write it.
 *
 * The range must lie within one allocation, within adjacent mapped or
 * registered ranges, or in the program's own memory.  Freed memory, addresses
 * that are only reserved, and ranges that wrap around are refused.
 */
bool memory_may_use(const void *p, size_t bytes, bool write);

/* Allocate @m->bytes, which must not be 0, and add the memory to the table.
 * Return false if out of host memory or of memory of the device. */
bool memory_allocate(struct memory *m);

bool memory_enter(const struct memory *m);

/* Store the memory file that other processes can map (see arena.h).  Return
 * false if there is no such file. */
struct arena_share;
bool memory_share(struct arena_share *out);

/* Count @bytes of @device's memory as used.  Return false if fewer bytes are
 * left. */
bool memory_claim(int device, size_t bytes);

void memory_unclaim(int device, size_t bytes);

size_t memory_unused(int device);

/* Reserve the addresses [@start, @start + @bytes) for device memory, so that
 * they never count as the program's own memory.  Return false if out of
 * memory. */
bool memory_reserve(const void *start, size_t bytes);

void memory_unreserve(const void *start);

void memory_protect(const void *start, bool read, bool write);

/* Set whether copies from and to the memory that contains @p must be
 * synchronous.  Return false if the memory is not in the table. */
bool memory_set_sync(const void *p, bool sync);

/* Return true if any live entry of the table overlaps [@p, @p + @bytes). */
bool memory_overlaps(const void *p, size_t bytes);

/* Remove the live memory that starts at @p from the table, and store its entry.
 * Return false if no such memory exists or its kind is not in @kinds, a bit
 * mask of 1 << kind.  The caller must then call memory_discard(). */
bool memory_remove(const void *p, unsigned int kinds, struct memory *out);

/* Free memory that memory_remove() has removed from the table. */
void memory_discard(const struct memory *m);

/* Record that a stream-ordered free of the memory at @p is queued.  Return
 * false in the same cases as memory_remove(), and if a free is already
 * queued. */
bool memory_end(const void *p, unsigned int kinds);

/* Return the number of freed allocations that strict mode keeps, or 0 if memory
 * comes from the arena instead of the heap. */
size_t memory_kept(void);

/* Free all memory of @device, except mapped memory and memory from pools. */
void memory_reset(int device);

/* If @m was allocated from a pool, record in the pool that @m is freed
 * (pool.c). */
void pool_returned(const struct memory *m);

#endif
