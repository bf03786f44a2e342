/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COHORT_COLLECTIVE_H
#define COHORT_COLLECTIVE_H

/*
 * Collectives on device memory, for one tensor or for a list of tensors, and
 * premultiplied sums
 *
 * cohort/host_memory.h has the same collectives for memory from malloc().
 *
 * Rules for every collective
 *
 *  - Every rank must make the same sequence of calls with the same @count,
 *    @type, @op and @root.  Before the library launches a call, it compares the
 *    call with the other ranks' calls.  A difference ends the group with
 *    COHORT_MISMATCH.
 *  - A call returns once the operation is queued on @stream.  Before that it
 *    may block: with COHORT_LAUNCH_TOGETHER until all ranks of this process
 *    have called and launched, and in any mode while too many operations are in
 *    flight.
 *  - Buffers are memory of the rank's device, borrowed until the ticket has a
 *    result.  Buffers of a reduction must be aligned to the element size.  If
 *    @count is 0, buffers are ignored.
 *  - One thread at a time may call on a communicator.  A bound communicator
 *    takes calls from its own thread only.
 *
 * NCCL before 2.28.3 has no gather, scatter or all-to-all.  With such a
 * version, the library builds them from native groups of sends and receives.
 *
 * See docs/api-rules.md, "Rules for collectives", for the details.
 */

#include <stddef.h>
#include <stdint.h>

#include <cohort/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct cohort_comm;

/*
 * cohort_all_reduce - combine a buffer across ranks, with the result on each
 * @comm:   this rank's communicator
 * @send:   @count elements of @type, read
 * @recv:   @count elements of @type, written; may equal @send
 * @count:  number of elements; 0 is allowed
 * @type:   enum cohort_type
 * @op:     enum cohort_op, or a premultiplied sum (cohort_premul_sum_create())
 * @stream: stream of the rank's device to queue the operation on; NULL for the
 *          legacy default stream
 * @ticket: set to the ticket for cohort_wait(); may be NULL
 *
 * Every rank must make the same call.  One thread at a time per communicator;
 * blocks as described in cohort/collective.h, but does not wait for the
 * operation to complete.  While a batch is open, the call is only checked and
 * stored for cohort_batch_end().
 *
 * If a native call fails or the ranks' calls differ, the group ends, because
 * the other ranks already wait for this one.  The call then returns the status
 * of that cause once nothing can access a buffer.  On any other error nothing
 * is queued, and @ticket and the buffers are untouched.  cohort_wait() reports
 * later errors, such as COHORT_STALLED if a deadline passes.
 *
 * Returns:
 *   COHORT_OK           the operation is queued
 *   COHORT_INVALID      an argument is wrong; the error text has its value
 *   COHORT_BUSY         another thread is inside the communicator
 *   COHORT_OWNER        the communicator is bound to another thread
 *   COHORT_STATE        the communicator is closed
 *   COHORT_UNSUPPORTED  @stream is being captured (options.allow_capture)
 *   COHORT_STALE        the group was respawned or has abandoned this rank
 *   COHORT_MISMATCH     the ranks' calls differ; to find the rank that differs,
 *                       the call has waited up to a second for the others
 *   COHORT_NCCL         a call of NCCL failed
 *   COHORT_CUDA         a call of the CUDA runtime failed
 *   COHORT_NO_MEMORY    a call of the CUDA runtime ran out of memory
 *   COHORT_WEDGED       the group has ended, but the abort did not finish in
 *                       time; never free the buffers
 *   a cause's status    the group has ended, or it ended while the call waited
 *                       for the other ranks
 */
COHORT_API int cohort_all_reduce(struct cohort_comm *comm, const void *send,
                                 void *recv, size_t count, int type, int op,
                                 void *stream, uint64_t *ticket);

/*
 * cohort_broadcast - copy a buffer from rank @root to every rank
 * @send: @count elements of @type, read on @root; ignored on other ranks
 * @recv: @count elements of @type, written; may equal @send
 * @root: rank that sends, the same on all ranks
 *
 * Otherwise the same as cohort_all_reduce().
 */
COHORT_API int cohort_broadcast(struct cohort_comm *comm, const void *send,
                                void *recv, size_t count, int type, int root,
                                void *stream, uint64_t *ticket);

