/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_DRIVER_ALLOCATION_H
#define SIM_DRIVER_ALLOCATION_H

/*
 * Allocations of virtual memory management: memory without an address, which
 * is an anonymous file, so that it can be mapped anywhere and handed to
 * another process
 *
 * One lock guards them and what is mapped; functions whose name ends in
 * _locked are called with it held.
 */

#include <pthread.h>
#include <stdbool.h>

#include "sim/driver/driver_abi.h"

#define VIRTUAL_GRANULARITY ((size_t)2 * 1024 * 1024)

struct allocation {
	/* Constant. */
	int file;
	size_t bytes;
	CUmemAllocationProp prop;
	/* Of its device's memory; 0: of the host, or imported. */
	size_t claimed;

	/* Guarded by the lock: how often the program holds its handle, and in
	 * how many places it is mapped.  The last one frees it. */
	size_t handles, maps;
	struct allocation *next;
};

extern pthread_mutex_t virtual_lock;

/* The allocation that the program holds by @handle, or NULL. */
struct allocation *allocation_find_locked(CUmemGenericAllocationHandle handle);

CUmemGenericAllocationHandle allocation_handle(const struct allocation *a);

/* Free it if nobody uses it any more. */
void allocation_settle_locked(struct allocation *a);

/* True if memory may be there, or be used from there. */
bool virtual_location_is_valid(const struct cudaMemLocation *location);
bool virtual_location_is_host(const struct cudaMemLocation *location);

/* True if it is a multiple of the granularity, and not 0. */
static inline bool virtual_size_is_valid(size_t bytes)
{
	return bytes && bytes % VIRTUAL_GRANULARITY == 0;
}

#endif
