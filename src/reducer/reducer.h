/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REDUCER_REDUCER_H
#define REDUCER_REDUCER_H

/*
 * What the files of the reducer share; each file uses those below it
 *
 *  reducer.c  options, creation, destruction, queries room.c     allocation of
 *  all memory gather.c   gather: parameters from the ranks' shards step.c
 *  begin, accumulate, join finish.c   finish, finish_on cancel.c   cancel, and
 *  how the other ranks learn of it launch.c   ready, progress: launches each
 *  bucket once it is complete plan.c     the tensors of each bucket, and the
 *  new plan after the first step shard.c    each rank's part of a gradient, as
 *  tensors memory.c   copies of the reducer's words, and zeros for gradients
 *  mark.c     the open step, and which gradients are ready submit.c   how an
 *  operation is submitted bucket.c   which gradients form a bucket: pure
 *
 * Only finish.c and cancel.c call each other.
 *
 * Every operation is launched on the communicator's own stream, so the last
 * ticket completes after all others.
 */

#include <stdatomic.h>
#include <stdbool.h>

#include <cohort/reducer.h>

#include "api/communicator.h"
#include "reducer/bucket.h"

/* A parameter. */
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
	/* Set by the plan. */
	uint32_t first, n; /* its tensors in the reducer's list */
	uint32_t ends; /* tensors behind these, with the shards' remainders */
	size_t bytes;  /* of its gradients */
	int type;
	char tag[TAG_SIZE];

	/* Atomic; how many of its gradients are not ready.  A thread writes the
	 * gradient, then decrements (acq_rel); the thread that launches the
	 * bucket loads 0 (acquire). */
	_Atomic uint32_t pending;
};

/* What the ranks exchange besides gradients: in device memory, with an image on
 * the host. */
struct reducer_words {
	double *weight;  /* sum of weights, and number of ranks with a batch */
	double *scalars; /* room for one scalar of each type */
	uint32_t *order; /* in which gradients became ready on rank 0 */
	uint8_t *used;   /* whether any rank used each parameter */
	unsigned char *memory;
};

/* The number of types that gradients of a weighted mean may have. */
#define REDUCER_FLOATS 4

/* The phase that finish is in. */
enum reducer_phase {
	REDUCER_FILL,
	REDUCER_LAUNCH,
	REDUCER_TELL,
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
	bool is_host;         /* device memory is host memory */
	unsigned char *arena; /* device memory of the gradients with is_view */
	unsigned char *zeros; /* pinned; unused if is_host */
	struct reducer_words device, host;
	int premul[REDUCER_FLOATS]; /* of each type that occurs; or 0 */
	size_t words_bytes;

	/* The plan: written by create, and by the owner while no step is open.
	 * Each array has room for @n; that of the tensors, with shards, for 2
	 * @n, and behind these for @n that are gathered. */
	struct bucket_plan plan;
	struct bucket_item *plan_items;
	struct reducer_bucket *buckets;
	struct cohort_tensor *tensors;
	bool is_final; /* the plan does not change any more */

	/* Explains to the watchdog what a rank waits for while a step is
	 * open. */
	struct wait_reason wait_reason;

	/* Atomic; number of the open step, or 0.  The owner stores the number
	 * after everything else of the step is prepared. */
	_Atomic uint64_t step;

	/* Atomic; number of threads inside ready.  seq_cst together with step:
	 * a thread increments inside, then loads step; the owner clears step,
	 * then loads inside. */
	atomic_uint inside;

	/* Atomic, each: the last step in which this gradient was ready. */
	_Atomic uint64_t *marked;

	/* Atomic; how many gradients are ready.  The old value is the marking
	 * thread's index into observed, to which only this thread writes; the
	 * owner reads observed once all buckets are complete. */
	_Atomic uint32_t ready;
	uint32_t *observed;

	/* Atomic; the next bucket to be launched; and the number of requests to
	 * launch.  The thread that made the first request serves all of
	 * them. */
	_Atomic uint32_t next;
	atomic_uint pumps;

