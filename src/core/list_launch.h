/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_LIST_LAUNCH_H
#define CORE_LIST_LAUNCH_H

/*
 * Launches a list of tensors: in native groups, packed into a buffer, or one
 * tensor at a time
 *
 * The choice depends only on the list, the options and the platform, which are
 * equal on all ranks.  So all ranks make the same native calls.
 *
 * Packing queues three steps on the stream: copy tensors of one type into a
 * buffer of the communicator, make one native call on the buffer, and copy the
 * tensors out.  The first call that packs allocates the buffer, and a call that
 * needs more room allocates a larger buffer.  The smaller buffers stay until
 * the communicator is freed, because operations in flight may use them.
 */

#include "core/native.h"
#include "core/op.h"

struct cohort_comm;

/* The packing buffer of a communicator.  Used with the lock held. */
struct flats {
	struct native_memory memory;
	cudaEvent_t used; /* recorded after the last use */
};

/* Return true if @op is not launched in one native group.  A @captured call is
 * never packed, because its graph may run while another call uses the
 * buffer. */
bool list_is_special(const struct cohort_comm *c, const struct op *op,
                     bool captured);

/*
 * Allocate the buffer that @op needs if it is packed, before the ranks agree on
 * @op.  Call it with the lock held, on the rank's device.  Return COHORT_OK,
 * COHORT_NO_MEMORY, COHORT_CUDA, or the status of the clique's cause.
 */
int list_prepare(struct cohort_comm *c, const struct op *op, bool captured);

/* Launch a list for which list_is_special() is true; stop at the first call
 * that fails.  No native group may be open. */
struct native_result list_launch(struct cohort_comm *c, const struct op *op,
                                 bool captured);

/* Free the buffers.  Nothing may be in flight, and the rank's device must be
 * current. */
void list_release(struct cohort_comm *c);

#endif
