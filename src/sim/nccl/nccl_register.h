/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_NCCL_NCCL_REGISTER_H
#define SIM_NCCL_NCCL_REGISTER_H

/* Registered buffers and windows of a communicator */

#include "sim/nccl/nccl_comm.h"

/* A registered buffer or window.  Guarded by its communicator's lock, or owned
 * by the rank that is creating it. */
struct registration {
	struct registration *next;
	const char *function; /* NCCL function that created the registration */
	uintptr_t first, end; /* address range that is registered */
	int users;
	/* True if a collective has used the buffer or window.  Recorded only in
	 * strict mode and with COHORT_HOST_SYNC. */
	bool is_used;
};

/* Record that a collective uses @memory.  The first use completes the
 * registration, for which NCCL allocates memory. */
void registered_use(struct ncclComm *comm, const void *memory);

#endif
