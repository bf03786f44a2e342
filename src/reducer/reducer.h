/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REDUCER_REDUCER_H
#define REDUCER_REDUCER_H

/*
 * Declarations shared by the sources of the reducer
 *
 * Each source uses only sources listed below it, except that finish.c and
 * cancel.c call each other:
 *
 * reducer.c        options, creation, destruction, queries
 * room.c           allocation of all memory
 * gather.c         gather: completes the parameters from the ranks' shards
 * step.c           begin, accumulate, join
 * finish.c         finish, finish_on
 * cancel.c         cancel, and the check whether another rank has canceled
 * bucket_launch.c  ready, progress: launches each bucket once it is complete
 * plan.c           the tensors of each bucket, and the new plan after a step
 * shard.c          each rank's part of a gradient, as tensors
 * mark.c           the open step, and which gradients are ready
 * bucket_submit.c  how an operation is submitted; copies and zeroing
 * bucket.c         which gradients form a bucket: pure functions
 *
 * Every operation is launched on the communicator's own stream, so the last
 * ticket completes after all others.
 */

#include <stdatomic.h>
#include <stdbool.h>

#include <cohort/reducer.h>

#include "api/communicator.h"
#include "reducer/bucket.h"

struct reducer_item {
	/* Constant after creation. */
	const char *name;
	unsigned char *gradient;
	size_t count;
	size_t bytes;
	int type;
	bool is_view; /* the gradient is in the reducer's memory */
};

struct reducer_bucket {
	/* Set by reducer_plan(). */
	uint32_t first, n; /* its tensors in the reducer's list */
	uint32_t ends;     /* further tensors, for the remainders of shards */
	size_t bytes;      /* bytes of its gradients */
	int type;
	char tag[TAG_SIZE];

	/* Atomic; number of its gradients that are not ready.  A thread writes
	 * the gradient, then decrements this (acq_rel); the thread that
	 * launches the bucket loads 0 (acquire). */
	_Atomic uint32_t pending;
};

/* Data that ranks exchange besides gradients, called the words.  It is in
 * device memory, with a copy on the host. */
struct reducer_words {
	double *weight;  /* sum of weights; number of ranks with a batch */
	double *scalars; /* one scalar of each floating-point type */
	uint32_t *order; /* order in which gradients became ready on rank 0 */
	uint8_t *used;   /* for each parameter, 1 if any rank used it */
	unsigned char *memory;
};

/* Number of types that gradients can have in a weighted reducer. */
#define REDUCER_FLOATS 4

enum reducer_phase {
	REDUCER_FILL,
	REDUCER_LAUNCH,
	REDUCER_SEND,
	REDUCER_AWAIT,
	REDUCER_REPLAN,
	REDUCER_DONE,
};

struct cohort_reducer {
	/* Constant after creation. */
	struct cohort_comm *comm;
	struct cohort_reducer_options options;
	size_t n;
	struct reducer_item *items;
	char *names;
	unsigned char *arena; /* the gradients that the reducer allocated */
	unsigned char *zeros; /* pinned memory full of zeros */
	struct reducer_words device, host;
	int premul[REDUCER_FLOATS]; /* premultiplied sum per type, or 0 */
	size_t words_bytes;

	/* The plan.  Written by cohort_reducer_create(), and by the owner while
	 * no step is open.  Each array has room for n elements; with shards,
	 * @tensors has room for 2 n, followed by n for a gather. */
	struct bucket_plan plan;
	struct bucket_item *plan_items;
	struct reducer_bucket *buckets;
	struct cohort_tensor *tensors;
	bool is_final; /* the plan no longer changes */

	/* Describes to the watchdog what the rank waits for while a step is
	 * open. */
	struct wait_reason wait_reason;

	/* Atomic; number of the open step, or 0.  The owner stores it last when
	 * it opens a step. */
	_Atomic uint64_t step;

	/* Atomic; number of threads inside cohort_reducer_ready().  A thread
	 * increments it, then loads step; the owner clears step, then loads it.
	 * All four accesses are seq_cst, so at least one of the two threads
	 * sees the other's store. */
	atomic_uint inside;

	/* Atomic; for each gradient, the last step in which it was ready. */
	_Atomic uint64_t *marked;

	/* Atomic; number of gradients that are ready.  The value before an
	 * increment is the marking thread's index into observed, to which only
	 * that thread writes.  The owner reads observed once all buckets are
	 * complete. */
	_Atomic uint32_t ready;
	uint32_t *observed;

