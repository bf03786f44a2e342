/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_STRICT_CENSUS_H
#define SIM_STRICT_CENSUS_H

/*
 * Numbers of objects that the simulator has created and not freed, for tests
 * that check for leaks
 *
 * May be called from any thread.  An object that another thread is creating or
 * freeing might or might not be counted.
 */

#include <stddef.h>

size_t memory_live(void);  /* live allocations of device and pinned memory */
size_t stream_live(void);  /* live streams, except legacy ones */
size_t event_live(void);   /* live events */
size_t world_live(void);   /* live communicators; all ranks count as one */
size_t meeting_live(void); /* unique ids that not all ranks have joined */

/* Number of freed communicators that strict mode keeps in memory. */
unsigned long lifetime_destroyed_count(void);

#endif
