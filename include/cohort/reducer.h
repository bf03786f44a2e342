/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COHORT_REDUCER_H
#define COHORT_REDUCER_H

/*
 * The reducer: average the gradients of data-parallel training during the
 * backward pass
 *
 * Each rank has a copy of a model, and a reducer over the list of its
 * parameters.  The reducer groups the gradients into *buckets*.  In a *step*
 * the program marks each gradient as *ready*, in any order.  The reducer
 * launches a bucket on the communicator's own stream once all of its gradients
 * are ready and all earlier buckets are launched.
 *
 * docs/reducer.md is a guide with a program; docs/api-rules.md, "How the
 * reducer works", describes the methods and their rounding errors.
 *
 * Threads
 *
 * The thread that begins a step is its *owner*, and makes all calls of the step
 * except cohort_reducer_ready(), which any thread may make until the step is
 * finished.  Other threads that mark gradients are called *helpers*.  Only the
 * owner launches buckets, in cohort_reducer_ready(), _progress() and _finish().
 * If a helper completes a bucket, the owner's next call of one of these
 * functions launches it.  With options.helpers_launch, the helper launches it.
 * A communicator may have several reducers, but only one of them may be in a
 * step.
 *
 * If ranks launch together (docs/gpu.md, "How ranks launch"), each call that
 * launches a bucket waits until all ranks of the process have reached that
 * bucket, regardless of its timeout.
 *
 * Shards
 *
 * With options.sharded each rank gets only its *shard* of each gradient, and
 * the rest of the gradient is undefined.  Rank k of n has floor(c / n) of c
 * elements, starting at element k * floor(c / n); the last rank also has the
 * remainder.
 *
 * Failures
 *
 * If the communicator ends during a step, each call that launches or waits
 * returns the cause's status.  The gradients are then undefined, and the only
 * call allowed is cohort_reducer_free().  Nothing accesses a gradient after
 * cohort_reducer_finish() has returned, unless it returned COHORT_WEDGED.
 */

#include <cohort/cohort.h>

