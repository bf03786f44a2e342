/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_STRICT_CENSUS_H
#define SIM_STRICT_CENSUS_H

/*
 * How much of what the simulator gives out is out, for tests that everything
 * was given back
 *
 * Each is counted where it is made.  Any thread; what other threads make or
 * give back meanwhile may be counted or not.
 */

#include <stddef.h>

size_t memory_live(void);  /* allocations of device and pinned memory */
size_t stream_live(void);  /* streams but for the legacy ones */
size_t event_live(void);   /* events */
size_t world_live(void);   /* communicators that are not freed, all the ranks of
                              one together */
size_t meeting_live(void); /* unique ids whose ranks have not all joined */

unsigned long
lifetime_buried(void); /* communicators that strict mode keeps, of those
                              that were freed */

#endif
