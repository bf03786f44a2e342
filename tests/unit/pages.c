/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests of memory pages that stay mapped
 */

#include "base/pages.h"

#include <criterion/criterion.h>
#include <stdbool.h>
#include <string.h>

#define BYTES 10000

static bool is_zero(const char *pages)
{
	size_t i = 0;

	while (i < BYTES && !pages[i])
		i++;
	return i == BYTES;
}

Test(pages, released_pages_are_zero_when_they_are_acquired_again)
{
	char *a = pages_acquire(BYTES), *b = pages_acquire(BYTES), *c;

	cr_assert(is_zero(a) && is_zero(b));
	memset(a, 1, BYTES);
	memset(b, 1, BYTES);
	pages_release(a, BYTES);
	c = pages_acquire(BYTES);
	cr_assert(is_zero(c));
	pages_release(b, BYTES);
	pages_release(c, BYTES);
}

Test(pages, abandoned_pages_read_as_zero_and_are_never_used_again)
{
	char *a = pages_acquire(BYTES), *b;

	memset(a, 1, BYTES);
	pages_abandon(a, BYTES);
	cr_assert(is_zero(a));
	b = pages_acquire(BYTES);
	cr_assert_neq(a, b);
	memset(b, 1, BYTES);
	cr_assert(is_zero(a));
	pages_release(b, BYTES);
}

Test(pages, pages_larger_than_a_shared_mapping_can_be_acquired)
{
	const size_t bytes = (size_t)20 << 20;
	char *a = pages_acquire(bytes);

	cr_assert_not_null(a);
	a[bytes - 1] = 1;
	pages_release(a, bytes);
}
