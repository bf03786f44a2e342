/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_TYPE_H
#define BASE_TYPE_H

/* Sizes of element types, inlined because every call needs them */

#include <stdbool.h>
#include <stddef.h>

#include <cohort/cohort.h>

/* Number of bits that can hold any type. */
#define TYPE_BITS 5
#define TYPE_LAST COHORT_C128

/* The type plus 1 must also fit, see core/call_shape.c. */
_Static_assert(TYPE_LAST + 1 < 1 << TYPE_BITS, "TYPE_BITS is too small");

/* Return true if elements of @type can be added.  NCCL supports all such
 * types. */
static inline bool type_has_arithmetic(int type)
{
	return type < COHORT_BOOL;
}

/* Return the size of an element in bytes, as cohort_type_size() does, or 0 if
 * @type is not a type. */
static inline size_t type_size(int type)
{
	static const unsigned char bytes[] = {
#define TYPE_BYTES(name, value, size, text) [value] = size,
		COHORT_TYPE_LIST(TYPE_BYTES)
#undef TYPE_BYTES
	};

	return (size_t)type < sizeof(bytes) ? bytes[type] : 0;
}

#endif
