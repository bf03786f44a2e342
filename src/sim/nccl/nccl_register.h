/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_NCCL_NCCL_REGISTER_H
#define SIM_NCCL_NCCL_REGISTER_H

/*
 * Buffers and windows that are registered with a communicator
 */

#include "sim/nccl/nccl_comm.h"

struct registration;

/* Register @registration with @comm; and free all of a communicator that is freed. */
void registered_add(struct ncclComm *comm, struct registration *registration);
void registered_free(struct registration *first);

/*
 * Strict mode: a buffer that a collective has used must be deregistered before its
 * communicator ends.  NCCL would use a proxy thread that it has freed.
 *
 * registered_use   - note that a collective uses @memory; its first one completes the
 *                    registration, for which NCCL allocates
 * registered_check - @comm is about to be freed: end the program if such a buffer is left
 */
void registered_use(struct ncclComm *comm, const void *memory);
void registered_check(const struct ncclComm *comm);

#endif
