/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_SIZED_H
#define BASE_SIZED_H

/*
 * Structs of the caller that start with their size or have reserved words
 *
 * A member that the caller's shorter struct lacks has its default.  A nonzero
 * reserved word, or a nonzero byte beyond the end of this version's struct, is
 * an error, because it requests something that this version does not have.
 */

#include <string.h>

#include "base/status.h"
#include "base/util.h"

/* Maximum size of a struct in any version.  A size that was never set is
 * usually larger. */
#define SIZED_MOST 4096

/* Return COHORT_INVALID unless the @size of struct @name is from @least to
 * SIZED_MOST.
 * @hint: how the caller sets the size, for the error */
static inline int sized_check(const char *name, size_t size, size_t least,
                              const char *hint)
{
	return size < least || size > SIZED_MOST
	               ? error_set(COHORT_INVALID, "%s->size is %zu; %s", name,
	                           size, hint)
	               : COHORT_OK;
}

/* Copy the @known bytes at @from to the caller's struct @to of @size bytes, and
 * fill the rest of it with zeros.  @size must have been checked. */
static inline void sized_fill(void *to, size_t size, const void *from,
                              size_t known)
{
	if (size > known)
		memset((char *)to + known, 0, size - known);
	memcpy(to, from, MIN(size, known));
}

/* Return COHORT_INVALID unless the reserved words of struct @given, which are
 * its bytes from offset @from to @size, are all 0.
 * @name: prefix of the members' names in the error, as in "options->" */
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
			                 "version %s of the library does not "
			                 "support it",
			                 name, (i - from) / sizeof(word),
			                 (unsigned long long)word,
			                 cohort_version());
	}
	return COHORT_OK;
}

#endif
