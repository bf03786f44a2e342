/* SPDX-License-Identifier: Apache-2.0 */

#include "base/pages.h"

#include <sys/mman.h>

void *pages_alloc(size_t bytes)
{
	void *pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
	                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return pages == MAP_FAILED ? NULL : pages;
}

void pages_forget(void *pages, size_t bytes)
{
	/* Private and anonymous: the next access finds a page of zeros. */
	madvise(pages, bytes, MADV_DONTNEED);
}

void pages_free(void *pages, size_t bytes)
{
	if (pages)
		munmap(pages, bytes);
}
