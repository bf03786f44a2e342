/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_SIZED_H
#define BASE_SIZED_H

/*
 * Structures of the caller's that begin with their size, or have reserved
 * words: an older version's have less than this one's, a newer version's have
 * more
 */

#include <string.h>

#include "base/status.h"

#define RESERVED_WORDS(array) (sizeof(array) / sizeof((array)[0]))

/* No version's structure is larger, so that a size that was never set is most
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
	memcpy(to, from, size < known ? size : known);
}

/* COHORT_INVALID if a byte of argument @name from @known on is not 0: it
 * belongs to a later version, and asks for what this one does not have. */
static inline int sized_check_rest(const char *name, const void *given,
                                   size_t known, size_t size)
{
	const unsigned char *bytes = given;
	size_t i;

	for (i = known; i < size; i++)
		if (bytes[i])
			return error_set(COHORT_INVALID,
			                 "%s asks for something that version "
			                 "%s does not know (byte %zu)",
			                 name, cohort_version(), i);
	return COHORT_OK;
}

/* COHORT_INVALID unless the @n reserved words of @name, "options->", are 0:
 * what they ask for belongs to a later version. */
static inline int reserved_check(const char *name, const uint64_t *words,
                                 size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		if (words[i])
			return error_set(COHORT_INVALID,
			                 "%sreserved[%zu] is %llu, not 0: "
			                 "version %s does not know what that "
			                 "asks for",
			                 name, i, (unsigned long long)words[i],
			                 cohort_version());
	return COHORT_OK;
}

#endif
