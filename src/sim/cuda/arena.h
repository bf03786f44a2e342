/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_CUDA_ARENA_H
#define SIM_CUDA_ARENA_H

/*
 * Where the simulated devices' memory comes from: addresses that nothing else
 * has
 *
 * So an address that was freed, or that lies behind the end of an allocation,
 * is known for what it is: memory of the program's own is never there.  An
 * address sanitizer sees such uses by itself, and wants its own allocator: with
 * one, memory comes from that, and no address is the arena's.
 *
 * The table of memory (memory_table.c) calls these functions with its lock
 * held.
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

/* Memory of @bytes, which are not 0: at a multiple of 256 or, if it is 2 MiB or
 * more, of 2 MiB, with large pages if the system has them.  NULL if there is
 * none. */
void *arena_get(size_t bytes);

/* Give back what arena_get(@bytes) has returned. */
void arena_put(void *memory, size_t bytes);

/*
 * Memory that other processes can map
 *
 * It has no large pages, unless the system has them for shared memory
 * (/sys/kernel/mm/transparent_hugepage/shmem_enabled), so that a process has it
 * only if COHORT_HOST_SHARED=1 or a launcher's environment says that there are
 * several.
 */
struct arena_share {
	int fd; /* the arena's own */
	uintptr_t start;
	size_t bytes;
};

/* Read COHORT_HOST_SHARED.  Returns COHORT_OK or COHORT_INVALID. */
int arena_init(void);

/* True if this process's memory is to be such; and store what it is.  False if
 * there is none. */
bool arena_is_shared(void);
bool arena_share(struct arena_share *out);

/* True if some of [@p, @p + @bytes), which does not wrap, is the arena's. */
bool arena_has(const void *p, size_t bytes);

#endif
