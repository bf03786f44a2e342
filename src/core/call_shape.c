/* SPDX-License-Identifier: Apache-2.0 */

#include "core/call_shape.h"

#include "base/pages.h"
#include "base/status.h"
#include "base/util.h"

/* Number of words in the ring for each recorder slot.  Most calls need no
 * words. */
#define WORDS_PER_SLOT 8

/* Format of the words that describe a shape.  The word of a call has the
 * highest bit set; from the low bits up, it has 8 bits of kind, 8 of reduction,
 * 15 of root, and the number of its tensors, whose words follow.  The word of a
 * tensor has the type in the low bits and the count above it; the count has
 * enough bits for any tensor that fits in memory. */
#define CALL_BIT (UINT64_C(1) << 63)
#define MOST_COUNT ((CALL_BIT >> TYPE_BITS) - 1)

int call_shapes_init(struct call_shapes *o, unsigned slots)
{
	o->room = (size_t)slots * WORDS_PER_SLOT;
	o->words = pages_alloc(o->room * sizeof(*o->words));
	return o->words ? COHORT_OK
	                : error_set(COHORT_NO_MEMORY,
	                            "no memory for the shapes of %u calls",
	                            slots);
}

void call_shapes_fini(struct call_shapes *o)
{
	pages_free(o->words, o->room * sizeof(*o->words));
}

void call_shapes_forget(struct call_shapes *o)
{
	pages_forget(o->words, o->room * sizeof(*o->words));
}

static uint64_t call_word(const struct op *c)
{
	return CALL_BIT | (uint64_t)c->kind |
	       (uint64_t)redop_kind(c->redop) << 8 |
	       (uint64_t)(c->root & 0x7fff) << 16 |
	       (uint64_t)(uint32_t)c->n << 31;
}

static uint64_t tensor_word(const struct cohort_tensor *t)
{
	/* Add 1 to the type, so that the word is never 0, which ends a
	 * shape. */
	return (uint64_t)(t->type + 1) | MIN(t->count, MOST_COUNT) << TYPE_BITS;
}

/* Return the number of words that describe @op: one for each collective call,
 * one for each of its tensors, and one for the end. */
static size_t words_of(const struct op *op)
{
	size_t i, n, words = 1;
	const struct op *calls = op_calls(op, &n);

	for (i = 0; i < n; i++)
		if (op_is_collective(&calls[i]))
			words += 1 + calls[i].n;
	return words;
}

/* Store a word.  The release makes a thread that reads this word also see the
 * new o->begun, and so detect that an older shape was overwritten. */
static void store_word(struct call_shapes *o, uint64_t at, uint64_t word)
{
	atomic_store_explicit(&o->words[at & (o->room - 1)], word,
	                      memory_order_release);
}

uint64_t call_shape_keep(struct call_shapes *o, const struct op *op)
{
	uint64_t at, first;
	const struct op *calls;
	size_t i, k, n, words;

	if (op->kind != OP_BATCH && op->n < 2)
		return CALL_SHAPE_NONE;
	words = words_of(op);
	if (words > o->room)
		return CALL_SHAPE_NONE;
	first = at = atomic_load_explicit(&o->begun, memory_order_relaxed);
	atomic_store_explicit(&o->begun, at + words, memory_order_relaxed);
	calls = op_calls(op, &n);
	for (i = 0; i < n; i++) {
		if (!op_is_collective(&calls[i]))
			continue;
		store_word(o, at++, call_word(&calls[i]));
		for (k = 0; k < calls[i].n; k++)
			store_word(o, at++, tensor_word(&calls[i].tensors[k]));
	}
	store_word(o, at, 0);
	return first;
}

/* Read a word; return false if it was overwritten. */
static bool load_word(const struct call_shape *o, uint64_t at, uint64_t *word)
{
	const struct call_shapes *of = o->of;

	/* The acquire pairs with the release in store_word(). */
	*word = atomic_load_explicit(&of->words[(o->at + at) & (of->room - 1)],
	                             memory_order_acquire);
	return atomic_load_explicit(&of->begun, memory_order_relaxed) <=
	       o->at + of->room;
}

static void add_tensor(struct text *t, uint64_t word, int rank)
{
	if (word)
		text_add(t, "%llu %s on rank %d",
		         (unsigned long long)(word >> TYPE_BITS),
		         type_name((int)(word % (1 << TYPE_BITS)) - 1), rank);
	else
		text_add(t, "missing on rank %d", rank);
}

static void add_call(struct text *t, uint64_t word, int rank)
{
	const enum op_kind kind = (enum op_kind)(word & 0xff);

	if (!word) {
		text_add(t, "missing on rank %d", rank);
		return;
	}
	text_add(t, "%s", op_name(kind));
	if (op_has_redop(kind))
		text_add(t, ", %s,", redop_name((int)(word >> 8 & 0xff)));
	if (op_has_root(kind))
		text_add(t, ", root %d,", (int)(word >> 16 & 0x7fff));
	text_add(t, " on rank %d", rank);
}

/* Return @word if it describes a tensor.  Return 0 if it describes the next
 * call or ends the shape. */
static uint64_t tensor_or_end(uint64_t word)
{
	return word & CALL_BIT ? 0 : word;
}

/* Return true if two words describe equal calls, except for the number of
 * tensors. */
static bool is_same_call(uint64_t a, uint64_t b)
{
	return (uint32_t)(a << 1) == (uint32_t)(b << 1) && (a & b & CALL_BIT);
}

void call_shape_compare(struct text *t, const struct call_shape *a,
                        const struct call_shape *b)
{
	uint64_t at, x, y, call = 0, tensor = 0;

	if (a->at == CALL_SHAPE_NONE || b->at == CALL_SHAPE_NONE)
		return;
	for (at = 0;; at++) {
		if (!load_word(a, at, &x) || !load_word(b, at, &y) ||
		    (!x && !y))
			return;
		if (x == y || is_same_call(x, y)) {
			tensor = x & CALL_BIT ? 0 : tensor + 1;
			call += x >> 63;
			continue;
		}
		break;
	}
	if ((x & CALL_BIT || !x) && (y & CALL_BIT || !y)) {
		/* The text already shows the first calls, and so any difference
		 * between them. */
		if (!call)
			return;
		text_add(t, ": call %llu is ", (unsigned long long)call + 1);
		add_call(t, x, a->rank);
		text_add(t, ", ");
		add_call(t, y, b->rank);
		return;
	}
	text_add(t, ": ");
	if (call > 1)
		text_add(t, "call %llu: ", (unsigned long long)call);
	text_add(t, "tensors[%llu] is ", (unsigned long long)tensor);
	add_tensor(t, tensor_or_end(x), a->rank);
	text_add(t, ", ");
	add_tensor(t, tensor_or_end(y), b->rank);
}
