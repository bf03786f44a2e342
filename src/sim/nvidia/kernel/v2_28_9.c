/* SPDX-License-Identifier: Apache-2.0 */

/*
 * NCCL 2.28.9 for CUDA 13, as in the wheel nvidia-nccl-cu13
 *
 * The facts are those of its published sources, and of the library's debug information.
 * The sizes of its tables are checked when a library is opened.
 */

#include "sim/nvidia/kernel/version.h"

const struct nccl_version version_2_28_9 = {
	.number = 22809,
	.text = "2.28.9",
	.runtime = "libcudart.so.13",
	/* Which functions and kernels there are. */
	.tables = {
		{ "ncclDevFuncRowToId", 7988 },
		{ "ncclDevKernelForFunc", 5368 }, { "ncclDevKernelList", 320 },
		{ NULL, 0 },
	},
	.layout = {
		.arguments = {
			.bytes = 32, .comm = 0, .channels = 8, .storage = 16,
			.mask = 20, .works = 24,
		},
		.comm = {
			.rank = 0, .ranks = 4, .buffer_bytes = 16,
			.p2p_chunk_bytes = 28, .no_local_ranks = NO_FIELD,
			.all_nvlink = 32, .abort_flag = 48, .channels = 56,
			.local_ranks = 64, .started = 72, .completed = 80,
		},
		.channel = {
			.bytes = 368, .peers = 0, .prev = 8, .next = 12,
			.order = 16, .index = 24, .up = 36, .down = 40,
			.work_count = 352,
		},
		.connection = {
			.bytes = 152, .buffers = 0, .tail = 48, .head = 56,
			.flags = 64, .step_bytes = 72, .pointer_exchange = 80,
			.scalar_exchange = 88, .slots = 96, .step = 104,
		},
		.slot = { .bytes = 24, .mode = 0, .offset = 4, .size = 8 },
		.batch = {
			.bytes = 16, .jump = BITS(0, 0, 14),
			.extends = BITS(0, 14, 1), .type = BITS(0, 15, 2),
			.function = BITS(0, 17, 15), .offset = 4, .works = 8,
		},
		.work_bytes = {
			[WORK_P2P] = 48, [WORK_COLL] = 96,
			[WORK_COLL_REG] = 288,
		},
		.coll = {
			.channel_low = BITS(0, 0, 8),
			.channel_high = BITS(0, 8, 8),
			.scalar_is_pointer = BITS(0, 24, 1),
			.registered = BITS(0, 25, 1),
			.net_registered = BITS(0, 26, 1),
			.direct = BITS(0, 28, 2), .profiled = BITS(0, 31, 1),
			.root = 4, .recv = 8, .send = 16, .send_offset = 24,
			.recv_offset = 32, .send_remote = 40, .recv_remote = 48,
			.count = 56,
			.chunk_grains = { BITS(80, 0, 21), BITS(80, 21, 21),
			                  BITS(80, 42, 21) },
			.scalar = 88,
		},
		.p2p = {
			.send = 0, .recv = 8, .send_bytes = 16,
			.recv_bytes = 24, .send_rank = 32, .recv_rank = 36,
			.channels = 40, .first_channel = 41, .send_parts = 42,
			.recv_parts = 43, .send_chunk = 44, .recv_chunk = 45,
			.send_ll = BITS(46, 0, 1), .recv_ll = BITS(46, 1, 1),
			.send_net_registered = BITS(46, 2, 1),
			.recv_net_registered = BITS(46, 3, 1),
			.send_registered = BITS(46, 4, 1),
			.recv_registered = BITS(46, 5, 1),
			.profiled = BITS(46, 6, 1),
		},
	},
};
