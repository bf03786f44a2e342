/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_NVIDIA_KERNEL_TASK_H
#define SIM_NVIDIA_KERNEL_TASK_H

/*
 * Tasks: what one rank does on one channel of one collective, or one way of a message
 *
 * A task is a sequence of operations.  Each one receives a chunk from a peer, sends one,
 * or both, and reads and writes the rank's own buffers meanwhile.  A task never blocks:
 * task_step() does what can be done now.
 *
 *	CONNECT -> OPERATE -> LEAVE -> DONE
 *	   |          |         |
 *	   |          |         +-- until a peer has read what it reads by itself
 *	   |          +------------ until the peers have written, or have room
 *	   +----------------------- until the peers have said where their buffers are
 *
 * Once a task is aborted it waits for nothing more, moves no data, and counts its steps
 * to the end.
 *
 * How a step's data goes to the peer is a matter of the protocol:
 *
 *  Simple      an operation has one or two slices; counters say what is written and
 *              read (simple.c).
 *  LL, LL128   lines of 16 or 128 bytes, which hold data and the number of the step
 *              (lines.c); counters say what is read.
 */

#include "sim/nvidia/kernel/combine.h"
#include "sim/nvidia/kernel/nccl_version.h"

enum buffer { NOWHERE, INPUT, OUTPUT };

/* Receive from every peer that the task has, combine that with @from, send the
 * result to every peer, and write it to @to. */
struct operation_step {
	bool recv, send;
	enum buffer from, to;
	char *input, *output; /* the task's, unless the program sets others */
	bool last;            /* the result is complete */

	/* In elements: where in @from and @to, and where in a peer's buffer
	 * that is read, or written to, without a step between. */
	size_t from_at, to_at;
	bool direct_recv, direct_send;

	size_t count;
};

/* How an end's data comes or goes. */
enum way {
	BY_STEPS,
	BY_WRITING, /* the sender writes to the receiver's buffer */
	BY_READING, /* the receiver reads from the sender's buffer */
};

/* One end of a connection, in a task. */
struct end {
	struct connection c;
	int rank; /* the peer */
	uint64_t step;
	enum way way;
	bool exchanged;
	/* The buffer, unless by steps; of NULL nothing is moved. */
	char *memory;
};

/* What the operations of a task are made from; all counts in elements. */
struct plan {
	const struct ring *ring;
	int rank, ranks, root;
	size_t total; /* of a rank, on all channels; of broadcasts, turns */
	size_t begin; /* of this channel */
	size_t count; /* on this channel, or of the message */
	size_t chunk;
};

enum phase { CONNECT, OPERATE, LEAVE, DONE };

struct task;

/* The operation number @n, from 0; false if there is none. */
typedef bool task_program(const struct task *t, uint64_t n,
                          struct operation_step *out);

struct task {
	const struct kernel_comm *comm;
	enum protocol protocol;
	struct combine combine;
	char *input, *output;

	/* For the protocol Simple. */
	int slices, slice_steps;
	size_t step_count; /* elements in a step */

	/* For registered buffers. */
	bool registered, is_message;
	const struct coll_work *coll;

	const struct broadcast_work *broadcasts;
	int broadcast_count;

	task_program *program;
	struct plan plan;

	int recvs, sends;
	struct end recv[MAX_CHILDREN], send[MAX_CHILDREN];

	enum phase phase;
	bool aborted;

	/* The operation that is under way, and how much of it is done. */
	uint64_t number;
	bool begun;
	struct operation_step op;
	int slice;
	size_t done;
};

/*
 * Read the connections to the peers.  The task has everything but its ends; -1
 * ends a list of peers, and NULL is an empty one.
 */
void task_connect(struct task *t, const struct layout *layout,
                  const struct channel *channel, const int *recv, int max_recv,
                  const int *send, int max_send, int index);

/* Do what can be done: false if that was nothing. */
bool task_step(struct task *t);

/* From now on wait for nothing. */
static inline void task_abort(struct task *t)
{
	t->aborted = true;
}

/* In simple.c and lines.c: go on with the operation.  False if it waits;
 * *@finished if it has ended. */
bool simple_step(struct task *t, bool *finished);
bool lines_step(struct task *t, bool *finished);

/* ---- counters: what both ends of a connection read and write ------------- */

/* Acquire: what the peer did before. */
static inline uint64_t counter_load(const uint64_t *counter)
{
	return __atomic_load_n(counter, __ATOMIC_ACQUIRE);
}

/* Release: what this rank did before, for the peer's acquire. */
static inline void counter_store(uint64_t *counter, uint64_t value)
{
	__atomic_store_n(counter, value, __ATOMIC_RELEASE);
}

/* The slot of the step, or NULL. */
static inline char *end_slot(const struct end *e)
{
	return e->c.slots ? e->c.slots + e->step % STEPS * e->c.slot->bytes
	                  : NULL;
}

/* The thread that serves the network reads the size once the counter, or a
 * line's flag, says that there is data. */
static inline void end_announce(const struct end *e, size_t bytes)
{
	char *slot = end_slot(e);

	if (slot)
		__atomic_store_n((int64_t *)(void *)(slot + e->c.slot->size),
		                 (int64_t)bytes, __ATOMIC_RELEASE);
}

/* Whether there is room for @steps more. */
static inline bool end_has_room(const struct end *e, uint64_t steps)
{
	return counter_load(e->c.head) + STEPS >= e->step + steps;
}

/* Where an own buffer's element is. */
static inline char *task_at(const struct task *t, enum buffer buffer, size_t at)
{
	char *memory = buffer == INPUT ? t->op.input : t->op.output;

	return memory + at * t->combine.size;
}

#endif
