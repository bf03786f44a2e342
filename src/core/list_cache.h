/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_LIST_CACHE_H
#define CORE_LIST_CACHE_H

/*
 * Lists that a rank has called before
 *
 * A trainer calls the same lists in every step.  What a look at all tensors of
 * a list has found out - that it can be carried out, its digest, its bytes,
 * where its shape is - holds as long as the caller's list says the same, which
 * one comparison of memory tells.
 *
 * A list is found by the address of its tensors, so that several lists that are
 * called in turn are all cached.  If two lists have been at one address, the
 * later one is cached.
 */

#include "core/op.h"

struct cohort_comm;

struct cached_list {
	struct op op; /* its tensors: at the caller's address */

	/* The tensors as they were, in memory with room for that many. */
	struct cohort_tensor *tensors;
	char *memory;
	size_t room;

	uint32_t digest;
	size_t bytes;
	uint64_t shape;  /* CALL_SHAPE_NONE: nowhere yet */
	bool is_nothing; /* every element is where it belongs */
};

/* The lists of one rank.  Inside the gate only. */
#define LIST_CACHE_SIZE 64
struct list_cache {
	struct cached_list
		*all; /* LIST_CACHE_SIZE of them; NULL before the first */
};

/* True if @op is worth caching. */
bool list_cache_applies(const struct op *op);

/* The cached list that equals @op, or NULL.  list_cache_applies() must be
 * true. */
struct cached_list *list_cache_find(const struct cohort_comm *c,
                                    const struct op *op);

/* Cache @op, which has passed op_check().  NULL without memory, which does not
 * matter. */
struct cached_list *list_cache_add(struct cohort_comm *c, const struct op *op);

/* With nobody inside. */
void list_cache_free(struct list_cache *lists);

#endif
