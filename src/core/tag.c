/* SPDX-License-Identifier: Apache-2.0 */

#include "core/tag.h"

#include <stdbool.h>
#include <string.h>

#include "base/text.h"

/* Numbers have 16 bits; 0 stands for no tag. */
#define NUMBERS UINT64_C(65535)

static unsigned number_of(uint64_t count)
{
	return (unsigned)((count - 1) % NUMBERS) + 1;
}

static struct tag_slot *slot_of(struct tags *tags, uint64_t count)
{
	return &tags->slots[(count - 1) % TAG_SLOTS];
}

/* Convert a text to words, padded with zeros. */
static void pack(uint64_t words[TAG_WORDS], const char *text)
{
	char bytes[TAG_SIZE] = "", *end = bytes + TAG_SIZE - 1;

	strncpy(bytes, text, TAG_SIZE - 1);
	if (strnlen(text, TAG_SIZE) == TAG_SIZE) {
		end = text_cut(end);
		memset(end, 0, (size_t)(bytes + TAG_SIZE - end));
	}
	text_replace_controls(bytes);
	memcpy(words, bytes, TAG_SIZE);
}

/* Return true if the slot has the text in @words.  Relaxed loads suffice,
 * because only this thread writes. */
static bool is_text(const struct tag_slot *s, const uint64_t words[TAG_WORDS])
{
	int i;

	for (i = 0; i < TAG_WORDS; i++)
		if (atomic_load_explicit(&s->words[i], memory_order_relaxed) !=
		    words[i])
			return false;
	return true;
}

/* Return the number under which the text is stored, or 0. */
static unsigned find(struct tags *tags, const uint64_t words[TAG_WORDS])
{
	uint64_t i, kept = tags->count < TAG_SLOTS ? tags->count : TAG_SLOTS;

	for (i = 0; i < kept; i++)
		if (is_text(slot_of(tags, tags->count - i), words))
			return number_of(tags->count - i);
	return 0;
}

static unsigned add(struct tags *tags, const uint64_t words[TAG_WORDS])
{
	uint64_t count = ++tags->count;
	struct tag_slot *s = slot_of(tags, count);
	int i;

	atomic_store_explicit(&s->number, 0, memory_order_relaxed);
	/* The release makes a reader that sees a new word also see that the
	 * number was cleared before. */
	for (i = 0; i < TAG_WORDS; i++)
		atomic_store_explicit(&s->words[i], words[i],
		                      memory_order_release);
	/* The release makes the words visible before the number.  It pairs with
	 * tag_read(). */
	atomic_store_explicit(&s->number, number_of(count),
	                      memory_order_release);
	return number_of(count);
}

void tag_set(struct tags *tags, const char *text)
{
	uint64_t words[TAG_WORDS];

	tags->now = 0;
	if (!text || !*text)
		return;
	pack(words, text);
	tags->now = find(tags, words);
	if (!tags->now)
		tags->now = add(tags, words);
}

static bool read_slot(const struct tag_slot *s, unsigned number,
                      uint64_t words[TAG_WORDS])
{
	int i;

	/* The acquire pairs with the releases in add(). */
	if (atomic_load_explicit(&s->number, memory_order_acquire) != number)
		return false;
	for (i = 0; i < TAG_WORDS; i++)
		words[i] = atomic_load_explicit(&s->words[i],
		                                memory_order_acquire);
	/* Relaxed, because if any word was newer, its acquire made the cleared
	 * number visible. */
	return atomic_load_explicit(&s->number, memory_order_relaxed) == number;
}

void tag_read(const struct tags *tags, unsigned number, char text[TAG_SIZE])
{
	uint64_t words[TAG_WORDS];
	int i;

	text[0] = '\0';
	for (i = 0; number && i < TAG_SLOTS; i++) {
		if (!read_slot(&tags->slots[i], number, words))
			continue;
		memcpy(text, words, TAG_SIZE);
		return;
	}
}
