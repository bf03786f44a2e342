/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_RECORDER_H
#define CORE_RECORDER_H

/*
 * Flight recorder: a ring of the last operations of one rank
 *
 * Written by the one thread that holds the rank's lock, read by any thread
 * at any time, without a lock.
 *
 *  A. A record that recorder_read() returns is whole: its fields were written
 *     by one recorder_begin().
 *  B. recorder_begin() comes before the native call, so a call that never
 *     returns is in the ring, with COHORT_TIMED_OUT as its outcome.
 *  C. A ticket's record is there until slots more tickets have been begun.
 *  D. The thread that first sees that an operation has started, or is done,
 *     sets the time: the next call, a wait, or the prober.  The event came
 *     then, or some time before.  Only a wait that began before the end
 *     observes the end itself; any other thread finds an upper bound, and the
 *     record says so.
 */

#include <stdatomic.h>

#include "base/text.h"
#include "core/op.h"
#include "core/tag.h"

#define RECORD_WORDS 8

struct record_slot {
	/* Atomic, all of them: the ticket is 0 while the others are written,
	 * then stored with release; a reader loads it before and after. */
	_Atomic uint64_t ticket;
	_Atomic uint64_t words[RECORD_WORDS - 1];
};

/* When an operation was first seen to have started, and to be done. */
struct record_times {
	/* Atomic, both: which use of the slot it is, and the time since the
	 * call, plus 1; 0: not seen.  Begun with the lock held, set by whoever
	 * sees it. */
	_Atomic uint64_t started;
	_Atomic uint64_t finished; /* with AT_MOST_BIT, see recorder.c */
};

struct recorder {
	/* Constant after creation. */
	uint64_t mask; /* slots - 1, a power of two less one */
	unsigned bits; /* of that */
	struct record_slot *slots;
	struct record_times *times;

	/* Atomic; the bytes of all operations so far.  Written with the lock
	 * held, relaxed: for diagnostics only.  In no cache line with what other threads
	 * read. */
	_Alignas(64) _Atomic uint64_t bytes;

	/* Atomic words inside; see tag.h.  The caller's tags and the library's
	 * labels are kept apart, so that labels never overwrite tags. */
	struct tags tags;
	struct tags labels;
};

/* What a record says. */
struct record {
	uint64_t ticket;
	uint64_t submitted_ns;
	/* Of n calls; the members below describe the first one. */
	bool is_batch;
	bool from_host;    /* a call with host memory */
	enum op_kind kind; /* OP_BATCH: of none */
	int type;          /* of the first tensor */
	int redop;         /* redop_kind() of it */
	int root;
	size_t n;        /* tensors, or calls; up to UINT32_MAX */
	uint32_t digest; /* of all that the other ranks must call the same, as
	                    agree_digest() has it; 0: they need not */
	size_t count;    /* elements of the first tensor */
	size_t bytes;    /* of all */
	void *stream;
	unsigned tag;   /* number of the caller's tag, see tag.h; 0: none */
	unsigned label; /* the number of the library's label */
	bool captured;  /* it went into a CUDA graph, and did not run */
	int outcome;    /* COHORT_TIMED_OUT: inside the native call; COHORT_OK:
	                 queued; else how it failed */
	int tid;        /* of the thread that called */
	uint64_t started_ns;  /* when it was seen to have started, and to be */
	uint64_t finished_ns; /* done; 0: it was not */

	/* finished_ns is an upper bound: no wait observed the end, so that the
	 * operation may have ended at any time before. */
	bool finished_at_most;
};

/* COHORT_NO_MEMORY, or COHORT_OK. */
int recorder_init(struct recorder *r, unsigned slots);
void recorder_fini(struct recorder *r);

/* Give back the memory of the records, which nobody will ask for again: they
 * read as none. */
void recorder_forget(struct recorder *r);

/* With the lock held only, by thread @tid. */
void recorder_begin(struct recorder *r, uint64_t ticket, const struct op *op,
                    uint32_t digest, int tid, uint64_t now_ns);
void recorder_end(struct recorder *r, uint64_t ticket, int outcome);
void recorder_set_captured(struct recorder *r, uint64_t ticket);

/* A ticket that was given out has started, or is done, at @now_ns.  Any thread.
 * False if that was recorded before, or the record was overwritten. */
bool recorder_saw_started(struct recorder *r, uint64_t ticket, uint64_t now_ns);
bool recorder_saw_finished(struct recorder *r, uint64_t ticket,
                           uint64_t now_ns);

/* Like recorder_saw_finished(), by a thread that waited for the end: the time
 * is no upper bound.  Nor is one that was recorded before, as another thread
 * looked between the last two looks of this one. */
bool recorder_observed_end(struct recorder *r, uint64_t ticket,
                           uint64_t now_ns);

/* With the lock held, where no slot is overwritten meanwhile: set these times
 * without a look whether another thread was first, which is cheaper. */
void recorder_set_started(struct recorder *r, uint64_t ticket, uint64_t now_ns);
void recorder_set_finished(struct recorder *r, uint64_t ticket,
                           uint64_t now_ns);

/* True if the time of the start, or of the end, is recorded, or the record was
 * overwritten. */
bool recorder_has_started(const struct recorder *r, uint64_t ticket);
bool recorder_has_finished(const struct recorder *r, uint64_t ticket);

/* Any thread.  False if there is no record of @ticket, or it was
 * overwritten. */
bool recorder_read(const struct recorder *r, uint64_t ticket,
                   struct record *out);

/* Spell the call out: "all_reduce of 1000 float32, sum". */
void record_add(struct text *t, const struct record *r);

/* The name of the call, "all_reduce", and of the native function that the call
 * is inside of. */
const char *record_name(const struct record *r);
const char *record_native_name(const struct record *r);

/* The stream of a ticket's operation, NULL if its record was overwritten. */
void *recorder_stream(const struct recorder *r, uint64_t ticket);

#endif
