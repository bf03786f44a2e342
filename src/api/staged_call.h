/* SPDX-License-Identifier: Apache-2.0 */
#ifndef API_STAGED_CALL_H
#define API_STAGED_CALL_H

#include "api/communicator.h"

/*
 * Carry out @op, a call with host memory of one tensor, on the communicator's
 * own stream, and wait for it.  Answers what the functions with host memory do.
 * One call at a time per communicator.  After COHORT_TIMED_OUT the operation
 * goes on in the staging memory; the next call that needs that memory waits for
 * it.
 */
int staging_call(struct cohort_comm *comm, struct op *op, uint64_t timeout_ns);

#endif
