/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COHORT_HOST_MEMORY_H
#define COHORT_HOST_MEMORY_H

/*
 * Collectives, sends and receives on plain host memory, as malloc() gives it
 *
 * Each call waits for its end, up to a timeout.
 */

#include <stddef.h>
#include <stdint.h>

#include <cohort/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct cohort_comm;

/*
 * What the calls with host memory have in common
 *
 * Each is the collective, send or receive of its name, but for memory of the
 * process as malloc() gives it, and waits for its end.  Calls whose input and
 * output have one size work in place, in @data; the others as the calls for
 * device memory do, in place or not.  All go to the communicator's own stream
 * (cohort_comm_stream()), in order with what is queued there.
 *
 * A call with host memory on one rank and one without on another are different
 * calls (COHORT_MISMATCH), and so are a send and its receive (cohort/p2p.h): both
 * must be with host memory, or both without.  Each call is one operation, with
 * one record ("all_reduce_host"), and is watched by the deadlines of
 * collectives.  How long @timeout_ns is may differ between ranks.
 *
 * @timeout_ns: how long to wait; COHORT_FOREVER: until the end, or a deadline
 *              of the watchdog's.  0: begin it, and see
 *
 * COHORT_TIMED_OUT means: the operation goes on without the caller, in memory
 * of the library.  The other ranks get this rank's input as if nothing had
 * happened; the result on this rank is lost, and the contents of its output
 * (@data, too) are undefined.  Buffers are the caller's again, and nothing
 * touches them any more.  cohort_synchronize() waits for the end of the
 * operation.  The next call with host memory waits for that, too, up to its own
 * timeout, and then answers COHORT_BUSY: it was not made, and nothing has
 * happened.
 *
 * With COHORT_LAUNCH_TOGETHER the operation is launched when all ranks have
 * called it.  Until then other calls of this rank that take a stream, make or
 * destroy a reduction or register memory wait for that too, or for a cause,
 * whatever their kind.  What the program itself queues on the stream meanwhile
 * comes before the operation.
 *
 * So after every answer but COHORT_WEDGED neither a thread nor a device reads
 * or writes the caller's buffers.  That holds after a cause, too, which leaves
 * an output undefined.
 *
 * On the gpu platform the memory is copied through pinned staging memory, in
 * chunks of 4 MiB or a 64th of the call, by streams of the communicator's, so
 * that copies in, collectives and copies out overlap.  The staging memory is as
 * large as the largest call so far, since a call that is given up must go on,
 * and there are three chunks on the device.  Both are made by the first call
 * and by larger ones, which may block as cudaMalloc() and cudaFree() may, for a
 * send or receive also on a peer's kernel (see "Launching together" in
 * cohort/options.h), and are kept until the group is closed.  Memory that is
 * pinned already (cudaHostAlloc(), cudaHostRegister()) is not copied on the
 * way, if @timeout_ns is COHORT_FOREVER.  Memory of a device is COHORT_INVALID.
 *
 * Each chunk is a collective of its own.  So with three ranks and more a sum or
 * an average of floats can differ in its last bits from what the call on device
 * memory leaves: where an element is in its collective decides at which rank
 * NCCL begins to add.  It is the same on all ranks, and in each call of one
 * count.
 *
 * On the host platform the collective works with the caller's memory, without a
 * copy, if @timeout_ns is COHORT_FOREVER; else with a copy of it in the staging
 * memory.
 *
 * Blocks up to @timeout_ns, and besides while it copies, and as a collective
 * may before it is queued; but with COHORT_LAUNCH_TOGETHER it waits for the
 * other ranks' calls no longer than @timeout_ns.  Threads as for the
 * collectives: one at a time for a communicator.  The thread is inside until
 * the call returns, also while it waits, but an abort does not wait for a
 * thread that waits.  Not in a batch (COHORT_STATE), nor while the
 * communicator's own stream is being captured (COHORT_UNSUPPORTED).
 *
 * COHORT_OK: done, the output may be read; COHORT_TIMED_OUT; COHORT_INVALID
 * with the argument and its value; COHORT_BUSY, also after a call that has
 * timed out, see above; COHORT_NO_MEMORY or COHORT_CUDA if the staging memory
 * could not be made (nothing has happened); COHORT_WEDGED: an abort did not
 * complete, and buffers must not be freed; the others as for the collectives
 * and cohort_wait().
 */

/*
 * cohort_all_reduce_host - combine a buffer across ranks, result on every rank
 * @data: @count elements of @type, read and written
 * @op:   enum cohort_op, or a premultiplied sum
 */
COHORT_API int cohort_all_reduce_host(struct cohort_comm *comm, void *data,
                                      size_t count, int type, int op,
                                      uint64_t timeout_ns);

/*
 * cohort_broadcast_host - copy a buffer from rank @root to every rank
 * @data: @count elements of @type, on @root read, elsewhere written
 */
COHORT_API int cohort_broadcast_host(struct cohort_comm *comm, void *data,
                                     size_t count, int type, int root,
                                     uint64_t timeout_ns);

/*
 * cohort_reduce_host - combine a buffer across ranks, result on rank @root
 * @data: @count elements of @type, read; on @root also written
 */
COHORT_API int cohort_reduce_host(struct cohort_comm *comm, void *data,
                                  size_t count, int type, int op, int root,
                                  uint64_t timeout_ns);

/*
 * cohort_all_gather_host     - cohort_all_gather() on host memory
 * cohort_reduce_scatter_host - cohort_reduce_scatter() on host memory
 * cohort_gather_host         - cohort_gather() on host memory
 * cohort_scatter_host        - cohort_scatter() on host memory
 * cohort_all_to_all_host     - cohort_all_to_all() on host memory
 * cohort_send_host           - cohort_send() on host memory
 * cohort_recv_host           - cohort_recv() on host memory
 *
 * Further calls on host memory.  Their buffers are as in the calls on device
 * memory.
 */
COHORT_API int cohort_all_gather_host(struct cohort_comm *comm,
                                      const void *send, void *recv,
                                      size_t count, int type,
                                      uint64_t timeout_ns);
COHORT_API int cohort_reduce_scatter_host(struct cohort_comm *comm,
                                          const void *send, void *recv,
                                          size_t count, int type, int op,
                                          uint64_t timeout_ns);
COHORT_API int cohort_gather_host(struct cohort_comm *comm, const void *send,
                                  void *recv, size_t count, int type, int root,
                                  uint64_t timeout_ns);
COHORT_API int cohort_scatter_host(struct cohort_comm *comm, const void *send,
                                   void *recv, size_t count, int type, int root,
                                   uint64_t timeout_ns);
COHORT_API int cohort_all_to_all_host(struct cohort_comm *comm,
                                      const void *send, void *recv,
                                      size_t count, int type,
                                      uint64_t timeout_ns);
COHORT_API int cohort_send_host(struct cohort_comm *comm, const void *send,
                                size_t count, int type, int peer,
                                uint64_t timeout_ns);
COHORT_API int cohort_recv_host(struct cohort_comm *comm, void *recv,
                                size_t count, int type, int peer,
                                uint64_t timeout_ns);

#ifdef __cplusplus
}
#endif

#endif
