/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOST_POOL_H
#define HOST_POOL_H

#include "platform/host/memory.h"

/* Note that @m, which may be from a pool, is freed. */
void pool_returned(const struct memory *m);

#endif
