/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_EXEC_POLLER_H
#define SIM_EXEC_POLLER_H

/*
 * The poller: a thread that looks at streams that no other thread may be
 * looking at
 *
 * Waking a thread costs more than most operations take, and a thread that
 * queues one mostly waits for it soon.  So a stream whose first work only waits
 * to be looked at is noted, and the poller looks at it about once a
 * millisecond.  If its first work was left to threads that wait, and none does,
 * the poller wakes the stream's own thread.  It sleeps while no stream is
 * noted, and ends if that lasts.
 */

#include "sim/exec/stream_queue.h"

/* Have the poller look at @stream.  False if there is none. */
bool poller_note(struct stream *stream);

#endif
