/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_NCCL_NCCL_REGISTER_H
#define SIM_NCCL_NCCL_REGISTER_H

/*
 * Buffers and windows that are registered with a communicator
 */

#include "sim/nccl/nccl_comm.h"

/* Guarded by the lock of its communicator, or owned by the rank that makes
 * it. */
struct registration {
	struct registration *next;
	const char *function; /* that made it */
	uintptr_t first, end; /* what it covers */
	int users;
	/* By a collective; kept in strict mode, and where memory waits. */
	bool is_used;
};

/* Note that a collective uses @memory; its first one completes the
 * registration, for which NCCL allocates. */
void registered_use(struct ncclComm *comm, const void *memory);

#endif
