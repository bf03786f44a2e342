/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_WAIT_REASON_H
#define CORE_WAIT_REASON_H

/*
 * What a rank waits for outside the library before it makes its next call: told by
 * whoever will make that call, asked by the watchdog
 *
 *  A. Who asks takes no lock and is never held up.
 *  B. Once awaited_set() has returned, nobody looks at what was set before.
 */

#include <stdatomic.h>

#include "base/text.h"

struct awaited {
	/* Add "parameter 'a' to be marked ready", or nothing.  Any thread; does not
	 * block. */
	void (*add)(const struct awaited *awaited, struct text *t);
};

struct awaited_slot {
	/* Atomic, both; seq_cst: who asks counts itself in, then looks; who sets
	 * stores, then looks for who is in. */
	const struct awaited *_Atomic now; /* NULL: nothing that is known */
	atomic_uint readers;
};

/* One thread at a time.  Waits for those who are asking, which is a matter of
 * microseconds. */
void awaited_set(struct awaited_slot *slot, const struct awaited *awaited);

/* Any thread. */
void awaited_add(struct awaited_slot *slot, struct text *t);

#endif
