/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_TYPE_H
#define BASE_TYPE_H

/*
 * Types of elements: the sizes that every call needs
 */

#include <stddef.h>

#include <cohort/cohort.h>

/* cohort_type_size(): the bytes of an element, 0 for no such type. */
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
