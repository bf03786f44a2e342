/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REDUCER_REDUCER_H
#define REDUCER_REDUCER_H

/*
 * The reducer: what its parts share
 *
 *	reducer.c         options, creation, end, facts
 *	room.c    all the memory
 *	plan.c    buckets as lists of tensors, and the plan made anew
 *	launch.c  ready, progress: what is marked, and launched by it
 *	step.c    begin, join
 *	finish.c  finish
 *	cancel.c  cancel, and who is told of it
 *	found.c   the norm and what is not finite, agreed by all
 *	shard.c   what is left to each rank, and gathered again
 *	memory.c  arithmetic on gradients, wherever they are
 *
 * All that is launched goes to the communicator's own stream, so that the last
 * ticket stands for all.
 */

#include <stdatomic.h>
#include <stdbool.h>

#include <cohort/reducer.h>

#include "api/comm.h"
#include "reducer/bucket.h"

/* A parameter. */
struct reducer_item {
	/* Constant after creation. */
	const char *name;
	unsigned char *gradient;
	size_t count;
	size_t bytes;
	int type;
	bool is_view; /* it is in the reducer's memory */
	bool is_half; /* it travels as one; then where, in the wire memory */
	size_t wire;  /* of the plan */
};

struct reducer_bucket {
	/* Of the plan. */
	uint32_t first, n; /* of the tensors */
	uint32_t ends;     /* of those behind them: what shards leave over */
	size_t bytes;      /* of gradients, as they travel */
	int type;          /* that it travels as */
	bool is_half;      /* instead of float32 */
	char tag[TAG_SIZE];

	/* Atomic; of its gradients those that are not ready.  Whoever takes one
	 * away has written that before (acq_rel), whoever launches looks (acquire). */
	_Atomic uint32_t pending;
};

/* What the ranks tell each other: device memory, and its image on the host. */
struct reducer_words {
	double *weight; /* the sum, and how many ranks have a batch */
	double *found; /* of each rank: sum of squares, how much is not finite */
	double *scalars; /* room for one of each type */
	uint32_t *order; /* of readiness on rank 0 */
	uint8_t *used;   /* of each parameter */
	unsigned char *memory;
};

/* Types that gradients of a weighted mean may have. */
#define REDUCER_FLOATS 4

/* How far finish has come. */
enum reducer_phase {
	REDUCER_FILL,
	REDUCER_LAUNCH,
	REDUCER_TELL,
	REDUCER_AWAIT,
	REDUCER_LOOK,
	REDUCER_GATHER,
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
	bool is_host;         /* device memory is the host's */
	bool is_looked_at;    /* gradients: check_finite or max_norm */
	unsigned char *arena; /* device memory: gradients that are here */
	unsigned char *wire;  /* likewise: what travels as halves */
	unsigned char *stage; /* pinned, two pieces to do arithmetic in; not if
	                         is_host */
	size_t piece;         /* bytes of each, a multiple of 64 */
	unsigned char *zeros; /* likewise, REDUCER_ZEROS_BYTES */
	struct reducer_words device, host;
	int premul[REDUCER_FLOATS]; /* of each type that occurs; 0: none */
	size_t words_bytes;

	/* The plan: written by create, and by the owner while no step is open.
	 * Room for @n of each; with shards for twice as many tensors, and behind
	 * them @n for what is gathered. */
	struct bucket_plan plan;
	struct bucket_item *plan_items;
	struct reducer_bucket *buckets;
	struct cohort_tensor *tensors;
	bool is_final; /* it is not made anew any more */

	/* What the watchdog is told by, while a step is open. */
	struct wait_reason wait_reason;

	/* Atomic; number of the step that is open, 0: none.  Stored by the owner
	 * once all of the step is prepared. */
	_Atomic uint64_t step;

	/* Atomic; threads in ready.  seq_cst, as the step is then: they count
	 * themselves in, then look for it; the owner closes it, then waits for
	 * them. */
	atomic_uint inside;

	/* Atomic, each: the step in which it was ready last. */
	_Atomic uint64_t *marked;

	/* Atomic; how many are ready, and by that number which; each place is
	 * written by who was given it, and read by the owner once all buckets are
	 * full. */
	_Atomic uint32_t ready;
	uint32_t *observed;

	/* Atomic; the next bucket to be launched, and calls to launch that are
	 * not dealt with.  The first caller launches for all. */
	_Atomic uint32_t next;
	atomic_uint pumps;

