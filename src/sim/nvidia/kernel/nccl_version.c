/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The layouts of NCCL's structures, for the nvidia-nccl-cu13 wheels (CUDA 13)
 *
 * The layouts of 2.28.9 come from NVIDIA's published code and from the
 * library's debug information.  The code of the other versions is not
 * published, so their layouts come from the debug information alone.
 */

#include "sim/nvidia/kernel/nccl_version.h"

/* Layouts that all versions share. */
#define ARGUMENTS                                                              \
	{                                                                      \
		.bytes = 32, .comm = 0, .channels = 8, .storage = 16,          \
		.mask = 20, .works = 24,                                       \
	}
#define P2P                                                                    \
	{                                                                      \
		.send = 0, .recv = 8, .send_bytes = 16, .recv_bytes = 24,      \
		.send_rank = 32, .recv_rank = 36, .channels = 40,              \
		.first_channel = 41, .send_parts = 42, .recv_parts = 43,       \
		.send_chunk = 44, .recv_chunk = 45, .send_ll = BITS(46, 0, 1), \
		.recv_ll = BITS(46, 1, 1),                                     \
		.send_net_registered = BITS(46, 2, 1),                         \
		.recv_net_registered = BITS(46, 3, 1),                         \
		.send_registered = BITS(46, 4, 1),                             \
		.recv_registered = BITS(46, 5, 1), .profiled = BITS(46, 6, 1), \
	}
#define BROADCAST_WORK                                                         \
	{                                                                      \
		.depth = 0, .chunk = 4, .send = 8, .recv = 16, .bytes = 24,    \
		.begin = 32,                                                   \
	}

/* Layouts that differ between versions only in the arguments of these
 * macros. */
#define COMM(no_local_ranks_, all_nvlink_)                                     \
	{                                                                      \
		.rank = 0, .ranks = 4, .buffer_bytes = 16,                     \
		.p2p_chunk_bytes = 28, .no_local_ranks = no_local_ranks_,      \
		.all_nvlink = all_nvlink_, .abort_flag = 48, .channels = 56,   \
		.local_ranks = 64, .started = 72, .completed = 80,             \
	}
#define CHANNEL(index_)                                                        \
	{                                                                      \
		.bytes = 368, .peers = 0, .prev = 8, .next = 12, .order = 16,  \
		.index = index_, .up = (index_) + 12, .down = (index_) + 16,   \
		.work_count = (index_) + 328,                                  \
	}
#define CONNECTION(scalar_exchange_)                                           \
	{                                                                      \
		.bytes = 152, .buffers = 0, .tail = 48, .head = 56,            \
		.flags = 64, .step_bytes = 72, .pointer_exchange = 80,         \
		.scalar_exchange = scalar_exchange_, .slots = 96, .step = 104, \
	}
#define SHORT_SLOT                                                             \
	{                                                                      \
		.bytes = 24, .mode = 0, .offset = 4, .size = 8                 \
	}
#define LONG_SLOT                                                              \
	{                                                                      \
		.bytes = 32, .mode = 0, .offset = 8, .size = 16,               \
		.long_offset = true                                            \
	}
#define BATCH(function_bits)                                                   \
	{                                                                      \
		.bytes = 16, .jump = BITS(0, 0, 14),                           \
		.extends = BITS(0, 14, 1), .type = BITS(0, 15, 2),             \
		.function = BITS(0, 17, function_bits), .offset = 4,           \
		.works = 8,                                                    \
	}
#define WORK_BYTES(coll, broadcast)                                            \
	{                                                                      \
		[WORK_P2P] = 48, [WORK_COLL] = coll,                           \
		[WORK_COLL_REG] = (coll) + 192, [WORK_BROADCAST] = broadcast,  \
	}
/* @recv_ is the offset of the buffers, and @send_offset_ is the offset of the
 * members after the buffers. */
#define COLL(recv_, send_offset_)                                              \
	{                                                                      \
		.channel_low = BITS(0, 0, 8), .channel_high = BITS(0, 8, 8),   \
		.scalar_is_pointer = BITS(0, 24, 1),                           \
		.registered = BITS(0, 25, 1),                                  \
		.net_registered = BITS(0, 26, 1), .direct = BITS(0, 28, 2),    \
		.profiled = BITS(0, 31, 1), .root = 4, .recv = recv_,          \
		.send = (recv_) + 8, .send_offset = send_offset_,              \
		.recv_offset = (send_offset_) + 8,                             \
		.send_remote = (send_offset_) + 16,                            \
		.recv_remote = (send_offset_) + 24,                            \
		.count = (send_offset_) + 32,                                  \
		.chunk_grains = { BITS((send_offset_) + 56, 0, 21),            \
			          BITS((send_offset_) + 56, 21, 21),           \
			          BITS((send_offset_) + 56, 42, 21) },         \
		.scalar = (send_offset_) + 64,                                 \
	}

#define VERSION(major, minor, patch)                                           \
	.number = (major)*10000 + (minor)*100 + (patch),                       \
	.text = #major "." #minor "." #patch

#define COMMON_LAYOUT                                                          \
	.arguments = ARGUMENTS, .p2p = P2P, .broadcast = BROADCAST_WORK

static const struct nccl_version versions[] = {
	{
		VERSION(2, 28, 9),
		.table_bytes = { 7988, 5368, 320 },
		.layout = {
			COMMON_LAYOUT,
			.comm = COMM(NO_FIELD, 32),
			.channel = CHANNEL(24),
			.connection = CONNECTION(88),
			.slot = SHORT_SLOT,
			.batch = BATCH(15),
			.work_bytes = WORK_BYTES(96, 0),
			.coll = COLL(8, 24),
		},
	},
	{
		VERSION(2, 31, 2),
		.table_bytes = { 8000, 5392, 328 },
		.layout = {
			COMMON_LAYOUT,
			.comm = COMM(32, 36),
			.channel = CHANNEL(32),
			.connection = CONNECTION(NO_FIELD),
			.slot = LONG_SLOT,
			.batch = BATCH(15),
			.work_bytes = WORK_BYTES(128, 48),
			.coll = COLL(24, 48),
		},
	},
	{
		VERSION(2, 32, 3),
		.table_bytes = { 8000, 5392, 328 },
		.layout = {
			COMMON_LAYOUT,
			.comm = COMM(32, 36),
			.channel = CHANNEL(32),
			.connection = CONNECTION(NO_FIELD),
			.slot = LONG_SLOT,
			.batch = BATCH(11),
			.work_bytes = WORK_BYTES(96, 48),
			.coll = COLL(8, 24),
		},
	},
};

const struct nccl_version *version_find(int number)
{
	for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]); i++)
		if (versions[i].number == number)
			return &versions[i];
	return NULL;
}

const char *version_list(void)
{
#define TEXT(number, major, minor, patch) " " #major "." #minor "." #patch
	return &KNOWN_NCCL(TEXT)[1];
#undef TEXT
}