	/* Atomic; the error of a launch, or COHORT_OK.  The thread that has set
	 * is_breaking writes the text, then stores the error (release). */
	atomic_bool is_breaking;
	atomic_int broken;
	char why[256];

	/* Atomic; numbers of the first and the newest collective of the step,
	 * or 0; and the last ticket.  The thread that launches stores them in
	 * this order (release). */
	_Atomic uint64_t first, newest;
	_Atomic uint64_t last;

	/* Written by the owner before it opens the step, constant during the
	 * step; but is_cancelled is set by the owner within it. */
	uintptr_t owner;
	uint64_t steps;    /* how many have begun */
	bool is_local;     /* the step launches nothing */
	bool is_absent;    /* the weight is 0, or the rank has joined */
	bool is_joined;    /* this rank has no batch left */
	bool is_cancelled; /* this rank has given up the step */
	bool carried_on;   /* carries_on was set in the step before */
	void *stream;      /* that computes the gradients, if awaits_stream */
	bool awaits_stream;
	double weight;

	/* Atomic; the owner waits in progress, and carries out there what is
	 * launched.  Relaxed: a hint to the thread that launches. */
	atomic_bool carries_on;

	/* Only the thread that launches touches these. */
	uint64_t weights;   /* ticket of the weights' all-reduce, or 0 */
	size_t unflushed;   /* bytes launched since the last flush */
	uint32_t scattered; /* buckets whose reduce-scatter is launched */
	double factor;      /* for this rank's gradients */
	bool is_skipped;    /* the weights add up to 0: nothing is launched */
	bool is_over;       /* no rank has a batch */

	/* Only the owner touches these. */
	enum reducer_phase phase;
	uint32_t gathered;  /* calls made so far by the gather in progress */
	uint64_t used;      /* ticket of the parameters in use, or 0 */
	uint64_t reordered; /* ticket of rank 0's order, or 0 */
	int failed;         /* the error of an earlier step, or COHORT_OK */
};

/* ---- submit.c ------------------------------------------------------- */

/* COHORT_INVALID if @r is NULL, COHORT_FORKED in a forked child. */
int reducer_check(const struct cohort_reducer *r);

/* Submit @op with this label on the communicator's own stream, and store its
 * ticket in @r->last. */
int reducer_submit(struct cohort_reducer *r, struct op *op, const char *label,
                   uint64_t *ticket);

/* Wait for the last operation submitted, if there is one. */
int reducer_await_last(struct cohort_reducer *r, uint64_t deadline_ns);

/* Keep the error @rc of a launch, with the thread's error text; returns @rc. */
int reducer_break(struct cohort_reducer *r, int rc);

/* ---- mark.c --------------------------------------------------------- */

/* COHORT_STATE if no step is open, COHORT_OWNER if another thread has begun
 * it. */
int reducer_check_open(const struct cohort_reducer *r);

/* Mark gradient @i as ready in @step; COHORT_ALREADY if it is. */
int reducer_mark(struct cohort_reducer *r, uint32_t i, uint64_t step);

/* Wait until no thread is inside ready; reducer_close() ends the step first. */
void reducer_await_helpers(struct cohort_reducer *r);
void reducer_close(struct cohort_reducer *r);

/* The wait reason's text, for the watchdog. */
void reducer_add_wait_reason(const struct wait_reason *reason, struct text *t);

/* ---- memory.c ------------------------------------------------------- */

#define REDUCER_ZEROS_BYTES ((size_t)256 * 1024)

/* The index of @type in tables of REDUCER_FLOATS; REDUCER_FLOATS for other
 * types. */
unsigned reducer_float(int type);

/* Copy between the words' image and device memory, in the order of the stream.
 * A pull waits for its copy, a push does not. */
int reducer_push(struct cohort_reducer *r, void *device, const void *host,
                 size_t bytes);
int reducer_pull(struct cohort_reducer *r, void *host, const void *device,
                 size_t bytes);

/* Zero device memory, in the order of the stream; does not wait. */
int reducer_clear(struct cohort_reducer *r, void *device, size_t bytes);

