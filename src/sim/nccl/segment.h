/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_NCCL_SEGMENT_H
#define SIM_NCCL_SEGMENT_H

/*
 * Memory that the processes of a communicator, and of those made of it, share
 *
 * It has no name in the file system: the process that made the unique id makes
 * it, and hands it over by a socket (root.h).  So it goes with the last process
 * that has it.  In it are areas, one for each communicator.
 */

#include <sched.h>

#include "sim/cuda/arena.h"
#include "sim/exec/span.h"

/* The most processes: their descriptors go into one message. */
#define SEGMENT_PROCESSES 120

/* A process, as it introduces itself. */
struct segment_process {
	uint64_t number; /* see process_number() */
	uintptr_t start; /* of its memory */
	size_t bytes;
	cpu_set_t cpus; /* that it may run on */
};

/* What a process hands over: its memory, and what hangs up when it ends. */
enum { SEGMENT_MEMORY, SEGMENT_LIFE, SEGMENT_FDS };

/*
 * What a rank tells those that it makes a communicator or a window with, next
 * to its struct span_shared (spans.c has the protocol)
 *
 * Written by the rank, but for votes.
 */
struct card {
	/* Atomic; how often it has come to a meeting, and how far it is with
	 * that.  Release: what follows. */
	_Alignas(CACHE_LINE) _Atomic uint64_t state;

	uint64_t what;  /* a hash of what it came for */
	int color, key; /* as in struct join */
	bool is_in;     /* it is to be in a child */
	uint64_t child; /* the area, if this is the child's first rank */

	/* Atomic; written by all of a meeting whose first rank this is: which
	 * one, how many have agreed to go on, and whether one has left. */
	_Atomic uint64_t votes;
};

/* A segment as this process has it.  Constant once made. */
struct segment {
	struct segment *next;
	uint64_t id;
	int users; /* guarded by the lock of all segments */
	struct segment_head *head;
	int processes;
	int cores; /* that some process may run on */
	struct span_window windows[SEGMENT_PROCESSES];
	struct peer *peers[SEGMENT_PROCESSES]; /* NULL: this process */
};

/* This process; false without memory that others can map, or descriptors. */
bool segment_introduce(struct segment_process *out, int fds[SEGMENT_FDS]);

/* A new segment for @n processes, by its descriptor; -1 without memory.  Stores
 * its id. */
int segment_make(const struct segment_process *of, int n, uint64_t *id_out);

/*
 * Use the segment @id, whose descriptor is @fd, and whose processes have handed
 * over @fds, SEGMENT_FDS for each in its order.  The descriptors stay the
 * caller's.  NULL without memory.  segment_put(): a use less.
 */
struct segment *segment_get(uint64_t id, int fd, const int *fds);
void segment_put(struct segment *segment);

/* One use more. */
void segment_hold(struct segment *segment);

/* The index of this process among those of the segment. */
int segment_self(const struct segment *segment);

/* An area for a communicator of @n ranks, all 0 but for n, by its offset; 0:
 * there is no room.  And give it back. */
uint64_t segment_area(const struct segment *segment, int n);
void segment_free_area(const struct segment *segment, uint64_t offset);

/* Where an area is in this process, and the cards in it, by rank. */
struct span_shared *segment_at(const struct segment *segment, uint64_t offset);
struct card *segment_cards(struct span_shared *shared);

#endif
