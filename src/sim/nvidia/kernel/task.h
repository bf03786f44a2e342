/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_NVIDIA_KERNEL_TASK_H
#define SIM_NVIDIA_KERNEL_TASK_H

/*
 * Tasks: the work of one rank on one channel, for one collective or for one
 * direction of a message
 *
 * A task is a sequence of operations.  An operation receives a chunk from the
 * peers, sends a chunk, or both, and reads and writes the rank's own buffers.
 * A task never blocks: task_step() does as much as possible without waiting.
 *
 *     CONNECT   until the peers have published their buffers
 *        |
 *        v
 *     OPERATE   each operation waits for data, or for room at the peers
 *        |
 *        v
 *     LEAVE     until a peer that reads this rank's buffer is done
 *        |
 *        v
 *     DONE
 *
 * An aborted task stops waiting, moves no data, and only counts its steps to
 * the end.
 *
 * The protocol determines how the data of a step reaches the peer:
 *
 *   Simple      an operation has one or two slices; counters show what has been
 *               written and read (simple.c)
 *   LL, LL128   lines of 16 or 128 bytes contain the data and the number of the
 *               step (lines.c); counters show what has been read
 */

#include "sim/nvidia/kernel/combine.h"
#include "sim/nvidia/kernel/nccl_version.h"

enum buffer { NOWHERE, INPUT, OUTPUT };

/* One operation: receive from all peers of the task, combine the received data
 * with @from, send the result to all peers, and write it to @to. */
struct operation_step {
	bool recv, send;
	enum buffer from, to;
	/* The task's buffers, unless the task's program sets others. */
	char *input, *output;
	bool last; /* true if the result is complete */

	/* Offsets in @from and @to, in elements.  They also apply to a peer's
	 * buffer that is accessed directly. */
	size_t from_at, to_at;
	bool direct_recv, direct_send;

	size_t count;
};

/* Way in which data moves between the two ends of a connection. */
enum way {
	BY_STEPS,
	BY_WRITING, /* the sender writes to the receiver's buffer */
	BY_READING, /* the receiver reads from the sender's buffer */
};

/* One end of a connection, as used by a task. */
struct end {
	struct connection c;
	int rank; /* rank of the peer */
	uint64_t step;
	enum way way;
	bool exchanged;
	/* The buffer for direct access.  If NULL, no data is moved. */
	char *memory;
};

/* Parameters from which a program derives a task's operations.  Counts are in
 * elements. */
struct plan {
	const struct ring *ring;
	int rank, ranks, root;
	/* Number of elements of one rank on all channels.  For several
	 * broadcasts, the number of chunks of the longest one. */
	size_t total;
	size_t begin; /* number of the first element on this channel */
	/* number of elements on this channel, or in the message */
	size_t count;
	size_t chunk;
};

enum phase { CONNECT, OPERATE, LEAVE, DONE };

struct task;

/* Store in @out operation number @n, counting from 0.  Return false if the task
 * has fewer operations. */
typedef bool task_program(const struct task *t, uint64_t n,
                          struct operation_step *out);

struct task {
	const struct kernel_comm *comm;
	enum protocol protocol;
	struct combine combine;
	char *input, *output;

	/* Used only by protocol Simple. */
	int slices, slice_steps;
	size_t step_count; /* number of elements per step */

	/* Used only with registered buffers. */
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

	/* Number of the next operation to start.  If .begun is true, .op is in
	 * progress, and .slice and .done show how much of it is done. */
	uint64_t number;
	bool begun;
	struct operation_step op;
	int slice;
	size_t done;
};

/*
 * task_connect - read a task's connections to its peers
 * @recv: peers to receive from, ending with -1, or NULL if there are none
 * @send: peers to send to, in the same form
 *
 * All other members of the task must already be set.
 */
void task_connect(struct task *t, const struct layout *layout,
                  const struct channel *channel, const int *recv, int max_recv,
                  const int *send, int max_send, int index);

/* Make as much progress as possible without waiting.  Return false if there was
 * no progress. */
bool task_step(struct task *t);

static inline void task_abort(struct task *t)
{
	t->aborted = true;
}

/* Continue an operation of protocol Simple (simple.c).  Return false if it must
 * wait.  Set *@finished if it is done. */
bool simple_step(struct task *t, bool *finished);

/* Continue an operation of protocol LL or LL128 (lines.c).  Return false if it
 * must wait.  Set *@finished if it is done. */
bool lines_step(struct task *t, bool *finished);

/* ---- counters that both ends of a connection access ------------------- */

/* Load a counter.  The acquire makes everything visible that the peer did
 * before its store. */
static inline uint64_t counter_load(const uint64_t *counter)
{
	return __atomic_load_n(counter, __ATOMIC_ACQUIRE);
}

/* Store a counter.  The release publishes everything that this rank did before.
 * It pairs with the peer's acquire. */
static inline void counter_store(uint64_t *counter, uint64_t value)
{
	__atomic_store_n(counter, value, __ATOMIC_RELEASE);
}

/* Return the slot of the current step, or NULL if there is no network. */
static inline char *end_slot(const struct end *e)
{
	return e->c.slots ? e->c.slots + e->step % STEPS * e->c.slot->bytes
	                  : NULL;
}

/* Store the number of bytes for the thread that serves the network.  The thread
 * reads this number after a counter, or the flag of a line, shows that there is
 * data. */
static inline void end_announce(const struct end *e, size_t bytes)
{
	char *slot = end_slot(e);

	if (slot)
		__atomic_store_n((int64_t *)(void *)(slot + e->c.slot->size),
		                 (int64_t)bytes, __ATOMIC_RELEASE);
}

static inline bool end_has_room(const struct end *e, uint64_t steps)
{
	return counter_load(e->c.head) + STEPS >= e->step + steps;
}

static inline char *task_at(const struct task *t, enum buffer buffer, size_t at)
{
	char *memory = buffer == INPUT ? t->op.input : t->op.output;

	return memory + at * t->combine.size;
}

#endif
