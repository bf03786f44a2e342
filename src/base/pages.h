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

/*
 * pages_take  - zeroed memory of its own pages that is never unmapped, or NULL without
 *               memory
 * pages_give  - give it back, for a pages_take() of as many bytes
 * pages_leave - pages_forget(), and leave it for good: it costs addresses only
 */
void *pages_take(size_t bytes);
void pages_give(void *pages, size_t bytes);
void pages_leave(void *pages, size_t bytes);

#endif
