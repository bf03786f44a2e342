/* SPDX-License-Identifier: Apache-2.0 */

#include "support/nccl_world.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#define LL_STEP 1024
#define LL128_STEP 2048

/* A connection from one rank to another, or one end of it. */
struct pipe {
	uint64_t tail, head;
	void *pointer_exchange;
	uint64_t scalar_exchange[2];
	struct fifo_slot fifo[STEPS];
	struct pipe *next;
	struct pipe *far; /* of a sender's end: the receiver's */
	uint64_t carried;
	_Alignas(128) char simple[STEPS * WORLD_STEP];
	_Alignas(128) char ll[STEPS * LL_STEP];
	_Alignas(128) char ll128[STEPS * LL128_STEP];
};

static void fill_end(struct ncclConnInfo *c, struct pipe *p, int flags,
                     bool fifo)
{
	*c = (struct ncclConnInfo){
		.buffs = { p->ll, p->ll128, p->simple },
		.tail = &p->tail,
		.head = &p->head,
		.flags = flags,
		.stepSize = WORLD_STEP,
		.ptrExchange = &p->pointer_exchange,
		.redOpArgExchange = p->scalar_exchange,
		.connFifo = fifo ? p->fifo : NULL,
	};
}

static struct pipe *new_pipe(struct nccl_world *w)
{
	struct pipe *p = aligned_alloc(128, sizeof(*p));

	memset(p, 0, sizeof(*p));
	for (int slot = 0; slot < STEPS; slot++)
		p->fifo[slot] = (struct fifo_slot){
			.mode = FIFO_MODE_OFFSET,
			.offset = slot * 5 % STEPS * WORLD_STEP,
			.size = -1,
		};
	p->next = w->pipes;
	return w->pipes = p;
}

static void connect_pair(struct nccl_world *w, int from, int to, int channel,
                         int flags, bool fifo)
{
	for (int i = 0; i < 2; i++) {
		struct pipe *p = new_pipe(w), *far = p;

		if (w->carried_steps)
			far = p->far = new_pipe(w);
		fill_end(&w->peer[from][channel][to].send[i], p, flags, fifo);
		fill_end(&w->peer[to][channel][from].recv[i], far, flags, fifo);
	}
}

/* Every second ring goes the other way. */
static void fill_ring(struct nccl_world *w, int rank, int channel)
{
	const int n = w->ranks, step = channel % 2 ? n - 1 : 1;
	struct ncclDevChannel *c = &w->channel[rank][channel];

	for (int i = 0; i < n; i++)
		w->order[rank][channel][i] = (rank + i * step) % n;
	c->ring.next = (rank + step) % n;
	c->ring.prev = (rank + n - step) % n;
	c->ring.index = rank * step % n;
	c->ring.userRanks = w->order[rank][channel];
}

/* 0 - 1 - 2, and 1 - 3: as many as there are.  (With four, two ranks would write to
 * one registered buffer: NCCL's trees have no such ranks.) */
static void fill_tree(struct nccl_world *w, int rank, int channel)
{
	static const int down[WORLD_RANKS][2] = {
		{ 1, -1 }, { 2, 3 }, { -1, -1 }, { -1, -1 }
	};
	static const int up[WORLD_RANKS] = { -1, 0, 1, 1 };
	struct ncclDevChannel *c = &w->channel[rank][channel];

	c->tree.up = up[rank];
	for (int i = 0; i < MAX_CHILDREN; i++)
		c->tree.down[i] = -1;
	for (int i = 0; i < 2; i++)
		if (down[rank][i] < w->ranks)
			c->tree.down[i] = down[rank][i];
}

static void fill_rank(struct nccl_world *w, int rank)
{
	w->comm[rank] = (struct ncclKernelComm){
		.rank = rank,
		.nRanks = w->ranks,
		.buffSizes = { STEPS * LL_STEP, STEPS * LL128_STEP,
		               STEPS * WORLD_STEP },
		.p2pChunkSize = WORLD_STEP,
		.abortFlag = &w->abort_flag[rank],
		.channels = w->channel[rank],
		.rankToLocalRank = w->local_ranks,
		.workStarted = w->started[rank],
		.workCompleted = w->completed[rank],
	};
	w->local_ranks[rank] = rank;
	for (int c = 0; c < w->channels; c++) {
		w->channel[rank][c].peers = w->peers[rank][c];
		for (int i = 0; i < w->ranks; i++)
			w->peers[rank][c][i] = &w->peer[rank][c][i];
		fill_ring(w, rank, c);
		fill_tree(w, rank, c);
	}
}

/* As many as there are rows: each has its own id. */
static int row_ids[1996];

static const void *look_up(void *context, const char *symbol)
{
	(void)context;
	for (int i = 0; i < (int)(sizeof(row_ids) / sizeof(row_ids[0])); i++)
		row_ids[i] = i;
	return strcmp(symbol, "ncclDevFuncRowToId") == 0 ? row_ids : NULL;
}

