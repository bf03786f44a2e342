/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SILENT_H
#define SILENT_H

/*
 * A thread that does not handle signals
 */

#include <stdatomic.h>

/* Set @is_there, and handle no signals until @may_go is set. */
void silent_until(atomic_bool *is_there, const atomic_bool *may_go);

#endif
