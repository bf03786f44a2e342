/* SPDX-License-Identifier: Apache-2.0 */

#include "cli/common/progress.h"

#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"

/* The shortest time between two drawings. */
#define INTERVAL_NS (NS_PER_S / 20)

void progress_start(struct progress *progress)
{
	struct winsize size;

	*progress = (struct progress){
		.shown = isatty(STDERR_FILENO),
		.width = 80,
	};
	if (progress->shown && !ioctl(STDERR_FILENO, TIOCGWINSZ, &size) &&
	    size.ws_col > 0)
		progress->width = size.ws_col;
}

bool progress_is_due(const struct progress *progress)
{
	return progress->shown &&
	       clock_now() - progress->drawn_ns >= INTERVAL_NS;
}

void progress_draw(struct progress *progress, size_t done, size_t total,
                   const char *text)
{
	char bar[] = "####################", line[160];

	progress->drawn_ns = clock_now();
	for (size_t i = done * (sizeof(bar) - 1) / total; bar[i]; i++)
		bar[i] = '.';
	snprintf(line, sizeof(line), "[%s] %s", bar, text);
	/* Leave the last column free: some terminals wrap as soon as it is
	 * written. */
	fprintf(stderr, "\r%-*.*s", progress->width - 1, progress->width - 1,
	        line);
	fflush(stderr);
}

void progress_clear(const struct progress *progress)
{
	if (!progress->shown)
		return;
	fprintf(stderr, "\r%*s\r", progress->width - 1, "");
	fflush(stderr);
}

void progress_erase(struct progress *progress)
{
	progress_clear(progress);
	progress->shown = false;
}