	/* Atomic; the next bucket to launch, and the number of requests to
	 * launch.  The thread that made the first request serves all of
	 * them. */
	_Atomic uint32_t next;
	atomic_uint pumps;

	/* Atomic; set by the first thread that finds an error in a step.  Only
	 * that thread writes why and broken. */
	atomic_bool is_breaking;
	/* Atomic; the error of that thread, or COHORT_OK.  Stored after why
	 * (release). */
	atomic_int broken;
	char why[256];

	/* Atomic; numbers of the first and newest collective of the step, or 0,
	 * and the last ticket.  The thread that launches stores them in this
	 * order (release). */
	_Atomic uint64_t first, newest;
	_Atomic uint64_t last;

	/* Written by the owner before it opens the step, and constant during
	 * the step, except is_cancelled and is_unready, which the owner may
	 * set. */
	uintptr_t owner;
	uint64_t steps;    /* number of steps that have begun */
	bool is_local;     /* the step launches nothing */
	bool is_absent;    /* the weight is 0, or is_joined is set */
	bool is_joined;    /* this rank has no batch left */
	bool is_cancelled; /* this rank has canceled the step */
	/* cohort_reducer_finish() has failed because some gradients were not
	 * ready */
	bool is_unready;
	bool carried_on; /* carries_on was set in the previous step */
	void *stream;    /* stream that computes the gradients */
	bool awaits_stream;
	double weight;

	/* Atomic; true if the owner waits in cohort_reducer_progress() and runs
	 * launched work there.  Relaxed, because this is only a hint for the
	 * thread that launches. */
	atomic_bool carries_on;

	/* Used only by the thread that launches. */
	uint64_t weights;   /* ticket of the weights' all-reduce, or 0 */
	size_t unflushed;   /* bytes launched since the last flush */
	uint32_t scattered; /* buckets whose reduce-scatter is launched */
	double factor;      /* factor for this rank's gradients */
	bool is_skipped;    /* the weights add up to 0: nothing to launch */
	bool is_over;       /* no rank has a batch */

	/* Used only by the owner. */
	enum reducer_phase phase;
	uint32_t gathered;  /* calls made so far by the gather in progress */
	uint64_t used;      /* ticket of the used flags' all-reduce, or 0 */
	uint64_t reordered; /* ticket of the broadcast of the order, or 0 */
	int failed;         /* the error of an earlier step, or COHORT_OK */
};

/* ---- bucket_submit.c ------------------------------------------------ */

/* Return COHORT_INVALID if @r is NULL, otherwise the result of comm_check(). */
int reducer_check(const struct cohort_reducer *r);

/* Submit @op with a label on the communicator's own stream, and store the
 * ticket in r->last. */
int reducer_submit(struct cohort_reducer *r, struct op *op, const char *label,
                   uint64_t *ticket);

/* Wait for the last submitted operation, if there is one. */
int reducer_await_last(struct cohort_reducer *r, uint64_t deadline_ns);

/* Store the error @rc of a launch and the thread's error text.  Return @rc. */
int reducer_break(struct cohort_reducer *r, int rc);

/* ---- mark.c --------------------------------------------------------- */

/* Return COHORT_OK, COHORT_STATE if no step is open, or COHORT_OWNER if another
 * thread has begun the step. */
int reducer_check_open(const struct cohort_reducer *r);

/* Mark gradient @i as ready in @step.  Return COHORT_ALREADY if it was ready
 * before. */
int reducer_mark(struct cohort_reducer *r, uint32_t i, uint64_t step);

/* Wait until no thread is inside cohort_reducer_ready(). */
void reducer_await_helpers(struct cohort_reducer *r);

/* Close the step.  Wait until no thread is inside cohort_reducer_ready(). */
void reducer_close(struct cohort_reducer *r);

/* Append a description of what the rank waits for.  Called by the watchdog. */
void reducer_add_wait_reason(const struct wait_reason *reason, struct text *t);

#define REDUCER_ZEROS_BYTES ((size_t)256 * 1024)

/* Return the index of @type in arrays of REDUCER_FLOATS elements, or
 * REDUCER_FLOATS if a weighted reducer does not support the type. */
unsigned reducer_float(int type);

/* Copy words from the host to the device in stream order.  Does not wait. */
int reducer_copy_to_device(struct cohort_reducer *r, void *device,
                           const void *host, size_t bytes);

