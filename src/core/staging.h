/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_STAGING_H
#define CORE_STAGING_H

/*
 * Makes calls with plain host memory: moves the data to the device and back
 *
 * A call is cut into chunks, which go through staging memory to a ring of
 * chunks on the device, and back (staging_launch.c).  The staging memory is
 * pinned and has room for the whole call.
 *
 * All of this can be queued before any peer has called.  So a call whose caller
 * times out completes without the caller, and then accesses only the library's
 * memory.  If the caller's memory is pinned, and the caller waits without a
 * timeout, the device copies to and from it directly.
 *
 * How a call is cut depends only on the call and the number of ranks, so all
 * ranks cut it alike.  Other ranks, the watchdog and the recorder see one
 * operation, which is marked as done after its last chunk.
 *
 * On a platform whose device memory is host memory, a call is one chunk, and
 * the collective works in the staging memory.  A call whose caller waits
 * without a timeout is launched there like a call on device memory.
 */

#include "core/native.h"
#include "core/op.h"

struct cohort_comm;

/* Maximum number of chunks of a call. */
#define STAGING_CHUNKS 64

/* Number of chunks on the device at a time: one being copied in, one being
 * reduced, one being copied out. */
#define STAGING_RING 3

/* State of one call with host memory, on its caller's stack. */
struct staged {
	uint64_t timeout_ns;

	uint64_t deadline_ns;

	/* True if the device copies directly from the caller's send buffer, or
	 * to its receive buffer. */
	bool sends_direct, recvs_direct;

	/* True if the streams could not be ordered, so that nothing shows when
	 * the queued work is done. */
	bool is_lost;

	/* True if the data to send was copied to the staging memory before the
	 * launch, because the caller has timed out. */
	bool is_taken;

	uint32_t number; /* value that the chunks' words are set to */

	/* Division of the call into chunks.  A block has as many elements as
	 * the call's count. */
	size_t send_blocks; /* number of blocks that this rank sends */
	size_t recv_blocks; /* number of blocks that this rank receives */
	size_t element;     /* size of an element */
	size_t chunk;       /* number of elements of each block in a chunk */
	size_t chunks;      /* number of chunks */
	size_t chunk_bytes; /* room for a chunk in the staging memory */
	size_t slot_bytes;  /* room for a chunk on the device */
};

/* Return the time until which the caller of @op waits for other ranks. */
static inline uint64_t staging_deadline(const struct op *op)
{
	return op->staged ? op->staged->deadline_ns : COHORT_FOREVER;
}

/* A call whose caller has timed out before all ranks had called
 * (launch_barrier.h).  A library thread launches it. */
struct detached_call {
	struct op op;
	struct cohort_tensor tensor;
	struct staged staged;
	uint64_t ticket;
	uint64_t number; /* number of the collective */
};

/*
 * Memory, streams and events of a communicator for calls with host memory.
 * Allocated by the first of these calls, used by the thread that has called
 * comm_reserve(), and freed with the communicator's stream.
 */
struct staging {
	/* Ticket of the last call that uses the members below, or 0. */
	uint64_t ticket;

	/* That call, if its caller has timed out, and the number of its chunks
	 * that were copied to the caller's memory. */
	struct {
		struct op op;
		struct cohort_tensor tensor;
		struct staged staged;
		size_t copied;
	} late;

	uint32_t number; /* number of that call, see struct staged */
	struct native_memory memory; /* pinned staging memory */
	/* Ring of chunks on the device; empty if chunks stay in @memory. */
	struct native_memory ring;
	/* Pinned; one word for each chunk, set when the chunk is back in the
	 * staging memory. */
	uint32_t *words;
	cudaStream_t in, out;
	/* Events, each recorded when a chunk is on the device. */
	cudaEvent_t loaded[STAGING_RING];
	cudaEvent_t worked[STAGING_RING]; /* recorded when a chunk is reduced */
	/* Recorded when a chunk is back in the staging memory. */
	cudaEvent_t stored[STAGING_RING];
};

/* Plan the call in @s, check the kind of the caller's memory, and allocate the
 * memory that the call needs.  No call with host memory may be in progress.
 * Call it with the lock held, on the rank's device.  Return COHORT_OK,
 * COHORT_INVALID for memory of a device, COHORT_NO_MEMORY, COHORT_CUDA, or the
 * status of the clique's cause. */
int staging_prepare(struct cohort_comm *c, const struct op *op,
                    struct staged *s);

void staging_copy_in(struct cohort_comm *c, const struct op *op);

/* Launch the call, and make its stream wait for all work of the call.  Stops at
 * the first native call that fails. */
struct native_result staging_launch(struct cohort_comm *c, const struct op *op);

bool staging_is_copied_back(const struct cohort_comm *c, const struct staged *s,
                            size_t k);

/* Copy chunk @k from the staging memory to the caller's memory, unless the
 * device has copied it there directly. */
void staging_copy_out(const struct cohort_comm *c, const struct op *op,
                      size_t k);

/* Free all memory, streams and events.  Nothing may be in flight, and the
 * rank's device must be current. */
void staging_release(struct cohort_comm *c);

#endif
