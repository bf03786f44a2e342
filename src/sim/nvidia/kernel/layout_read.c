/* SPDX-License-Identifier: Apache-2.0 */

/* Reads NCCL's structures (see layout_read.h) */

#include "sim/nvidia/kernel/layout_read.h"

#include <string.h>

#include "base/clock.h"
#include "base/util.h"

/* ---- fields ------------------------------------------------------------ */

static const char *field_at(const void *from, size_t bytes)
{
	return (const char *)from + bytes;
}

static int get_int(const void *from, uint16_t field)
{
	int value;

	memcpy(&value, field_at(from, field), sizeof(value));
	return value;
}

static uint64_t get_word(const void *from, uint16_t field)
{
	uint64_t value;

	memcpy(&value, field_at(from, field), sizeof(value));
	return value;
}

/* Read a pointer, or return NULL if the structure has no such field. */
static void *get_pointer(const void *from, uint16_t field)
{
	void *value = NULL;

	if (field != NO_FIELD)
		memcpy(&value, field_at(from, field), sizeof(value));
	return value;
}

static uint8_t get_byte(const void *from, uint16_t field)
{
	return (uint8_t)*field_at(from, field);
}

static uint64_t get_bits(const void *from, struct bits b)
{
	const unsigned last = b.first + b.count - 1u;
	uint64_t value = 0;

	for (unsigned i = last / 8 + 1; i-- > b.first / 8u;)
		value = value << 8 | get_byte(from, (uint16_t)i);
	return value >> b.first % 8 & ((UINT64_C(1) << b.count) - 1);
}

/* ---- functions --------------------------------------------------------- */

/*
 * Order of the rows in NCCL's table of functions.  The first row is for send
 * and receive.  The other rows are ordered by collective, then by operation and
 * type (if the collective reduces), then by algorithm, then by protocol.
 */
static const struct group {
	enum collective collective;
	bool reduces;
	int algorithms;
	enum algorithm algorithm[6];
} groups[] = {
	{ ALL_GATHER,
	  false,
	  4,
	  { ALGORITHM_RING, ALGORITHM_COLLNET_DIRECT, ALGORITHM_NVLS,
	    ALGORITHM_PAT } },
	{ BROADCAST, false, 1, { ALGORITHM_RING } },
	{ BROADCASTS, false, 1, { ALGORITHM_RING } },
	{ ALL_REDUCE,
	  true,
	  6,
	  { ALGORITHM_TREE, ALGORITHM_RING, ALGORITHM_COLLNET_DIRECT,
	    ALGORITHM_COLLNET_CHAIN, ALGORITHM_NVLS, ALGORITHM_NVLS_TREE } },
	{ REDUCE, true, 1, { ALGORITHM_RING } },
	{ REDUCE_SCATTER,
	  true,
	  4,
	  { ALGORITHM_RING, ALGORITHM_COLLNET_DIRECT, ALGORITHM_NVLS,
	    ALGORITHM_PAT } },
};

#define GROUPS ((int)ARRAY_SIZE(groups))
#define OPERATIONS 5
#define TYPES 12

static int rows_of(const struct layout *l, const struct group *g)
{
	if (g->collective == BROADCASTS && !l->work_bytes[WORK_BROADCAST])
		return 0;
	return (g->reduces ? OPERATIONS * TYPES : 1) * g->algorithms *
	       PROTOCOLS;
}

int read_row_count(const struct layout *l)
{
	int rows = 1;

	for (int i = 0; i < GROUPS; i++)
		rows += rows_of(l, &groups[i]);
	return rows;
}

struct function read_row(const struct layout *l, int row)
{
	const struct group *g = groups;
	struct function f = {
		.collective = SEND_RECV,
		.algorithm = ALGORITHM_RING,
		.protocol = PROTOCOL_SIMPLE,
	};

	if (row-- == 0)
		return f;
	while (row >= rows_of(l, g))
		row -= rows_of(l, g++);
	f.collective = g->collective;
	f.protocol = row % PROTOCOLS;
	row /= PROTOCOLS;
	f.algorithm = g->algorithm[row % g->algorithms];
	row /= g->algorithms;
	f.type = row % TYPES;
	f.operation = row / TYPES;
	return f;
}

