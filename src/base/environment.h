/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_ENVIRONMENT_H
#define BASE_ENVIRONMENT_H

/*
 * The environment variables of this project, and those that only look like one
 */

#include "base/text.h"

/* Store what COHORT_LAUNCH asks for, an enum cohort_launch; *@launch is
 * untouched if the variable is not set.  COHORT_INVALID for another value. */
int environment_launch(int *launch);

/* As environment_launch(), of COHORT_CONNECT and an enum cohort_connect. */
int environment_connect(int *connect);

/* Add a sentence, and @end, for each variable COHORT_... in the environment
 * that means nothing, with the one that may have been meant. */
void environment_add_unknown(struct text *t, const char *end);

#endif
