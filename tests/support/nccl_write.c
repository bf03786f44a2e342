/* SPDX-License-Identifier: Apache-2.0 */

#include "support/nccl_write.h"

#include <string.h>

static void put(void *to, uint16_t field, const void *value, size_t bytes)
{
	if (field != NO_FIELD)
		memcpy((char *)to + field, value, bytes);
}

static void put_int(void *to, uint16_t field, int value)
{
	put(to, field, &value, sizeof(value));
}

static void put_byte(void *to, uint16_t field, int value)
{
	const uint8_t byte = (uint8_t)value;

	put(to, field, &byte, sizeof(byte));
}

static void put_word(void *to, uint16_t field, uint64_t value)
{
	put(to, field, &value, sizeof(value));
}

static void put_pointer(void *to, uint16_t field, const void *value)
{
	put(to, field, &value, sizeof(value));
}

/* Write a bit field, bit by bit. */
static void put_bits(void *to, struct bits b, uint64_t value)
{
	uint8_t *bytes = to;

	for (unsigned i = 0; i < b.count; i++) {
		const unsigned at = b.first + i;
		const uint8_t bit = (uint8_t)(1u << at % 8);

		bytes[at / 8] &= (uint8_t)~bit;
		if (value >> i & 1)
			bytes[at / 8] |= bit;
	}
}

void nccl_write_arguments(const struct layout *l, void *to,
                          const struct arguments *a, bool in_arguments)
{
	memset(to, 0, l->arguments.bytes);
	put_pointer(to, l->arguments.comm, a->comm);
	put_word(to, l->arguments.channels, a->channels);
	put_byte(to, l->arguments.storage, !in_arguments);
	put_int(to, l->arguments.mask, (int)a->mask);
	put_pointer(to, l->arguments.works, a->works);
}

void nccl_write_comm(const struct layout *l, void *to,
                     const struct kernel_comm *c, void *channels)
{
	put_int(to, l->comm.rank, c->rank);
	put_int(to, l->comm.ranks, c->ranks);
	put(to, l->comm.buffer_bytes, c->buffer_bytes, sizeof(c->buffer_bytes));
	put_int(to, l->comm.p2p_chunk_bytes, c->p2p_chunk_bytes);
	put_byte(to, l->comm.no_local_ranks, !c->local_ranks);
	put_int(to, l->comm.all_nvlink, c->all_nvlink);
	put_pointer(to, l->comm.abort_flag, c->abort_flag);
	put_pointer(to, l->comm.channels, channels);
	put_pointer(to, l->comm.local_ranks, c->local_ranks);
	put_pointer(to, l->comm.started, c->started);
	put_pointer(to, l->comm.completed, c->completed);
}

void nccl_write_channel(const struct layout *l, void *to,
                        const struct channel *c)
{
	put_pointer(to, l->channel.peers, c->peers);
	put_int(to, l->channel.prev, c->ring.prev);
	put_int(to, l->channel.next, c->ring.next);
	put_int(to, l->channel.index, c->ring.index);
	put_pointer(to, l->channel.order, c->ring.ranks);
	put_int(to, l->channel.up, c->tree.up);
	put(to, l->channel.down, c->tree.down, sizeof(c->tree.down));
}

void nccl_write_connection(const struct layout *l, void *to,
                           const struct connection *c)
{
	memset(to, 0, l->connection.bytes);
	put(to, l->connection.buffers, c->buffers, sizeof(c->buffers));
	put_pointer(to, l->connection.tail, c->tail);
	put_pointer(to, l->connection.head, c->head);
	put_int(to, l->connection.flags, c->flags);
	put_int(to, l->connection.step_bytes, c->step_bytes);
	put_pointer(to, l->connection.pointer_exchange, c->pointer_exchange);
	put_pointer(to, l->connection.scalar_exchange, c->scalar_exchange);
	put_pointer(to, l->connection.slots, c->slots);
}

