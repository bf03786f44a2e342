/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WATCH_EXPIRY_H
#define WATCH_EXPIRY_H

/*
 * When a snapshot's time is up: a pure function
 */

#include "watch/snapshot.h"

/* What is to be said of the front now, or of a transfer. */
struct expiry {
	bool is_transfer;
	enum {
		EXPIRY_NOTHING,
		EXPIRY_SLOW,
		EXPIRY_WARNING,
		EXPIRY_VERDICT
	} what;
	uint64_t since_ns;    /* the clock that decides, from when it runs */
	uint64_t deadline_ns; /* and what it allows */
	uint64_t lost_ns;     /* that it stood still, as the process did */
	bool is_adapted;      /* by what was observed, from */
	uint64_t most_ns;     /* what it allows else */
	uint64_t next_ns;     /* when to look again at the latest, if nothing
	                         changes */
};

/* Whether the time of the front, or of a transfer, is up. */
struct expiry expiry_next(const struct snapshot *s);

#endif