	/* Atomic; how launching failed; COHORT_OK: it did not.  The text is
	 * written before (release), by who has set is_breaking. */
	atomic_bool is_breaking;
	atomic_int broken;
	char why[256];

	/* Atomic; numbers of the first and the newest collective of the step, 0: it
	 * has none yet; and the last ticket.  Written by who launches, in this order
	 * (release). */
	_Atomic uint64_t first, newest;
	_Atomic uint64_t last;

	/* Written by the owner before the step is open; constant during it. */
	uintptr_t owner;
	uint64_t steps; /* begun so far */
	bool is_local;  /* nothing is launched */
	bool is_absent; /* with weight 0, or joined */
	bool is_joined;
	bool is_cancelled; /* by this rank; in the middle of the step */
	bool helpers_launch;
	bool carried_on; /* in the step before; see carries_on */
	void *stream;    /* NULL with @awaits_stream false */
	bool awaits_stream;
	double weight;

	/* Atomic; the owner waits in progress, and carries on meanwhile.  Relaxed:
	 * read by who launches, to save work. */
	atomic_bool carries_on;

	/* Owned by who launches. */
	uint64_t
		weights; /* ticket of the weights' all-reduce, 0: none is out */
	size_t unflushed;   /* bytes launched that only go on if looked at */
	uint32_t scattered; /* buckets of which only the ends are left */
	double factor;      /* by which this rank's gradients are multiplied */
	bool is_skipped;    /* no weight at all: nothing is launched */
	bool is_over;       /* and no rank has a batch */

	/* Owned by the owner. */
	enum reducer_phase phase;
	uint32_t gathered;  /* calls of a gather that is not done */
	uint32_t widened;   /* buckets that are float32 again */
	uint64_t used;      /* ticket, 0: none */
	uint64_t gather;    /* likewise */
	uint64_t reordered; /* likewise */
	double norm;
	int failed; /* how a former step did; COHORT_OK: none has */
};

/* ---- room.c --------------------------------------------------------- */

/* Host memory, with @names bytes of names; and the end of all of it. */
int reducer_alloc_host(struct cohort_reducer *r, size_t names);
void reducer_free_host(struct cohort_reducer *r);

/* Device memory, after the items are set and planned. */
int reducer_alloc_device(struct cohort_reducer *r);

/* Premultiplied sums of the types that occur, by scalars that each step sets. */
int reducer_create_sums(struct cohort_reducer *r);

/* Give both back; may be called again after an error. */
int reducer_free_device(struct cohort_reducer *r);

/* ---- memory.c ------------------------------------------------------- */

typedef void (*reducer_fn)(void *memory, size_t count, void *user);

/* Of a piece at the most, and of the zeros. */
#define REDUCER_PIECE_BYTES ((size_t)4 * 1024 * 1024)
#define REDUCER_ZEROS_BYTES ((size_t)256 * 1024)

/* Call @fn for @count elements of @size bytes of device memory, in pieces where that
 * is not the host's: then it goes to and from there, behind what the communicator's
 * stream has, and the next piece comes while @fn has one.  Each piece but the last is of
 * a multiple of 8 elements. */
int reducer_visit(struct cohort_reducer *r, void *device, size_t count,
                  size_t size, bool is_changed, reducer_fn fn, void *user);

/* Between the words' image and the device, behind what the stream has; a pull is
 * waited for, a push is not. */
int reducer_push(struct cohort_reducer *r, void *device, const void *host,
                 size_t bytes);
int reducer_pull(struct cohort_reducer *r, void *host, const void *device,
                 size_t bytes);

/* Zero device memory, behind what the stream has; not waited for. */
int reducer_clear(struct cohort_reducer *r, void *device, size_t bytes);

/* Of a gradient: zero it; multiply it; float32 to halves, times a factor, and back.
 * The last two on the host platform only. */
int reducer_zero(struct cohort_reducer *r, const struct reducer_item *item);
int reducer_scale(struct cohort_reducer *r, const struct reducer_item *item,
                  double factor);
void reducer_narrow(struct cohort_reducer *r, const struct reducer_item *item,
                    double factor);
void reducer_widen(struct cohort_reducer *r, const struct reducer_item *item);

/* The sum of squares of elements @begin to @end of a gradient, and how many are not
 * finite: both are added. */
