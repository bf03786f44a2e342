/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_NVIDIA_KERNEL_NCCL_VERSION_H
#define SIM_NVIDIA_KERNEL_NCCL_VERSION_H

/*
 * Lists, for each known version of NCCL, the offsets of the fields that NCCL's
 * host code writes and its kernels read
 *
 * These layouts are internal to NCCL and change between versions.
 * scripts/nccl-layout.sh extracts them from the debug information in NVIDIA's
 * libraries (see CONTRIBUTING.md).
 */

#include "sim/nvidia/kernel/layout.h"

/* Known versions in ascending order: X(number from ncclGetVersion(), major,
 * minor, patch). */
/* clang-format off */
#define KNOWN_NCCL(X) \
	X(22809, 2, 28, 9) \
	X(23102, 2, 31, 2) \
	X(23203, 2, 32, 3)
/* clang-format on */

/* Value of an offset if the structure does not have the field. */
#define NO_FIELD UINT16_MAX

/* A bit field: its first bit, counted from the start of the structure, and its
 * width. */
struct bits {
	uint16_t first, count;
};

/* A bit field that starts at bit @shift of the word at byte @at. */
#define BITS(at, shift, count)                                                 \
	{                                                                      \
		(at) * 8 + (shift), count                                      \
	}

/* Offsets in bytes from the start of each structure.  The offset of an array is
 * the offset of its first element. */
struct layout {
	/* The arguments of a launch, which are followed by batches. */
	struct {
		uint16_t bytes, comm, channels, storage, mask, works;
	} arguments;

	struct {
		uint16_t rank, ranks, buffer_bytes, p2p_chunk_bytes;
		/* A byte that is nonzero if each rank's number on its machine
		 * equals the rank. */
		uint16_t no_local_ranks;
		uint16_t all_nvlink, abort_flag, channels, local_ranks;
		uint16_t started, completed;
	} comm;

	struct {
		uint16_t bytes, peers;
		uint16_t prev, next, order, index; /* fields of the ring */
		uint16_t up, down;                 /* fields of the tree */
		uint16_t work_count;
	} channel;

	/* A peer has two connections for sending, followed by two for
	 * receiving. */
	struct {
		uint16_t bytes, buffers, tail, head, flags, step_bytes;
		uint16_t pointer_exchange, scalar_exchange, slots, step;
	} connection;
	struct slot_layout slot;

	struct {
		uint16_t bytes;
		struct bits jump, extends, type, function;
		uint16_t offset, works;
	} batch;

	/* size of each type of work; 0 if the type does not exist */
	uint16_t work_bytes[WORK_TYPES];

	struct {
		struct bits channel_low, channel_high;
		struct bits scalar_is_pointer, registered, net_registered;
		struct bits direct, profiled;
		uint16_t root, recv, send;
		uint16_t send_offset, recv_offset, send_remote, recv_remote;
		uint16_t count;
		struct bits chunk_grains[3];
		uint16_t scalar;
	} coll;

	struct {
		uint16_t send, recv, send_bytes, recv_bytes;
		uint16_t send_rank, recv_rank;
		uint16_t channels, first_channel, send_parts, recv_parts;
		uint16_t send_chunk, recv_chunk;
		struct bits send_ll, recv_ll;
		struct bits send_net_registered, recv_net_registered;
		struct bits send_registered, recv_registered;
		struct bits profiled;
	} p2p;

	struct {
		uint16_t depth, chunk, send, recv, bytes, begin;
	} broadcast;
};

/* Names of NCCL's table of function ids, and of all tables whose sizes identify
 * a build of NCCL. */
#define FUNCTION_TABLE "ncclDevFuncRowToId"
#define NCCL_TABLES                                                            \
	{                                                                      \
		FUNCTION_TABLE, "ncclDevKernelForFunc", "ncclDevKernelList"    \
	}

struct nccl_version {
	int number; /* number from ncclGetVersion() */
	const char *text;
	/* sizes of the tables, in the order of NCCL_TABLES */
	size_t table_bytes[3];
	struct layout layout;
};

/* Return the layouts of version @number, or NULL if it is unknown. */
const struct nccl_version *version_find(int number);

/* Return the known versions as a text, such as "2.28.9 2.31.2". */
const char *version_list(void);

#endif
