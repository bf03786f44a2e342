/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_PAGES_H
#define BASE_PAGES_H

/*
 * Memory whose contents can be given back while threads may still read it
 */

#include <stddef.h>

/* Zeroed memory of its own pages, or NULL without memory. */
void *pages_alloc(size_t bytes);

/* Give its contents back to the system: it reads as zero from now on, and takes
 * memory again where it is written.  Any thread, also while others use it; an access
 * at the same time sees the old contents or zeros. */
void pages_forget(void *pages, size_t bytes);

/* Does nothing for NULL. */
void pages_free(void *pages, size_t bytes);

#endif
