/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Handles of memory for other processes (for those of events see
 * shared_event.h)
 */

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/list.h"
#include "base/scoped_lock.h"
#include "sim/cuda/arena.h"
#include "sim/cuda/cuda_device.h"
#include "sim/cuda/ipc_place.h"
#include "sim/cuda/memory_table.h"
#include "sim/cuda/stream_capture.h"
#include "sim/cuda/sync.h"
#include "sim/host.h"
#include "sim/strict/fault.h"

#define MAGIC UINT32_C(0x43496d31)

/* What a handle holds. */
struct content {
	uint32_t magic;
	uint32_t reserved;
	struct ipc_place place;
};

_Static_assert(sizeof(struct content) <= sizeof(cudaIpcMemHandle_t),
               "it is a handle's content");

/* Memory that was opened.  A handle that is opened again gives the same
 * address. */
struct opened {
	struct opened *next;
	struct content content;
	struct memory memory;
	struct ipc_map map;
	int users;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Guarded by lock. */
static struct opened *all;

/* ---- giving ----------------------------------------------------------- */

static bool give(const struct memory *m, cudaIpcMemHandle_t *handle)
{
	struct content c = { .magic = MAGIC };

	if (!ipc_place_of(m->start, m->bytes, &c.place))
		return false;
	memset(handle, 0, sizeof(*handle));
	memcpy(handle, &c, sizeof(c));
	return true;
}

cudaError_t host_cudaIpcGetMemHandle(cudaIpcMemHandle_t *handle, void *memory)
{
	struct memory m;

	if (!handle || !memory_find(memory, &m) || m.freed ||
	    m.kind != MEMORY_DEVICE)
		return device_error(cudaErrorInvalidValue);
	if (m.pool || !give(&m, handle))
		return device_error(cudaErrorNotSupported);
	return device_error(fault_sticky(m.device));
}

/* ---- opening ---------------------------------------------------------- */

/* Map what the handle speaks of; false without memory, or if it is gone. */
static bool map(struct opened *o)
{
	if (!ipc_map(&o->content.place, &o->map))
		return false;
	o->memory = (struct memory){
		.start = o->map.start,
		.bytes = o->content.place.bytes,
		.kind = MEMORY_MAPPED,
		.device = device_current(),
	};
	if (!memory_reserve(o->map.pages, o->map.page_bytes))
		goto err_after_map;
	if (!memory_enter(&o->memory))
		goto err_after_reserve;
	return true;

err_after_reserve:
	memory_unreserve(o->map.pages);
err_after_map:
	ipc_unmap(&o->map);
	return false;
}

static struct opened *find_locked(const struct content *c)
{
	struct opened *o;

	list_find(o, all, next, memcmp(&o->content, c, sizeof(*c)) == 0);
	return o;
}

static cudaError_t open_locked(const struct content *c, void **memory)
{
	struct opened *o = find_locked(c);

	if (!o) {
		o = calloc(1, sizeof(*o));
		if (!o)
			return cudaErrorMemoryAllocation;
		o->content = *c;
		if (!map(o)) {
			free(o);
			return cudaErrorInvalidResourceHandle;
		}
		list_add(all, o, next);
	}
	o->users++;
	*memory = o->memory.start;
	return cudaSuccess;
}

cudaError_t host_cudaIpcOpenMemHandle(void **memory, cudaIpcMemHandle_t handle,
                                      unsigned int flags)
{
	struct content c;
	cudaError_t error;

	if (!memory || flags != cudaIpcMemLazyEnablePeerAccess)
		return device_error(cudaErrorInvalidValue);
	if (!arena_is_shared())
		return device_error(cudaErrorNotSupported);
	memcpy(&c, &handle, sizeof(c));
	if (c.magic != MAGIC)
		return device_error(cudaErrorInvalidResourceHandle);
	/* As CUDA answers where the handle was made. */
	if (c.place.pid == getpid())
		return device_error(cudaErrorDeviceUninitialized);
	error = capture_permits_unsafe();
	if (error == cudaSuccess)
		error = fault_sticky(device_current());
	if (error != cudaSuccess)
		return device_error(error);
	sync_memory();
	SCOPED_LOCK(&lock);
	return device_error(open_locked(&c, memory));
}

/* ---- closing ---------------------------------------------------------- */

static bool close_locked(const void *memory)
{
	struct opened *o;
	struct memory taken;

	list_find(o, all, next, o->memory.start == memory);
	if (!o)
		return false;
	if (--o->users)
		return true;
	list_remove(all, o, next);
	memory_take(memory, 1U << MEMORY_MAPPED, &taken);
	memory_unreserve(o->map.pages);
	ipc_unmap(&o->map);
	free(o);
	return true;
}

cudaError_t host_cudaIpcCloseMemHandle(void *memory)
{
	cudaError_t error;

	if (!memory)
		return device_error(cudaErrorInvalidValue);
	if (!arena_is_shared())
		return device_error(cudaErrorNotSupported);
	error = capture_permits_unsafe();
	if (error != cudaSuccess)
		return device_error(error);
	/* Work may still use it. */
	sync_memory();
	SCOPED_LOCK(&lock);
	return device_error(close_locked(memory)
	                            ? fault_sticky(device_current())
	                            : cudaErrorInvalidValue);
}
