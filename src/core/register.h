/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_REGISTER_H
#define CORE_REGISTER_H

/*
 * Memory that is registered with NCCL
 *
 * Each rank has a list of its registrations, guarded by the communicator's
 * lock.  Once the clique has a cause, the reaper deregisters all memory before
 * it frees the native communicators: NCCL itself would deregister only after it
 * has freed its proxy thread, which deregistering needs.  After a cause, a
 * thread may change the list only once the clique is RECLAIMED.
 *
 * NCCL completes a registration in the first collective on the memory
 * (ncclRegisterCollBuffers()).  This allocates, and so may wait for kernels
 * while a launch window is open.  A simulated group also completes the
 * registration.  So the library simulates the first call with each digest
 * before it compares the call with the other ranks' calls.  It does not
 * simulate calls that NCCL implements with messages, or lists that are launched
 * in parts.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cohort_comm;
struct op;

struct registration {
	struct registration *next;
	void *memory;
	size_t bytes;
	void *native;
	/* True if cohort_alloc_registered() allocated the memory. */
	bool is_allocated;

	/* Bitmap of the calls that were simulated with this memory.  The bit of
	 * a call is its digest modulo the number of bits. */
	uint64_t simulated[4];
};

/* Register memory with ncclCommRegister(), and store the registration in
 * *@out.  Return COHORT_OK or an error. */
int register_add(struct cohort_comm *c, void *memory, size_t bytes,
                 struct registration **out);

/* Deregister memory.  If @has_ended, the clique is RECLAIMED, so only free the
 * registration. */
int register_remove(struct cohort_comm *c, struct registration *r,
                    bool has_ended);

/*
 * Complete registrations before a launch: if a buffer of @ops is registered and
 * was in no earlier call with this digest, simulate the calls in a memory
 * section.  Errors are ignored, because the launch will report them.  Call it
 * with the locks held.
 * @n: number of ranks and calls
 *
 * Return COHORT_OK, or the status of the clique's cause.
 */
int register_complete(struct cohort_comm *comms, int n, const struct op *ops,
                      uint32_t digest);

/* Deregister all memory of @c.  Does not change the list.  Reaper only. */
void register_end(const struct cohort_comm *c);

bool register_has(const struct cohort_comm *c, const struct registration *r);

struct registration *register_find(const struct cohort_comm *c,
                                   const void *memory);

void register_free_all(struct registration *first);

#endif
