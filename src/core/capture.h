/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_CAPTURE_H
#define CORE_CAPTURE_H

/*
 * Streams that are being captured into a CUDA graph: calls on them run later,
 * any number of times, and nothing tells when
 */

#include "core/clique.h"
#include "core/op.h"

/*
 * Find out whether the calls of @n ranks are captured: all of them, or none.
 * COHORT_UNSUPPORTED if they are and the clique does not allow it, or if only
 * some of them are.  With the locks held and the first rank's device current.
 */
int capture_check(const struct cohort_comm *comms, int n, const struct op *ops,
                  bool *captured_out);

/* COHORT_UNSUPPORTED if @stream is being captured, for @what, which cannot be
 * captured. */
int capture_refuse(const struct platform *p, void *stream, const char *what);

#endif
