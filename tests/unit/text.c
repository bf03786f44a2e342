/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests of texts that are too long: where they are truncated, and how that is
 * marked
 */

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "base/text.h"
#include "core/cause.h"
#include "core/tag.h"

#define ROOM 40

static char buffer[ROOM + 1];
static struct text t;

static void begin(void)
{
	memset(buffer, '#', sizeof(buffer));
	t = (struct text){ buffer, ROOM };
}

TestSuite(text, .init = begin);

Test(text, text_that_fits_is_complete)
{
	text_add(&t, "%s", "exactly as long as there is room");
	text_add(&t, "%d", 1234567);
	cr_assert_str_eq(buffer, "exactly as long as there is room1234567");
	cr_assert_eq(t.room, 1);
	cr_assert_eq(buffer[ROOM], '#');
}

Test(text, text_that_does_not_fit_is_cut_after_a_word)
{
	text_add(&t, "%s", "rank 1 is waiting inside the library and there");
	cr_assert_str_eq(buffer, "rank 1 is waiting inside the library...");
	cr_assert_eq(t.at, buffer + strlen(buffer));
	cr_assert_eq(buffer[ROOM], '#');
}

Test(text, text_added_without_room_cuts_the_text_before_it)
{
	text_add(&t, "%s", "rank 1 has been inside ncclAllReduce -");
	text_add(&t, "; and more");
	cr_assert_str_eq(buffer, "rank 1 has been inside ncclAllReduce...");
	text_add(&t, "!");
	cr_assert_str_eq(buffer, "rank 1 has been inside ncclAllReduce...");
}

Test(text, text_with_a_long_word_is_cut_at_a_utf8_character)
{
	char e[64] = "";
	int shift, i;

	for (shift = 0; shift < 3; shift++) {
		begin();
		text_add(&t, "%.*s", shift, "xx");
		for (e[0] = '\0', i = 0; i < 20; i++)
			strcat(e, "\u20ac");
		text_add(&t, "%s", e);
		/* 36 bytes are left, for whole characters of three bytes. */
		cr_assert_eq(strlen(buffer), shift + (36 - shift) / 3 * 3 + 3u);
		cr_assert_str_eq(buffer + strlen(buffer) - 6, "\u20ac...");
	}
}

Test(text, text_that_is_not_utf8_is_cut_within_its_buffer)
{
	char around[16 + TEXT_LEAST], *middle = around + 16, bytes[64];

	memset(bytes, 0x80, sizeof(bytes) - 1);
	bytes[sizeof(bytes) - 1] = '\0';
	memset(around, 0x80, sizeof(around));
	text_set(middle, TEXT_LEAST, "%s", bytes);
	cr_assert_eq(memchr(around, '.', 16), NULL);
	cr_assert_eq(strlen(middle), TEXT_LEAST - 4);
	cr_assert_str_eq(middle + strlen(middle) - 3, "...");
}

Test(text, text_cut_to_any_length_ends_after_a_whole_word)
{
	static const char whole[] =
		"a verdict may be longer than its room, and "
		"then ends with what there is room for";
	char small[sizeof(whole) + 1];
	size_t room;

	for (room = TEXT_LEAST; room <= sizeof(whole); room++) {
		memset(small, '#', sizeof(small));
		text_set(small, room, "%s", whole);
		cr_assert_lt(strlen(small), room);
		cr_assert_eq(small[room], '#');
		if (room == sizeof(whole))
			cr_assert_str_eq(small, whole);
		else
			cr_assert_str_eq(small + strlen(small) - 3, "...");
		cr_assert(room == sizeof(whole) ||
		          whole[strlen(small) - 3] == ' ');
	}
}

Test(text, error_text_that_is_too_long_ends_with_dots)
{
	char word[1100];

	memset(word, 'e', sizeof(word));
	word[sizeof(word) - 1] = '\0';
	cr_assert_eq(error_set(COHORT_INVALID, "it is %s", word),
	             COHORT_INVALID);
	cr_assert_eq(strlen(cohort_last_error()), 1023);
	cr_assert_str_eq(cohort_last_error() + 1020, "...");
}

Test(text, reason_or_tag_that_is_too_long_ends_with_dots)
{
	struct cohort_abort *a = cause_create();
	static struct tags tags;
	char tag[TAG_SIZE], reason[300];

	memset(reason, 'r', sizeof(reason));
	memcpy(reason + 190, " tail", 5);
	reason[sizeof(reason) - 1] = '\0';
	cr_assert_eq(cause_set_aborted(a, reason), COHORT_OK);
	cr_assert_eq(strlen(cause_peek(a)->text), strlen("aborted: ") + 193);
	cr_assert_str_eq(cause_peek(a)->text + 199 - 3, "rrr...");
	cause_put(a);
	tag_set(&tags,
	        "step 12, the gradients of the last layer but one of all");
	tag_read(&tags, tags.now, tag);
	cr_assert_str_eq(tag,
	                 "step 12, the gradients of the last layer but...");
	tag_set(&tags, "step 12, the gradients of the last layers, 46 b");
	tag_read(&tags, tags.now, tag);
	cr_assert_str_eq(tag,
	                 "step 12, the gradients of the last layers, 46 b");
}

Test(text, long_list_of_ranks_ends_with_the_number_of_others)
{
	uint64_t set[COHORT_RANK_WORDS] = { 0 };
	char ranks[256];
	int r;

	for (r = 1; r < 64; r += 2)
		rank_set_add(set, r);
	t = (struct text){ ranks, sizeof(ranks) };
	rank_set_format(&t, set);
	cr_assert_str_eq(ranks, "1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, "
	                        "25, 27, 29, 31 and 16 more");
}

Test(text, text_without_a_buffer_stays_empty)
{
	struct text none = TEXT_NONE;

	text_add(&none, "process %d of %d", 1, 2);
	cr_assert_null(none.at);
	cr_assert_eq(none.room, 0);
}
