/* SPDX-License-Identifier: Apache-2.0 */

#include "sim/nccl/redop.h"

#include <stdatomic.h>
#include <stdlib.h>

/* A handle: the communicator's mark, which is not 0, and the operation's place in
 * its list. */
#define PLACE_BITS 16
#define MARKS (1 << (30 - PLACE_BITS))

static int place_of(const struct redops *all, int handle)
{
	if (handle < ncclNumOps || handle >> PLACE_BITS != all->mark)
		return -1;
	handle &= (1 << PLACE_BITS) - 1;
	return handle < all->count && all->list[handle].live ? handle : -1;
}

const struct redop *redop_find(const struct redops *all, int handle)
{
	int place = place_of(all, handle);

	return place < 0 ? NULL : &all->list[place];
}

void redops_free(struct redops *all)
{
	free(all->list);
}

static int new_mark(void)
{
	static atomic_uint marks; /* relaxed: a number */

	return 1 + (int)(atomic_fetch_add_explicit(&marks, 1,
	                                           memory_order_relaxed) %
	                 (MARKS - 1));
}

/* A place in the list, or -1 without memory. */
static int new_place(struct redops *all)
{
	int i, more = all->room ? 2 * all->room : 4;
	struct redop *bigger;

	for (i = 0; i < all->count; i++)
		if (!all->list[i].live)
			return i;
	if (all->count == all->room) {
		if (more > 1 << PLACE_BITS)
			return -1;
		bigger = realloc(all->list, (size_t)more * sizeof(*bigger));
		if (!bigger)
			return -1;
		all->list = bigger;
		all->room = more;
	}
	return all->count++;
}

int redop_add(struct redops *all, const struct redop *op)
{
	int place = new_place(all);

	if (place < 0)
		return -1;
	if (!all->mark)
		all->mark = new_mark();
	all->list[place] = *op;
	return all->mark << PLACE_BITS | place;
}

bool redop_remove(struct redops *all, int handle)
{
	int place = place_of(all, handle);

	if (place < 0)
		return false;
	all->list[place].live = false;
	return true;
}
