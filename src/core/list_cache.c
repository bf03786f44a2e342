/* SPDX-License-Identifier: Apache-2.0 */

#include "core/list_cache.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "core/agree_words.h"
#include "core/call.h"
#include "core/clique.h"

#define CACHE_LINE 64 /* bytes, nearly everywhere */

bool list_cache_applies(const struct op *op)
{
	return op->n > 1 && op->tensors && op->kind != OP_BATCH &&
	       op_is_plain(op) && !op->staged;
}

/* Where a list is kept, by where the caller has it. */
static struct cached_list *place_of(const struct cohort_comm *c,
                                    const struct op *op)
{
	const uint64_t hash = hash_step(op->n, (uintptr_t)op->tensors);

	return &c->cached.all[hash >> 58];
}

_Static_assert(LIST_CACHE_SIZE == UINT64_C(1) << (64 - 58), "the highest bits");

struct cached_list *list_cache_find(const struct cohort_comm *c,
                                    const struct op *op)
{
	struct cached_list *k = c->cached.all ? place_of(c, op) : NULL;

	if (!k || k->op.n != op->n || k->op.kind != op->kind ||
	    k->op.redop != op->redop || k->op.root != op->root ||
	    k->op.from_host != op->from_host ||
	    memcmp(k->tensors, op->tensors, op->n * sizeof(*op->tensors)) != 0)
		return NULL;
	return k;
}

/* Room for a copy of @op's tensors that begins as far into a cache line as they
 * do: two that are shifted against each other take a third longer to
 * compare. */
static bool make_room(struct cached_list *k, const struct op *op)
{
	const size_t size = sizeof(*k->tensors);
	size_t shift;
	void *bigger;

	if (op->n > k->room) {
		bigger = op->n < SIZE_MAX / size - CACHE_LINE
		                 ? realloc(k->memory, op->n * size + CACHE_LINE)
		                 : NULL;
		if (!bigger)
			return false;
		k->memory = bigger;
		k->room = op->n;
	}
	shift = ((uintptr_t)op->tensors - (uintptr_t)k->memory) % CACHE_LINE;
	k->tensors = (void *)(k->memory + shift);
	return true;
}

/* True if no rank has anything to do for it. */
static bool is_nothing(const struct cohort_comm *c, const struct op *op)
{
	size_t i;

	for (i = 0; i < op->n; i++)
		if (!call_is_nothing(c, op, &op->tensors[i]))
			return false;
	return true;
}

struct cached_list *list_cache_add(struct cohort_comm *c, const struct op *op)
{
	struct cached_list *k;

	if (!c->cached.all)
		c->cached.all = calloc(LIST_CACHE_SIZE, sizeof(*c->cached.all));
	if (!c->cached.all)
		return NULL;
	k = place_of(c, op);
	k->op.n = 0;
	if (!make_room(k, op))
		return NULL;
	memcpy(k->tensors, op->tensors, op->n * sizeof(*op->tensors));
	k->op = *op;
	k->digest = agree_digest(op);
	k->bytes = op_bytes(op);
	k->shape = CALL_SHAPE_NONE;
	k->is_nothing = is_nothing(c, op);
	return k;
}

void list_cache_free(struct list_cache *lists)
{
	size_t i;

	for (i = 0; lists->all && i < LIST_CACHE_SIZE; i++)
		free(lists->all[i].memory);
	free(lists->all);
	lists->all = NULL;
}
