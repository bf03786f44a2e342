/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_REGISTER_H
#define CORE_REGISTER_H

/*
 * Memory that is registered with NCCL
 *
 * Each rank has a list, for the thread with the lock held.  Once the clique has
 * a cause, the reaper deregisters everything before it ends the native
 * communicators, and a thread may change the list only after that, in
 * RECLAIMED.  NCCL itself deregisters only after it has freed the proxy thread
 * that it needs for that.
 *
 * NCCL completes a registration in the first collective on the memory: it
 * allocates, and so may wait for kernels, while a window is open
 * (ncclRegisterCollBuffers()).  A group that it only simulates completes it,
 * too.  So the first call with a digest is simulated before the rank is counted
 * among those that have called; but not what NCCL makes of messages, nor lists
 * that are launched in parts.
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
	bool is_allocated; /* with the memory, by ncclMemAlloc() */

	/* The calls on it that were simulated: a bit for each digest, modulo
	 * the bits. */
	uint64_t simulated[4];
};

/*
 * register_add    - register memory by ncclCommRegister()
 * register_remove - deregister it; with @has_ended, in RECLAIMED, only forget
 *                   it
 */
int register_add(struct cohort_comm *c, void *memory, size_t bytes,
                 struct registration **out);
int register_remove(struct cohort_comm *c, struct registration *r,
                    bool has_ended);

/*
 * Simulate @ops, the calls of @n ranks with this digest, if one of their
 * buffers is registered and was in no such call: in a memory section, with the
 * lock held.  The launch reports any error in them.  COHORT_OK, or the clique's
 * cause.
 */
int register_complete(struct cohort_comm *comms, int n, const struct op *ops,
                      uint32_t digest);

/* Deregister all memory of @c, for the reaper.  The list stays as it is. */
void register_end(const struct cohort_comm *c);

/* True if @r is a registration of @c's. */
bool register_has(const struct cohort_comm *c, const struct registration *r);

/* The registration that @memory is in, or NULL. */
struct registration *register_find(const struct cohort_comm *c,
                                   const void *memory);

void register_free_all(struct registration *first);

#endif
