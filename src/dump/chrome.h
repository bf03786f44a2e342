/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DUMP_CHROME_H
#define DUMP_CHROME_H

/*
 * Write a copy of the flight recorders (flight.h) as Chrome trace events, for
 * chrome://tracing and Perfetto
 *
 * Each rank has a track.  The events of an operation have these categories:
 *
 *  arrival    an instant event at the time of the call
 *  queueing   an asynchronous event, for the time that the operation was queued
 *             after other operations of the rank
 *  waiting    from then until the last rank has called the operation
 *  execution  from then until the operation is done
 *
 * Between operations the track shows "gap".
 */

#include "base/json.h"
#include "dump/flight.h"

/* Write the last @most operations of each rank. */
void chrome_write(struct json *json, const struct flight *flight, size_t most);

#endif
