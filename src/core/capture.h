/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_CAPTURE_H
#define CORE_CAPTURE_H

/*
 * Streams that are being captured into a CUDA graph: what is called on them runs
 * later, any number of times, and nothing tells when
 */

#include "core/clique.h"
#include "core/op.h"

/*
 * Whether the calls of @n ranks are captured, all of them or none, with the gates
 * held and the first rank's device current.  COHORT_UNSUPPORTED if they are and the
 * clique does not allow it, or only some of them are.
 */
int capture_check(const struct cohort_comm *comms, int n, const struct op *ops,
                  bool *captured_out);

/* COHORT_UNSUPPORTED if @stream is being captured, for what never can be; names
 * @what. */
int capture_refuse(const struct platform *p, void *stream, const char *what);

#endif
