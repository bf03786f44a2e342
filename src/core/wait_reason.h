/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_WAIT_REASON_H
#define CORE_WAIT_REASON_H

/*
 * What a rank waits for in the program before it makes its next call: set
 * by the thread that will make the call, read by the watchdog
 *
 *  A. A reader takes no lock and is never held up.
 *  B. Once wait_reason_set() has returned, no thread looks at what was set
 *     before.
 */

#include <stdatomic.h>

#include "base/text.h"

struct wait_reason {
	/* Add "parameter 'a' to be marked ready", or nothing.  Any thread; does
	 * not block. */
	void (*add)(const struct wait_reason *reason, struct text *t);
};

struct wait_reason_slot {
	/* Atomic, both; seq_cst: a reader counts itself in, then looks; the
	 * writer stores, then looks whether a reader is in. */
	const struct wait_reason *_Atomic now; /* NULL: nothing that is known */
	atomic_uint readers;
};

/* Set what the rank waits for.  One thread at a time.  Waits for readers, which
 * takes microseconds. */
void wait_reason_set(struct wait_reason_slot *slot,
                     const struct wait_reason *reason);

/* Any thread. */
void wait_reason_add(struct wait_reason_slot *slot, struct text *t);

#endif
