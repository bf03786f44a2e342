/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_CAPTURE_H
#define CORE_CAPTURE_H

/*
 * Streams that are being captured into a CUDA graph
 *
 * Captured calls run each time the graph is launched, and no mark shows when
 * they run.
 */

#include "core/clique.h"
#include "core/op.h"

/*
 * Find out whether the streams of @n ranks' calls are being captured.  Call it
 * with the locks held and the first rank's device current.
 *
 * Returns:
 *   COHORT_OK           *@captured_out is set
 *   COHORT_UNSUPPORTED  only some streams are being captured, or a call cannot
 *                       be captured
 */
int capture_check(const struct cohort_comm *comms, int n, const struct op *ops,
                  bool *captured_out);

/* Return COHORT_UNSUPPORTED if @stream is being captured.  Used for calls that
 * cannot be captured.  @what is the name of the call, for the error text. */
int capture_refuse(const struct platform *p, void *stream, const char *what);

#endif
