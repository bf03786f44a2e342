/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Skips a test in a Criterion suite
 *
 * Every suite links this file, unlike the other helpers.
 */

#include <criterion/criterion.h>

#include "support/place.h"

void place_skip(const char *why)
{
	cr_skip_test("%s", why);
}
