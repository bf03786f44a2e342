/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests of tags, on one thread
 */

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "core/tag.h"

static struct tags tags;

static const char *text(unsigned number)
{
	static char found[TAG_SIZE];

	tag_read(&tags, number, found);
	return found;
}

Test(tag, tag_is_empty_at_first)
{
	cr_assert_eq(tags.now, 0);
	cr_assert_str_eq(text(0), "");
	cr_assert_str_eq(text(1), "");
}

Test(tag, tag_is_read_by_its_number)
{
	unsigned first;

	tag_set(&tags, "forward");
	first = tags.now;
	tag_set(&tags, "backward");
	cr_assert_neq(tags.now, first);
	cr_assert_str_eq(text(first), "forward");
	cr_assert_str_eq(text(tags.now), "backward");
}

Test(tag, equal_tags_have_the_same_number)
{
	unsigned first;

	tag_set(&tags, "forward");
	first = tags.now;
	tag_set(&tags, "backward");
	tag_set(&tags, "forward");
	cr_assert_eq(tags.now, first);
	cr_assert_eq(tags.count, 2);
}

Test(tag, null_or_empty_text_removes_the_tag)
{
	tag_set(&tags, "forward");
	tag_set(&tags, NULL);
	cr_assert_eq(tags.now, 0);
	tag_set(&tags, "forward");
	tag_set(&tags, "");
	cr_assert_eq(tags.now, 0);
}

Test(tag, long_tag_is_cut)
{
	char longer[100];

	memset(longer, 'x', sizeof(longer));
	longer[99] = '\0';
	tag_set(&tags, longer);
	cr_assert_eq(strlen(text(tags.now)), TAG_SIZE - 1);
	/* The text differs only after the bytes that are stored, so it is not a
	 * new tag. */
	longer[TAG_SIZE] = 'y';
	tag_set(&tags, longer);
	cr_assert_eq(tags.count, 1);
}

Test(tag, last_tags_are_kept_even_if_tag_numbers_wrap)
{
	char name[TAG_SIZE];
	unsigned i, numbers[TAG_SLOTS];

	for (i = 0; i < 65535 + 10; i++) {
		snprintf(name, sizeof(name), "step %u", i);
		tag_set(&tags, name);
		cr_assert_neq(tags.now, 0);
		numbers[i % TAG_SLOTS] = tags.now;
	}
	for (i -= TAG_SLOTS; i < 65535 + 10; i++) {
		snprintf(name, sizeof(name), "step %u", i);
		cr_assert_str_eq(text(numbers[i % TAG_SLOTS]), name);
	}
}
