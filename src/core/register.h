/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_REGISTER_H
#define CORE_REGISTER_H

/*
 * Memory that NCCL has been told of
 *
 * A list per rank, for the thread inside the gate.  NCCL forgets its side with the
 * communicator; once that has a cause nothing is asked of it any more.
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

/* ncclCommRegister(), and the end of that; of a communicator that has ended it is
 * only forgotten. */
int register_add(struct cohort_comm *c, void *memory, size_t bytes,
                 struct registration **out);
int register_remove(struct cohort_comm *c, struct registration *r,
                    bool has_ended);

/* True if @r is one of @c's. */
bool register_has(const struct cohort_comm *c, const struct registration *r);

/* The one whose memory @memory is in, or NULL. */
struct registration *register_find(const struct cohort_comm *c,
                                   const void *memory);

void register_free_all(struct registration *first);

#endif
