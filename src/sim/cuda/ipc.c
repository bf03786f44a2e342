/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Implements handles with which other processes open device memory
 *
 * Device memory that other processes can map lies in one unnamed file of its
 * process (arena.h).  Another process opens the file through /proc.
 */

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/list.h"
#include "base/scoped_lock.h"
#include "sim/cuda/arena.h"
#include "sim/cuda/cuda_device.h"
#include "sim/cuda/memory_table.h"
#include "sim/cuda/stream_capture.h"
#include "sim/cuda/sync.h"
#include "sim/host.h"
#include "sim/strict/fault.h"

#define MAGIC UINT32_C(0x43496d31)

/* The contents of a handle: a process, its file, and a range in the file. */
struct content {
	uint32_t magic;
	int32_t pid, fd;
	uint32_t reserved;
	/* the file's st_dev and st_ino, from fstat() */
	uint64_t file_device, file;
	uint64_t offset, bytes;
};

_Static_assert(sizeof(struct content) <= sizeof(cudaIpcMemHandle_t),
               "it is a handle's content");

/* Memory of another process that this process has opened.  Opening the same
 * handle again returns the same address. */
struct opened {
	struct opened *next;
	struct content content;
	struct memory memory;
	void *pages; /* start of the mapping, at a page boundary */
	size_t page_bytes;
	int users;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* List of opened memory.  Guarded by lock. */
static struct opened *all;

/* ---- creating handles ------------------------------------------------- */

static bool export_handle(const struct memory *m, cudaIpcMemHandle_t *handle)
{
	struct arena_share share;
	struct content c;
	struct stat s;

	if (!arena_is_shared() || !memory_share(&share) ||
	    fstat(share.fd, &s) ||
	    (uintptr_t)m->start - share.start >= share.bytes)
		return false;
	c = (struct content){
		.magic = MAGIC,
		.pid = getpid(),
		.fd = share.fd,
		.file_device = s.st_dev,
		.file = s.st_ino,
		.offset = (uintptr_t)m->start - share.start,
		.bytes = m->bytes,
	};
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
	if (m.pool || !export_handle(&m, handle))
		return device_error(cudaErrorNotSupported);
	return device_error(fault_sticky(m.device));
}

/* ---- opening ---------------------------------------------------------- */

/* Open the file that a handle names.  The handle is untrusted.  Return -1 if
 * the handle's process has no such file, or if the range lies outside the
 * file. */
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

/* Map the memory of a handle.  Return false if out of memory or if the memory
 * no longer exists. */
static bool map(struct opened *o)
{
	const struct content *c = &o->content;
	const size_t before = c->offset % (size_t)sysconf(_SC_PAGESIZE);
	const int fd = open_file(c);

	if (fd < 0)
		return false;
	o->page_bytes = before + c->bytes;
	o->pages = mmap(NULL, o->page_bytes, PROT_READ | PROT_WRITE,
	                MAP_SHARED | MAP_NORESERVE, fd,
	                (off_t)(c->offset - before));
	close(fd);
	if (o->pages == MAP_FAILED)
		return false;
	o->memory = (struct memory){
		.start = (char *)o->pages + before,
		.bytes = c->bytes,
		.kind = MEMORY_MAPPED,
		.device = device_current(),
	};
	if (!memory_reserve(o->pages, o->page_bytes))
		goto err_after_map;
	if (!memory_enter(&o->memory))
		goto err_after_reserve;
	return true;

err_after_reserve:
	memory_unreserve(o->pages);
err_after_map:
	munmap(o->pages, o->page_bytes);
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
	/* CUDA returns this error for a handle of the same process. */
	if (c.pid == getpid())
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
	memory_remove(memory, 1U << MEMORY_MAPPED, &taken);
	memory_unreserve(o->pages);
	munmap(o->pages, o->page_bytes);
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
	/* Wait for work that might still use the memory. */
	sync_memory();
	SCOPED_LOCK(&lock);
	return device_error(close_locked(memory)
	                            ? fault_sticky(device_current())
	                            : cudaErrorInvalidValue);
}