/* Copy words from the device to the host in stream order, and wait. */
int reducer_copy_to_host(struct cohort_reducer *r, void *host,
                         const void *device, size_t bytes);

/* Zero device memory in stream order.  Does not wait. */
int reducer_clear(struct cohort_reducer *r, void *device, size_t bytes);

/* Zero a gradient, like reducer_clear(). */
int reducer_zero(struct cohort_reducer *r, const struct reducer_item *item);

/* ---- shard.c -------------------------------------------------------- */

/* Part of a gradient or parameter that a tensor describes. */
enum reducer_portion {
	REDUCER_SCATTERED, /* for a reduce-scatter: this rank's part */
	REDUCER_GATHERED,  /* for an all-gather: this rank's part */
	REDUCER_LEFT_OVER, /* the remainder that the last rank keeps */
};

/* Write the tensors of a bucket for @portion.  Return their number.
 * @memory: memory of each parameter, or NULL for the gradients' own memory */
uint32_t reducer_add_portion(const struct cohort_reducer *r, size_t bucket,
                             enum reducer_portion portion, void *const *memory,
                             struct cohort_tensor *tensors);

/* Write the tensors that a step launches for a bucket. */
void reducer_add_shards(struct cohort_reducer *r, size_t bucket,
                        struct cohort_tensor *tensors);

/* ---- plan.c --------------------------------------------------------- */

/* Assign the gradients to buckets.
 * @use: numbers of the gradients, in the order in which they become ready */
void reducer_order(struct cohort_reducer *r, const uint32_t *use);

/* Assign the gradients to buckets, and make the buckets' tensors and tags. */
void reducer_plan(struct cohort_reducer *r, const uint32_t *use);

/* Return the space that a gradient of @bytes bytes takes in the arena.
 * Creation has checked that no sum of these sizes overflows. */
size_t reducer_align(size_t bytes);

/* Place the gradients that the reducer allocates (is_view) in @arena, unless
 * that is NULL.  Return the bytes that they take. */
size_t reducer_layout(struct cohort_reducer *r, unsigned char *arena);

/* Launch the broadcast of rank 0's order if the plan is not final. */
int reducer_send_order(struct cohort_reducer *r);

/* Wait for the broadcast of rank 0's order, if it was launched, and make the
 * new plan. */
int reducer_replan(struct cohort_reducer *r, uint64_t deadline_ns);

/* ---- bucket_launch.c ------------------------------------------------ */

/* Launch the complete buckets.  If another thread is launching, leave them to
 * that thread. */
int reducer_launch_complete(struct cohort_reducer *r);

/* If enough work was launched, let it proceed without a waiting thread. */
void reducer_flush(struct cohort_reducer *r);

bool reducer_is_launched(const struct cohort_reducer *r);

/* ---- cancel.c ------------------------------------------------------- */

/* Return true if any rank has canceled the step.  All operations of the step
 * must be done. */
bool reducer_was_cancelled(const struct cohort_reducer *r);

/* Publish that this rank cancels the step.  Called before each attempt to
 * launch the first collective of the step. */
void reducer_publish(struct cohort_reducer *r);

/* Publish that this rank finishes the step on a stream.  If another rank has
 * canceled the step, end the group and return its error. */
int reducer_stream(struct cohort_reducer *r);

/* ---- finish.c ------------------------------------------------------- */

/* Continue to finish a step whose is_local is false. */
int reducer_finish_step(struct cohort_reducer *r, uint64_t deadline_ns);

/* ---- step.c --------------------------------------------------------- */

/* Return COHORT_OK if a step or a gather may begin now. */
int reducer_check_begin(struct cohort_reducer *r, bool is_local);

/* ---- room.c --------------------------------------------------------- */

/* Allocate all host memory, including @names bytes for names. */
int reducer_alloc_host(struct cohort_reducer *r, size_t names);

/* Free all host memory, and @r itself. */
void reducer_free_host(struct cohort_reducer *r);

/* Allocate device memory.  The items must be set and assigned to buckets. */
int reducer_alloc_device(struct cohort_reducer *r);

/* Create a premultiplied sum for each type that occurs.  Each step sets the
 * scalars of the sums. */
int reducer_create_sums(struct cohort_reducer *r);

/* Destroy the premultiplied sums and free device memory.  May be repeated after
 * an error. */
int reducer_free_device(struct cohort_reducer *r);

#endif
