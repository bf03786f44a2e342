/* SPDX-License-Identifier: Apache-2.0 */
#ifndef API_OPTIONS_H
#define API_OPTIONS_H

#include "watch/watch.h"

/* Merge the caller's options with the defaults and the environment, and check
 * the result. */
int options_read(const struct cohort_group_options *given,
                 struct cohort_group_options *out);

struct option_texts {
	char name[64];
	struct comm_config config;
	char dump_directory[DUMP_PATH];
	char dump_fifo[DUMP_PATH];
	char log[DUMP_PATH];
};

/* Copy the strings of checked options to @texts and point @options to the
 * copies.  Paths become absolute. */
void options_own(struct cohort_group_options *options,
                 struct option_texts *texts);

/* Return the options for a clique.  The name in them is not copied. */
struct clique_options options_of_clique(const struct cohort_group_options *o);

struct watch_options options_of_watch(const struct cohort_group_options *o);

#endif
