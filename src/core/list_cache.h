/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_LIST_CACHE_H
#define CORE_LIST_CACHE_H

/*
 * Lists that a rank has called before
 *
 * A trainer calls the same lists in every step.  What was found out about one by
 * looking at all its tensors - that it can be carried out, its digest, its bytes,
 * where its shape is, what the platform has kept of its calls - holds for as long as
 * the caller's list says the same, which one comparison of memory tells.
 *
 * A list is looked for by where the caller has it, so that several that are called in
 * turn are all known.  One that takes the place of another is the new one.
 */

#include "core/op.h"

struct cohort_comm;

struct cached_list {
	struct op op; /* its tensors: where the caller had them */

	/* As they were, in memory for so many. */
	struct cohort_tensor *tensors;
	char *memory;
	size_t room;

	uint32_t digest;
	size_t bytes;
	uint64_t shape;  /* CALL_SHAPE_NONE: nowhere yet */
	bool is_nothing; /* every element is where it belongs */

	/* By the platform, of the list that was launched here last; and whether
	 * that is this one. */
	void *kept;
	bool was_launched;
};

/* Of a rank; of the thread inside the gate. */
#define LIST_CACHE_SIZE 64
struct list_cache {
	struct cached_list *all; /* so many, or NULL before the first */
};

/* True of what is worth to be known. */
bool list_cache_applies(const struct op *op);

/* What is known of @op, to which it applies; NULL if that differs from what was called
 * before. */
struct cached_list *list_cache_find(const struct cohort_comm *c,
                                    const struct op *op);

/* Know @op from now on, which was found to be right.  NULL without memory, which does
 * not matter. */
struct cached_list *list_cache_add(struct cohort_comm *c, const struct op *op);

/* With nobody inside. */
void list_cache_free(struct list_cache *lists);

#endif
