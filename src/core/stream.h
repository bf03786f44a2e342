/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_STREAM_H
#define CORE_STREAM_H

/*
 * Streams of the program's that are passed to calls: they must be live streams
 * of the rank's device
 *
 * A call on any other stream fails when it is launched, and by then the other
 * ranks wait for it.  CUDA leaves undefined what it says of a handle that is no
 * stream: the simulator finds all of them, a driver most of those that were
 * destroyed.
 */

#include "core/clique.h"

/* True of streams that cannot be of another device: the default streams, which
 * are those of the current device, and the rank's own. */
static inline bool stream_is_known(const struct cohort_comm *c,
                                   const void *stream)
{
	return !stream || stream == c->stream ||
	       stream == (const void *)cudaStreamLegacy ||
	       stream == (const void *)cudaStreamPerThread;
}

/*
 * Return COHORT_INVALID if @stream was destroyed, is no stream, or is of
 * another device than @c's: the text names the argument, streams[@i], or stream
 * if @i is negative.  Queues nothing that the program could see, even on a
 * stream that is being captured.
 *
 * stream_check()         - with the lock held
 * stream_check_outside() - without the lock, so that it may also answer what
 *                          comm_enter() does
 */
int stream_check(const struct cohort_comm *c, void *stream, int i);
int stream_check_outside(struct cohort_comm *c, void *stream);

#endif
