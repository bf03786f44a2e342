/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WATCH_EXPIRY_H
#define WATCH_EXPIRY_H

/*
 * Which deadline of a snapshot has passed, or passes next: a pure function
 */

#include "watch/snapshot.h"

/* What is due to be told about the front, or about a transfer. */
struct expiry {
	bool is_transfer;
	enum {
		EXPIRY_NOTHING,
		EXPIRY_SLOW,
		EXPIRY_WARNING,
		EXPIRY_VERDICT
	} what;
	uint64_t since_ns;    /* when the clock that decides began to run */
	uint64_t deadline_ns; /* its limit */
	uint64_t lost_ns;     /* how long it stood still with the process */
	bool is_adapted;      /* the limit is an adaptive one, in place of */
	uint64_t most_ns;     /* this one */
	uint64_t next_ns;     /* the latest time to look again, if nothing
	                         changes */
};

/* What is due in @s, about the front or about the transfer. */
struct expiry expiry_next(const struct snapshot *s);

#endif
