/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Implements virtual memory management: reserved addresses and mappings
 *
 * All devices are in one process, so after cuMemSetAccess() has given one
 * device access to a mapping, all devices can access it.
 */

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cohort/sim.h>

#include "base/list.h"
#include "base/scoped_lock.h"
#include "sim/cuda/cuda_device.h"
#include "sim/cuda/memory_table.h"
#include "sim/cuda/sync.h"
#include "sim/driver/allocation.h"
#include "sim/driver/driver.h"
#include "sim/exec/stream_queue.h"

struct reservation {
	char *start;
	size_t bytes;
	struct reservation *next;
};

struct mapping {
	char *start;
	size_t bytes;
	struct allocation *of;
	struct mapping *next;
	/* Access flags, indexed by device; the last entry is for the host. */
	unsigned char access[];
};

/* Lists of reserved ranges and of mappings.  Guarded by virtual_lock. */
static struct reservation *reservations;
static struct mapping *mappings;

static bool is_inside(const char *p, size_t bytes, const char *start,
                      size_t room)
{
	const size_t before = (uintptr_t)p - (uintptr_t)start;

	return p >= start && before <= room && bytes <= room - before;
}

/* ---- reserved addresses ----------------------------------------------- */

/* Reserve addresses at a multiple of @alignment, near @wanted.  Returns NULL on
 * failure. */
static char *reserve(size_t bytes, size_t alignment, void *wanted)
{
	const size_t all = bytes + alignment;
	char *p, *start;

	if (all < bytes)
		return NULL;
	p = mmap(wanted, all, PROT_NONE,
	         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED)
		return NULL;
	start = p + (alignment - (uintptr_t)p % alignment) % alignment;
	if (start > p)
		munmap(p, (size_t)(start - p));
	munmap(start + bytes, (size_t)(p + all - (start + bytes)));
	return start;
}

