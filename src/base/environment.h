/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_ENVIRONMENT_H
#define BASE_ENVIRONMENT_H

/*
 * The variables that this project reads, and those that look like one but are none
 */

#include "base/text.h"

/* What COHORT_LAUNCH asks for, an enum cohort_launch; untouched if it is not set.
 * COHORT_INVALID for another value. */
int environment_launch(int *launch);

/* Add a sentence, and @end, for each variable COHORT_... in the environment that means
 * nothing, with the one that may have been meant. */
void environment_add_unknown(struct text *t, const char *end);

#endif
