/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_NCCL_REGISTER_H
#define SIM_NCCL_REGISTER_H

/*
 * Buffers and windows that are registered with a communicator
 */

#include "sim/nccl/comm.h"

struct registration;

/* The name of the function that registers buffers. */
extern const char registered_buffer[];

/* A registration of [@memory, @memory + @bytes), extended to whole pages of
 * @page bytes, by @function; NULL without memory. */
struct registration *registration_create(const char *function,
                                         const void *memory, size_t bytes,
                                         uintptr_t page);

/*
 * registered_add    - register @registration with @comm
 * registered_find   - one that was made by the same function and covers all of @like,
 *                     which has one user more now; NULL if there is none
 * registered_remove - one user less of @handle, which @function has made; false if it is
 *                     nothing
 * registered_free   - all of a communicator that is freed
 */
void registered_add(struct ncclComm *comm, struct registration *registration);
struct registration *registered_find(struct ncclComm *comm,
                                     const struct registration *like);
bool registered_remove(struct ncclComm *comm, const void *handle,
                       const char *function);
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
