/* SPDX-License-Identifier: Apache-2.0 */
#ifndef API_OPTIONS_H
#define API_OPTIONS_H

#include "watch/watch.h"

/* Store the caller's options over the defaults, checked. */
int options_read(const struct cohort_group_options *given,
                 struct cohort_group_options *out);

/* The texts that options point to. */
struct option_texts {
	char name[64];
	struct comm_config config;
	char dump_directory[DUMP_PATH];
	char dump_fifo[DUMP_PATH];
	char log[DUMP_PATH];
};

/* Have checked options point to copies in @texts instead of the caller's texts;
 * paths become absolute. */
void options_own(struct cohort_group_options *options,
                 struct option_texts *texts);

/* The options of a clique and of its watch.  The name is borrowed. */
struct clique_options options_of_clique(const struct cohort_group_options *o);
struct watch_options options_of_watch(const struct cohort_group_options *o);

#endif
