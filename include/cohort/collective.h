/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COHORT_COLLECTIVE_H
#define COHORT_COLLECTIVE_H

/*
 * Collectives on device memory: for one tensor, and for lists of tensors; and
 * the premultiplied sum, a reduction of one's own
 *
 * cohort/host_memory.h has these collectives for memory from malloc().
 */

#include <stddef.h>
#include <stdint.h>

#include <cohort/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct cohort_comm;

/*
 * What the collectives have in common
 *
 * Every rank of the group must make the same sequence of calls with the same
 * @count, @type, @op and @root.  Before a call is launched, it is compared with
 * the other ranks' calls of the same number: a difference ends the group with
 * COHORT_MISMATCH, and the cause spells out the calls and names the odd rank,
 * if there is a majority.  (Compared are 32 bits of a hash of all that, and the
 * number of the call: one difference in four thousand million is not seen.  A
 * call with a @count of 0 may be done before there is anything to compare it
 * with.)
 *
 * A call returns once the operation is queued on @stream (NULL: the legacy
 * default stream of the rank's device).  What it waits for before:
 *
 *  - With COHORT_LAUNCH_TOGETHER it blocks until all ranks of this process have
 *    called and launched, or the group has a cause; with COHORT_LAUNCH_AHEAD it
 *    does not wait for peers.
 *  - While too much is in flight, it blocks until the oldest operation is done
 *    or the group has a cause.  Too much is: as many operations of this rank,
 *    or calls ahead of the slowest rank, as the recorder has slots; or more on
 *    @stream than its queue holds (about 1,000 launches on a GPU, 340
 *    operations on the host platform).  So a thread that launches ahead and
 *    calls for several ranks in turn must not run one of them further ahead.
 *  - On the gpu platform the first call of a kind may wait for connections to
 *    be set up.
 *
 * Buffers are device memory of the rank's device (from cohort_alloc(), or from
 * cudaMalloc()), borrowed until the ticket is answered.  A reduction's buffers
 * must be aligned to the element size; otherwise the call returns
 * COHORT_INVALID, because NCCL's kernel would fault, and CUDA would make the
 * device unusable.  A @count of 0 is allowed; buffers are then not looked at.
 * A stream of another device is COHORT_INVALID, and so is one that was destroyed or
 * never was a stream: the simulator finds all of those, and CUDA, which leaves their
 * use undefined, most of those that were destroyed.  The device of a stream that is
 * being captured cannot be asked: then the native call fails.
 *
 * While a batch is open (cohort_batch_begin()), a call is only checked and kept
 * for cohort_batch_end(): see there.
 *
 * One thread at a time per communicator; for a bound communicator only its
 * thread.
 *
 * COHORT_OK; COHORT_INVALID with the argument and its value in the text;
 * COHORT_BUSY; COHORT_OWNER; COHORT_STATE if the communicator is closed; the
 * cause's status if the group has one, or gets one while the call waits for the
 * other ranks' calls; COHORT_STALE if the group was respawned or has abandoned
 * this rank.  On these errors nothing was queued, @ticket and the buffers are
 * untouched, and the group goes on as it was.
 *
 * COHORT_NCCL or COHORT_CUDA if a native call failed: as the other ranks are
 * already waiting for this one, that becomes the cause and ends the group.  The
 * call then returns as a wait would, once no buffer can be touched any more, or
 * with COHORT_WEDGED when the abort deadline has passed.  COHORT_NO_MEMORY
 * stands for COHORT_CUDA where CUDA says so.  COHORT_MISMATCH is returned in
 * the same way, after up to a second in which the call waits for those of
 * others, to tell which rank differs.
 *
 * What goes wrong later is the ticket's answer; for example COHORT_STALLED,
 * with the watchdog's verdict, when a deadline of the call has passed (struct
 * cohort_deadlines).
 */

/*
 * cohort_all_reduce - combine a buffer across ranks, result on every rank
 * @comm:   this rank's communicator
 * @send:   @count elements of @type, read
 * @recv:   @count elements of @type, written; may equal @send
 * @op:     enum cohort_op, or a premultiplied sum (cohort_premul_sum_create())
 * @stream: where to queue it
 * @ticket: for cohort_wait(); may be NULL
 */
