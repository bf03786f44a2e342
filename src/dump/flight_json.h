/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DUMP_FLIGHT_JSON_H
#define DUMP_FLIGHT_JSON_H

/* Write a copy of the flight recorders (flight.h) as JSON, with the keys of
 * PyTorch's flight recorder and our own */

#include <stddef.h>

struct flight;
struct flight_rank;
struct json;

/* Write one rank with all its operations. */
void flight_json_rank(struct json *j, const struct flight *f,
                      const struct flight_rank *r);

/* Write the last @most operations of each rank. */
void flight_json_merged(struct json *j, const struct flight *f, size_t most);

#endif