/* ---- communicators ----------------------------------------------------- */

/* Storage type of a launch whose works are in its arguments, not in a
 * buffer. */
#define STORAGE_IN_ARGUMENTS 0

struct arguments read_arguments(const struct layout *l, const void *from)
{
	struct arguments a = {
		.comm = get_pointer(from, l->arguments.comm),
		.channels = get_word(from, l->arguments.channels),
		.batches = field_at(from, l->arguments.bytes),
		.works = get_pointer(from, l->arguments.works),
		.mask = (uint32_t)get_int(from, l->arguments.mask),
	};

	if (get_byte(from, l->arguments.storage) == STORAGE_IN_ARGUMENTS) {
		a.works = from;
		a.mask = UINT32_MAX;
	}
	return a;
}

struct kernel_comm read_comm(const struct layout *l, const void *comm)
{
	struct kernel_comm c = {
		.rank = get_int(comm, l->comm.rank),
		.ranks = get_int(comm, l->comm.ranks),
		.p2p_chunk_bytes = get_int(comm, l->comm.p2p_chunk_bytes),
		.all_nvlink = get_int(comm, l->comm.all_nvlink),
		.abort_flag = get_pointer(comm, l->comm.abort_flag),
		.local_ranks = get_pointer(comm, l->comm.local_ranks),
		.started = get_pointer(comm, l->comm.started),
		.completed = get_pointer(comm, l->comm.completed),
	};

	for (int i = 0; i < PROTOCOLS; i++)
		c.buffer_bytes[i] =
			get_int(field_at(comm, (size_t)i * sizeof(int)),
		                l->comm.buffer_bytes);
	if (l->comm.no_local_ranks != NO_FIELD &&
	    get_byte(comm, l->comm.no_local_ranks))
		c.local_ranks = NULL;
	return c;
}

struct channel read_channel(const struct layout *l, const void *comm, int id)
{
	char *from = (char *)get_pointer(comm, l->comm.channels) +
	             (size_t)id * l->channel.bytes;
	struct channel c = {
		.id = id,
		.peers = get_pointer(from, l->channel.peers),
		.ring = {
			.prev = get_int(from, l->channel.prev),
			.next = get_int(from, l->channel.next),
			.index = get_int(from, l->channel.index),
			.ranks = get_pointer(from, l->channel.order),
		},
		.tree.up = get_int(from, l->channel.up),
		.work_count = (void *)(from + l->channel.work_count),
	};

	for (int i = 0; i < MAX_CHILDREN; i++)
		c.tree.down[i] =
			get_int(field_at(from, (size_t)i * sizeof(int)),
		                l->channel.down);
	return c;
}

/* Number of a peer's connections in each direction. */
#define CONNECTIONS 2

struct connection read_connection(const struct layout *l, void *peer,
                                  bool sends, int index)
{
	const size_t place = (size_t)(sends ? index : CONNECTIONS + index);
	char *from = (char *)peer + place * l->connection.bytes;
	struct connection c = {
		.tail = get_pointer(from, l->connection.tail),
		.head = get_pointer(from, l->connection.head),
		.flags = get_int(from, l->connection.flags),
		.step_bytes = get_int(from, l->connection.step_bytes),
		.pointer_exchange =
			get_pointer(from, l->connection.pointer_exchange),
		.scalar_exchange =
			get_pointer(from, l->connection.scalar_exchange),
		.slots = get_pointer(from, l->connection.slots),
		.slot = &l->slot,
		.step = (void *)(from + l->connection.step),
	};

	for (int i = 0; i < PROTOCOLS; i++)
		c.buffers[i] =
			get_pointer(field_at(from, (size_t)i * sizeof(void *)),
		                    l->connection.buffers);
	return c;
}

/* ---- works ------------------------------------------------------------- */

struct batch read_batch(const struct layout *l, const void *from)
{
	return (struct batch){
		.jump = (unsigned)get_bits(from, l->batch.jump),
		.extends = get_bits(from, l->batch.extends),
		.type = (enum work_type)get_bits(from, l->batch.type),
		.function = (unsigned)get_bits(from, l->batch.function),
		.offset = (uint32_t)get_int(from, l->batch.offset),
		.works = get_word(from, l->batch.works),
	};
}

