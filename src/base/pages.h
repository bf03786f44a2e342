/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_PAGES_H
#define BASE_PAGES_H

/*
 * Memory whose contents can be given back while threads may still read it
 */

#include <stddef.h>

/* Zeroed memory of its own pages, or NULL without memory. */
void *pages_alloc(size_t bytes);

/* Give the contents of @pages back to the system: they read as zero from now
 * on, and take memory again where they are written.  Any thread, also while
 * others use them; an access at the same time sees the old contents or
 * zeros. */
void pages_forget(void *pages, size_t bytes);

/* Does nothing for NULL. */
void pages_free(void *pages, size_t bytes);

/* Allocate zeroed pages that stay mapped until the process exits.  Returns NULL
 * if there is no memory. */
void *pages_acquire(size_t bytes);

/* Return pages for reuse by a pages_acquire() of the same size. */
void pages_release(void *pages, size_t bytes);

/* Give up pages that stale pointers may still refer to: they read as zero and
 * use address space, but no memory. */
void pages_abandon(void *pages, size_t bytes);

/* Tell a leak checker that @object is left behind on purpose, with all that it
 * points to. */
void leak_on_purpose(const void *object);

#endif
