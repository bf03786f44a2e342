/* SPDX-License-Identifier: Apache-2.0 */

/*
 * How a Criterion suite skips a test; every suite links this file, unlike the
 * other helpers
 */

#include <criterion/criterion.h>

#include "support/place.h"

void place_skip(const char *why)
{
	cr_skip_test("%s", why);
}