COHORT_API int cohort_all_reduce(struct cohort_comm *comm, const void *send,
                                 void *recv, size_t count, int type, int op,
                                 void *stream, uint64_t *ticket);

/*
 * cohort_broadcast - copy a buffer from rank @root to every rank
 * @send: @count elements of @type, read on @root only; elsewhere ignored
 * @recv: @count elements of @type, written; may equal @send
 */
COHORT_API int cohort_broadcast(struct cohort_comm *comm, const void *send,
                                void *recv, size_t count, int type, int root,
                                void *stream, uint64_t *ticket);

/*
 * cohort_reduce - combine a buffer across ranks, result on rank @root
 * @send: @count elements of @type, read
 * @recv: @count elements of @type, written on @root only; elsewhere ignored;
 *        may equal @send
 */
COHORT_API int cohort_reduce(struct cohort_comm *comm, const void *send,
                             void *recv, size_t count, int type, int op,
                             int root, void *stream, uint64_t *ticket);

/*
 * cohort_all_gather - collect every rank's buffer on every rank
 * @send: @count elements of @type, read
 * @recv: size * @count elements, written in rank order; in place if @send is
 *        @recv + rank * @count elements
 */
COHORT_API int cohort_all_gather(struct cohort_comm *comm, const void *send,
                                 void *recv, size_t count, int type,
                                 void *stream, uint64_t *ticket);

/*
 * cohort_reduce_scatter - combine across ranks, each rank keeps its block
 * @send: size * @count elements of @type, read
 * @recv: @count elements, written: block number rank of the combination; in
 *        place if @recv is @send + rank * @count elements
 */
COHORT_API int cohort_reduce_scatter(struct cohort_comm *comm, const void *send,
                                     void *recv, size_t count, int type, int op,
                                     void *stream, uint64_t *ticket);

/*
 * cohort_gather - collect every rank's buffer on rank @root
 * @send: @count elements of @type, read
 * @recv: on @root size * @count elements, written in rank order; elsewhere
 *        ignored; in place if @send is @recv + rank * @count elements
 *
 * One native call where NCCL has it (2.28.3), else the sends and receives that
 * it means in one native group.
 */
COHORT_API int cohort_gather(struct cohort_comm *comm, const void *send,
                             void *recv, size_t count, int type, int root,
                             void *stream, uint64_t *ticket);

/*
 * cohort_scatter - give every rank its block of rank @root's buffer
 * @send: on @root size * @count elements of @type, read in rank order;
 *        elsewhere ignored
 * @recv: @count elements, written; in place if @recv is @send + rank * @count
 *        elements
 *
 * One native call where NCCL has it (2.28.3), else the sends and receives that
 * it means in one native group.
 */
COHORT_API int cohort_scatter(struct cohort_comm *comm, const void *send,
                              void *recv, size_t count, int type, int root,
                              void *stream, uint64_t *ticket);

/*
 * cohort_all_to_all - every rank gives every rank a block
 * @send: size * @count elements of @type, read: block r is for rank r
 * @recv: size * @count elements, written: block r is from rank r; never in
 *        place: it must not overlap @send
 *
 * One native call where NCCL has it (2.28.3), else the sends and receives that
 * it means in one native group.
 */
COHORT_API int cohort_all_to_all(struct cohort_comm *comm, const void *send,
                                 void *recv, size_t count, int type,
                                 void *stream, uint64_t *ticket);

/*
 * cohort_barrier - a ticket that is done only when every rank has come
 *
 * In stream order: what is queued on @stream after it starts only when every
 * rank's stream has reached its barrier.  To hold the thread itself, wait for
 * the ticket.
 */
COHORT_API int cohort_barrier(struct cohort_comm *comm, void *stream,
                              uint64_t *ticket);

/* One tensor of a list: what one call takes. */
struct cohort_tensor {
	const void *send; /* read */
	void *recv;       /* written; in place as in the call for one */
	size_t count;     /* elements of @type */
	int type;         /* enum cohort_type */
};

