/* SPDX-License-Identifier: Apache-2.0 */
#ifndef API_OPTIONS_H
#define API_OPTIONS_H

#include "guard/guard.h"

/* The caller's options over the defaults, checked. */
int options_read(const struct cohort_group_options *given,
                 struct cohort_group_options *out);

/* COHORT_INVALID if the environment changes what NCCL's calls mean. */
int environment_check(void);

/* What a clique and its guard take of them; the name is borrowed. */
struct clique_options options_of_clique(const struct cohort_group_options *o);
struct guard_options options_of_guard(const struct cohort_group_options *o);

#endif
