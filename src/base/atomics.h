/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_ATOMICS_H
#define BASE_ATOMICS_H

/* Short names for atomic accesses with an explicit memory order */

#include <stdatomic.h>

#define load_relaxed(p) atomic_load_explicit(p, memory_order_relaxed)
#define load_acquire(p) atomic_load_explicit(p, memory_order_acquire)
#define store_relaxed(p, value)                                                \
	atomic_store_explicit(p, value, memory_order_relaxed)
#define store_release(p, value)                                                \
	atomic_store_explicit(p, value, memory_order_release)
#define add_relaxed(p, n) atomic_fetch_add_explicit(p, n, memory_order_relaxed)
#define sub_relaxed(p, n) atomic_fetch_sub_explicit(p, n, memory_order_relaxed)

#endif
