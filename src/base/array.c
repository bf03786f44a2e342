/* SPDX-License-Identifier: Apache-2.0 */

#include "base/array.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_ROOM 8

bool array_double(void *at, const void *own, size_t count, size_t *room,
                  size_t size)
{
	const size_t more = *room ? 2 * *room : FIRST_ROOM;
	void *old, *bigger;

	memcpy(&old, at, sizeof(old));
	bigger = realloc(old == own ? NULL : old, more * size);
	if (!bigger)
		return false;
	if (own && old == own)
		memcpy(bigger, own, count * size);
	memcpy(at, &bigger, sizeof(bigger));
	*room = more;
	return true;
}
