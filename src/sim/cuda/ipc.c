/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Handles for other processes
 *
 * All memory of a process's simulated devices is in one file without a name, if other
 * processes can map it at all (arena.h).  A handle says which file of which process that
 * is, and where in it the allocation lies.  The other process opens the file through
 * /proc.  A handle is not trusted: it may come from anywhere.
 *
 * There are no handles of events.
 */

#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sim/cuda/arena.h"
#include "sim/cuda/capture.h"
#include "sim/cuda/device.h"
#include "sim/cuda/memory.h"
#include "sim/cuda/sync.h"
#include "sim/host.h"
#include "sim/strict/fault.h"

#define MAGIC UINT32_C(0x43496d31)

/* What a handle holds. */
struct content {
	uint32_t magic;
	int32_t pid;
	int32_t fd;
	int32_t reserved;
	uint64_t file_device, file; /* as fstat() tells them */
	uint64_t offset, bytes;
};

_Static_assert(sizeof(struct content) <= sizeof(cudaIpcMemHandle_t),
               "it is a handle's content");

/* Memory that was opened.  A handle that is opened again gives the same address. */
struct opened {
	struct opened *next;
	struct content content;
	struct memory memory;
	void *map; /* whole pages */
	size_t map_bytes;
	int users;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Guarded by lock. */
static struct opened *all;

/* ---- giving ----------------------------------------------------------- */

static bool give(const struct memory *m, cudaIpcMemHandle_t *handle)
{
	struct content c = { .magic = MAGIC, .pid = getpid() };
	struct arena_share share;
	struct stat s;

	if (!arena_is_shared() || !memory_share(&share) ||
	    fstat(share.fd, &s) ||
	    (uintptr_t)m->start - share.start >= share.bytes)
		return false;
	c.fd = share.fd;
	c.file_device = s.st_dev;
	c.file = s.st_ino;
	c.offset = (uintptr_t)m->start - share.start;
	c.bytes = m->bytes;
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

/* The file that the handle speaks of, -1: there is none, or not any more. */
static int open_file(const struct content *c)
{
	char path[48];
	struct stat s;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", c->pid, c->fd);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return -1;
	if (!fstat(fd, &s) && s.st_dev == c->file_device &&
	    s.st_ino == c->file && s.st_size >= 0 && c->bytes &&
	    c->bytes <= (uint64_t)s.st_size &&
	    c->offset <= (uint64_t)s.st_size - c->bytes)
		return fd;
	close(fd);
	return -1;
}

/* Map what the handle speaks of; false without memory, or if it is gone. */
static bool map(struct opened *o)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	const size_t before = o->content.offset % page;
	const int fd = open_file(&o->content);

	if (fd < 0)
		return false;
	o->map_bytes = before + o->content.bytes;
	o->map = mmap(NULL, o->map_bytes, PROT_READ | PROT_WRITE,
	              MAP_SHARED | MAP_NORESERVE, fd,
	              (off_t)(o->content.offset - before));
	close(fd);
	if (o->map == MAP_FAILED)
		return false;
	o->memory = (struct memory){
		.start = (char *)o->map + before,
		.bytes = o->content.bytes,
		.kind = MEMORY_MAPPED,
		.device = device_current(),
	};
	if (!memory_reserve(o->map, o->map_bytes))
		goto err_after_map;
	if (!memory_enter(&o->memory))
		goto err_after_reserve;
	return true;

err_after_reserve:
	memory_unreserve(o->map);
err_after_map:
	munmap(o->map, o->map_bytes);
	return false;
}

static struct opened *find_locked(const struct content *c)
{
	struct opened *o = all;

	while (o && memcmp(&o->content, c, sizeof(*c)) != 0)
		o = o->next;
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
		o->next = all;
		all = o;
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
	if (c.pid == getpid())
		return device_error(cudaErrorDeviceUninitialized);
	error = capture_permits_unsafe();
	if (error == cudaSuccess)
		error = fault_sticky(device_current());
	if (error != cudaSuccess)
		return device_error(error);
	sync_memory(device_current());
	pthread_mutex_lock(&lock);
	error = open_locked(&c, memory);
	pthread_mutex_unlock(&lock);
	return device_error(error);
}

/* ---- closing ---------------------------------------------------------- */

static bool close_locked(const void *memory)
{
	struct opened **at = &all, *o;
	struct memory taken;

	while (*at && (*at)->memory.start != memory)
		at = &(*at)->next;
	o = *at;
	if (!o)
		return false;
	if (--o->users)
		return true;
	*at = o->next;
	memory_take(memory, 1U << MEMORY_MAPPED, &taken);
	memory_unreserve(o->map);
	munmap(o->map, o->map_bytes);
	free(o);
	return true;
}

cudaError_t host_cudaIpcCloseMemHandle(void *memory)
{
	cudaError_t error;
	bool was_open;

	if (!memory)
		return device_error(cudaErrorInvalidValue);
	if (!arena_is_shared())
		return device_error(cudaErrorNotSupported);
	error = capture_permits_unsafe();
	if (error != cudaSuccess)
		return device_error(error);
	/* Work may still use it. */
	sync_memory(device_current());
	pthread_mutex_lock(&lock);
	was_open = close_locked(memory);
	pthread_mutex_unlock(&lock);
	return device_error(was_open ? fault_sticky(device_current())
	                             : cudaErrorInvalidValue);
}

/* ---- events ----------------------------------------------------------- */

cudaError_t host_cudaIpcGetEventHandle(cudaIpcEventHandle_t *handle,
                                       cudaEvent_t event)
{
	if (!handle)
		return device_error(cudaErrorInvalidValue);
	if (!event)
		return device_error(cudaErrorInvalidResourceHandle);
	return device_error(cudaErrorNotSupported);
}

cudaError_t host_cudaIpcOpenEventHandle(cudaEvent_t *event,
                                        cudaIpcEventHandle_t handle)
{
	(void)handle;
	return device_error(event ? cudaErrorNotSupported
	                          : cudaErrorInvalidValue);
}