/*
 * cohort_all_reduce_many     - all-reduce a list of tensors as one operation
 * cohort_broadcast_many      - broadcast a list of tensors as one operation
 * cohort_all_gather_many     - all-gather a list of tensors as one operation
 * cohort_reduce_scatter_many - reduce-scatter a list of tensors as one
 *                              operation
 * @tensors: @n of them, each treated as by the call for one tensor.  They may
 *           differ in type; some may be in place.  Counts are those of the call
 *           for one (of an all-gather @send has count elements and @recv size *
 *           count, of a reduce-scatter the other way round).  The array is
 *           borrowed for the call, the buffers until the ticket is answered.
 *           No buffer may overlap that of another tensor, unless both are only
 *           read
 * @n:       1 or more
 *
 * Calls on lists of tensors.  Every rank has the same list of counts and types.
 * A list is one operation, with one record, one ticket, and one comparison with
 * the other ranks; a difference is told with the number of the first tensor
 * that differs.  All or nothing.
 *
 * options.many says how a list is launched.  The first call that packs, and
 * each one that packs more than any before, allocates on the device, and may
 * block as cudaMalloc() may.  If that answers COHORT_NO_MEMORY or COHORT_CUDA,
 * nothing was queued.  Copies and groups take places on @stream as other
 * launches do.
 *
 * A rank remembers up to 64 of the lists that it has called, by where the array
 * is.  If a list is called again and says the same, it is not looked through
 * again.  So keep the array of what every step calls, and keep its padding.
 * Everything else is as for the collectives.
 */
COHORT_API int cohort_all_reduce_many(struct cohort_comm *comm,
                                      const struct cohort_tensor *tensors,
                                      size_t n, int op, void *stream,
                                      uint64_t *ticket);
COHORT_API int cohort_broadcast_many(struct cohort_comm *comm,
                                     const struct cohort_tensor *tensors,
                                     size_t n, int root, void *stream,
                                     uint64_t *ticket);
COHORT_API int cohort_all_gather_many(struct cohort_comm *comm,
                                      const struct cohort_tensor *tensors,
                                      size_t n, void *stream, uint64_t *ticket);
COHORT_API int cohort_reduce_scatter_many(struct cohort_comm *comm,
                                          const struct cohort_tensor *tensors,
                                          size_t n, int op, void *stream,
                                          uint64_t *ticket);

/* Where the scalar of a premultiplied sum is: values are NCCL's. */
enum cohort_scalar {
	/* Memory of the rank's device, read whenever an operation with it
	 * runs. */
	COHORT_SCALAR_DEVICE = 0,
	COHORT_SCALAR_HOST = 1, /* memory of the host, read by the call */
};

/*
 * cohort_premul_sum_create - a sum for which each rank multiplies its input
 *                            first
 * cohort_op_destroy        - the sum is not needed any more
 * @scalar:    one element of @type: this rank's factor; COHORT_SCALAR_DEVICE:
 *             borrowed until the operation is destroyed and all that used it is
 *             done
 * @type:      enum cohort_type, of the tensors that it can be used with
 * @residence: enum cohort_scalar
 * @op:        what to give as an @op, on this communicator only
 *
 * The sum can be the @op of every reduction; the other ranks must then give
 * such a sum of their own, too, whose scalars may differ.  A communicator has
 * room for 64 at a time.  It may be destroyed as soon as the last call that
 * uses it has returned, or in a batch the end of that.  It is gone after an
 * abort, and with its communicator.  One submitting thread at a time; neither
 * call blocks.
 *
 * COHORT_OK; COHORT_INVALID with the argument and its value (an @op that is no
 * such sum, or of another communicator); COHORT_BUSY; COHORT_OWNER;
 * COHORT_STATE if closed; COHORT_NCCL, and the group goes on, also if NCCL had
 * no memory, for which it has no result of its own.  Create: COHORT_NO_MEMORY
 * if there are 64 already; COHORT_UNSUPPORTED for 8-bit floats on one rank,
 * which NCCL does not multiply; COHORT_CUDA, and the group goes on; the cause,
 * or COHORT_STALE, as the collectives do.  An @op that was given to destroy is
 * gone whatever the answer, but for COHORT_BUSY, COHORT_OWNER and COHORT_STATE.
 */
COHORT_API int cohort_premul_sum_create(struct cohort_comm *comm,
                                        const void *scalar, int type,
                                        int residence, int *op);
COHORT_API int cohort_op_destroy(struct cohort_comm *comm, int op);

#ifdef __cplusplus
}
#endif

#endif
