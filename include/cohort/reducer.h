/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COHORT_REDUCER_H
#define COHORT_REDUCER_H

/*
 * The reducer: gradients of data-parallel training, averaged while the backward
 * pass goes on
 *
 * Each rank has a copy of a model, and a reducer over the list of its
 * parameters.  The list is cut into *buckets*.  In a *step* the program says of
 * each gradient, in any order, that it is *ready*.  Once all gradients of a
 * bucket are ready, and all buckets before it are under way, the bucket is
 * launched on the communicator's own stream, so that the ranks' calls come in
 * the same sequence whatever the order.  At the end of the step *finish* waits
 * until every gradient is that of all ranks.  A step of a rank:
 *
 *	cohort_reducer_begin(r, stream);
 *	for (i = n; i-- > 0;) {
 *		... compute the gradient of parameter i ...
 *		cohort_reducer_ready(r, i);
 *	}
 *	rc = cohort_reducer_finish(r, COHORT_FOREVER);
 *	... update the weights; zero the gradients ...
 *
 * Plan
 *
 * A bucket is of one type.  It is no larger than options.bucket_bytes, the
 * first bucket of each type no larger than options.first_bytes, unless it is
 * one gradient that is larger: no gradient is split.  Buckets are filled in
 * reverse order of the list, as a backward pass goes, and launched in the order
 * in which they are full.  (Limits and order are those of PyTorch's
 * DistributedDataParallel: Li et al., "PyTorch Distributed", VLDB 2020, section
 * 3.2.)
 *
 * A bucket is also no larger than a 16th of all bytes, nor than half of the
 * bytes of its type that are not in buckets before it; but options.first_bytes
 * it may always have.  The reason is the time that a step takes beyond the
 * longer of the backward pass and the averaging.  Let the pass take w times as
 * long as the averaging, with w 1 or more, and let q bytes come behind a bucket
 * of b bytes.  The time beyond is then as long as the averaging of b - (w - 1)
 * * q bytes takes, for the bucket where that is most: near w = 1 the largest
 * one, and in a long pass the last.  The limit costs launches: 16 or so, and
 * less than one more for each doubling from first_bytes.  options.full_buckets
 * turns it off.
 *
 * Once, after the first step that is complete, the plan is made anew from the
 * order in which the gradients were ready on rank 0, which broadcasts that
 * order to all.  Orders may differ between ranks, but plans must not: any one
 * rank's order will do if all ranks take it.  Which rank's it is does not
 * matter to the result.
 *
 * Where gradients are
 *
 * They are where the caller has them.  If the pointer is NULL, they are in the
 * reducer, which tells where (cohort_reducer_view()).  There those of a bucket
 * are next to each other, so that the bucket is one tensor (with shards it is a
 * list).  They never move, as pointers that a framework has kept would then
 * cost wrong results.  A new plan changes what is launched together: a bucket
 * whose gradients are not neighbours any more is a list of pieces, which costs
 * next to nothing on the host platform and a few operations in one native group
 * on the gpu platform.
 *
 * The list, the types, the counts, which of the pointers are NULL, and the
 * options must be the same on all ranks.
 *
 * Threads
 *
 * Calls on one reducer are for one thread, its *owner*: the one that has begun
 * the step.  Only cohort_reducer_ready() is for any thread, between the begin
 * and the finish of a step, and is lock-free.  The facts (cohort_reducer_view()
 * and the like) are for the owner.
 *
 * The owner launches: in ready, progress and finish.  Another thread, a
 * *helper*, that completes a bucket leaves the launch to the owner's next such
 * call (cohort_reducer_progress() with a timeout is one that waits for
 * helpers), as a communicator takes calls of one thread at a time, and a bound
 * one those of its thread.  With options.helpers_launch helpers launch, too,
 * also if the communicator is bound to the owner; nobody else may then submit
 * on it during a step.  That is for an owner that waits for its helpers outside
 * the library, as PyTorch has it on GPUs: otherwise nothing would be launched
 * before the owner's next call.  Nobody is ever told COHORT_BUSY because of the
 * reducer's own threads.
 *
 * A communicator may have several reducers, but only one of them in a step at a
 * time.
 *
 * Where ranks launch together ("Launching together" in cohort/options.h), each
 * call that launches a bucket waits until all ranks of the process have come to
 * that bucket, or for a cause: ready and progress, too, whatever the timeout.
 *
 * Shards
 *
 * With options.sharded a bucket is reduce-scattered instead.  After the finish
 * each rank has only its *shard* of each gradient, as it would be after an
 * all-reduce; what else is in the gradients is undefined.  Rank k of n has
 * floor(c / n) of c elements, from k * floor(c / n) on.  The last rank also has
 * the remainder, up to n - 1 elements, which travels in a small all-reduce.
 *
 * So a rank can keep the state of its optimiser for its shards alone and update
 * those of the parameters, and cohort_reducer_gather() gives every rank all of
 * them (Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training
 * Trillion Parameter Models", SC 2020, section 5.2).
 *
 * Ends
 *
 * A rank whose backward pass fails gives up its step by
 * cohort_reducer_cancel().  Then no rank may use what came out, each is told so
 * by COHORT_SKIP, and the group goes on.
 *
 * If the communicator ends in the middle of a step, each call that launches or
 * waits answers so; finish answers when no gradient can be touched any more, or
 * with COHORT_WEDGED.  The gradients are then undefined, and the reducer is
 * good for nothing but cohort_reducer_free(), which then works in the middle of
 * a step, too.  Some ranks may have finished that step: have one rank broadcast
 * its step and its weights in the next generation.  A rank that does not come
 * to a bucket is named in the verdict and, if it has begun the step, with the
 * parameter that it waits for.
 *
 * Memory is allocated by cohort_reducer_create() only, except that the
 * library's calls may allocate what they say they do.  None of this has run on
 * several GPUs yet.
 */