/*
 * cohort_reduce - combine a buffer across ranks, with the result on rank @root
 * @send: @count elements of @type, read
 * @recv: @count elements of @type, written on @root; ignored on other ranks;
 *        may equal @send
 * @root: rank that gets the result, the same on all ranks
 *
 * Otherwise the same as cohort_all_reduce().
 */
COHORT_API int cohort_reduce(struct cohort_comm *comm, const void *send,
                             void *recv, size_t count, int type, int op,
                             int root, void *stream, uint64_t *ticket);

/*
 * cohort_all_gather - collect every rank's buffer on every rank
 * @send: @count elements of @type, read
 * @recv: size * @count elements, written in rank order; in place if @send is
 *        @recv + rank * @count elements
 *
 * Otherwise the same as cohort_all_reduce().
 */
COHORT_API int cohort_all_gather(struct cohort_comm *comm, const void *send,
                                 void *recv, size_t count, int type,
                                 void *stream, uint64_t *ticket);

/*
 * cohort_reduce_scatter - combine a buffer across ranks, with one block on each
 * @send: size * @count elements of @type, read
 * @recv: @count elements, written with this rank's block of the result; in
 *        place if @recv is @send + rank * @count elements
 *
 * Otherwise the same as cohort_all_reduce().
 */
COHORT_API int cohort_reduce_scatter(struct cohort_comm *comm, const void *send,
                                     void *recv, size_t count, int type, int op,
                                     void *stream, uint64_t *ticket);

/*
 * cohort_gather - collect every rank's buffer on rank @root
 * @send: @count elements of @type, read
 * @recv: size * @count elements on @root, written in rank order; ignored on
 *        other ranks; in place if @send is @recv + rank * @count elements
 * @root: rank that receives, the same on all ranks
 *
 * Otherwise the same as cohort_all_reduce().
 */
COHORT_API int cohort_gather(struct cohort_comm *comm, const void *send,
                             void *recv, size_t count, int type, int root,
                             void *stream, uint64_t *ticket);

/*
 * cohort_scatter - give every rank its block of rank @root's buffer
 * @send: size * @count elements of @type on @root, read in rank order; ignored
 *        on other ranks
 * @recv: @count elements, written; in place if @recv is @send + rank * @count
 *        elements
 * @root: rank that sends, the same on all ranks
 *
 * Otherwise the same as cohort_all_reduce().
 */
COHORT_API int cohort_scatter(struct cohort_comm *comm, const void *send,
                              void *recv, size_t count, int type, int root,
                              void *stream, uint64_t *ticket);

/*
 * cohort_all_to_all - exchange one block between every pair of ranks
 * @send: size * @count elements of @type, read: block r goes to rank r
 * @recv: size * @count elements, written: block r is from rank r; must not
 *        overlap @send
 *
 * Otherwise the same as cohort_all_reduce().
 */
COHORT_API int cohort_all_to_all(struct cohort_comm *comm, const void *send,
                                 void *recv, size_t count, int type,
                                 void *stream, uint64_t *ticket);

/*
 * cohort_barrier - hold back a stream until every rank has reached the barrier
 *
 * Work that is queued on @stream after this call starts only when every rank's
 * stream has reached its barrier.  The thread itself does not wait; to make it
 * wait, call cohort_wait() with the ticket.  Otherwise the same as
 * cohort_all_reduce().
 */
COHORT_API int cohort_barrier(struct cohort_comm *comm, void *stream,
                              uint64_t *ticket);

/* One tensor of a list. */
struct cohort_tensor {
	const void *send; /* input, as in the call for one tensor */
	void *recv;       /* output, as in the call for one tensor */
	size_t count;     /* number of elements */
	int type;         /* enum cohort_type */
};