CUresult driver_cuMemAddressReserve(CUdeviceptr *start, size_t bytes,
                                    size_t alignment, CUdeviceptr wanted,
                                    unsigned long long flags)
{
	struct reservation *r;

	if (!start || flags || !virtual_size_is_valid(bytes) ||
	    (alignment & (alignment - 1)))
		return CUDA_ERROR_INVALID_VALUE;
	if (alignment < VIRTUAL_GRANULARITY)
		alignment = VIRTUAL_GRANULARITY;
	r = malloc(sizeof(*r));
	if (!r)
		return CUDA_ERROR_OUT_OF_MEMORY;
	r->bytes = bytes;
	r->start = reserve(bytes, alignment, DRIVER_MEMORY(wanted));
	if (!r->start || !memory_reserve(r->start, bytes)) {
		if (r->start)
			munmap(r->start, bytes);
		free(r);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*start = (CUdeviceptr)(uintptr_t)r->start;
	SCOPED_LOCK(&virtual_lock);
	list_add(reservations, r, next);
	return CUDA_SUCCESS;
}

static bool is_mapped_locked(const char *start, size_t bytes)
{
	const struct mapping *m;

	list_find(m, mappings, next,
	          m->start < start + bytes && m->start + m->bytes > start);
	return m;
}

CUresult driver_cuMemAddressFree(CUdeviceptr start, size_t bytes)
{
	char *p = DRIVER_MEMORY(start);
	struct reservation *r;

	SCOPED_LOCK(&virtual_lock);
	list_find(r, reservations, next, r->start == p && r->bytes == bytes);
	if (!r || is_mapped_locked(p, bytes))
		return CUDA_ERROR_INVALID_VALUE;
	list_remove(reservations, r, next);
	memory_unreserve(p);
	munmap(p, bytes);
	free(r);
	return CUDA_SUCCESS;
}

/* ---- mappings --------------------------------------------------------- */

static bool is_reserved_locked(const char *start, size_t bytes)
{
	const struct reservation *r;

	list_find(r, reservations, next,
	          is_inside(start, bytes, r->start, r->bytes));
	return r;
}

static void unmap_pages(char *start, size_t bytes)
{
	mmap(start, bytes, PROT_NONE,
	     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

/* Add a mapping to the table of memory.  Host memory counts as registered. */
static bool enter_memory(const struct mapping *m)
{
	const struct cudaMemLocation *l = &m->of->prop.location;
	const bool is_host = virtual_location_is_host(l);

	return memory_enter(&(struct memory){
		.start = m->start,
		.bytes = m->bytes,
		.kind = is_host ? MEMORY_REGISTERED : MEMORY_MAPPED,
		.device = is_host ? 0 : l->id,
		.no_read = true,
		.no_write = true,
	});
}

CUresult driver_cuMemMap(CUdeviceptr start, size_t bytes, size_t offset,
                         CUmemGenericAllocationHandle handle,
                         unsigned long long flags)
{
	char *p = DRIVER_MEMORY(start);
	struct allocation *a;
	struct mapping *m;

	if (flags || !virtual_size_is_valid(bytes) ||
	    start % VIRTUAL_GRANULARITY || offset % VIRTUAL_GRANULARITY)
		return CUDA_ERROR_INVALID_VALUE;
	SCOPED_LOCK(&virtual_lock);
	a = allocation_find_locked(handle);
	if (!a || !is_reserved_locked(p, bytes) || is_mapped_locked(p, bytes) ||
	    offset > a->bytes || bytes > a->bytes - offset)
		return CUDA_ERROR_INVALID_VALUE;
	m = calloc(1, sizeof(*m) + (size_t)device_count() + 1);
	if (!m)
		return CUDA_ERROR_OUT_OF_MEMORY;
	m->start = p;
	m->bytes = bytes;
	m->of = a;
	if (mmap(p, bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, a->file,
	         (off_t)offset) == MAP_FAILED ||
	    !enter_memory(m)) {
		unmap_pages(p, bytes);
		free(m);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	a->maps++;
	list_add(mappings, m, next);
	return CUDA_SUCCESS;
}

static struct mapping *mapping_at_locked(const char *p)
{
	struct mapping *m;

	list_find(m, mappings, next, is_inside(p, 1, m->start, m->bytes));
	return m;
}

/* Return true if the range consists of whole mappings, without gaps. */
static bool is_whole_locked(const char *start, size_t bytes)
{
	size_t done = 0;
	const struct mapping *m;

	while (done < bytes) {
		m = mapping_at_locked(start + done);
		if (!m || m->start != start + done || m->bytes > bytes - done)
			return false;
		done += m->bytes;
	}
	return bytes;
}

static void unmap_one_locked(struct mapping *m)
{
	struct memory known;

	list_remove(mappings, m, next);
	memory_remove(m->start, 1U << MEMORY_MAPPED | 1U << MEMORY_REGISTERED,
	              &known);
	unmap_pages(m->start, m->bytes);
	m->of->maps--;
	allocation_settle_locked(m->of);
	free(m);
}

/* Wait for all work queued on devices whose memory is in the range or that have
 * access to it, because this work might use the memory. */
static void wait_for_users(const char *start, size_t bytes)
{
	bool uses[COHORT_SIM_MAX_DEVICES] = { false };
	const struct mapping *m;
	int i;

	pthread_mutex_lock(&virtual_lock);
	for (m = mappings; m; m = m->next) {
		if (!is_inside(m->start, m->bytes, start, bytes))
			continue;
		if (!virtual_location_is_host(&m->of->prop.location))
			uses[m->of->prop.location.id] = true;
		for (i = 0; i < device_count(); i++)
			uses[i] |= m->access[i];
	}
	pthread_mutex_unlock(&virtual_lock);
	sync_memory();
	for (i = 0; i < device_count(); i++)
		if (uses[i])
			stream_wait_device(i, false);
}

CUresult driver_cuMemUnmap(CUdeviceptr start, size_t bytes)
{
	char *p = DRIVER_MEMORY(start);
	struct mapping *m;
	size_t done = 0;

	wait_for_users(p, bytes);
	SCOPED_LOCK(&virtual_lock);
	if (!is_whole_locked(p, bytes))
		return CUDA_ERROR_INVALID_VALUE;
	while (done < bytes) {
		m = mapping_at_locked(p + done);
		done += m->bytes;
		unmap_one_locked(m);
	}
	return CUDA_SUCCESS;
}

CUresult
driver_cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle,
                                   void *memory)
{
	struct mapping *m;

	if (!handle)
		return CUDA_ERROR_INVALID_VALUE;
	SCOPED_LOCK(&virtual_lock);
	m = mapping_at_locked(memory);
	if (!m)
		return CUDA_ERROR_INVALID_VALUE;
	m->of->handles++;
	*handle = allocation_handle(m->of);
	return CUDA_SUCCESS;
}

/* ---- access ----------------------------------------------------------- */

static unsigned char *access_of(struct mapping *m,
                                const struct cudaMemLocation *l)
{
	return &m->access[virtual_location_is_host(l) ? device_count() : l->id];
}

static bool access_is_valid(const CUmemAccessDesc *d)
{
	return virtual_location_is_valid(&d->location) &&
	       (d->flags == cudaMemAccessFlagsProtNone ||
	        d->flags == cudaMemAccessFlagsProtRead ||
	        d->flags == cudaMemAccessFlagsProtReadWrite);
}

/* Set the page protection of a mapping.  If one device may access the mapping,
 * all devices can. */
static void protect(const struct mapping *m)
{
	unsigned int all = 0;
	int i;

	for (i = 0; i <= device_count(); i++)
		all |= m->access[i];
	memory_protect(m->start, all & cudaMemAccessFlagsProtRead,
	               all == cudaMemAccessFlagsProtReadWrite);
	mprotect(m->start, m->bytes,
	         (all & cudaMemAccessFlagsProtRead ? PROT_READ : 0) |
	                 (all == cudaMemAccessFlagsProtReadWrite ? PROT_WRITE
	                                                         : 0));
}

CUresult driver_cuMemSetAccess(CUdeviceptr start, size_t bytes,
                               const CUmemAccessDesc *list, size_t count)
{
	char *p = DRIVER_MEMORY(start);
	struct mapping *m;
	size_t done, i;

	if (!list || !count)
		return CUDA_ERROR_INVALID_VALUE;
	for (i = 0; i < count; i++)
		if (!access_is_valid(&list[i]))
			return CUDA_ERROR_INVALID_VALUE;
	SCOPED_LOCK(&virtual_lock);
	if (!is_whole_locked(p, bytes))
		return CUDA_ERROR_INVALID_VALUE;
	for (done = 0; done < bytes; done += m->bytes) {
		m = mapping_at_locked(p + done);
		for (i = 0; i < count; i++)
			*access_of(m, &list[i].location) =
				(unsigned char)list[i].flags;
		protect(m);
	}
	return CUDA_SUCCESS;
}

CUresult driver_cuMemGetAccess(unsigned long long *flags,
                               const struct cudaMemLocation *location,
                               CUdeviceptr memory)
{
	struct mapping *m;

	if (!flags || !location || !virtual_location_is_valid(location))
		return CUDA_ERROR_INVALID_VALUE;
	SCOPED_LOCK(&virtual_lock);
	m = mapping_at_locked(DRIVER_MEMORY(memory));
	if (!m)
		return CUDA_ERROR_INVALID_VALUE;
	*flags = *access_of(m, location);
	return CUDA_SUCCESS;
}
