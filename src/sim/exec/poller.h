/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_EXEC_POLLER_H
#define SIM_EXEC_POLLER_H

/*
 * The poller: a thread that looks at streams at which nobody else may be looking
 *
 * Waking a thread costs more than most operations take, and who queues one mostly
 * waits for it soon.  So a stream whose first work only waits to be looked at is
 * noted, and the poller does that every millisecond or so; and if its first work
 * was left to those who wait, and nobody does, the poller has the stream's own
 * thread do it.  It sleeps while nothing is noted.
 */

#include "sim/exec/stream.h"

/* Have the poller look at @stream.  False if there is none. */
bool poller_note(struct stream *stream);

#endif
