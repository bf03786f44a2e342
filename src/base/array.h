/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_ARRAY_H
#define BASE_ARRAY_H

/* Growing arrays */

#include <stdbool.h>
#include <stddef.h>

bool array_double(void *at, const void *own, size_t count, size_t *room,
                  size_t size);

/*
 * Make room for one more element in a growing array.  Return false if there is
 * no memory; the array is then unchanged.
 * @at:    address of the array's pointer
 * @own:   initial array that is not from malloc(), or NULL; it is copied, not
 *         freed
 * @count: elements in use
 * @room:  allocated elements, updated
 * @size:  bytes of an element
 */
static inline bool array_grow(void *at, const void *own, size_t count,
                              size_t *room, size_t size)
{
	return count < *room || array_double(at, own, count, room, size);
}

#endif
