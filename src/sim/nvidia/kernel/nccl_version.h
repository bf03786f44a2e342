/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_NVIDIA_KERNEL_NCCL_VERSION_H
#define SIM_NVIDIA_KERNEL_NCCL_VERSION_H

/*
 * Where each known version of NCCL has the fields that its host code fills and
 * its kernels read
 *
 * They are NCCL's own affair, and change from one version to the next.
 * NVIDIA's libraries hold the facts themselves: they have debug information,
 * which scripts/nccl-layout.sh reads (see docs/CONTRIBUTING.md).
 */

#include "sim/nvidia/kernel/layout.h"

/* The known versions by ncclGetVersion()'s number, in their order: X(number,
 * major, minor, patch). */
/* clang-format off */
#define KNOWN_NCCL(X) \
	X(22809, 2, 28, 9) \
	X(23102, 2, 31, 2) \
	X(23203, 2, 32, 3)
/* clang-format on */

/* What a structure does not have. */
#define NO_FIELD UINT16_MAX

/* A field of bits: the first, counted from the structure's begin, and how
 * many. */
struct bits {
	uint16_t first, count;
};

/* The bits from @shift on in the word at @at. */
#define BITS(at, shift, count)                                                 \
	{                                                                      \
		(at) * 8 + (shift), count                                      \
	}

/* All numbers are bytes from the structure's begin.  An array has its first
 * element's. */
struct layout {
	/* The arguments of a launch, which batches follow. */
	struct {
		uint16_t bytes, comm, channels, storage, mask, works;
	} arguments;

	struct {
		uint16_t rank, ranks, buffer_bytes, p2p_chunk_bytes;
		/* A byte: each rank's number among those of its machine is its
		 * rank. */
		uint16_t no_local_ranks;
		uint16_t all_nvlink, abort_flag, channels, local_ranks;
		uint16_t started, completed;
	} comm;

	struct {
		uint16_t bytes, peers;
		uint16_t prev, next, order, index; /* in the ring */
		uint16_t up, down;                 /* in the tree */
		uint16_t work_count;
	} channel;

	/* A peer has two connections to send, and then two to receive. */
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

	uint16_t work_bytes[WORK_TYPES]; /* 0: there is no such work */

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

/* The library's table with an id for each function; and all of its data whose
 * sizes another build would not have. */
#define FUNCTION_TABLE "ncclDevFuncRowToId"
#define NCCL_TABLES                                                            \
	{                                                                      \
		FUNCTION_TABLE, "ncclDevKernelForFunc", "ncclDevKernelList"    \
	}

struct nccl_version {
	int number; /* as ncclGetVersion() gives it */
	const char *text;
	size_t table_bytes[3]; /* of each of NCCL_TABLES */
	struct layout layout;
};

/* NULL: no facts are known of it. */
const struct nccl_version *version_find(int number);

/* The versions that are known, for a text: "2.28.9 2.31.2". */
const char *version_list(void);

#endif
