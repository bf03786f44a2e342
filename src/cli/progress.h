/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H

/*
 * A bar on stderr if that is a terminal, else nothing
 *
 * One thread at a time may use it.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct progress {
	bool shown;
	int width;
	uint64_t drawn_ns; /* when; 0: not yet */
};

void progress_start(struct progress *progress);

/* True if it is shown, and the last drawing a while ago. */
bool progress_is_due(const struct progress *progress);

/* @done of @total, and a text behind that. */
void progress_draw(struct progress *progress, size_t done, size_t total,
                   const char *text);
void progress_erase(struct progress *progress);

/* For a line of the standard output; drawn again later. */
void progress_clear(const struct progress *progress);

#endif