struct reducer_found {
	double squares;
	double infinite;
};
int reducer_measure(struct cohort_reducer *r, const struct reducer_item *item,
                    size_t begin, size_t end, struct reducer_found *found);

/* ---- plan.c --------------------------------------------------------- */

/* The place of a type in tables of those; REDUCER_FLOATS: none of them. */
unsigned reducer_float(int type);

/* Make the plan from an order of use; and lay out what depends on it, too. */
void reducer_order(struct cohort_reducer *r, const uint32_t *use);
void reducer_plan(struct cohort_reducer *r, const uint32_t *use);

/* The room that a gradient of @bytes takes there.  Create has checked that of all to
 * add up: no sum of bytes, or of elements, of some of them overflows. */
size_t reducer_align(size_t bytes);

/* Lay out the gradients that the reducer has: bytes of them, if @arena is NULL. */
size_t reducer_layout(struct cohort_reducer *r, unsigned char *arena);

/* Launch rank 0's order, if the plan is to be made anew; and with that done do
 * so. */
int reducer_send_order(struct cohort_reducer *r);
int reducer_replan(struct cohort_reducer *r, uint64_t deadline_ns);

/* ---- launch.c ------------------------------------------------------- */

/* COHORT_INVALID for NULL; COHORT_FORKED. */
int reducer_check(const struct cohort_reducer *r);

/* COHORT_STATE if no step is open, COHORT_OWNER if another thread has begun it. */
int reducer_check_open(const struct cohort_reducer *r);

/* Submit on the communicator's own stream, by that label, and remember the
 * ticket. */
int reducer_submit(struct cohort_reducer *r, struct op *op, const char *label,
                   uint64_t *ticket);

/* Take note that launching has failed; returns @rc. */
int reducer_break(struct cohort_reducer *r, int rc);

/* Mark; COHORT_ALREADY. */
int reducer_mark(struct cohort_reducer *r, uint32_t i, uint64_t step);

/* Wait until no thread is in ready; and close the step before. */
void reducer_await_helpers(struct cohort_reducer *r);
void reducer_close(struct cohort_reducer *r);

/* Launch what is full, unless another thread is at it. */
int reducer_pump(struct cohort_reducer *r);

/* Have what is launched go on by itself, if it is worth it. */
void reducer_flush(struct cohort_reducer *r);

/* True when all is launched. */
bool reducer_is_launched(const struct cohort_reducer *r);

/* The weights, once all ranks have told theirs: what this rank's gradients are
 * multiplied by.  COHORT_TIMED_OUT: not yet. */
int reducer_settle_weights(struct cohort_reducer *r, uint64_t deadline_ns);

/* For the watchdog. */
void reducer_add_wait_reason(const struct wait_reason *reason, struct text *t);

/* ---- step.c --------------------------------------------------------- */

/* Whether a step, or what goes in its place, may begin now. */
int reducer_check_begin(struct cohort_reducer *r, bool is_local);

/* ---- finish.c ------------------------------------------------------- */

/* Go on with the end of a step that is not local. */
int reducer_finish_step(struct cohort_reducer *r, uint64_t deadline_ns);

/* ---- cancel.c ------------------------------------------------------- */

/* True if any rank has given up the step, of which all that is launched is done. */
bool reducer_was_cancelled(const struct cohort_reducer *r);

/* Say that this rank gives up the step: before each try to launch the first of it. */
void reducer_publish(struct cohort_reducer *r);

/* The step is finished on a stream: the end of the group, and its error, if any rank
 * has given it up. */
int reducer_stream(struct cohort_reducer *r);

/* ---- shard.c -------------------------------------------------------- */

/* Some elements of a gradient. */
struct reducer_part {
	size_t first, count;
};

/* This rank's of @count; and what is left over, which the last rank has, too. */
struct reducer_part reducer_part(const struct cohort_reducer *r, size_t count);
struct reducer_part reducer_rest(const struct cohort_reducer *r, size_t count);

/* The tensors of a bucket: its shards, and behind them what is left over. */
void reducer_add_shards(struct cohort_reducer *r, size_t bucket,
                        struct cohort_tensor *tensors);

/* ---- found.c -------------------------------------------------------- */

/* Launch what this rank has found; and with all of it done judge, and clip:
 * COHORT_SKIP if gradients are not finite. */
int reducer_look(struct cohort_reducer *r);
int reducer_judge(struct cohort_reducer *r, uint64_t deadline_ns);

#endif
