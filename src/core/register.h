/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_REGISTER_H
#define CORE_REGISTER_H

/*
 * Memory that is registered with NCCL
 *
 * Each rank has a list, for the thread inside the gate.  Once the communicator has a
 * cause, the reaper deregisters all before it lets the clique be quiet, and only then may a
 * thread change the list.  NCCL itself would do so too late, as it frees a communicator:
 * after the proxy that it asks.
 */

#include <stdbool.h>
#include <stddef.h>

struct cohort_comm;

struct registration {
	struct registration *next;
	void *memory;
	size_t bytes;
	void *native;
	bool is_allocated; /* with the memory, by ncclMemAlloc() */
};

/* Register memory by ncclCommRegister(), and end that: in a clique that has ended and is
 * quiet, only in the list. */
int register_add(struct cohort_comm *c, void *memory, size_t bytes,
                 struct registration **out);
int register_remove(struct cohort_comm *c, struct registration *r,
                    bool has_ended);

/* For the reaper: end all of @c's registrations with NCCL.  They stay in the list. */
void register_end(const struct cohort_comm *c);

/* True if @r is a registration of @c's. */
bool register_has(const struct cohort_comm *c, const struct registration *r);

/* The registration that @memory is in, or NULL. */
struct registration *register_find(const struct cohort_comm *c,
                                   const void *memory);

void register_free_all(struct registration *first);

#endif