struct coll_work read_coll(const struct layout *l, const void *from)
{
	struct coll_work w = {
		.channel_low = (int)get_bits(from, l->coll.channel_low),
		.channel_high = (int)get_bits(from, l->coll.channel_high),
		.scalar_is_pointer = get_bits(from, l->coll.scalar_is_pointer),
		.registered = get_bits(from, l->coll.registered),
		.net_registered = get_bits(from, l->coll.net_registered),
		.direct = (int)get_bits(from, l->coll.direct),
		.root = get_int(from, l->coll.root),
		.send = get_pointer(from, l->coll.send),
		.recv = get_pointer(from, l->coll.recv),
		.scalar = get_word(from, l->coll.scalar),
		.send_offset = get_word(from, l->coll.send_offset),
		.recv_offset = get_word(from, l->coll.recv_offset),
		.send_remote = get_pointer(from, l->coll.send_remote),
		.recv_remote = get_pointer(from, l->coll.recv_remote),
	};

	for (int i = 0; i < 3; i++) {
		w.count[i] =
			get_word(field_at(from, (size_t)i * sizeof(size_t)),
		                 l->coll.count);
		w.chunk_grains[i] = get_bits(from, l->coll.chunk_grains[i]);
	}
	return w;
}

/* Return the integer that @code encodes as an 8-bit float with a 3-bit
 * mantissa. */
static size_t chunk_bytes(uint8_t code)
{
	const size_t low = code & 7;
	const int exponent = code >> 3;

	return exponent ? (low | 8) << (exponent - 1) : low;
}

struct p2p_work read_p2p(const struct layout *l, const void *from)
{
	return (struct p2p_work){
		.send = get_pointer(from, l->p2p.send),
		.recv = get_pointer(from, l->p2p.recv),
		.send_bytes = get_word(from, l->p2p.send_bytes),
		.recv_bytes = get_word(from, l->p2p.recv_bytes),
		.send_rank = get_int(from, l->p2p.send_rank),
		.recv_rank = get_int(from, l->p2p.recv_rank),
		.channels = get_byte(from, l->p2p.channels),
		.first_channel = get_byte(from, l->p2p.first_channel),
		.send_parts = get_byte(from, l->p2p.send_parts),
		.recv_parts = get_byte(from, l->p2p.recv_parts),
		.send_chunk = chunk_bytes(get_byte(from, l->p2p.send_chunk)),
		.recv_chunk = chunk_bytes(get_byte(from, l->p2p.recv_chunk)),
		.send_ll = get_bits(from, l->p2p.send_ll),
		.recv_ll = get_bits(from, l->p2p.recv_ll),
		.send_registered = get_bits(from, l->p2p.send_registered),
		.recv_registered = get_bits(from, l->p2p.recv_registered),
		.net_registered = get_bits(from, l->p2p.send_net_registered) ||
		                  get_bits(from, l->p2p.recv_net_registered),
	};
}

struct broadcast_work read_broadcast(const struct layout *l, const void *from)
{
	return (struct broadcast_work){
		.depth = get_int(from, l->broadcast.depth),
		.chunk = (size_t)get_int(from, l->broadcast.chunk),
		.bytes = get_word(from, l->broadcast.bytes),
		.begin = get_word(from, l->broadcast.begin),
		.send = get_pointer(from, l->broadcast.send),
		.recv = get_pointer(from, l->broadcast.recv),
	};
}

/* ---- the profiler ------------------------------------------------------ */

bool read_profiled(const struct layout *l, enum work_type type,
                   const void *from)
{
	switch (type) {
	case WORK_P2P:
		return get_bits(from, l->p2p.profiled);
	case WORK_COLL:
	case WORK_COLL_REG:
		return get_bits(from, l->coll.profiled);
	default:
		return false;
	}
}

void write_profile(void *events, int channel, uint64_t count)
{
	struct event {
		uint64_t count, time;
	}(*all)[64] = events, *e = &all[channel][count % 64];

	__atomic_store_n(&e->time, clock_now(), __ATOMIC_RELAXED);
	/* The release publishes the time.  The reader acquires the count. */
	__atomic_store_n(&e->count, count, __ATOMIC_RELEASE);
}
