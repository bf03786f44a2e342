/* SPDX-License-Identifier: Apache-2.0 */

/* Finding where a handle leads, and mapping it (see ipc_place.h) */

#include "sim/cuda/ipc_place.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sim/cuda/arena.h"
#include "sim/cuda/memory_table.h"

bool ipc_place_of(const void *start, size_t bytes, struct ipc_place *out)
{
	struct arena_share share;
	struct stat s;

	if (!arena_is_shared() || !memory_share(&share) ||
	    fstat(share.fd, &s) ||
	    (uintptr_t)start - share.start >= share.bytes)
		return false;
	*out = (struct ipc_place){
		.pid = getpid(),
		.fd = share.fd,
		.file_device = s.st_dev,
		.file = s.st_ino,
		.offset = (uintptr_t)start - share.start,
		.bytes = bytes,
	};
	return true;
}

/* The file of a place, -1: there is none, or not any more. */
static int open_file(const struct ipc_place *p)
{
	char path[48];
	struct stat s;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", p->pid, p->fd);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return -1;
	if (!fstat(fd, &s) && s.st_dev == p->file_device &&
	    s.st_ino == p->file && s.st_size >= 0 && p->bytes &&
	    p->bytes <= (uint64_t)s.st_size &&
	    p->offset <= (uint64_t)s.st_size - p->bytes)
		return fd;
	close(fd);
	return -1;
}

bool ipc_map(const struct ipc_place *p, struct ipc_map *out)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	const size_t before = p->offset % page;
	const int fd = open_file(p);
	void *pages;

	if (fd < 0)
		return false;
	pages = mmap(NULL, before + p->bytes, PROT_READ | PROT_WRITE,
	             MAP_SHARED | MAP_NORESERVE, fd,
	             (off_t)(p->offset - before));
	close(fd);
	if (pages == MAP_FAILED)
		return false;
	*out = (struct ipc_map){
		.start = (char *)pages + before,
		.pages = pages,
		.page_bytes = before + p->bytes,
	};
	return true;
}

void ipc_unmap(const struct ipc_map *map)
{
	munmap(map->pages, map->page_bytes);
}
