/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Skips a test in a Criterion suite
 *
 * Only suites link this file, because it needs Criterion.
 */

#include <criterion/criterion.h>

#include "support/place.h"

void place_skip(const char *why)
{
	cr_skip_test("%s", why);
}