void nccl_write_batch(const struct layout *l, void *to, const struct batch *b)
{
	memset(to, 0, l->batch.bytes);
	put_bits(to, l->batch.jump, b->jump);
	put_bits(to, l->batch.extends, b->extends);
	put_bits(to, l->batch.type, b->type);
	put_bits(to, l->batch.function, b->function);
	put_int(to, l->batch.offset, (int)b->offset);
	put_word(to, l->batch.works, b->works);
}

void nccl_write_coll(const struct layout *l, void *to,
                     const struct coll_work *w)
{
	memset(to, 0, l->work_bytes[WORK_COLL]);
	put_bits(to, l->coll.channel_low, (uint64_t)w->channel_low);
	put_bits(to, l->coll.channel_high, (uint64_t)w->channel_high);
	put_bits(to, l->coll.scalar_is_pointer, w->scalar_is_pointer);
	put_bits(to, l->coll.registered, w->registered);
	put_bits(to, l->coll.net_registered, w->net_registered);
	put_bits(to, l->coll.direct, (uint64_t)w->direct);
	put_bits(to, l->coll.profiled, 1);
	put_int(to, l->coll.root, w->root);
	put_pointer(to, l->coll.recv, w->recv);
	put_pointer(to, l->coll.send, w->send);
	put_word(to, l->coll.send_offset, w->send_offset);
	put_word(to, l->coll.recv_offset, w->recv_offset);
	put_pointer(to, l->coll.send_remote, w->send_remote);
	put_pointer(to, l->coll.recv_remote, w->recv_remote);
	put(to, l->coll.count, w->count, sizeof(w->count));
	for (int i = 0; i < 3; i++)
		put_bits(to, l->coll.chunk_grains[i], w->chunk_grains[i]);
	put_word(to, l->coll.scalar, w->scalar);
}

void nccl_write_broadcast(const struct layout *l, void *to,
                          const struct broadcast_work *w)
{
	memset(to, 0, l->work_bytes[WORK_BROADCAST]);
	put_int(to, l->broadcast.depth, w->depth);
	put_int(to, l->broadcast.chunk, (int)w->chunk);
	put_pointer(to, l->broadcast.send, w->send);
	put_pointer(to, l->broadcast.recv, w->recv);
	put_word(to, l->broadcast.bytes, w->bytes);
	put_word(to, l->broadcast.begin, w->begin);
}

/* Encode @bytes, a power of two, in NCCL's 8-bit float format: the exponent,
 * with a fraction of 0. */
static int chunk_code(size_t bytes)
{
	int exponent = -2;

	while (bytes >>= 1)
		exponent++;
	return exponent << 3;
}

void nccl_write_p2p(const struct layout *l, void *to, const struct p2p_work *w)
{
	memset(to, 0, l->work_bytes[WORK_P2P]);
	put_pointer(to, l->p2p.send, w->send);
	put_pointer(to, l->p2p.recv, w->recv);
	put_word(to, l->p2p.send_bytes, w->send_bytes);
	put_word(to, l->p2p.recv_bytes, w->recv_bytes);
	put_int(to, l->p2p.send_rank, w->send_rank);
	put_int(to, l->p2p.recv_rank, w->recv_rank);
	put_byte(to, l->p2p.channels, w->channels);
	put_byte(to, l->p2p.first_channel, w->first_channel);
	put_byte(to, l->p2p.send_parts, w->send_parts);
	put_byte(to, l->p2p.recv_parts, w->recv_parts);
	put_byte(to, l->p2p.send_chunk, chunk_code(w->send_chunk));
	put_byte(to, l->p2p.recv_chunk, chunk_code(w->recv_chunk));
	put_bits(to, l->p2p.send_ll, w->send_ll);
	put_bits(to, l->p2p.recv_ll, w->recv_ll);
	put_bits(to, l->p2p.send_net_registered, w->net_registered);
	put_bits(to, l->p2p.recv_net_registered, w->net_registered);
	put_bits(to, l->p2p.send_registered, w->send_registered);
	put_bits(to, l->p2p.recv_registered, w->recv_registered);
}
