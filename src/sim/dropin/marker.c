/* SPDX-License-Identifier: Apache-2.0 */

/* Defines the function that identifies a drop-in library */

#include "sim/dropin/host_calls.h"

#include <cohort/version.h>

#define TEXT(number) #number
#define VERSION(major, minor, patch) TEXT(major) "." TEXT(minor) "." TEXT(patch)

const char *cohort_drop_in(void)
{
	return VERSION(COHORT_VERSION_MAJOR, COHORT_VERSION_MINOR,
	               COHORT_VERSION_PATCH);
}
