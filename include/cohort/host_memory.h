/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COHORT_HOST_MEMORY_H
#define COHORT_HOST_MEMORY_H

/*
 * Collectives, sends and receives on host memory, such as memory from malloc()
 *
 * Each call waits until its operation is done, or a timeout has passed.  After
 * a timeout the operation continues on memory of the library, so the caller may
 * free its buffers.  All calls go to the communicator's own stream
 * (cohort_comm_stream()), in order with the work that is queued there.
 *
 * See docs/api-rules.md, "Calls on host memory", for staging memory, rounding
 * and launches.
 */

#include <stddef.h>
#include <stdint.h>

#include <cohort/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct cohort_comm;

/*
 * cohort_all_reduce_host - all-reduce a buffer in host memory
 * @comm:       this rank's communicator
 * @data:       @count elements of @type in host memory, read and written
 * @count:      number of elements; 0 is allowed
 * @type:       enum cohort_type
 * @op:         enum cohort_op, or a premultiplied sum
 *              (cohort_premul_sum_create())
 * @timeout_ns: how long to wait, in nanoseconds; 0 starts the operation and
 *              checks once; COHORT_FOREVER waits until it is done or a deadline
 *              of the watchdog passes.  May differ between ranks
 *
 * Every rank must make the same call, with host memory.  One thread at a time
 * per communicator.  Blocks up to @timeout_ns, plus the time for copies, plus
 * the time for which any collective may block (cohort/collective.h), but waits
 * for the other ranks' calls only up to @timeout_ns.  While the thread waits,
 * it is inside the communicator (COHORT_BUSY), but an abort does not wait for
 * it.  A batch cannot contain this call.
 *
 * After every result except COHORT_WEDGED nothing reads or writes the caller's
 * buffers.
 *
 * After COHORT_TIMED_OUT the operation continues without the caller.  The other
 * ranks still get this rank's input.  This rank's output is undefined, unless
 * cohort_wait_host() waits for the operation again.  cohort_synchronize() waits
 * for it without its output.  The next call on host memory also does so, and
 * returns COHORT_BUSY if its own timeout passes first.
 *
 * Returns: the same as cohort_all_reduce(), and
 *   COHORT_OK           the operation is done; its output is valid
 *   COHORT_TIMED_OUT    the operation continues; the output is undefined
 *   COHORT_BUSY         another thread is inside the communicator, or an
 *                       earlier call on host memory that has timed out is not
 *                       done; nothing was queued
 *   COHORT_STATE        the communicator is closed, or a batch is open
 *   COHORT_UNSUPPORTED  the communicator's own stream is being captured
 *   COHORT_NO_MEMORY    out of memory; if staging memory could not be
 *                       allocated, nothing was queued and the group continues
 *   COHORT_CUDA         a call of the CUDA runtime failed; if staging memory
 *                       could not be allocated, nothing was queued and the
 *                       group continues
 *   COHORT_WEDGED       an abort did not finish in time; never free the buffers
 *   a cause's status    the operation was cut short; its output is undefined
 */
COHORT_API int cohort_all_reduce_host(struct cohort_comm *comm, void *data,
                                      size_t count, int type, int op,
                                      uint64_t timeout_ns);

/*
 * cohort_broadcast_host - broadcast a buffer in host memory
 * @data: @count elements of @type, read on rank @root and written on others
 *
 * Otherwise the same as cohort_all_reduce_host().
 */
COHORT_API int cohort_broadcast_host(struct cohort_comm *comm, void *data,
                                     size_t count, int type, int root,
                                     uint64_t timeout_ns);

/*
 * cohort_reduce_host - reduce a buffer in host memory to rank @root
 * @data: @count elements of @type, read; on rank @root also written
 *
 * Otherwise the same as cohort_all_reduce_host().
 */
COHORT_API int cohort_reduce_host(struct cohort_comm *comm, void *data,
                                  size_t count, int type, int op, int root,
                                  uint64_t timeout_ns);

