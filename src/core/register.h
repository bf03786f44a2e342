/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_REGISTER_H
#define CORE_REGISTER_H

/*
 * Memory that is registered with NCCL
 *
 * Each rank has a list, for the thread inside the gate.  Once the clique has a cause, the
 * reaper deregisters everything before it ends the native communicators, and a thread may
 * change the list only after that, in RECLAIMED.  NCCL itself deregisters only after it has
 * freed the proxy thread that it needs for that.
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

/*
 * register_add    - register memory by ncclCommRegister()
 * register_remove - deregister it; with @has_ended, in RECLAIMED, only forget it
 */
int register_add(struct cohort_comm *c, void *memory, size_t bytes,
                 struct registration **out);
int register_remove(struct cohort_comm *c, struct registration *r,
                    bool has_ended);

/* Deregister all memory of @c, for the reaper.  The list stays as it is. */
void register_end(const struct cohort_comm *c);

/* True if @r is a registration of @c's. */
bool register_has(const struct cohort_comm *c, const struct registration *r);

/* The registration that @memory is in, or NULL. */
struct registration *register_find(const struct cohort_comm *c,
                                   const void *memory);

void register_free_all(struct registration *first);

#endif
