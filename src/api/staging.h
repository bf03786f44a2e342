/* SPDX-License-Identifier: Apache-2.0 */
#ifndef API_STAGING_H
#define API_STAGING_H

#include "api/comm.h"

/*
 * Carry out @op, a call with host memory of one tensor, on the communicator's own
 * stream, and wait for it: what the functions with host memory answer.
 *
 * One at a time for a communicator.  After COHORT_TIMED_OUT the operation goes on in
 * the staging memory, which the next call that needs that waits for.
 */
int staging_call(struct cohort_comm *comm, struct op *op, uint64_t timeout_ns);

#endif
