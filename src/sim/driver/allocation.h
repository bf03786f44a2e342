/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_DRIVER_ALLOCATION_H
#define SIM_DRIVER_ALLOCATION_H

/*
 * Allocations of virtual memory management: memory that has no address yet
 *
 * An allocation is an anonymous file, so that it can be mapped anywhere and
 * passed to other processes.  One lock guards all allocations and mappings;
 * functions whose names end in _locked are called with the lock held.
 */

#include <pthread.h>
#include <stdbool.h>

#include "sim/driver/driver_abi.h"

#define VIRTUAL_GRANULARITY ((size_t)2 * 1024 * 1024)

struct allocation {
	/* The following members are constant. */
	int file;
	size_t bytes;
	CUmemAllocationProp prop;
	/* Bytes claimed from the memory of the allocation's device.  0 for host
	 * memory and for imported memory. */
	size_t claimed;

	/* Number of handles that the program holds, and number of mappings.
	 * Guarded by virtual_lock.  The allocation is freed when both are 0. */
	size_t handles, maps;
	struct allocation *next;
};

extern pthread_mutex_t virtual_lock;

/* Return the allocation of @handle, or NULL if the program does not hold
 * @handle. */
struct allocation *allocation_find_locked(CUmemGenericAllocationHandle handle);

CUmemGenericAllocationHandle allocation_handle(const struct allocation *a);

/* Free an allocation if it has neither handles nor mappings. */
void allocation_settle_locked(struct allocation *a);

/* Return true if memory can be allocated at, or accessed from, @location. */
bool virtual_location_is_valid(const struct cudaMemLocation *location);

bool virtual_location_is_host(const struct cudaMemLocation *location);

/* Return true if @bytes is a multiple of the granularity, and not 0. */
static inline bool virtual_size_is_valid(size_t bytes)
{
	return bytes && bytes % VIRTUAL_GRANULARITY == 0;
}

#endif
