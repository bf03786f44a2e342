/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DUMP_CHROME_H
#define DUMP_CHROME_H

/*
 * A flight as Chrome trace events, for chrome://tracing and Perfetto
 *
 * Each rank has a track.  An operation has an instant event when it was called;
 * an asynchronous event, which may overlap others, in the category "queueing"
 * for the time that it spent behind other operations of the rank; and on the
 * track itself "waiting" for the last rank to call it, then "execution".  Where
 * the rank had nothing to do the track has "gap".
 */

#include "base/json.h"
#include "dump/flight.h"

/* Write the last @most operations of each rank. */
void chrome_write(struct json *json, const struct flight *flight, size_t most);

#endif
