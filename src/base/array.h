/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_ARRAY_H
#define BASE_ARRAY_H

/*
 * Arrays that grow
 */

#include <stdbool.h>
#include <stddef.h>

bool array_double(void *at, const void *own, size_t count, size_t *room,
                  size_t size);

/*
 * Make room for one more than @count elements of @size bytes in the array whose
 * pointer is at @at, and which has room for *@room.  An array that begins as
 * @own, not from malloc(), is copied, else @own is NULL.  False without memory:
 * then it is as it was.
 */
static inline bool array_grow(void *at, const void *own, size_t count,
                              size_t *room, size_t size)
{
	return count < *room || array_double(at, own, count, room, size);
}

#endif
