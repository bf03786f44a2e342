/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_NCCL_SEGMENT_H
#define SIM_NCCL_SEGMENT_H

/*
 * Memory shared by the processes of a communicator and of all communicators
 * created from it
 *
 * The segment has no name in the file system.  The process that created the
 * unique id creates the segment and passes its descriptor over a socket
 * (root.h).  So the segment disappears with the last process that uses it.  The
 * segment is divided into areas, one per communicator.
 */

#include <sched.h>

#include "sim/cuda/arena.h"
#include "sim/exec/span.h"

/* Maximum number of processes.  All of their descriptors must fit into one
 * message. */
#define SEGMENT_PROCESSES 120

/* Description of a process for the other processes of a segment. */
struct segment_process {
	uint64_t number; /* number from process_number() */
	uintptr_t start; /* address of the process's memory */
	size_t bytes;
	cpu_set_t cpus; /* CPUs that the process may run on */
};

/* The descriptors that a process shares: its memory, and a pipe that hangs up
 * when the process ends. */
enum { SEGMENT_MEMORY, SEGMENT_LIFE, SEGMENT_FDS };

/*
 * A rank's message to the ranks with which it creates a communicator or a
 * window
 *
 * It is stored in the communicator's area; spans.c describes the protocol.
 * Only the rank itself writes to its card, except for @votes.
 */
struct card {
	/* Atomic; number of meetings that the rank has entered, and its
	 * progress in the latest one.  Stored with release, which publishes the
	 * members below. */
	_Alignas(CACHE_LINE) _Atomic uint64_t state;

	uint64_t what;  /* hash of the parameters of the rank's request */
	int color, key; /* color and key, as in struct join */
	bool is_in;     /* true if the rank will be in a child */
	/* area of the rank's child, if the rank is the child's first rank */
	uint64_t child;

	/* Atomic; votes of the meeting, if this rank is the meeting's first
	 * rank.  Written by all ranks of the meeting.  The word contains a hash
	 * that identifies the meeting, the number of ranks that have agreed,
	 * and whether a rank has left. */
	_Atomic uint64_t votes;
};

/* A segment as mapped by this process.  Constant after creation. */
struct segment {
	struct segment *next;
	uint64_t id;
	int users; /* guarded by segment.c's lock */
	struct segment_head *head;
	int processes;
	int cores; /* number of CPUs that at least one process may run on */
	struct span_window windows[SEGMENT_PROCESSES];
	/* the other processes, indexed by process; NULL for this process */
	struct peer *peers[SEGMENT_PROCESSES];
};

/* Describe this process to the other processes.  Returns false if other
 * processes cannot map its memory or if out of descriptors. */
bool segment_describe_self(struct segment_process *out, int fds[SEGMENT_FDS]);

/* Create a segment for @n processes and store its id.  Return its descriptor,
 * or -1 if out of memory. */
int segment_make(const struct segment_process *of, int n, uint64_t *id_out);

/*
 * segment_get - map a segment, or acquire a reference to it
 * @fd:  the segment's descriptor
 * @fds: descriptors of its processes, SEGMENT_FDS each, in the segment's order
 *
 * The caller keeps ownership of all descriptors.  Returns NULL if out of
 * memory.
 */
struct segment *segment_get(uint64_t id, int fd, const int *fds);

void segment_put(struct segment *segment);

void segment_retain(struct segment *segment);

int segment_self(const struct segment *segment);

/* Allocate an area for a communicator of @n ranks and return its offset, or 0
 * if the segment is full.  The area is zeroed except for its members @n and
 * @is_crowded. */
uint64_t segment_area(const struct segment *segment, int n);

void segment_free_area(const struct segment *segment, uint64_t offset);

struct span_shared *segment_at(const struct segment *segment, uint64_t offset);

struct card *segment_cards(struct span_shared *shared);

#endif
