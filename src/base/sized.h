/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_SIZED_H
#define BASE_SIZED_H

/*
 * Structs of the caller's that begin with their size, or have reserved words
 *
 * What a shorter struct lacks has its default.  What is not 0 in reserved
 * words, or behind the end of ours, asks for what this version does not have.
 */

#include <string.h>

#include "base/status.h"
#include "base/util.h"

/* No version's struct is larger, so that a size that was never set is most
 * often found. */
#define SIZED_MOST 4096

/* COHORT_INVALID unless argument @name has a size that a version may have,
 * @least or more.  @hint: how the size is set. */
static inline int sized_check(const char *name, size_t size, size_t least,
                              const char *hint)
{
	return size < least || size > SIZED_MOST
	               ? error_set(COHORT_INVALID, "%s->size is %zu; %s", name,
	                           size, hint)
	               : COHORT_OK;
}

/* Fill the caller's @to of @size bytes, a size that was checked, from @from of
 * @known bytes: as far as both go, and with zeros beyond. */
static inline void sized_fill(void *to, size_t size, const void *from,
                              size_t known)
{
	if (size > known)
		memset((char *)to + known, 0, size - known);
	memcpy(to, from, MIN(size, known));
}

/* COHORT_INVALID unless the reserved words of @name, "options->", are 0: they
 * are at the end of its @size bytes, from byte @from on. */
static inline int reserved_check(const char *name, const void *given,
                                 size_t from, size_t size)
{
	size_t i;

	for (i = from; i < size; i += sizeof(uint64_t)) {
		const size_t left = size - i;
		uint64_t word = 0;

		memcpy(&word, (const char *)given + i, MIN(left, sizeof(word)));
		if (word)
			return error_set(COHORT_INVALID,
			                 "%sreserved[%zu] is %llu, not 0: "
			                 "version %s does not know what that "
			                 "asks for",
			                 name, (i - from) / sizeof(word),
			                 (unsigned long long)word,
			                 cohort_version());
	}
	return COHORT_OK;
}

#endif
