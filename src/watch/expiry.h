/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WATCH_EXPIRY_H
#define WATCH_EXPIRY_H

/*
 * Finds the deadline that has passed or will pass next, from a snapshot alone
 */

#include "watch/snapshot.h"

/* A report that is due about the front (snapshot.h) or a transfer, and the
 * clock that it is based on. */
struct expiry {
	bool is_transfer;
	enum { EXPIRY_NOTHING, EXPIRY_SLOW, EXPIRY_VERDICT } what;
	uint64_t since_ns;    /* time at which the clock began to run */
	uint64_t deadline_ns; /* the clock's limit; 0 if a wait cannot end */
	uint64_t lost_ns;     /* time that the process did not run */
	bool is_adapted;      /* true if the limit is an adaptive one */
	uint64_t most_ns;     /* the configured limit, if is_adapted */
	uint64_t next_ns;     /* latest time at which to check again */
};

/* Return the report that is due about the front collective of @s or its
 * transfer. */
struct expiry expiry_next(const struct snapshot *s);

#endif
