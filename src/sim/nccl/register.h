/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_NCCL_REGISTER_H
#define SIM_NCCL_REGISTER_H

/*
 * Buffers and windows that are registered with a communicator
 */

#include "sim/nccl/join.h"

/* All of a communicator that is freed. */
void registered_free(struct registration *first);

/* The ranks that make a window have met, or not: @result. */
void window_end(struct join *join, ncclResult_t result);

#endif
