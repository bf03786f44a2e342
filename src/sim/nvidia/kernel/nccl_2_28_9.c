/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The layout of NCCL 2.28.9
 */

#include "sim/nvidia/kernel/nccl_2_28_9.h"

#include <assert.h>

#include "base/clock.h"

static_assert(sizeof(struct ncclConnInfo) == 152, "as in NCCL");
static_assert(sizeof(struct ncclDevChannel) == 368, "as in NCCL");
static_assert(sizeof(struct ncclKernelComm) == 88, "as in NCCL");
static_assert(sizeof(struct ncclDevWorkP2p) == 48, "as in NCCL");
static_assert(sizeof(struct ncclDevWorkColl) == 96, "as in NCCL");
static_assert(sizeof(struct ncclDevWorkCollReg) == 288, "as in NCCL");
static_assert(sizeof(struct ncclDevWorkBatch) == 16, "as in NCCL");
static_assert(sizeof(struct ncclDevKernelArgs) == 32, "as in NCCL");
static_assert(sizeof(struct fifo_slot) == 24, "as in NCCL");

/* ---- functions -------------------------------------------------------- */

/*
 * The rows of ncclDevFuncRowToId, a table with an id for each function: one for send and
 * receive, and then for each collective, by operation and type if it has them, and by
 * algorithm, three for the protocols.
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

#define OPERATIONS 5
#define TYPES 12
#define ROWS (1 + (4 + 1 + OPERATIONS * TYPES * (6 + 1 + 4)) * PROTOCOLS)

static int rows_of(const struct group *g)
{
	return (g->reduces ? OPERATIONS * TYPES : 1) * g->algorithms *
	       PROTOCOLS;
}

static void read_function(int row, struct function *out)
{
	const struct group *g = groups;

	*out = (struct function){
		.collective = SEND_RECV,
		.algorithm = ALGORITHM_RING,
		.protocol = PROTOCOL_SIMPLE,
	};
	if (row-- == 0)
		return;
	while (row >= rows_of(g))
		row -= rows_of(g++);
	out->collective = g->collective;
	out->protocol = row % PROTOCOLS;
	row /= PROTOCOLS;
	out->algorithm = g->algorithm[row % g->algorithms];
	row /= g->algorithms;
	out->type = row % TYPES;
	out->operation = row / TYPES;
}

/* ---- communicators ---------------------------------------------------- */

static void read_arguments(const void *from, struct arguments *out)
{
	const struct ncclDevKernelArgs *a = from;

	*out = (struct arguments){
		.comm = a->comm,
		.channels = a->channelMask,
		.batches = (const char *)(a + 1),
		.works = a->workBuf,
		.mask = a->workMask,
	};
	if (a->workStorageType == STORAGE_IN_ARGUMENTS) {
		out->works = from;
		out->mask = UINT32_MAX;
	}
}

static void read_comm(const void *comm, struct kernel_comm *out)
{
	const struct ncclKernelComm *c = comm;

	*out = (struct kernel_comm){
		.rank = c->rank,
		.ranks = c->nRanks,
		.p2p_chunk_bytes = c->p2pChunkSize,
		.all_nvlink = c->isAllNvlink,
		.abort_flag = c->abortFlag,
		.local_ranks = c->rankToLocalRank,
		.started = c->workStarted,
		.completed = c->workCompleted,
	};
	for (int i = 0; i < PROTOCOLS; i++)
		out->buffer_bytes[i] = c->buffSizes[i];
}

static void read_channel(const void *comm, int id, struct channel *out)
{
	struct ncclDevChannel *c =
		&((const struct ncclKernelComm *)comm)->channels[id];

	*out = (struct channel){
		.id = id,
		.peers = (void *const *)c->peers,
		.ring = {
			.prev = c->ring.prev,
			.next = c->ring.next,
			.index = c->ring.index,
			.ranks = c->ring.userRanks,
		},
		.tree.up = c->tree.up,
		.work_count = &c->workCounter,
	};
	for (int i = 0; i < MAX_CHILDREN; i++)
		out->tree.down[i] = c->tree.down[i];
}

static void read_connection(struct ncclConnInfo *from, struct connection *out)
{
	*out = (struct connection){
		.tail = from->tail,
		.head = from->head,
		.flags = from->flags,
		.step_bytes = from->stepSize,
		.pointer_exchange = from->ptrExchange,
		.scalar_exchange = from->redOpArgExchange,
		.fifo = from->connFifo,
		.step = &from->step,
	};
	for (int i = 0; i < PROTOCOLS; i++)
		out->buffers[i] = from->buffs[i];
}

