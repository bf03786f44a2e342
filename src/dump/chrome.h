/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DUMP_CHROME_H
#define DUMP_CHROME_H

/*
 * A flight as Chrome trace events, for chrome://tracing and Perfetto
 *
 * A track for each rank.  Of an operation: an instant when it was called; in the
 * category "queueing" the time that it spent behind others of the rank, as an
 * asynchronous event, which may overlap; on the track itself "waiting" for the last
 * rank to call it, then "execution"; and "gap" where the rank had nothing to do.
 */

#include "base/json.h"
#include "dump/flight.h"

/* The last @most operations of each rank. */
void chrome_write(struct json *json, const struct flight *flight, size_t most);

#endif
