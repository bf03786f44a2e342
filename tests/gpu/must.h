/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MUST_H
#define MUST_H

/* Checks of calls of the library, of CUDA and of NCCL, for programs */

#include <stdio.h>
#include <stdlib.h>

#include <cohort/cohort.h>

/* End the program with a message if @failed, the result of a call, is not 0. */
static inline void must(int failed, const char *what)
{
	if (!failed)
		return;
	fprintf(stderr, "%s: %d: %s\n", what, failed, cohort_last_error());
	exit(1);
}

#endif
