/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_RECORDER_H
#define CORE_RECORDER_H

/*
 * Flight recorder: a ring buffer of the last operations of one rank
 *
 * The thread that holds the rank's lock writes it.  Any thread reads it at any
 * time, without a lock.
 *
 *  A. A record that recorder_read() returns is consistent: one recorder_begin()
 *     wrote all its fields.
 *  B. recorder_begin() comes before the native call, so a call that never
 *     returns is in the ring, with COHORT_TIMED_OUT as its outcome.
 *  C. A ticket's record stays until N later tickets have begun, where N is the
 *     number of slots.
 *  D. The time at which an operation started or was done is set by the first
 *     thread that sees it, in the next call, in a wait, or in the prober.  So
 *     the operation started or was done at that time or earlier.  Only a wait
 *     that began before the operation ended measures the end itself.  Any other
 *     thread finds an upper bound, and the record is marked accordingly.
 */

#include <stdatomic.h>

#include "base/text.h"
#include "core/op.h"
#include "core/tag.h"

/* Number of words of a record, including its ticket. */
#define RECORD_WORDS 8

struct record_slot {
	/* All atomic.  A writer sets the ticket to 0, writes the words, then
	 * stores the ticket with release; a reader loads the ticket before and
	 * after the words. */
	_Atomic uint64_t ticket;
	_Atomic uint64_t words[RECORD_WORDS - 1];
};

/* Times at which an operation was first seen to have started and to be done. */
struct record_times {
	/* Both members are atomic.  Each has a number that identifies the use
	 * of the slot, and 1 + the time since the call, or 0 if the event was
	 * not seen.  Reset with the lock held; set by the thread that sees the
	 * event. */
	_Atomic uint64_t started;
	_Atomic uint64_t finished; /* may have AT_MOST_BIT, see recorder.c */
};

struct recorder {
	/* Constant after creation. */
	uint64_t mask; /* number of slots - 1; the number is a power of two */
	unsigned bits; /* number of bits of the mask */
	struct record_slot *slots;
	struct record_times *times;

	/* Atomic; total bytes of all operations so far.  Written with the lock
	 * held; relaxed, because it is for diagnostics only.  In a cache line
	 * of its own, apart from what other threads read. */
	_Alignas(64) _Atomic uint64_t bytes;

	/* The caller's tags, and the library's labels.  They are stored apart,
	 * so that labels never overwrite tags.  All members are atomic: see
	 * tag.h. */
	struct tags tags;
	struct tags labels;
};

/* A record as recorder_read() returns it. */
struct record {
	uint64_t ticket;
	uint64_t submitted_ns;
	/* True for a batch of n calls; the members below then describe its
	 * first call. */
	bool is_batch;
	bool from_host;    /* the call had host memory */
	enum op_kind kind; /* OP_BATCH for an empty batch */
	int type;          /* type of the first tensor */
	int redop;         /* see redop_kind() */
	int root;
	size_t n; /* number of tensors, or of calls; at most UINT32_MAX */
	/* Digest of everything that must be equal on all ranks
	 * (agree_digest()), or 0 if the other ranks need not make the same
	 * call. */
	uint32_t digest;
	size_t count; /* elements of the first tensor */
	size_t bytes; /* bytes of all tensors */
	void *stream;
	unsigned tag;   /* number of the caller's tag, see tag.h; 0 if none */
	unsigned label; /* number of the library's label; 0 if none */
	/* True if the call was captured into a CUDA graph and did not run. */
	bool captured;
	/* COHORT_TIMED_OUT while the thread is inside the native call,
	 * COHORT_OK if the operation was queued, otherwise the status of the
	 * failure. */
	int outcome;
	int tid;              /* thread ID of the caller */
	uint64_t started_ns;  /* first seen to have started, or 0 */
	uint64_t finished_ns; /* first seen to be done, or 0 */

	/* True if finished_ns is an upper bound.  No wait measured the end, so
	 * the operation may have ended at any earlier time. */
	bool finished_at_most;
};

int recorder_init(struct recorder *r, unsigned slots);

void recorder_fini(struct recorder *r);

/* Release the memory of the records, which no thread needs again.  All records
 * then read as empty. */
void recorder_forget(struct recorder *r);

/*
 * Begin the record of a call.  Call it with the lock held.
 * @digest: agree_digest() of @op, or 0
 * @tid:    thread ID of the caller
 */
void recorder_begin(struct recorder *r, uint64_t ticket, const struct op *op,
                    uint32_t digest, int tid, uint64_t now_ns);

/* Store the outcome of the call.  Call it with the lock held, or on the library
 * thread that replaces a caller that has timed out. */
void recorder_end(struct recorder *r, uint64_t ticket, int outcome);

/* Mark the record as captured into a CUDA graph.  Call it with the lock
 * held. */
void recorder_set_captured(struct recorder *r, uint64_t ticket);

/*
 * Record @now_ns as the time by which the operation of @ticket has started.
 * May be called from any thread once the record has begun.  Return false if a
 * time was already recorded, or the record was overwritten.
 */
bool recorder_set_started(struct recorder *r, uint64_t ticket, uint64_t now_ns);

/* Like recorder_set_started(), for the time by which the operation was
 * done.  This time is an upper bound. */
bool recorder_set_finished(struct recorder *r, uint64_t ticket,
                           uint64_t now_ns);

/* Like recorder_set_finished(), for a thread that waited until the operation
 * ended.  The time is exact.  If another thread has recorded a time between
 * this thread's last two polls, that time becomes exact, and the function
 * returns false. */
bool recorder_observed_end(struct recorder *r, uint64_t ticket,
                           uint64_t now_ns);

/* Return true if the start of @ticket's operation is recorded, or the record
 * was overwritten. */
bool recorder_has_started(const struct recorder *r, uint64_t ticket);

/* Return true if the end of @ticket's operation is recorded, or the record was
 * overwritten. */
bool recorder_has_finished(const struct recorder *r, uint64_t ticket);

/* Read the record of @ticket.  May be called from any thread.  Return false if
 * there is no record, or it was overwritten. */
bool recorder_read(const struct recorder *r, uint64_t ticket,
                   struct record *out);

/* Append the call in words: "all_reduce of 1000 float32, sum". */
void record_add(struct text *t, const struct record *r);

const char *record_name(const struct record *r);

const char *record_native_name(const struct record *r);

/* Return the stream of a ticket's operation, or NULL if its record was
 * overwritten. */
void *recorder_stream(const struct recorder *r, uint64_t ticket);

#endif
