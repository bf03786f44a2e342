/* SPDX-License-Identifier: Apache-2.0 */
#ifndef API_OPTIONS_H
#define API_OPTIONS_H

#include "watch/watch.h"

/* The caller's options over the defaults, checked. */
int options_read(const struct cohort_group_options *given,
                 struct cohort_group_options *out);

/* Texts that options point to. */
struct option_texts {
	char name[64];
	char net_name[64];
	char dump_directory[DUMP_PATH];
	char dump_fifo[DUMP_PATH];
};

/* Have checked options point to @texts instead of what is the caller's, which is
 * copied; paths as they are seen from the root. */
void options_own(struct cohort_group_options *options,
                 struct option_texts *texts);

/* What a clique and its watch take of them; the name is borrowed. */
struct clique_options options_of_clique(const struct cohort_group_options *o);
struct watch_options options_of_watch(const struct cohort_group_options *o);

#endif
