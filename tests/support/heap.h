/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HEAP_H
#define HEAP_H

/*
 * The program's heap, counted, and failing where asked
 *
 * For programs linked with
 *
 *   -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=aligned_alloc
 *   -Wl,--wrap=posix_memalign,--wrap=free
 *
 * Seen is what the program's own objects call; what shared libraries (also
 * libc itself, as in strdup()) allocate is not.  Any thread.
 */

#include <stdbool.h>

/* Allocations that succeeded since the start of the program. */
unsigned long heap_allocations(void);

/* Blocks that are allocated now. */
long heap_live(void);

/* Make the @n-th allocation from now on fail, once; 1 is the next, 0 none. */
void heap_fail_at(unsigned long n);

/* True if the allocation that the last heap_fail_at() named has failed. */
bool heap_fired(void);

#endif