/* Zero a gradient. */
int reducer_zero(struct cohort_reducer *r, const struct reducer_item *item);

/* ---- shard.c -------------------------------------------------------- */

/* A range of a gradient's elements. */
struct reducer_part {
	size_t first, count;
};

/* This rank's part of @count elements. */
struct reducer_part reducer_part(const struct cohort_reducer *r, size_t count);

/* Which part of a gradient, or of a parameter, a tensor describes. */
enum reducer_portion {
	REDUCER_SCATTERED, /* for a reduce-scatter: this rank's part */
	REDUCER_GATHERED,  /* for an all-gather: this rank's part */
	REDUCER_LEFT_OVER, /* the remainder that the last rank keeps */
};

/* Write the tensors of a bucket for @portion, and return how many.  @memory has
 * each parameter's memory; NULL stands for the gradients' own. */
uint32_t reducer_add_portion(const struct cohort_reducer *r, size_t bucket,
                             enum reducer_portion portion, void *const *memory,
                             struct cohort_tensor *tensors);

/* Write the tensors that a step launches for a bucket. */
void reducer_add_shards(struct cohort_reducer *r, size_t bucket,
                        struct cohort_tensor *tensors);

/* ---- plan.c --------------------------------------------------------- */

/* Assign the gradients to buckets by an order of use; reducer_plan() then also
 * makes the buckets' tensors and tags. */
void reducer_order(struct cohort_reducer *r, const uint32_t *use);
void reducer_plan(struct cohort_reducer *r, const uint32_t *use);

/* The room that a gradient of @bytes takes in the arena.  Create has checked
 * that the rooms of all gradients, and thus any of their bytes or counts, add
 * up without an overflow. */
size_t reducer_align(size_t bytes);

/* Give the gradients with is_view their places in @arena, unless that is NULL.
 * Returns the bytes that they take. */
size_t reducer_layout(struct cohort_reducer *r, unsigned char *arena);

/* Launch the broadcast of rank 0's order, if the plan is not final; and wait
 * for it, then make the new plan. */
int reducer_send_order(struct cohort_reducer *r);
int reducer_replan(struct cohort_reducer *r, uint64_t deadline_ns);

/* ---- launch.c ------------------------------------------------------- */

/* Launch the buckets that are complete, unless another thread is launching. */
int reducer_pump(struct cohort_reducer *r);

/* Have what is launched go on by itself, if enough has been launched. */
void reducer_flush(struct cohort_reducer *r);

/* True when all buckets are launched. */
bool reducer_is_launched(const struct cohort_reducer *r);

/* ---- cancel.c ------------------------------------------------------- */

/* True if any rank has given up the step, whose operations are all done. */
bool reducer_was_cancelled(const struct cohort_reducer *r);

/* Publish that this rank gives up the step: before each attempt to launch its
 * first collective. */
void reducer_publish(struct cohort_reducer *r);

/* Publish that this rank finishes the step on a stream.  If any rank has given
 * up the step, ends the group and returns its error. */
int reducer_stream(struct cohort_reducer *r);

/* ---- finish.c ------------------------------------------------------- */

/* Continue the end of a step that is not local. */
int reducer_finish_step(struct cohort_reducer *r, uint64_t deadline_ns);

/* ---- step.c --------------------------------------------------------- */

/* COHORT_OK if a step, or a gather, may begin now. */
int reducer_check_begin(struct cohort_reducer *r, bool is_local);

/* ---- room.c --------------------------------------------------------- */

/* Allocate host memory, with @names bytes of names. */
int reducer_alloc_host(struct cohort_reducer *r, size_t names);
void reducer_free_host(struct cohort_reducer *r);

/* Allocate device memory, after the items are set and ordered. */
int reducer_alloc_device(struct cohort_reducer *r);

/* Create a premultiplied sum of each type that occurs; each step sets the
 * scalars. */
int reducer_create_sums(struct cohort_reducer *r);

/* Destroy the sums and free device memory; may be repeated after an error. */
int reducer_free_device(struct cohort_reducer *r);

#endif
