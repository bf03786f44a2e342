/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_NCCL_REGISTER_H
#define SIM_NCCL_REGISTER_H

/*
 * Buffers and windows that are registered with a communicator
 */

#include "sim/nccl/comm.h"

struct registration;

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

#endif