#include <cohort/cohort.h>

#ifdef __cplusplus
extern "C" {
#endif

struct cohort_reducer;

/* A parameter of the model, whose gradient the reducer handles. */
struct cohort_parameter {
	const char *name; /* for people; copied; NULL: its number in the list */

	/* Memory of the rank's device that lives as long as the reducer; NULL:
	 * the reducer has it. */
	void *gradient;
	size_t count; /* elements */
	int type;     /* enum cohort_type */
};

/*
 * Options of cohort_reducer_create()
 *
 * Start from cohort_reducer_options_init() and set fields.
 */
struct cohort_reducer_options {
	size_t size;         /* set by init */
	size_t first_bytes;  /* of the first bucket of each type; 0: 1 MiB */
	size_t bucket_bytes; /* of the other buckets; 0: 25 MiB */

	/* COHORT_AVG, the default: gradients become the ranks' mean;
	 * COHORT_SUM: their sum, which on GPUs an NVLink switch can add up.
	 * NCCL makes a premultiplied sum of a mean of floats, for which a
	 * switch has no operation.  With a sum, have the loss or the optimiser
	 * multiply by 1 / ranks. */
	int op;

	/* 1: each rank's gradients count with the weight that it begins the
	 * step with: the mean is sum(w * g) / sum(w), the sum is sum(w * g).
	 * Only for float16, bfloat16, float32 and float64. */
	int weighted;

	/* 1: gradients that are not ready when the step is finished take part
	 * as zeros. */
	int find_unused;
	int keep_plan; /* 1: never make the plan anew */

	/* 1: any thread that completes a bucket launches it. */
	int helpers_launch;
	int sharded; /* 1: each rank is left with its part of the gradients */

	/* 1: no bucket is kept smaller than first_bytes and bucket_bytes. */
	int full_buckets;
	uint64_t reserved[7]; /* 0; room for what later versions add */
};

/*
 * cohort_reducer_options_init - set every field to its default
 * @options: overwritten
 *
 * Any thread; does not block.
 */
COHORT_API void
cohort_reducer_options_init(struct cohort_reducer_options *options);

/*
 * cohort_reducer_create - a reducer of this rank
 * @comm:       the communicator whose own stream it uses; must be open until
 *              the reducer is freed
 * @parameters: @n of them, 1 or more, in the order of the forward pass;
 *              borrowed for the call
 * @options:    NULL for the defaults; borrowed for the call
 * @reducer:    to be freed by cohort_reducer_free() before @comm is closed
 *
 * Allocates all that steps need: the memory of the gradients that the reducer
 * has (zeroed, each aligned to 64 bytes), and some 250 bytes for each
 * parameter, 64 more with shards; on the gpu platform 256 KiB of pinned memory.
 * Every rank makes its own reducer; no rank waits for another.  A submitting
 * call; blocks as cohort_alloc() may, and on the gpu platform until all is done
 * that the communicator's own stream has.
 *
 * About the options, with their sources and errors:
 *
 * weighted: the factor of a rank, w or w / sum(w), is computed in float64,
 * rounded once to the gradient's type, and applied by a premultiplied sum.  Let
 * u be 2^-24 for float32, 2^-53 for float64, 2^-11 for float16, 2^-8 for
 * bfloat16.  Then the result differs from the exact one by at most (size + 2) *
 * u * sum(|factor * g|) to first order; for that float16 and bfloat16
 * accumulate in float32 on the host platform (Higham, "Accuracy and Stability
 * of Numerical Algorithms", section 4.2).  The weights travel in one small
 * all-reduce ahead of the buckets, which are not launched before it is done.
 *
 * sharded: on the host platform a shard is to the bit what an all-reduce leaves
 * there; on the gpu platform NCCL may add in another order.
 *
 * COHORT_OK; COHORT_INVALID with the parameter or the option and its value,
 * also where the counts come to more bytes than there can be;
 * COHORT_UNSUPPORTED; COHORT_NO_MEMORY; as cohort_alloc() and cohort_copy(),
 * and for weights as cohort_premul_sum_create().
 */
COHORT_API int
cohort_reducer_create(struct cohort_comm *comm,
                      const struct cohort_parameter *parameters, size_t n,
                      const struct cohort_reducer_options *options,
                      struct cohort_reducer **reducer);

/*
 * cohort_reducer_free - free a reducer and the gradients that it has
 * @reducer: NULL is allowed and does nothing
 *
 * Blocks while what it has launched is being cut short, up to the abort
 * deadline.
 *
 * COHORT_OK; COHORT_STATE while the group has no cause and a step is open or
 * what was launched is not done, or if the communicator is closed (nothing
 * happened); COHORT_WEDGED: an abort did not complete, and device memory that
 * may still be written to stays; COHORT_BUSY, COHORT_OWNER as cohort_free()
 * (nothing happened); COHORT_NCCL, COHORT_CUDA: something could not be given
 * back; it is still there, call it again.
 */
COHORT_API int cohort_reducer_free(struct cohort_reducer *reducer);

/*
 * cohort_reducer_begin          - begin a step
 * cohort_reducer_begin_weighted - begin a step with this rank's weight
 * @stream: where gradients are computed: each bucket is launched behind what
 *          this stream has by then.  The communicator's own stream
 *          (cohort_comm_stream()) means that threads of the host compute them,
 *          and that there is nothing to wait for.  With options.helpers_launch
 *          not cudaStreamPerThread, which is another one in each thread
 * @weight: 0 or more: the samples of this rank's batch, say.  The gradients of
 *          a rank with weight 0 are zeroed, whatever is in them.  If all
 *          weights are 0, finish answers COHORT_SKIP, and the gradients are as
 *          they were
 *
 * Every rank must begin the same steps, and finish or cancel each.
 *
 * cohort_reducer_begin() does not block, cohort_reducer_begin_weighted() no
 * more than a collective; after cohort_reducer_finish_on() either may wait for
 * rank 0's order.
 *
 * COHORT_OK; COHORT_INVALID, also for a begin without a weight of a weighted
 * reducer, or the other way round; COHORT_STATE if a step is open, of this or
 * another reducer of the communicator, or if a former step ended with an error,
 * or a gather is not done, or a batch is open; as the collectives.
 */
COHORT_API int cohort_reducer_begin(struct cohort_reducer *reducer,
                                    void *stream);
COHORT_API int cohort_reducer_begin_weighted(struct cohort_reducer *reducer,
                                             double weight, void *stream);

/*
 * cohort_reducer_accumulate - begin a pass without communication
 *
 * For gradients that are the sum of several backward passes.  In such a pass
 * ready launches nothing, and finish returns at once, so that the program's
 * code need not differ.  The program adds up: the reducer never zeroes
 * gradients of its own accord.  Ranks may differ in how many such passes they
 * make.
 *
 * Results as for cohort_reducer_begin().
 */
COHORT_API int cohort_reducer_accumulate(struct cohort_reducer *reducer);

/*
 * cohort_reducer_ready - the gradient of a parameter is computed, or its
 *                        computation is queued on the step's stream
 * @i: the parameter's number in the list
 *
 * The gradient must not be touched from now on until the step is finished.  Any
 * thread; lock-free.  A thread that launches (see "Threads" in
 * cohort/reducer.h) also pays what the collectives cost, and where ranks launch
 * together waits for the others' calls.
 *
 * COHORT_OK; COHORT_ALREADY if it was ready in this step; COHORT_INVALID;
 * COHORT_STATE if no step is open.  A thread that launches is also told what
 * the collectives answer, about earlier buckets, too: after an error the rest
 * of the step goes for nothing, and finish tells when gradients are safe.  Not
 * so COHORT_BUSY, which is told only between cohort_comm_native_enter() and
 * _leave() of that thread: the gradient is marked, and launched by the owner's
 * next call.
 */
COHORT_API int cohort_reducer_ready(struct cohort_reducer *reducer, size_t i);

/*
 * cohort_reducer_progress - launch what helpers have completed, and carry on
 *                           what is launched
 * @timeout_ns: 0: launch and return; else wait for helpers, launch and carry
 *              on, until every gradient is ready.  Where ranks launch together,
 *              the launch may take longer: until the others have called, too
 *
 * What is launched goes on by itself: on a GPU there; on the host platform on a
 * thread of each rank, which is woken once the last rank has launched, and
 * takes a core from the program meanwhile.  A thread that waits anyway costs
 * less: an owner that waits for a gradient which others compute can wait in
 * this call.  In a step in which the owner calls it with a timeout above 0, and
 * in the step after, no other thread is woken.  Nor is one for less than 128
 * KiB, nor for what is launched by the last gradient that is ready, for which
 * finish waits at once.
 *
 * Owner only.
 *
 * COHORT_OK; COHORT_TIMED_OUT if some gradients are not ready; COHORT_STATE if
 * no step is open; as the collectives.
 */
COHORT_API int cohort_reducer_progress(struct cohort_reducer *reducer,
                                       uint64_t timeout_ns);

/*
 * cohort_reducer_finish - wait until the step's gradients are those of all
 *                         ranks
 *
 * Owner only.  Helpers must be done with their part (cohort_reducer_progress()
 * waits for them).  Blocks up to @timeout_ns, for all other ranks, and longer
 * only where what is still to be launched has to wait for them ("Threads" in
 * cohort/reducer.h).  After COHORT_TIMED_OUT the step goes on: call it again.
 * Afterwards, but for COHORT_TIMED_OUT, COHORT_STATE, COHORT_BUSY and
 * COHORT_OWNER, no step is open.
 *
 * COHORT_OK; COHORT_SKIP: all weights are 0, or a rank has cancelled the step:
 * every rank is told so, and none should update its weights; gradients are
 * undefined if a rank has cancelled; COHORT_TIMED_OUT;
 * COHORT_STATE if no step is open, or, without find_unused or in a pass of
 * cohort_reducer_accumulate(), some gradients are not ready: the text names
 * them, and nothing has happened; COHORT_OWNER if another thread has begun the
 * step; COHORT_BUSY as cohort_reducer_ready(); as cohort_wait() and the
 * collectives.
 */
COHORT_API int cohort_reducer_finish(struct cohort_reducer *reducer,
                                     uint64_t timeout_ns);

/*
 * cohort_reducer_cancel - give up a step that this rank cannot complete
 *
 * For a rank whose backward pass has failed in the middle of the step, while
 * the group is well.  Gradients that are not ready take part as zeros, so that
 * every rank makes the same calls.  The step ends as by
 * cohort_reducer_finish(), but no rank may use what came out:
 *
 *	if (... the backward pass has failed ...)
 *		rc = cohort_reducer_cancel(r, COHORT_FOREVER);
 *	else if ((rc = cohort_reducer_finish(r, COHORT_FOREVER)) == COHORT_OK)
 *		... update the weights ...
 *
 * The other ranks do nothing for it.  cohort_reducer_finish() and
 * cohort_reducer_join() of that step answer COHORT_SKIP on each of them, and
 * cohort_reducer_cancel() answers COHORT_OK on each rank that calls it.  The
 * plan is not made anew from that step.  In a pass of
 * cohort_reducer_accumulate() no other rank takes part, and none is told: the
 * rank that then lacks a gradient cancels the next step, too.
 *
 * A stream cannot be told.  If a rank finishes the same step by
 * cohort_reducer_finish_on(), before or after, the group ends: COHORT_ABORTED,
 * and the cause names both ranks.
 *
 * Owner only.  Helpers must be done, and nothing may still write gradients on
 * the host.  Blocks up to @timeout_ns, for all other ranks.  After
 * COHORT_TIMED_OUT or COHORT_BUSY the step is cancelled and goes on: call it
 * again, or cohort_reducer_finish(), which then answers COHORT_SKIP.
 * Afterwards no step is open, the gradients are undefined, and the next step
 * may begin.
 *
 * COHORT_OK; COHORT_TIMED_OUT; COHORT_ALREADY if every gradient that has
 * elements is ready, or if finish has already taken those that are not for
 * unused: the sums are right, so finish the step; COHORT_STATE if no step is
 * open; COHORT_UNSUPPORTED if the communicator has ranks of other processes,
 * which cannot be told: nothing has happened, cohort_comm_fail() ends the
 * group; COHORT_OWNER, COHORT_BUSY as cohort_reducer_finish(); as cohort_wait()
 * and the collectives.
 */
COHORT_API int cohort_reducer_cancel(struct cohort_reducer *reducer,
                                     uint64_t timeout_ns);

/*
 * cohort_reducer_finish_on - have a stream wait, not the thread
 * @stream: of the rank's device; what is queued on it from now on finds the
 *          gradients of all ranks
 *
 * Owner only.  Blocks no more than the collectives, and while a helper
 * launches.  The stream goes on if a step is cut short: the next call, or
 * cohort_comm_cause(), tells of that.
 *
 * COHORT_OK; COHORT_INVALID for a stream of another device (nothing has
 * happened); COHORT_STATE as cohort_reducer_finish(), and if this rank has
 * cancelled the step; COHORT_ABORTED if another rank has: the group ends;
 * COHORT_UNSUPPORTED with weighted or find_unused, which need the thread:
 * nothing has happened, cohort_reducer_finish() will do; COHORT_OWNER,
 * COHORT_BUSY as cohort_reducer_finish(); as cohort_stream_after() and the
 * collectives: the step goes for nothing and is still open, and
 * cohort_reducer_finish() ends it.
 */
COHORT_API int cohort_reducer_finish_on(struct cohort_reducer *reducer,
                                        void *stream);

/*
 * cohort_reducer_join - take part in a step of the others without a batch
 *
 * For a rank of a weighted reducer that has no data left while others have: a
 * step with weight 0 and gradients of zero, begun and finished.  The gradients
 * become those of all ranks, as on every other rank, so that this rank can
 * update its weights and stay equal:
 *
 *	while ((rc = cohort_reducer_join(r, COHORT_FOREVER)) == COHORT_OK ||
 *	       rc == COHORT_SKIP)
 *		if (rc == COHORT_OK)
 *			... update the weights ...
 *
 * Owner only, while no step is open.  The gradients are zeroed at once: nothing
 * may still read them, not even an update that is queued on a stream
 * (cohort_after_stream()).  Blocks as cohort_reducer_finish() does; after
 * COHORT_TIMED_OUT, call it again.
 *
 * COHORT_OK and the other results of cohort_reducer_finish(); COHORT_INVALID
 * for a reducer that is not weighted; COHORT_JOINED when every rank called
 * this: that was no step, and every rank is told so.
 */
COHORT_API int cohort_reducer_join(struct cohort_reducer *reducer,
                                   uint64_t timeout_ns);

/*
 * cohort_reducer_gather - give every rank the shards of all parameters
 * @parameters: as many pointers as the reducer has parameters, to memory of the
 *              rank's device with their counts and types; this rank's shard of
 *              each (cohort_reducer_shard()) is set.  NULL where the count is
 *              0.  Borrowed for the call; the memory until it is done
 * @stream:     on which the shards were computed, as for cohort_reducer_begin()
 *
 * For a sharded reducer, while no step is open, of this or another reducer of
 * the communicator; every rank must call it between the same steps.  A
 * submitting call.
 *
 * Goes bucket by bucket, and begins with the one that was ready last, which is
 * what a forward pass begins with.  Blocks up to @timeout_ns for all other
 * ranks; after COHORT_TIMED_OUT or COHORT_BUSY it goes on: call it again with
 * the same parameters before the next step.  After an error the parameters are
 * undefined.
 *
 * COHORT_OK: every rank's shards are in @parameters; COHORT_TIMED_OUT;
 * COHORT_INVALID, also if the reducer is not sharded; COHORT_STATE if a step or
 * a batch is open, or a former step ended with an error; as cohort_wait() and
 * the collectives.
 */
COHORT_API int cohort_reducer_gather(struct cohort_reducer *reducer,
                                     void *const *parameters, void *stream,
                                     uint64_t timeout_ns);

/*
 * cohort_reducer_shard - which elements of parameter @i are this rank's
 * @first: the first one
 * @count: how many; 0: none.  All of them if the reducer is not sharded
 *
 * Any thread; does not block.
 *
 * COHORT_OK; COHORT_INVALID (nothing is stored).
 */
COHORT_API int cohort_reducer_shard(const struct cohort_reducer *reducer,
                                    size_t i, size_t *first, size_t *count);

/*
 * cohort_reducer_view    - where the gradient of parameter @i is; NULL if there
 *                          is no such parameter.  The gradient stays there as
 *                          long as the reducer lives
 * cohort_reducer_used    - whether any rank had the gradient of @i ready in the
 *                          last step that was finished: 1 or 0, the same on
 *                          every rank; -1 without find_unused, or if there is
 *                          no such parameter.  What no rank used came out as
 *                          zeros.  After a step in which all weights were 0:
 *                          whether this rank had it ready
 * cohort_reducer_buckets - how many buckets there are in the plan
 * cohort_reducer_bucket  - the number of the bucket of @i, in the order of
 *                          their launches; -1 if there is no such parameter
 *
 * Facts of a reducer.  Owner only; none blocks.
 */
COHORT_API void *cohort_reducer_view(const struct cohort_reducer *reducer,
                                     size_t i);
COHORT_API int cohort_reducer_used(const struct cohort_reducer *reducer,
                                   size_t i);
COHORT_API int cohort_reducer_buckets(const struct cohort_reducer *reducer);
COHORT_API int cohort_reducer_bucket(const struct cohort_reducer *reducer,
                                     size_t i);

#ifdef __cplusplus
}
#endif

#endif