static void read_send(void *peer, int index, struct connection *out)
{
	struct ncclDevChannelPeer *p = peer;

	read_connection(&p->send[index], out);
}

static void read_recv(void *peer, int index, struct connection *out)
{
	struct ncclDevChannelPeer *p = peer;

	read_connection(&p->recv[index], out);
}

/* ---- works ------------------------------------------------------------ */

static void read_batch(const void *from, struct batch *out)
{
	const struct ncclDevWorkBatch *b = from;

	*out = (struct batch){
		.jump = b->nextJump,
		.extends = b->nextExtends,
		.type = b->workType,
		.function = b->funcId,
		.offset = b->offsetBase,
		.works = b->offsetBitset,
	};
}

static void read_coll(const void *from, struct coll_work *out)
{
	const struct ncclDevWorkColl *w = from;

	*out = (struct coll_work){
		.channel_low = w->channelLo,
		.channel_high = w->channelHi,
		.scalar_is_pointer = w->redOpArgIsPtr,
		.registered = w->regUsed,
		.net_registered = w->netRegUsed,
		.profiled = w->profilerEnabled,
		.direct = w->direct,
		.root = (int)w->root,
		.send = w->sendbuff,
		.recv = w->recvbuff,
		.scalar = w->redOpArg,
		.send_offset = w->sendbuffOffset,
		.recv_offset = w->recvbuffOffset,
		.send_remote = w->sendbuffRmtAddrs,
		.recv_remote = w->recvbuffRmtAddrs,
		.count = { w->countLo, w->countMid, w->countHi },
		.chunk_grains = { w->chunkGrainsLo, w->chunkGrainsMid,
		                  w->chunkGrainsHi },
	};
}

/* A float of 8 bits, 3 of them below the leading one, for a whole number. */
static size_t chunk_bytes(uint8_t code)
{
	const size_t low = code & 7;
	const int exponent = code >> 3;

	return exponent ? (low | 8) << (exponent - 1) : low;
}

static void read_p2p(const void *from, struct p2p_work *out)
{
	const struct ncclDevWorkP2p *w = from;

	*out = (struct p2p_work){
		.send = w->sendAddr,
		.recv = w->recvAddr,
		.send_bytes = w->sendBytes,
		.recv_bytes = w->recvBytes,
		.send_rank = w->sendRank,
		.recv_rank = w->recvRank,
		.channels = w->nP2pChannels,
		.first_channel = w->channelBase,
		.send_parts = w->nSendChannels,
		.recv_parts = w->nRecvChannels,
		.send_chunk = chunk_bytes(w->sendChunkSize_u32fp8),
		.recv_chunk = chunk_bytes(w->recvChunkSize_u32fp8),
		.send_ll = w->sendProtoLL,
		.recv_ll = w->recvProtoLL,
		.send_registered = w->sendIpcReg,
		.recv_registered = w->recvIpcReg,
		.net_registered = w->sendNetReg || w->recvNetReg,
		.profiled = w->profilerEnabled,
	};
}

static void profile(void *events, int channel, uint64_t count)
{
	struct ncclDevProfiler *p = (struct ncclDevProfiler *)events + channel;
	const uint64_t i = count % PROFILER_EVENTS;

	__atomic_store_n(&p->data[i].timestamp, clock_now(), __ATOMIC_RELAXED);
	/* Release the time to the thread that reads the count. */
	__atomic_store_n(&p->data[i].counter, count, __ATOMIC_RELEASE);
}

const struct layout nccl_2_28_9 = {
	.version = 22809,
	.rows = ROWS,
	.row_table = "ncclDevFuncRowToId",
	.function = read_function,
	.argument_bytes = sizeof(struct ncclDevKernelArgs),
	.batch_bytes = sizeof(struct ncclDevWorkBatch),
	.work_bytes = {
		[WORK_P2P] = sizeof(struct ncclDevWorkP2p),
		[WORK_COLL] = sizeof(struct ncclDevWorkColl),
		[WORK_COLL_REG] = sizeof(struct ncclDevWorkCollReg),
	},
	.arguments = read_arguments,
	.comm = read_comm,
	.channel = read_channel,
	.send = read_send,
	.recv = read_recv,
	.batch = read_batch,
	.coll = read_coll,
	.p2p = read_p2p,
	.profile = profile,
};