#ifdef __cplusplus
extern "C" {
#endif

struct cohort_reducer;

/* A parameter of the model, whose gradient the reducer averages. */
struct cohort_parameter {
	/* Name for diagnostics only, copied; NULL to use the number. */
	const char *name;

	/* Gradient in memory of the rank's device that lives as long as the
	 * reducer; NULL if the reducer allocates it. */
	void *gradient;
	size_t count; /* number of elements */
	int type;     /* enum cohort_type */
};

/*
 * Options of cohort_reducer_create()
 *
 * Call cohort_reducer_options_init() and then set fields.
 */
struct cohort_reducer_options {
	size_t size; /* set by cohort_reducer_options_init() */

	/* Limit of each type's first bucket, or 0 for 1 MiB. */
	size_t first_bytes;
	size_t bucket_bytes; /* limit of the other buckets; 0 for 25 MiB */

	/* COHORT_AVG, the default, for the mean, or COHORT_SUM for the sum.
	 * Integers cannot be averaged.  On GPUs a sum may be faster: an NVLink
	 * switch can compute it, but not a mean of floats, which NCCL computes
	 * as a premultiplied sum.  With a sum, multiply the loss by 1 / ranks,
	 * or have the optimizer do so. */
	int op;

	/* 1 if each rank begins a step with a weight w for its gradients g: the
	 * mean is sum(w * g) / sum(w), and the sum is sum(w * g).  Only for
	 * float16, bfloat16, float32 and float64. */
	int weighted;

	/* 1 if gradients that are not ready when the step is finished count as
	 * zeros. */
	int find_unused;
	int keep_plan; /* 1 to keep the first assignment to buckets */

	/* 1 if helper threads, and not only the owner, launch the buckets that
	 * they complete.  Then no other thread may call on the communicator
	 * during a step.  Set it if the owner waits for its helpers outside of
	 * the library, as PyTorch does on GPUs. */
	int helpers_launch;
	int sharded; /* 1 if each rank gets only its shard of each gradient */

	/* 1 to always fill buckets up to first_bytes and bucket_bytes; 0 to
	 * also limit them to a fraction of the total size of the gradients
	 * (docs/api-rules.md). */
	int full_buckets;
	uint64_t reserved[7]; /* must be 0 */
};

/*
 * cohort_reducer_options_init - set every option to its default
 * @options: overwritten
 */
COHORT_API void
cohort_reducer_options_init(struct cohort_reducer_options *options);

/*
 * cohort_reducer_create - create a reducer for this rank
 * @comm:       communicator whose own stream the reducer uses; must be open
 *              until the reducer is freed
 * @parameters: @n parameters in the order of the forward pass; borrowed for the
 *              call
 * @n:          number of parameters, 1 or more
 * @options:    NULL for the defaults; borrowed for the call
 * @reducer:    set to the new reducer, to be freed by cohort_reducer_free()
 *              before @comm is closed
 *
 * All ranks must pass the same options, and parameters of the same number,
 * types and counts, with NULL gradients at the same positions.  Not every
 * difference is detected, because buckets are padded.
 *
 * Every rank must create a reducer, but does not wait for the others.  One
 * thread at a time per communicator.  Blocks as cohort_alloc() may, and on
 * the gpu platform until the communicator's own stream is idle.
 *
 * Allocates all memory that steps need, such as the gradients whose pointer is
 * NULL (zeroed, each aligned to 64 bytes).
 *
 * Returns: the same as cohort_premul_sum_create(), and
 *   COHORT_OK           the reducer exists
 *   COHORT_INVALID      a parameter or an option is wrong; the error text has
 *                       its value
 *   COHORT_NO_MEMORY    out of memory, or, with weights, no room for more
 *                       premultiplied sums
 *   COHORT_UNSUPPORTED  the communicator or the platform does not support an
 *                       option
 */
COHORT_API int
cohort_reducer_create(struct cohort_comm *comm,
                      const struct cohort_parameter *parameters, size_t n,
                      const struct cohort_reducer_options *options,
                      struct cohort_reducer **reducer);

/*
 * cohort_reducer_free - free a reducer and the gradients that it allocated
 * @reducer: NULL is allowed and does nothing
 *
 * May be called in the middle of a step if the group has ended, or if a call of
 * the step has failed on this rank: a bucket could not be launched, or
 * cohort_reducer_finish() found gradients that are not ready.  The other ranks
 * wait for the rest of such a step, so this rank must then end the group, for
 * example by returning the error from its worker.
 *
 * One thread at a time.  During an abort, blocks up to the abort deadline.  In
 * a step that has failed, blocks until its launched buckets are done.
 *
 * Returns:
 *   COHORT_OK      the reducer is freed
 *   COHORT_STATE   the communicator is closed; or the group has no cause, and a
 *                  step is open or still running and has not failed; the
 *                  reducer remains
 *   COHORT_BUSY    another thread is inside the communicator; the reducer
 *                  remains
 *   COHORT_OWNER   the communicator is bound to another thread; the reducer
 *                  remains
 *   COHORT_NCCL    a call of NCCL failed; the reducer remains, so call again
 *   COHORT_CUDA    a call of the CUDA runtime failed; the reducer remains, so
 *                  call again
 *   COHORT_WEDGED  an abort did not finish in time; the reducer is gone, but
 *                  device memory that may still be written to is leaked
 */
COHORT_API int cohort_reducer_free(struct cohort_reducer *reducer);

/*
 * cohort_reducer_begin - begin a step
 * @stream: stream that computes the gradients; each bucket runs after the work
 *          that is queued on this stream when the bucket is launched.  If host
 *          threads compute the gradients, pass cohort_comm_stream().  With
 *          options.helpers_launch it must not be cudaStreamPerThread
 *
 * Every rank must begin the same steps, and finish or cancel each.  The calling
 * thread becomes the owner.  Does not block, except that the step after a
 * cohort_reducer_finish_on() may wait for the order of gradients from rank 0.
 *
 * Returns: the same as cohort_all_reduce(), and
 *   COHORT_OK       the step is open
 *   COHORT_INVALID  an argument is wrong, or the reducer is weighted
 *   COHORT_STATE    a step of this communicator is open, an earlier step ended
 *                   with an error, a gather is still running, a batch is open,
 *                   or the communicator is closed
 */
COHORT_API int cohort_reducer_begin(struct cohort_reducer *reducer,
                                    void *stream);

/*
 * cohort_reducer_begin_weighted - begin a step with this rank's weight
 * @weight: 0 or more, such as the number of samples in this rank's batch.  If
 *          it is 0, this rank's gradients are zeroed
 * @stream: as for cohort_reducer_begin()
 *
 * If the weights of all ranks are 0, cohort_reducer_finish() returns
 * COHORT_SKIP and leaves the gradients unchanged.  Blocks only as a collective
 * does (cohort_all_reduce()).  Otherwise the same as cohort_reducer_begin().
 *
 * Returns: the same as cohort_reducer_begin(), and
 *   COHORT_INVALID  an argument is wrong, or the reducer is not weighted
 */
COHORT_API int cohort_reducer_begin_weighted(struct cohort_reducer *reducer,
                                             double weight, void *stream);

/*
 * cohort_reducer_accumulate - begin a pass without communication
 *
 * Use this if gradients are the sum of several backward passes.  In a pass
 * without communication, cohort_reducer_ready() launches nothing, and
 * cohort_reducer_finish() returns immediately.  The program adds up the
 * gradients; the reducer does not zero them.  Ranks may make different numbers
 * of these passes.  Otherwise the same as cohort_reducer_begin().
 */
COHORT_API int cohort_reducer_accumulate(struct cohort_reducer *reducer);

/*
 * cohort_reducer_ready - mark the gradient of a parameter as ready
 * @i: number of the parameter in the list
 *
 * Call it when the gradient is computed, or its computation is queued on the
 * step's stream.  Nothing may touch the gradient from then on until the step is
 * finished.
 *
 * May be called from any thread; lock-free.  A thread that launches a bucket
 * also blocks as a collective does.  If the launch fails, the rest of the step
 * has no effect, and cohort_reducer_finish() returns once nothing can access
 * the gradients.
 *
 * Returns: the same as cohort_all_reduce(), perhaps for an earlier bucket, and
 *   COHORT_OK       the gradient is ready
 *   COHORT_ALREADY  it was already ready in this step
 *   COHORT_INVALID  there is no parameter @i
 *   COHORT_STATE    no step is open
 *   COHORT_BUSY     this thread has called cohort_comm_native_enter(); the
 *                   gradient is ready, and the owner's next call launches the
 *                   bucket
 */
COHORT_API int cohort_reducer_ready(struct cohort_reducer *reducer, size_t i);

/*
 * cohort_reducer_progress - launch the buckets that helpers have completed
 * @timeout_ns: 0 to launch and return; otherwise how long to wait, in
 *              nanoseconds, until every gradient is ready
 *
 * Must be called by the owner.  Blocks up to @timeout_ns, and longer only if
 * ranks launch together and the others have not reached a bucket.
 *
 * On the host platform the calling thread also runs launched buckets, which
 * otherwise need another thread of the library.  So wait for helpers in this
 * call if possible (docs/api-rules.md, "How the reducer works").
 *
 * Returns: the same as cohort_all_reduce(), and
 *   COHORT_OK         every gradient is ready
 *   COHORT_TIMED_OUT  some gradients are not ready
 *   COHORT_STATE      no step is open
 */
COHORT_API int cohort_reducer_progress(struct cohort_reducer *reducer,
                                       uint64_t timeout_ns);

/*
 * cohort_reducer_finish - wait until the gradients of all ranks are combined
 * @timeout_ns: how long to wait, in nanoseconds, or COHORT_FOREVER
 *
 * Every rank must finish or cancel the step.  Must be called by the owner,
 * after the helpers have marked their gradients (cohort_reducer_progress()
 * waits for them).  Blocks up to @timeout_ns, and longer only if ranks launch
 * together and the others have not reached a bucket.
 *
 * After COHORT_TIMED_OUT, COHORT_STATE, COHORT_BUSY and COHORT_OWNER an open
 * step remains open: call again.  After any other result the step has ended.
 *
 * Returns: the same as cohort_all_reduce(), and
 *   COHORT_OK         the gradients are combined
 *   COHORT_SKIP       no rank may update its weights: all weights are 0, or a
 *                     rank has canceled the step, which leaves the gradients
 *                     undefined
 *   COHORT_TIMED_OUT  the step is not done
 *   COHORT_STATE      no step is open; or a gradient is not ready, and either
 *                     find_unused is 0 or the pass was begun by
 *                     cohort_reducer_accumulate().  The error text names the
 *                     gradients
 *   COHORT_BUSY       this thread has called cohort_comm_native_enter()
 *   COHORT_OWNER      another thread has begun the step
 */
COHORT_API int cohort_reducer_finish(struct cohort_reducer *reducer,
                                     uint64_t timeout_ns);

/*
 * cohort_reducer_cancel - cancel a step that this rank cannot complete
 * @timeout_ns: how long to wait, in nanoseconds, or COHORT_FOREVER
 *
 * Call this instead of cohort_reducer_finish() on a rank whose backward pass
 * has failed while the group is intact.  Gradients that are not ready count as
 * zeros, so that every rank makes the same calls, and no rank may use the
 * result.
 *
 * The other ranks need not do anything: their cohort_reducer_finish() and
 * cohort_reducer_join() return COHORT_SKIP for that step.  But if another rank
 * ends the step by cohort_reducer_finish_on(), before or after the cancel, the
 * group ends with COHORT_ABORTED, and the cause names both ranks.  Canceling a
 * pass of cohort_reducer_accumulate() does not involve other ranks; if this
 * rank then lacks a gradient, it must also cancel the next step.
 *
 * Must be called by the owner, after its helpers are done and nothing on the
 * host writes gradients.  Blocks up to @timeout_ns until all other ranks have
 * made the step's calls.  After COHORT_TIMED_OUT and COHORT_BUSY the step is
 * canceled but still open: call again, or call cohort_reducer_finish(), which
 * then returns COHORT_SKIP.  Otherwise the gradients are undefined, and the
 * next step may begin.
 *
 * Returns: the same as cohort_all_reduce(), and
 *   COHORT_OK           the step is canceled and has ended
 *   COHORT_TIMED_OUT    the step is canceled, but has not ended
 *   COHORT_ALREADY      every gradient is ready, or finish has already counted
 *                       the others as unused; the result is correct, so finish
 *                       the step
 *   COHORT_STATE        no step is open
 *   COHORT_UNSUPPORTED  the communicator has ranks in other processes, which
 *                       cannot be notified; the call had no effect.
 *                       cohort_comm_fail() ends the group
 *   COHORT_BUSY         this thread has called cohort_comm_native_enter()
 *   COHORT_OWNER        another thread has begun the step
 */
COHORT_API int cohort_reducer_cancel(struct cohort_reducer *reducer,
                                     uint64_t timeout_ns);

/*
 * cohort_reducer_finish_on - make a stream wait for the gradients of all ranks
 * @stream: stream of the rank's device; work that is queued on it after this
 *          call sees the combined gradients
 *
 * Every rank must finish the step.  Must be called by the owner; blocks as a
 * collective does, and while a helper launches a bucket.  If the step is cut
 * short, the stream still continues; the next call or cohort_comm_cause()
 * returns the error.
 *
 * Returns: the same as cohort_all_reduce(), and
 *   COHORT_OK           the stream waits, and the step has ended
 *   COHORT_INVALID      @stream belongs to another device; the call had no
 *                       effect
 *   COHORT_STATE        as for cohort_reducer_finish(), or this rank has
 *                       canceled the step
 *   COHORT_ABORTED      another rank has canceled the step; the group ends
 *   COHORT_UNSUPPORTED  the option weighted or find_unused is set, so the
 *                       thread must wait; the call had no effect, so call
 *                       cohort_reducer_finish()
 *   COHORT_BUSY         this thread has called cohort_comm_native_enter()
 *   COHORT_OWNER        another thread has begun the step
 *   other errors        the step has no effect and is still open;
 *                       cohort_reducer_finish() ends it
 */
COHORT_API int cohort_reducer_finish_on(struct cohort_reducer *reducer,
                                        void *stream);

/*
 * cohort_reducer_join - take part in a step without data, with weight 0
 * @timeout_ns: how long to wait, in nanoseconds, or COHORT_FOREVER
 *
 * Call this on a rank of a weighted reducer that has no data left while other
 * ranks still have data.  The gradients of all ranks are combined on this rank,
 * so that it can update its weights like the others.  Repeat the call while it
 * returns COHORT_OK or COHORT_SKIP (examples/uneven.c).
 *
 * The calling thread becomes the owner; no step may be open.  The gradients are
 * zeroed immediately, so nothing may still read them, not even an update that
 * is queued on a stream (cohort_after_stream()).  Blocks as
 * cohort_reducer_finish() does; after COHORT_TIMED_OUT call it again.
 *
 * Returns: the same as cohort_reducer_finish(), and
 *   COHORT_JOINED   every rank has called cohort_reducer_join(), so there was
 *                   no step, and no rank has data left
 *   COHORT_INVALID  the reducer is not weighted
 *   COHORT_STATE    a step of this communicator is open, or
 *                   cohort_reducer_begin() would return COHORT_STATE for
 *                   another reason
 */
COHORT_API int cohort_reducer_join(struct cohort_reducer *reducer,
                                   uint64_t timeout_ns);

/*
 * cohort_reducer_gather - give every rank the shards of all parameters
 * @parameters: for each parameter, its count of elements of its type in memory
 *              of the rank's device; NULL if the count is 0.  On entry this
 *              rank's shard is valid (cohort_reducer_shard()).  The array is
 *              borrowed for the call, the memory until the gather is done
 * @stream:     stream that computes the shards, as for cohort_reducer_begin()
 * @timeout_ns: how long to wait, in nanoseconds, or COHORT_FOREVER
 *
 * The reducer must be sharded, and no step of this communicator may be open.
 * Every rank must call it between the same steps.  Gathers bucket by bucket,
 * starting with the bucket that was ready last, which the next forward pass
 * needs first.
 *
 * One thread at a time per communicator.  Blocks up to @timeout_ns until all
 * ranks have called.  After COHORT_TIMED_OUT and COHORT_BUSY the gather
 * continues: call again with the same parameters before the next step.  After
 * any other error the parameters are undefined.
 *
 * Returns: the same as cohort_all_reduce(), and
 *   COHORT_OK         @parameters has the shards of all ranks
 *   COHORT_TIMED_OUT  the gather is not done
 *   COHORT_INVALID    an argument is wrong, or the reducer is not sharded
 *   COHORT_STATE      a step or a batch is open, an earlier step ended with an
 *                     error, or the communicator is closed
 */
COHORT_API int cohort_reducer_gather(struct cohort_reducer *reducer,
                                     void *const *parameters, void *stream,
                                     uint64_t timeout_ns);

/*
 * cohort_reducer_shard - get this rank's shard of a parameter
 * @i:     number of the parameter in the list
 * @first: set to the first element of this rank
 * @count: set to the number of elements; all of them if the reducer is not
 *         sharded
 *
 * Returns:
 *   COHORT_OK       @first and @count are set
 *   COHORT_INVALID  an argument is NULL, or there is no parameter @i
 */
COHORT_API int cohort_reducer_shard(const struct cohort_reducer *reducer,
                                    size_t i, size_t *first, size_t *count);

/*
 * cohort_reducer_view - return the address of the gradient of a parameter
 * @i: number of the parameter in the list
 *
 * The gradient never moves.  Must be called by the owner; does not block.
 *
 * Returns: the address, or NULL if there is no parameter @i
 */
COHORT_API void *cohort_reducer_view(const struct cohort_reducer *reducer,
                                     size_t i);

/*
 * cohort_reducer_used - return whether any rank used a parameter in the last
 *                       step
 * @i: number of the parameter in the list
 *
 * If no rank marked a gradient as ready, finish has set it to zeros.  After a
 * step in which all weights were 0, the result covers only this rank.  Must be
 * called by the owner; does not block.
 *
 * Returns: 1 if any rank marked the gradient as ready in the last finished
 * step, 0 if not (the same on all ranks); -1 if find_unused is 0 or there is no
 * parameter @i
 */
COHORT_API int cohort_reducer_used(const struct cohort_reducer *reducer,
                                   size_t i);

/*
 * cohort_reducer_buckets - return the number of buckets in the plan
 *
 * Must be called by the owner; does not block.
 *
 * Returns: 1 or more, or -1 if @reducer is NULL
 */
COHORT_API int cohort_reducer_buckets(const struct cohort_reducer *reducer);

/*
 * cohort_reducer_bucket - return the bucket of a parameter
 * @i: number of the parameter in the list
 *
 * Must be called by the owner; does not block.
 *
 * Returns: the number of the bucket in the order of launches, or -1 if there is
 * no parameter @i
 */
COHORT_API int cohort_reducer_bucket(const struct cohort_reducer *reducer,
                                     size_t i);

#ifdef __cplusplus
}
#endif

#endif
