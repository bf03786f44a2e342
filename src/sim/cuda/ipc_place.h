/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_CUDA_IPC_PLACE_H
#define SIM_CUDA_IPC_PLACE_H

/*
 * Where a handle for another process leads
 *
 * All memory of a process's simulated devices is in one file without a name, if
 * other processes can map it at all (arena.h).  A place says which file of
 * which process that is, and where in it something lies.  The other process
 * opens the file through /proc.  A place is not trusted: it may come from
 * anywhere.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ipc_place {
	int32_t pid;
	int32_t fd;
	uint64_t file_device, file; /* as fstat() tells them */
	uint64_t offset, bytes;
};

/* Store where [@start, @start + @bytes) is; false if no other process can map
 * it. */
bool ipc_place_of(const void *start, size_t bytes, struct ipc_place *out);

/* What is mapped of a place. */
struct ipc_map {
	char *start;
	void *pages; /* whole ones, with what is around it */
	size_t page_bytes;
};

/* Map a place; false without memory, or if there is no such place, or not any
 * more. */
bool ipc_map(const struct ipc_place *place, struct ipc_map *out);
void ipc_unmap(const struct ipc_map *map);

#endif
