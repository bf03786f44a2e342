/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_CLIQUE_H
#define CORE_CLIQUE_H

/*
 * A clique: the native communicators of a group, one per rank, and all that
 * decides how they end
 *
 *	       first cause wins            flags up           nobody in, nothing
 *	LIVE ------------------> CAUSED ------------> FLAGGED ---- in flight --+
 *	                           |                     |                     v
 *	                           | the abort deadline has passed         QUIESCED
 *	                           v                     v                     |
 *	                        WEDGED <-----------------+                     v
 *	                                                  RECLAIMED, or LEAKED
 *
 * LIVE and CAUSED are told apart by the cause pointer, the rest by the state.
 * Whoever sets the cause wakes the clique's reaper, a thread of its own and the
 * only one that aborts or destroys its native communicators.
 *
 *  A. The cause is written once, and never changes.
 *  B. One abort or one destroy per native communicator, by the reaper only.
 *  C. From QUIESCED on no operation of the clique can touch a user's buffer.
 *  D. WEDGED frees nothing: what cannot be stopped keeps what it uses.
 *  E. LEAKED is quiesced, but the platform refused to free.
 */

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>

#include "core/recorder.h"
#include "platform/platform.h"

enum clique_state {
	CLIQUE_LIVE, /* or CAUSED */
	CLIQUE_FLAGGED,
	CLIQUE_QUIESCED,
	CLIQUE_RECLAIMED,
	CLIQUE_LEAKED,
	CLIQUE_WEDGED,
};

/* A cause and when it came. */
struct cause {
	struct cohort_cause what;
	uint64_t time_ns;
};

#define CLIQUE_CAUSES 8

/* One rank. */
struct cohort_comm {
	/* Constant after creation. */
	struct clique *clique;
	int rank;
	int device;
	ncclComm_t native;
	cudaStream_t stream; /* its own */
	cudaEvent_t event;   /* for cohort_after_stream(), inside the gate */
	void *barrier;       /* device memory that barriers reduce */

	/* Pinned; slot ticket & mask holds the low half of the newest ticket of
	 * that slot that is done.  Written by the device, read by anyone. */
	uint32_t *done;

	/* Atomic words inside; see recorder.h. */
	struct recorder recorder;

	/* Atomic; 1 while a thread is inside a native call or about to make
	 * one.  seq_cst: enter is this, then the load of the cause; a fire is
	 * the swap of the cause, then the reaper's load of this.  One of the two
	 * sees the other. */
	atomic_int gate;

	/* Atomic; the bound thread, 0: none.  Written inside the gate. */
	_Atomic uintptr_t owner;

	/* Atomic; written inside the gate. */
	atomic_bool closed;

	/* Atomic; the last ticket given out.  Written inside the gate (release)
	 * after the operation and its mark are queued. */
	_Atomic uint64_t last;

	/* Written inside the gate before the clique gets a cause, read by the
	 * reaper once the gate is empty: the stream of an operation that was
	 * queued but could not be marked. */
	bool unmarked;
	cudaStream_t unmarked_stream;

	/* Written by the reaper before it raises any flag; constant once
	 * clique->snapshot is set. */
	uint32_t *done_then;
	uint64_t last_then;
};

struct clique {
	/* Constant after creation. */
	const struct platform *platform;
	int size;
	unsigned slots; /* per rank, a power of two */
	uint64_t close_timeout_ns;
	uint64_t abort_timeout_ns;
	char name[64];
	pthread_t reaper;

	/* Atomic; NULL, then the winner for ever (seq_cst, see gate). */
	struct cause *_Atomic cause;

	/* Atomic; the next free of causes[]. */
	atomic_uint causes_used;
	struct cause causes[CLIQUE_CAUSES];
	struct cause closing; /* the cause that is no cause: an orderly end */

	/* Posted once, by whoever set the cause. */
	sem_t caused;

	/* Atomic; enum clique_state, moved by compare-and-swap. */
	atomic_int state;

	/* Atomic; done_then and last_then are valid (release). */
	atomic_bool snapshot;

	/* Guarded by the list of those that were leaked. */
	struct clique *next_leaked;

	struct cohort_comm comms[];
};

/* What clique_create() needs. */
struct clique_options {
	const char *name;
	unsigned slots;
	uint64_t close_timeout_ns;
	uint64_t abort_timeout_ns;
};

/* Open native communicators over @devices and start the reaper.  On error
 * nothing is left. */
int clique_create(const struct platform *platform, const int *devices, int n,
                  const struct clique_options *options, struct clique **out);

/* Free a clique that is RECLAIMED; its reaper is joined. */
void clique_destroy(struct clique *q);

/* Leave a clique that has come to any other end as it is, for ever. */
void clique_leak(struct clique *q);

/* The cause, or NULL; an orderly end is none. */
const struct cohort_cause *clique_cause(const struct clique *q);

/*
 * End the clique, unless it has ended: COHORT_OK for the one that did, else
 * COHORT_ALREADY.  @cause's text is made from @format.  Any thread.
 */
int clique_fire(struct clique *q, const struct cohort_cause *cause,
                const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Set an orderly end instead of a cause: COHORT_OK or COHORT_ALREADY. */
int clique_close(struct clique *q);

/* The state now.  If the clique has a cause whose abort deadline has passed,
 * this is what makes it WEDGED. */
enum clique_state clique_look(struct clique *q);

/* What a clique with a cause answers to whoever has work in it: the cause's
 * status once it is quiesced, COHORT_WEDGED, or COHORT_TIMED_OUT: not yet. */
int clique_answer(struct clique *q);

/* The same, waited for. */
int clique_await_answer(struct clique *q);

/* Wait until the clique is RECLAIMED, LEAKED or WEDGED, or the deadline. */
enum clique_state clique_await_end(struct clique *q, uint64_t deadline_ns);

/* True if @ticket is done: by the words as they are, or as they were before any
 * abort flag was raised (only when clique->snapshot is set). */
bool comm_ticket_done(const struct cohort_comm *comm, uint64_t ticket);
bool comm_ticket_was_done(const struct cohort_comm *comm, uint64_t ticket);

/* The reaper's thread. */
void *reaper_main(void *clique);

#endif
