/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_NVIDIA_KERNEL_LAYOUT_H
#define SIM_NVIDIA_KERNEL_LAYOUT_H

/*
 * The data that NCCL passes to its kernels, independent of NCCL's version
 *
 * layout_read.h fills in these structures, using a table of NCCL's own layouts
 * (nccl_version.h).  Data that a kernel changes is accessed through pointers
 * into NCCL's memory.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Number of steps for which a connection's buffer has room. */
#define STEPS 8

#define MAX_CHANNELS 64
#define MAX_CHILDREN 3

/* The enumerations below have the values of NCCL's enumerations. */

enum collective {
	BROADCAST,
	REDUCE,
	ALL_GATHER,
	REDUCE_SCATTER,
	ALL_REDUCE,
	SEND_RECV,
	BROADCASTS = 11, /* concurrent broadcasts with different roots */
};

enum operation {
	OPERATION_SUM,
	OPERATION_PROD,
	OPERATION_MIN_MAX,
	OPERATION_PRE_MUL_SUM,
	OPERATION_SUM_POST_DIV,
};

enum algorithm {
	ALGORITHM_TREE,
	ALGORITHM_RING,
	ALGORITHM_COLLNET_DIRECT,
	ALGORITHM_COLLNET_CHAIN,
	ALGORITHM_NVLS,
	ALGORITHM_NVLS_TREE,
	ALGORITHM_PAT,
};

enum protocol { PROTOCOL_LL, PROTOCOL_LL128, PROTOCOL_SIMPLE, PROTOCOLS };

/* The function that the works of a batch execute. */
struct function {
	enum collective collective;
	enum operation operation;
	int type; /* an ncclDataType_t */
	enum algorithm algorithm;
	enum protocol protocol;
};

/* The arguments of a launch. */
struct arguments {
	const void *comm;
	uint64_t channels;   /* bit set of the launch's channels */
	const char *batches; /* array of batches; block n starts with batch n */
	/* end of the arguments, set by the caller of read_arguments() */
	const char *end;
	/* Work n is at works + (offset & mask). */
	const char *works;
	uint32_t mask;
};

/* A communicator, as seen by its kernels. */
struct kernel_comm {
	int rank, ranks;
	int buffer_bytes[PROTOCOLS];
	int p2p_chunk_bytes;
	bool all_nvlink;
	const uint32_t *abort_flag;
	/* Each rank's number on its machine.  NULL if every number equals the
	 * rank. */
	const int *local_ranks;

	/* The profiler's events of all channels.  Accessed atomically. */
	void *started, *completed;
};

struct ring {
	int prev, next;
	int index;
	const int *ranks; /* ranks in ring order, starting with this rank */
};

/* Neighbors in a tree.  Missing neighbors are -1, and existing children are
 * first in @down. */
struct tree {
	int up;
	int down[MAX_CHILDREN];
};

struct channel {
	int id;
	void *const *peers; /* peers, indexed by rank */
	struct ring ring;
	struct tree tree;
	uint64_t *work_count; /* number of works so far */
};

/* Flags of a connection. */
#define CONNECTION_P2P_WRITE 0x01
#define CONNECTION_P2P_READ 0x02
#define CONNECTION_DIRECT_NIC 0x04
#define CONNECTION_MULTICAST 0x80

/*
 * Layout of a slot, one per step.  A kernel and the thread that serves a
 * network communicate through slots.  If the mode is SLOT_MODE_OFFSET, the
 * step's data is at the slot's offset in the buffer.  The size is -1 until the
 * data is ready.
 */
struct slot_layout {
	uint16_t bytes, mode, offset, size;
	bool long_offset; /* true if the offset is 64 bits wide */
};

#define SLOT_MODE_OFFSET 1

/* One end of a connection. */
struct connection {
	char *buffers[PROTOCOLS];
	/* Number of steps that the sender has written (tail), and number of
	 * steps that the receiver has read (head).  Accessed atomically. */
	uint64_t *tail, *head;
	int flags;
	int step_bytes; /* size of a step of protocol Simple */
	/* Words through which one end passes the address of a registered
	 * buffer, and the scalar of its operation, to the other end.  Accessed
	 * atomically. */
	void **pointer_exchange;
	uint64_t *scalar_exchange;
	char *slots; /* slots of the steps, or NULL if there is no network */
	const struct slot_layout *slot;
	uint64_t *step; /* step from which the next kernel continues */
};

enum work_type {
	WORK_P2P,
	WORK_COLL,
	WORK_COLL_REG,
	WORK_BROADCAST,
	WORK_TYPES,
};

struct batch {
	/* distance to the next batch, in batches, or 0 if this is the last
	 * one */
	unsigned jump;
	bool extends; /* true if the next batch belongs to this batch */
	enum work_type type;
	unsigned function;
	uint32_t offset; /* offset of the first work */
	uint64_t works;  /* bit set of works, starting at offset */
};

struct coll_work {
	int channel_low, channel_high;
	bool scalar_is_pointer;
	bool registered; /* true if peers may access the buffers directly */
	bool net_registered;
	int direct; /* flags CONNECTION_P2P_...: how peers access the buffers */
	int root;
	char *send, *recv;
	uint64_t scalar;
	/* For registered buffers: the offset of each buffer in its registered
	 * memory, and the addresses at which the peers have mapped this memory,
	 * indexed by the peer's rank on this machine. */
	uintptr_t send_offset, recv_offset;
	const uintptr_t *send_remote, *recv_remote;
	/* Number of elements, and number of grains per chunk, each for the
	 * lowest channel, for every channel in between, and for the highest
	 * channel. */
	size_t count[3];
	size_t chunk_grains[3];
};

struct p2p_work {
	char *send, *recv;
	size_t send_bytes, recv_bytes;
	int send_rank, recv_rank;
	/* Number of channels, the channel of the first part, and the number of
	 * parts. */
	int channels, first_channel;
	int send_parts, recv_parts;
	size_t send_chunk, recv_chunk;
	bool send_ll, recv_ll;
	bool send_registered, recv_registered;
	bool net_registered;
};

/* One of several broadcasts that run together. */
struct broadcast_work {
	/* Distance of this rank from the root in the ring. */
	int depth;
	size_t chunk, bytes, begin;
	char *send, *recv;
};

#endif
