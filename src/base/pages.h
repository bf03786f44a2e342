/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_PAGES_H
#define BASE_PAGES_H

/* Memory that can be returned to the system while other threads may still read
 * it */

#include <stddef.h>

/* Return zeroed pages, or NULL if there is no memory. */
void *pages_alloc(size_t bytes);

/* Return the memory of @pages to the system.  They read as zero from now on,
 * and use memory again once they are written.  Other threads may use the pages
 * at the same time: an access sees the old contents or zeros. */
void pages_forget(void *pages, size_t bytes);

/* Unmap pages.  Does nothing if @pages is NULL. */
void pages_free(void *pages, size_t bytes);

/* Allocate zeroed pages that stay mapped until the process exits.  Return NULL
 * if there is no memory. */
void *pages_acquire(size_t bytes);

/* Return pages for reuse by a pages_acquire() of the same size. */
void pages_release(void *pages, size_t bytes);

/* Give up pages to which stale pointers may still refer.  They read as zero,
 * and use address space but no memory. */
void pages_abandon(void *pages, size_t bytes);

/* Mark @object and everything that it points to as leaked on purpose, for leak
 * checkers. */
void leak_on_purpose(const void *object);

#endif