static struct nccl_world *new_world(int ranks, int channels)
{
	struct nccl_world *w = aligned_alloc(16, sizeof(*w));

	memset(w, 0, sizeof(*w));
	w->ranks = ranks;
	w->channels = channels;
	w->kernels = nvidia_kernels_open(22809, look_up, NULL);
	for (int rank = 0; rank < ranks; rank++)
		fill_rank(w, rank);
	return w;
}

static void connect_all(struct nccl_world *w, int flags, bool fifos)
{
	const int n = w->ranks;

	for (int i = 0; i < n * n; i++)
		for (int c = 0; i / n != i % n && c < w->channels; c++)
			connect_pair(w, i / n, i % n, c, flags, fifos);
}

struct nccl_world *nccl_world_new(int ranks, int channels, int flags,
                                  bool fifos)
{
	struct nccl_world *w = new_world(ranks, channels);

	connect_all(w, flags, fifos);
	return w;
}

struct nccl_world *nccl_world_new_carried(int ranks, enum protocol protocol,
                                          int steps)
{
	struct nccl_world *w = new_world(ranks, WORLD_CHANNELS);

	w->carried_protocol = protocol;
	w->carried_steps = steps;
	connect_all(w, 0, true);
	return w;
}

void nccl_world_free(struct nccl_world *w)
{
	struct pipe *p;

	while ((p = w->pipes)) {
		w->pipes = p->next;
		free(p);
	}
	nvidia_kernels_close(w->kernels);
	free(w);
}

/* ---- plans ------------------------------------------------------------- */

static size_t work_bytes(enum work_type type)
{
	return nccl_2_28_9.work_bytes[type];
}

void nccl_plan_init(struct nccl_plan *p, const struct nccl_world *w, int rank,
                    int batches, bool fifo)
{
	const struct ncclDevKernelArgs args = {
		.comm = &w->comm[rank],
		.channelMask = (UINT64_C(1) << w->channels) - 1,
		.workStorageType = fifo,
		.workMask = sizeof(p->fifo) - 1,
		.workBuf = p->fifo,
	};

	*p = (struct nccl_plan){ .works = fifo ? sizeof(p->fifo) - 80 : 0 };
	memcpy(p->bytes, &args, sizeof(args));
	p->used = sizeof(args) + (size_t)(batches * w->channels) *
	                                 sizeof(struct ncclDevWorkBatch);
	p->launch = (struct nvidia_launch){
		.kernels = w->kernels,
		.name = "_Z21ncclDevKernel_Generic",
		.arguments = p->bytes,
		.bytes = sizeof(p->bytes),
		.grid = w->channels,
	};
}

/* Store one work: returns its offset. */
static uint32_t store_work(struct nccl_plan *p, const char *work, size_t bytes)
{
	uint32_t offset = (uint32_t)p->used;

	if (!p->works) {
		memcpy(p->bytes + offset, work, bytes);
		p->used += bytes;
		return offset;
	}
	offset = p->works;
	for (size_t i = 0; i < bytes; i++)
		p->fifo[(offset + i) % sizeof(p->fifo)] = work[i];
	p->works += (uint32_t)bytes;
	return offset;
}

void nccl_plan_add(struct nccl_plan *p, const struct nccl_world *w,
                   enum work_type type, int row, const void *works, int count)
{
	struct ncclDevWorkBatch *batch =
		(void *)(p->bytes + sizeof(struct ncclDevKernelArgs));
	const size_t bytes = work_bytes(type);
	const struct ncclDevWorkBatch b = {
		.workType = type,
		.funcId = (uint32_t)row,
		.offsetBase = p->works ? p->works : (uint32_t)p->used,
		.offsetBitset = (UINT64_C(1) << count) - 1,
	};

	for (int i = 0; i < count; i++)
		store_work(p, (const char *)works + (size_t)i * bytes, bytes);
	for (int c = 0; c < w->channels; c++) {
		const int at = p->batches * w->channels + c;

		batch[at] = b;
		if (p->batches)
			batch[at - w->channels].nextJump =
				(uint32_t)w->channels;
	}
	p->batches++;
}

int nccl_row(const struct function *f)
{
	static const int first[] = {
		[SEND_RECV] = 0,      [ALL_GATHER] = 1,
		[BROADCAST] = 13,     [ALL_REDUCE] = 16,
		[REDUCE] = 16 + 1080, [REDUCE_SCATTER] = 16 + 1080 + 180,
	};
	static const int algorithms[] = {
		[ALL_GATHER] = 4,     [BROADCAST] = 1, [ALL_REDUCE] = 6,
		[REDUCE_SCATTER] = 4, [REDUCE] = 1,
	};
	int row = 0;

	if (f->collective == SEND_RECV)
		return 0;
	if (f->collective != ALL_GATHER && f->collective != BROADCAST)
		row = (int)f->operation * 12 + f->type;
	row *= algorithms[f->collective];
	if (f->collective == ALL_REDUCE)
		row += (int)f->algorithm;
	else if (f->algorithm == ALGORITHM_PAT)
		row += 3;
	return first[f->collective] + row * PROTOCOLS + (int)f->protocol;
}

