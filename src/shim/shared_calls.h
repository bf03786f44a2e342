/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHIM_SHARED_CALLS_H
#define SHIM_SHARED_CALLS_H

/*
 * The memory that cohort watch shares with the programs that it watches: the
 * last calls of each rank of each communicator
 *
 * cohort watch creates the memory as a sealed memfd, which no process can
 * shrink, and passes its path in COHORT_WATCH.  The shim (watched.h) writes the
 * memory, in the program's threads; cohort watch reads it.  Neither waits for
 * the other.
 *
 *  A. A program can write anything here.  cohort watch checks every number that
 *     it reads from this memory, and follows no pointer.
 *  B. The process that has changed a rank's state from FREE to OPENING owns the
 *     entry until the state is CLOSED or the process has ended.  Only cohort
 *     watch then sets the state to FREE.
 *  C. Records have the format of recorder.h, which guarantees that a reader
 *     gets a consistent record or none.
 */

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "core/recorder.h"

#define SHARED_MAGIC UINT64_C(0x31686374617763)

/* Number of ranks that can be watched at a time. */
#define SHARED_RANKS 1024

/* Number of calls of a rank that are on record; a power of two. */
#define SHARED_SLOTS 1024

/* Largest page size of the supported systems. */
#define SHARED_PAGE 65536

#define SHARED_NAME 32

enum shared_state {
	SHARED_FREE,
	SHARED_OPENING, /* a thread is creating the communicator */
	SHARED_OPEN,
	SHARED_CLOSED, /* the communicator was destroyed or aborted */
	/* The shim has aborted the communicator, and the program has not
	 * closed it yet. */
	SHARED_ABORTED,
};

/* One rank of a communicator. */
struct shared_rank {
	/* Atomic; enum shared_state.  Set to OPENING before the members up to
	 * .name are written, and to OPEN afterwards, with release. */
	_Atomic uint32_t state;

	/* The process and the thread that create the communicator. */
	_Atomic int32_t pid, tid;

	/* The rank, and the number of ranks. */
	_Atomic int32_t rank, ranks;

	/* The rank's number in the original communicator, from which this one
	 * was split, directly or through others; otherwise equal to .rank. */
	_Atomic int32_t root_rank;
	_Atomic int32_t device; /* -1 until it is known */
	_Atomic int32_t nccl;   /* version of NCCL, or 0 */

	/* Number that identifies the communicator, equal on all its ranks. */
	_Atomic uint64_t identity;

	/* Identity of the communicator that this one was split from, or 0. */
	_Atomic uint64_t parent;
	_Atomic uint64_t opened_ns; /* start of the call that creates it */

	/* Start of the call that finalizes or destroys the communicator, 0 if
	 * no thread is inside such a call. */
	_Atomic uint64_t closing_ns;

	/* 1 if the last call is in a group that the thread has not ended. */
	_Atomic uint32_t grouped;

	/* The name in the communicator's configuration, or "". */
	_Atomic char name[SHARED_NAME];

	/* Atomic; the ticket of the last call, and the number of collectives.
	 * Stored with release, after the record. */
	_Atomic uint64_t last;
	_Atomic uint64_t collectives;

	/* Atomic; tickets of collectives.  The index is the number of the
	 * collective modulo SHARED_SLOTS. */
	_Atomic uint64_t tickets[SHARED_SLOTS];

	/* Atomic; number of sends to each rank, and of receives from it.
	 * Stored with release, after the record. */
	_Atomic uint32_t sends[COHORT_MAX_RANKS];
	_Atomic uint32_t receives[COHORT_MAX_RANKS];

	/* Atomic; number of a send or receive among those of the same pair of
	 * ranks and direction.  The index is its ticket modulo SHARED_SLOTS. */
	_Atomic uint32_t transfers[SHARED_SLOTS];

	/* The recorder's memory. */
	struct record_slot slots[SHARED_SLOTS];
	struct record_times times[SHARED_SLOTS];
};

struct shared_calls {
	union {
		struct {
			/* Constant. */
			uint64_t magic;
			/* 1 if streams mark the end of each call. */
			uint32_t marks;
			/* 1 if a thread of the shim waits for .abort. */
			uint32_t aborts;

			/* Atomic; number of entries that were ever used. */
			_Atomic uint32_t used;

			/* Atomic; number of ranks that found no free entry. */
			_Atomic uint32_t missed;

			/* Atomic; number of requests to abort all
			 * communicators.  The shim waits on it as a futex. */
			_Atomic uint32_t abort;
		};
		char pages[SHARED_PAGE];
	};

	/* Atomic; for each rank, the marks of its calls.  The index of a mark
	 * is the call's ticket modulo SHARED_SLOTS.  When the call and all
	 * older calls are done, the stream stores the low half of the ticket.
	 * If the stream will not mark the call, the thread stores the
	 * complement of the low half, and the call counts as done as soon as
	 * all older calls are done.  The array fills whole pages, so that
	 * devices can access it. */
	_Atomic uint32_t done[SHARED_RANKS][SHARED_SLOTS];

	struct shared_rank ranks[SHARED_RANKS];
};

/* Initializer of the recorder of a rank's records. */
#define SHARED_RECORDER(rank)                                                  \
	{                                                                      \
		.mask = SHARED_SLOTS - 1,                                      \
		.bits = (unsigned)__builtin_ctz(SHARED_SLOTS),                 \
		.slots = (rank)->slots, .times = (rank)->times,                \
	}

_Static_assert(offsetof(struct shared_calls, done) % SHARED_PAGE == 0 &&
                       offsetof(struct shared_calls, ranks) % SHARED_PAGE == 0,
               "whole pages");

#endif
