/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_CUDA_ARENA_H
#define SIM_CUDA_ARENA_H

/*
 * Allocates the memory of the simulated devices, in reserved address ranges
 *
 * The program's own memory never lies in these ranges.  An address that is in
 * these ranges but in no allocation is therefore freed or out of bounds.
 *
 * With an address or thread sanitizer, memory comes from the heap instead, so
 * that the sanitizer can detect such errors itself.
 *
 * The caller of arena_get(), arena_put(), arena_share() and arena_has() holds
 * the lock of memory_table.c.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define ARENA_IS_HEAP 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define ARENA_IS_HEAP 1
#endif
#endif

/* Allocate @bytes, which must not be 0.  The memory is aligned to 256 bytes or,
 * if it is 2 MiB or larger, to 2 MiB, with huge pages if the system has them.
 * Return NULL if out of memory. */
void *arena_get(size_t bytes);

/* Free memory from arena_get(@bytes). */
void arena_put(void *memory, size_t bytes);

/*
 * A memory file that other processes can map
 *
 * The file gets no huge pages, unless the system enables them for shared memory
 * (/sys/kernel/mm/transparent_hugepage/shmem_enabled).  A process therefore
 * uses such a file only if COHORT_HOST_SHARED=1 or if its environment says that
 * a launcher has started several processes.
 */
struct arena_share {
	int fd; /* descriptor of the file, owned by the arena */
	uintptr_t start;
	size_t bytes;
};

/* Read COHORT_HOST_SHARED.  Return COHORT_OK or COHORT_INVALID. */
int arena_init(void);

/* Return true if other processes can map this process's device memory. */
bool arena_is_shared(void);

/* Store the memory file in @out, creating the file if needed.  Returns false if
 * the process has no such file. */
bool arena_share(struct arena_share *out);

/* Return true if any byte of [@p, @p + @bytes) is in the arena.  The range must
 * not wrap around. */
bool arena_has(const void *p, size_t bytes);

#endif
