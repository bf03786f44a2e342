/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_STREAM_H
#define CORE_STREAM_H

/*
 * Checks of streams that the program passes to calls: they must be live streams
 * of the rank's device
 *
 * Without the check, a call on any other stream fails only at its launch, when
 * the other ranks already wait for it.  CUDA does not define what it reports
 * about a handle that is not a stream.  The simulator detects all invalid
 * handles; NVIDIA's driver detects most destroyed streams.
 */

#include "core/clique.h"

/*
 * Return COHORT_INVALID if @stream was destroyed, is no stream, or is on
 * another device than @c.  Queues nothing that the program could see, even on a
 * stream that is being captured.  Call it with the lock held.
 * @i: the error names streams[@i], or stream if @i is negative
 */
int stream_check(const struct cohort_comm *c, void *stream, int i);

/* Like stream_check(), but call it without the lock held.  It may also return
 * the errors of comm_enter(). */
int stream_check_outside(struct cohort_comm *c, void *stream);

#endif
