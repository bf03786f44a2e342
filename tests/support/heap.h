/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HEAP_H
#define HEAP_H

/*
 * The program's heap, with counters and with failures on request
 *
 * Link the program with
 *
 *   -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=aligned_alloc
 *   -Wl,--wrap=posix_memalign,--wrap=free
 *
 * Only calls from the program's own objects count. Allocations by shared
 * libraries, including libc (as in strdup()), do not. Any thread can call
 * these functions.
 */

#include <stdbool.h>

/* Return the number of allocations that have succeeded since the program
 * started. */
unsigned long heap_allocations(void);

/* Return the number of allocated blocks. */
long heap_live(void);

/* Make the @n-th allocation from now on fail once. If @n is 0, none fails. */
void heap_fail_at(unsigned long n);

/* Return whether the allocation that the last heap_fail_at() chose has
 * failed. */
bool heap_fired(void);

#endif
