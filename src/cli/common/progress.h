/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_COMMON_PROGRESS_H
#define CLI_COMMON_PROGRESS_H

/*
 * A progress bar on stderr if that is a terminal, else nothing
 *
 * One thread at a time may call these functions.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct progress {
	bool shown;
	int width;
	uint64_t drawn_ns; /* time of the last drawing, or 0 */
};

void progress_start(struct progress *progress);

/* True if the bar is shown and is due to be drawn again. */
bool progress_is_due(const struct progress *progress);

/* Draw the bar for @done of @total, with @text behind it. */
void progress_draw(struct progress *progress, size_t done, size_t total,
                   const char *text);

/* Clear the bar's line, for a line of standard output; the bar can be drawn
 * again. */
void progress_clear(const struct progress *progress);

/* Clear the bar's line, and draw no more. */
void progress_erase(struct progress *progress);

#endif