/*
 * cohort_all_reduce_many - all-reduce a list of tensors as one operation
 * @tensors: @n tensors, each treated as by cohort_all_reduce().  The tensors
 *           may differ in type, and some may be in place.  No buffer may
 *           overlap a buffer of another tensor, unless both are only read.  The
 *           array is borrowed for the call, the buffers until the ticket has a
 *           result
 * @n:       number of tensors, 1 or more
 *
 * Every rank must pass a list of the same counts and types.  The list is one
 * operation with one record, one ticket and one comparison with the other
 * ranks, and it is queued as a whole or not at all.  If lists differ, the error
 * names the first tensor that differs.
 *
 * Other collectives on several tensors are batches (cohort/batch.h).
 *
 * options.many selects how a list is launched.  The first call, and each call
 * that packs more bytes than all calls before it, allocates device memory and
 * may block as cudaMalloc() does.  If the allocation fails (COHORT_NO_MEMORY or
 * COHORT_CUDA), nothing is queued and the group continues.
 *
 * A rank caches up to 64 lists by the address of the array, and does not check
 * an unchanged list again.  So if every step uses the same list, keep its array
 * at the same address and do not change it, not even its padding.
 *
 * Otherwise the same as cohort_all_reduce().
 */
COHORT_API int cohort_all_reduce_many(struct cohort_comm *comm,
                                      const struct cohort_tensor *tensors,
                                      size_t n, int op, void *stream,
                                      uint64_t *ticket);

/*
 * cohort_broadcast_many - broadcast a list of tensors as one operation
 * @tensors: @n tensors, each treated as by cohort_broadcast()
 *
 * Otherwise the same as cohort_all_reduce_many().
 */
COHORT_API int cohort_broadcast_many(struct cohort_comm *comm,
                                     const struct cohort_tensor *tensors,
                                     size_t n, int root, void *stream,
                                     uint64_t *ticket);

/* Location of the scalar of a premultiplied sum; values as in NCCL. */
enum cohort_scalar {
	/* Memory of the rank's device, read whenever an operation that uses
	 * this reduction runs. */
	COHORT_SCALAR_DEVICE = 0,
	COHORT_SCALAR_HOST = 1, /* memory of the host, read by the call */
};

/*
 * cohort_premul_sum_create - create a sum of inputs times a scalar of each rank
 * @scalar:    one element of @type, the factor of this rank.  With
 *             COHORT_SCALAR_DEVICE it is borrowed until the sum is destroyed
 *             and all operations that use it are done
 * @type:      enum cohort_type of the tensors that the sum can be used with
 * @residence: enum cohort_scalar
 * @op:        set to a number to pass as @op, on this communicator only
 *
 * Every reduction takes a premultiplied sum as its @op, if all ranks pass one;
 * their scalars may differ.  A communicator has room for 64 sums at a time.  An
 * abort and the close of the communicator destroy its sums.  One thread at a
 * time per communicator; does not block.
 *
 * Returns: the same as cohort_batch_begin(), and
 *   COHORT_OK           the sum exists
 *   COHORT_INVALID      an argument is wrong; the error text has its value
 *   COHORT_STATE        the communicator is closed
 *   COHORT_NO_MEMORY    the communicator already has 64 sums
 *   COHORT_UNSUPPORTED  NCCL does not multiply 8-bit floats if there is only
 *                       one rank
 *   COHORT_NCCL         a call of NCCL failed, perhaps for lack of memory; the
 *                       group continues
 *   COHORT_CUDA         a call of the CUDA runtime failed; the group continues
 */
COHORT_API int cohort_premul_sum_create(struct cohort_comm *comm,
                                        const void *scalar, int type,
                                        int residence, int *op);

/*
 * cohort_op_destroy - destroy a premultiplied sum
 * @op: from cohort_premul_sum_create()
 *
 * May be called as soon as the last call that uses the sum has returned, or
 * after cohort_batch_end() if that call is part of a batch.  One thread at a
 * time per communicator; does not block.
 *
 * Returns:
 *   COHORT_OK       the sum is destroyed
 *   COHORT_INVALID  @op is not a premultiplied sum of this communicator
 *   COHORT_BUSY     another thread is inside the communicator; the sum remains
 *   COHORT_OWNER    the communicator is bound to another thread; the sum
 *                   remains
 *   COHORT_STATE    the communicator is closed
 *   COHORT_NCCL     a call of NCCL failed; the sum is gone, the group continues
 */
COHORT_API int cohort_op_destroy(struct cohort_comm *comm, int op);

#ifdef __cplusplus
}
#endif

#endif