/*
 * cohort_all_gather_host - collect every rank's host buffer on every rank
 *
 * Buffers are as for cohort_all_gather(); otherwise the same as
 * cohort_all_reduce_host().
 */
COHORT_API int cohort_all_gather_host(struct cohort_comm *comm,
                                      const void *send, void *recv,
                                      size_t count, int type,
                                      uint64_t timeout_ns);

/*
 * cohort_reduce_scatter_host - combine host buffers, one block for each rank
 *
 * Buffers are as for cohort_reduce_scatter(); otherwise the same as
 * cohort_all_reduce_host().
 */
COHORT_API int cohort_reduce_scatter_host(struct cohort_comm *comm,
                                          const void *send, void *recv,
                                          size_t count, int type, int op,
                                          uint64_t timeout_ns);

/*
 * cohort_gather_host - collect every rank's host buffer on rank @root
 *
 * Buffers are as for cohort_gather(); otherwise the same as
 * cohort_all_reduce_host().
 */
COHORT_API int cohort_gather_host(struct cohort_comm *comm, const void *send,
                                  void *recv, size_t count, int type, int root,
                                  uint64_t timeout_ns);

/*
 * cohort_scatter_host - give every rank its block of rank @root's host buffer
 *
 * Buffers are as for cohort_scatter(); otherwise the same as
 * cohort_all_reduce_host().
 */
COHORT_API int cohort_scatter_host(struct cohort_comm *comm, const void *send,
                                   void *recv, size_t count, int type, int root,
                                   uint64_t timeout_ns);

/*
 * cohort_all_to_all_host - exchange one block between every pair of ranks
 *
 * Buffers are as for cohort_all_to_all(); otherwise the same as
 * cohort_all_reduce_host().
 */
COHORT_API int cohort_all_to_all_host(struct cohort_comm *comm,
                                      const void *send, void *recv,
                                      size_t count, int type,
                                      uint64_t timeout_ns);

/*
 * cohort_send_host - send a buffer in host memory to one rank
 * @peer: a rank that must call cohort_recv_host() with the same @count and
 *        @type
 *
 * Buffers and pairing are as for cohort_send(); otherwise the same as
 * cohort_all_reduce_host().
 */
COHORT_API int cohort_send_host(struct cohort_comm *comm, const void *send,
                                size_t count, int type, int peer,
                                uint64_t timeout_ns);

/*
 * cohort_recv_host - receive a buffer in host memory from one rank
 * @peer: a rank that must call cohort_send_host() with the same @count and
 *        @type
 *
 * Buffers and pairing are as for cohort_recv(); otherwise the same as
 * cohort_all_reduce_host().
 */
COHORT_API int cohort_recv_host(struct cohort_comm *comm, void *recv,
                                size_t count, int type, int peer,
                                uint64_t timeout_ns);

/*
 * cohort_wait_host - wait again for a call on host memory that has timed out
 * @recv:       the output buffer of the call, which was @data or @recv there;
 *              ignored if this rank has no output
 * @bytes:      size of @recv, in bytes
 * @timeout_ns: as for cohort_all_reduce_host()
 *
 * A thread that must look for signals or messages now and then can make a call
 * with a short timeout, and then repeat this one.  Other ranks need not call
 * it.  Threads and blocking are as for cohort_all_reduce_host().
 *
 * Returns:
 *   COHORT_OK         the operation is done; its output is valid
 *   COHORT_TIMED_OUT  the operation continues; nothing writes to @recv any more
 *   COHORT_STATE      no call has timed out since the last one was done, or the
 *                     communicator is closed
 *   COHORT_INVALID    the output of the call has another size than @bytes
 *   COHORT_BUSY       another thread is inside the communicator
 *   a cause's status  the operation was cut short; its output is undefined
 */
COHORT_API int cohort_wait_host(struct cohort_comm *comm, void *recv,
                                size_t bytes, uint64_t timeout_ns);

#ifdef __cplusplus
}
#endif

#endif
