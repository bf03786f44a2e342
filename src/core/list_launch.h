/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_LIST_LAUNCH_H
#define CORE_LIST_LAUNCH_H

/*
 * How a list of tensors is launched: in native groups, packed into a buffer, or
 * each alone
 *
 * That is a function of the list, the options and the platform, none of which
 * may differ between ranks: they all make the same native calls.
 *
 * Packed means, in stream order: tensors of one type are copied into a buffer
 * of the communicator, which is one native call, and out of it.  The buffer is
 * made by the first call that packs, and again by one that needs more; the
 * former ones stay until the communicators are freed, so that nothing is taken
 * from what is in flight.
 */

#include "core/native.h"
#include "core/op.h"

struct cohort_comm;

/* The buffers of one communicator.  With the lock held only. */
#define MAX_FLATS 40 /* each twice as large as the one before */
struct flats {
	void *memory[MAX_FLATS]; /* the last one is in use */
	int n;
	size_t room;
	cudaEvent_t used; /* behind the last use */
};

/* True if @op is launched otherwise than in one group.  @captured: into a
 * graph, which may run while another call uses the buffer; nothing is packed
 * then. */
bool list_is_special(const struct cohort_comm *c, const struct op *op,
                     bool captured);

/* Have the memory that a special list will need, before the ranks agree on it:
 * COHORT_NO_MEMORY or COHORT_CUDA, and nothing has happened.  With the lock
 * held, on the rank's device. */
int list_prepare(struct cohort_comm *c, const struct op *op, bool captured);

/* Launch a special list, up to the first call that fails.  No group is open. */
struct native_result list_launch(struct cohort_comm *c, const struct op *op,
                                 bool captured);

/* Give the buffers back, with nothing in flight, on the rank's device. */
void list_release(struct cohort_comm *c);

#endif