void nccl_split(const struct nccl_world *w, struct ncclDevWorkColl *work,
                const struct function *function, size_t count)
{
	static const uint64_t grains[] = { LL_STEP / 2 / 16, 1,
		                           WORLD_STEP / 512 };
	uint64_t chunk = grains[function->protocol];

	if (function->protocol == PROTOCOL_SIMPLE &&
	    function->algorithm == ALGORITHM_RING &&
	    function->collective != BROADCAST && function->collective != REDUCE)
		chunk *= 4;
	work->channelLo = 0;
	work->channelHi = (uint32_t)w->channels - 1;
	work->countHi = w->channels > 1 ? count / 3 : 0;
	work->countLo = count - work->countHi;
	work->chunkGrainsLo = work->chunkGrainsHi = chunk;
}

/* ---- running ----------------------------------------------------------- */

/* Whether all lines of the step are written. */
static bool lines_are_there(const char *at, size_t bytes, size_t line,
                            uint64_t number)
{
	for (size_t i = line - 8; i < bytes; i += line) {
		const uint64_t word = __atomic_load_n(
			(const uint64_t *)(at + i), __ATOMIC_ACQUIRE);

		if (line == 16 ? word >> 32 != (uint32_t)number
		               : word != number)
			return false;
	}
	return true;
}

/* Carry the next step of @p, if it is there and the other end has room. */
static bool carry(const struct nccl_world *w, struct pipe *p)
{
	const uint64_t n = p->carried, next = n + (uint64_t)w->carried_steps;
	struct fifo_slot *slot = &p->fifo[n % STEPS];
	const int64_t size = __atomic_load_n(&slot->size, __ATOMIC_ACQUIRE);
	const size_t bytes = (size_t)size, i = n % STEPS;
	struct pipe *far = p->far;

	if (size < 0 ||
	    __atomic_load_n(&far->head, __ATOMIC_ACQUIRE) + STEPS < next)
		return false;
	if (w->carried_protocol != PROTOCOL_LL &&
	    __atomic_load_n(&p->tail, __ATOMIC_ACQUIRE) <= n)
		return false;
	if (w->carried_protocol == PROTOCOL_SIMPLE) {
		memcpy(far->simple + far->fifo[i].offset,
		       p->simple + slot->offset, bytes);
	} else if (w->carried_protocol == PROTOCOL_LL) {
		if (!lines_are_there(p->ll + i * LL_STEP, bytes, 16, n + 1))
			return false;
		for (size_t at = 0; at < bytes; at += 8)
			__atomic_store_n(
				(uint64_t *)(far->ll + i * LL_STEP + at),
				*(uint64_t *)(p->ll + i * LL_STEP + at),
				__ATOMIC_RELEASE);
	} else {
		if (!lines_are_there(p->ll128 + i * LL128_STEP, bytes, 128,
		                     n + 1))
			return false;
		for (size_t at = 0; at < bytes; at += 8)
			__atomic_store_n(
				(uint64_t *)(far->ll128 + i * LL128_STEP + at),
				*(uint64_t *)(p->ll128 + i * LL128_STEP + at),
				__ATOMIC_RELEASE);
	}
	__atomic_store_n(&slot->size, -1, __ATOMIC_RELAXED);
	__atomic_store_n(&p->head, next, __ATOMIC_RELEASE);
	__atomic_store_n(&far->tail, next, __ATOMIC_RELEASE);
	p->carried = next;
	return true;
}

static void *carry_all(void *arg)
{
	struct nccl_world *w = arg;
	bool carried;

	while (!__atomic_load_n(&w->all_carried, __ATOMIC_ACQUIRE)) {
		carried = false;
		for (struct pipe *p = w->pipes; p; p = p->next)
			carried |= p->far && carry(w, p);
		if (!carried)
			sched_yield();
	}
	return NULL;
}

static void *run(void *arg)
{
	struct nccl_plan *p = arg;

	p->result = nvidia_kernel_run(&p->launch);
	return NULL;
}

void nccl_world_run(struct nccl_world *w, struct nccl_plan plans[])
{
	pthread_t threads[WORLD_RANKS], carrier;

	__atomic_store_n(&w->all_carried, false, __ATOMIC_RELAXED);
	if (w->carried_steps)
		pthread_create(&carrier, NULL, carry_all, w);
	for (int rank = 0; rank < w->ranks; rank++)
		pthread_create(&threads[rank], NULL, run, &plans[rank]);
	for (int rank = 0; rank < w->ranks; rank++)
		pthread_join(threads[rank], NULL);
	__atomic_store_n(&w->all_carried, true, __ATOMIC_RELEASE);
	if (w->carried_steps)
		pthread_join(carrier, NULL);
}
