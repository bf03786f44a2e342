/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_STAGING_H
#define CORE_STAGING_H

/*
 * Calls with plain host memory: how the data gets to the device and back
 *
 * In chunks: the caller's memory is copied into the staging memory, which is
 * pinned and has room for the whole call; from there by the copy engines into a
 * ring of chunks on the device, in which the collectives work; and back by the
 * same steps.  Each of the three has a stream, so that while one chunk is being
 * reduced the next one is copied in and the former one out.  As all of it can
 * be queued before any peer has come, a call whose caller gives up waiting goes
 * on by itself, and touches only memory of the library's.  If the caller's
 * memory is pinned, the device copies from it and to it directly, but only if
 * the caller waits until the end.
 *
 * How a call is cut is a function of the call and the number of ranks, the same
 * on all ranks.  To the other ranks, the watchdog and the recorder it is one
 * operation, whose mark comes after all of it.
 *
 * Where a device's memory is the host's, a call is one chunk, and the staging
 * memory is its slot.  There a call whose caller waits until the end is
 * launched as one on device memory.
 */

#include <stdatomic.h>

#include "core/native.h"
#include "core/op.h"

struct cohort_comm;

/* How many chunks a call has at most, and how many are on the device at a time:
 * one being copied in, one being reduced, one being copied out. */
#define STAGING_CHUNKS 64
#define STAGING_RING 3

/* How many former blocks of memory may be kept, each at most half as large as
 * the next. */
#define STAGING_KEPT 48

/* One call, on its caller's stack. */
struct staged {
	/* How long the caller waits, and until when. */
	uint64_t timeout_ns;
	uint64_t deadline_ns;

	/* Whether the caller's memory itself is copied from, and to, by the
	 * device. */
	bool sends_direct, recvs_direct;

	/* The streams could not be put in order: nothing tells when what was
	 * queued is done. */
	bool is_lost;

	/* What is sent is in the staging memory already: the caller may have
	 * left. */
	bool is_taken;

	uint32_t number; /* the value that the words are set to */

	/* The plan.
	 *
	 * Blocks of count elements that this rank sends from, and receives
	 * into; the size of an element, the elements of each block in a chunk,
	 * and the number of chunks. */
	size_t send_blocks, recv_blocks;
	size_t element, chunk, chunks;
	size_t chunk_bytes; /* room for a chunk in the staging memory, */
	size_t slot_bytes;  /* and on the device */
};

/* Until when the caller of @op waits for other ranks. */
static inline uint64_t staging_deadline(const struct op *op)
{
	return op->staged ? op->staged->deadline_ns : COHORT_FOREVER;
}

/* A call whose caller has left before all ranks had called
 * (launch_barrier.h). */
struct detached_call {
	struct op op;
	struct cohort_tensor tensor;
	struct staged staged;
	uint64_t ticket;
	uint64_t number; /* of the collective */
};

/* What a communicator has for calls with host memory: made by the first such
 * call, owned by the thread that is inside one (see comm_keep()), and given
 * back with the communicator's stream. */
struct staging {
	/* Of the last call that uses the members below, 0: none. */
	uint64_t ticket;
	uint32_t number; /* of that call */
	char *memory;    /* pinned */
	size_t bytes;
	char *ring; /* on the device; NULL if slots are in memory */
	size_t slot_bytes;
	void *kept[STAGING_KEPT]; /* what was in use before, in order */
	void *kept_rings[STAGING_KEPT];
	int kept_n, kept_rings_n;
	uint32_t *words; /* pinned; one for each chunk, set when it is back */
	cudaStream_t in, out;
	cudaEvent_t loaded[STAGING_RING]; /* a chunk is on the device, */
	cudaEvent_t worked[STAGING_RING]; /* was reduced, */
	cudaEvent_t stored[STAGING_RING]; /* and is back */
};

/* Set the plan by which @c carries out @op, which has been checked.  Pure. */
void staging_plan(struct staged *s, const struct cohort_comm *c,
                  const struct op *op);

/* Set the bytes of a chunk, 0: the default.  For tests, with no call under
 * way. */
void staging_set_chunk(size_t bytes);

/* Set the plan, and look what kind of memory the caller has: COHORT_INVALID for
 * memory of a device.  Then make room, with no call under way:
 * COHORT_NO_MEMORY, or COHORT_CUDA. With the lock held, on the rank's
 * device. */
int staging_prepare(struct cohort_comm *c, const struct op *op,
                    struct staged *s);

/* Copy all that is to be sent into the staging memory. */
void staging_copy_in(struct cohort_comm *c, const struct op *op);

/* Launch the call, and have its stream wait for all of it; stops at the first
 * native call that fails. */
struct native_result staging_launch(struct cohort_comm *c, const struct op *op);

/* True if chunk @k is back in the staging memory.  And copy it to the caller's
 * memory, unless the device has. */
bool staging_is_back(const struct cohort_comm *c, const struct staged *s,
                     size_t k);
void staging_copy_out(const struct cohort_comm *c, const struct op *op,
                      size_t k);

/* Give back all memory, streams and events, with nothing in flight, on the
 * rank's device. */
void staging_release(struct cohort_comm *c);

#endif
