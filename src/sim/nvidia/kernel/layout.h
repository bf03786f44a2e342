/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_NVIDIA_KERNEL_LAYOUT_H
#define SIM_NVIDIA_KERNEL_LAYOUT_H

/*
 * What NCCL hands to its kernels, in a form that does not depend on NCCL's
 * version
 *
 * The functions of layout_read.h fill in the structures here, by a table of
 * where NCCL has what (nccl_version.h).  What a kernel changes while it runs is
 * reached through pointers into NCCL's own memory.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How many steps' data a connection's buffer holds. */
#define STEPS 8

#define MAX_CHANNELS 64
#define MAX_CHILDREN 3

/* The values of these are NCCL's. */

enum collective {
	BROADCAST,
	REDUCE,
	ALL_GATHER,
	REDUCE_SCATTER,
	ALL_REDUCE,
	SEND_RECV,
	BROADCASTS = 11, /* several at once, each from its own root */
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

/* What a batch of works does. */
struct function {
	enum collective collective;
	enum operation operation;
	int type; /* ncclDataType_t */
	enum algorithm algorithm;
	enum protocol protocol;
};

/* The arguments of a launch. */
struct arguments {
	const void *comm;
	uint64_t channels;   /* one bit each */
	const char *batches; /* the n-th block's first is the n-th */
	const char *end;     /* of the arguments, set by the caller */
	const char *works; /* a work's offset, and'ed with mask, begins here */
	uint32_t mask;
};

/* A communicator, as its kernels see it. */
struct kernel_comm {
	int rank, ranks;
	int buffer_bytes[PROTOCOLS];
	int p2p_chunk_bytes;
	bool all_nvlink;
	const uint32_t *abort_flag;
	const int *local_ranks; /* by rank; NULL: each rank is its own */

	/* Atomic, of the profiler; of all channels. */
	void *started, *completed;
};

struct ring {
	int prev, next;
	int index;
	const int *ranks; /* in the ring's order, from this rank */
};

/* -1: there is none.  The children come first. */
struct tree {
	int up;
	int down[MAX_CHILDREN];
};

struct channel {
	int id;
	void *const *peers; /* by rank */
	struct ring ring;
	struct tree tree;
	uint64_t *work_count; /* of all works so far */
};

/* A connection's flags. */
#define CONNECTION_P2P_WRITE 0x01
#define CONNECTION_P2P_READ 0x02
#define CONNECTION_DIRECT_NIC 0x04
#define CONNECTION_MULTICAST 0x80

/*
 * A ring of slots, one for each step: what a kernel and the thread that serves
 * a network tell each other.  The offset, if that is the mode, is of the step's
 * data in the buffer; the size is -1 while the data is on its way.
 */
struct slot_layout {
	uint16_t bytes, mode, offset, size;
	bool long_offset; /* of 64 bits */
};

#define SLOT_MODE_OFFSET 1

/* One end of a connection. */
struct connection {
	char *buffers[PROTOCOLS];
	/* Atomic; steps that the sender has written, and that the receiver has
	 * read. */
	uint64_t *tail, *head;
	int flags;
	int step_bytes; /* of a step in the buffer of Simple */
	/* Atomic; where one end tells the other the address of a registered
	 * buffer, and the scalar of its operation. */
	void **pointer_exchange;
	uint64_t *scalar_exchange;
	char *slots; /* NULL: no network */
	const struct slot_layout *slot;
	uint64_t *step; /* where the last kernel has ended */
};

enum work_type {
	WORK_P2P,
	WORK_COLL,
	WORK_COLL_REG,
	WORK_BROADCAST,
	WORK_TYPES,
};

struct batch {
	unsigned jump; /* to the next one; 0: this is the last */
	bool extends;  /* the next one belongs to this one */
	enum work_type type;
	unsigned function;
	uint32_t offset; /* of the first work */
	uint64_t works;  /* one bit each, from there on */
};

struct coll_work {
	int channel_low, channel_high;
	bool scalar_is_pointer;
	bool registered; /* buffers for peers' direct access */
	bool net_registered;
	int direct; /* CONNECTION_P2P_...: how */
	int root;
	char *send, *recv;
	uint64_t scalar;
	/* For registered buffers: where each peer sees this rank's buffer, by
	 * local rank. */
	uintptr_t send_offset, recv_offset;
	const uintptr_t *send_remote, *recv_remote;
	/* Elements on the lowest channel, each in between, and the highest one,
	 * and how many grains one chunk has. */
	size_t count[3];
	size_t chunk_grains[3];
};

struct p2p_work {
	char *send, *recv;
	size_t send_bytes, recv_bytes;
	int send_rank, recv_rank;
	/* How many channels there are, the one with the first part, and how
	 * many parts. */
	int channels, first_channel;
	int send_parts, recv_parts;
	size_t send_chunk, recv_chunk;
	bool send_ll, recv_ll;
	bool send_registered, recv_registered;
	bool net_registered;
};

/* One of several broadcasts. */
struct broadcast_work {
	/* How many ranks are between the root and this one, in the ring. */
	int depth;
	size_t chunk, bytes, begin;
	char *send, *recv;
};

#endif
