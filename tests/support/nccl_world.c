/* SPDX-License-Identifier: Apache-2.0 */

#include "support/nccl_world.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "sim/nvidia/kernel/layout_read.h"
#include "support/nccl_write.h"

#define LL_STEP 1024
#define LL128_STEP 2048

/* Memory of a connection from one rank to another. If a thread moves the data,
 * each end has its own pipe. */
struct pipe {
	uint64_t tail, head;
	void *pointer_exchange;
	uint64_t scalar_exchange[2];
	_Alignas(8) char slots[STEPS * 32];
	struct pipe *next;
	struct pipe *far; /* the receiver's pipe, in a sender's pipe */
	uint64_t carried;
	_Alignas(128) char simple[STEPS * WORLD_STEP];
	_Alignas(128) char ll[STEPS * LL_STEP];
	_Alignas(128) char ll128[STEPS * LL128_STEP];
};

int nccl_world_version = 22809;

/* Write connection @end of a peer. Ends 0 and 1 send; ends 2 and 3 receive. */
static void fill_end(const struct nccl_world *w, char *peer, int end,
                     struct pipe *p, int flags, bool fifo)
{
	const struct connection c = {
		.buffers = { p->ll, p->ll128, p->simple },
		.tail = &p->tail,
		.head = &p->head,
		.flags = flags,
		.step_bytes = WORLD_STEP,
		.pointer_exchange = &p->pointer_exchange,
		.scalar_exchange = p->scalar_exchange,
		.slots = fifo ? p->slots : NULL,
	};

	nccl_write_connection(w->layout,
	                      peer + end * w->layout->connection.bytes, &c);
}

/* ---- slots ------------------------------------------------------------- */

static char *slot(const struct nccl_world *w, struct pipe *p, uint64_t step)
{
	return p->slots + step % STEPS * w->layout->slot.bytes;
}

static int64_t *slot_size(const struct nccl_world *w, struct pipe *p,
                          uint64_t step)
{
	return (void *)(slot(w, p, step) + w->layout->slot.size);
}

/*
 * Return the offset of a step's data in a connection with slots. The offsets
 * permute the steps, so a kernel that ignored the offset would read wrong data.
 */
static int slot_offset(uint64_t step)
{
	return (int)(step % STEPS * 5 % STEPS) * WORLD_STEP;
}

static void fill_slot(const struct nccl_world *w, struct pipe *p, uint64_t step)
{
	const struct slot_layout *l = &w->layout->slot;
	const int64_t offset = slot_offset(step);
	const int mode = SLOT_MODE_OFFSET;

	memcpy(slot(w, p, step) + l->mode, &mode, sizeof(mode));
	memcpy(slot(w, p, step) + l->offset, &offset,
	       l->long_offset ? sizeof(int64_t) : sizeof(int));
	*slot_size(w, p, step) = -1;
}

/* ---- connections ------------------------------------------------------- */

static struct pipe *new_pipe(struct nccl_world *w)
{
	struct pipe *p = aligned_alloc(128, sizeof(*p));

	memset(p, 0, sizeof(*p));
	for (uint64_t step = 0; step < STEPS; step++)
		fill_slot(w, p, step);
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
		fill_end(w, w->peer[from][channel][to], i, p, flags, fifo);
		fill_end(w, w->peer[to][channel][from], 2 + i, far, flags,
		         fifo);
	}
}

/* Make the ring of a channel. Odd channels have the opposite direction. */
static void fill_ring(struct nccl_world *w, int rank, int channel,
                      struct ring *ring)
{
	const int n = w->ranks, step = channel % 2 ? n - 1 : 1;

	for (int i = 0; i < n; i++)
		w->order[rank][channel][i] = (rank + i * step) % n;
	*ring = (struct ring){
		.next = (rank + step) % n,
		.prev = (rank + n - step) % n,
		.index = rank * step % n,
		.ranks = w->order[rank][channel],
	};
}

/*
 * Make the tree of @rank. Rank 0 has child 1, and rank 1 has children 2 and 3,
 * if these ranks exist. With four ranks, two of them would write to one
 * registered buffer, which never happens in NCCL's trees.
 */
static void fill_tree(const struct nccl_world *w, int rank, struct tree *tree)
{
	static const int down[WORLD_RANKS][2] = {
		{ 1, -1 }, { 2, 3 }, { -1, -1 }, { -1, -1 }
	};
	static const int up[WORLD_RANKS] = { -1, 0, 1, 1 };

	tree->up = up[rank];
	for (int i = 0; i < MAX_CHILDREN; i++)
		tree->down[i] = -1;
	for (int i = 0; i < 2; i++)
		if (down[rank][i] < w->ranks)
			tree->down[i] = down[rank][i];
}

static void fill_rank(struct nccl_world *w, int rank)
{
	const struct kernel_comm comm = {
		.rank = rank,
		.ranks = w->ranks,
		.buffer_bytes = { STEPS * LL_STEP, STEPS * LL128_STEP,
		                  STEPS * WORLD_STEP },
		.p2p_chunk_bytes = WORLD_STEP,
		.abort_flag = &w->abort_flag[rank],
		.local_ranks = w->local_ranks,
		.started = w->started[rank],
		.completed = w->completed[rank],
	};

	nccl_write_comm(w->layout, w->comm[rank], &comm, w->channel[rank]);
	w->local_ranks[rank] = rank;
	for (int c = 0; c < w->channels; c++) {
		struct channel channel = { .peers = w->peers[rank][c] };

		for (int i = 0; i < w->ranks; i++)
			w->peers[rank][c][i] = w->peer[rank][c][i];
		fill_ring(w, rank, c, &channel.ring);
		fill_tree(w, rank, &channel.tree);
		nccl_write_channel(w->layout,
		                   w->channel[rank] +
		                           c * w->layout->channel.bytes,
		                   &channel);
	}
}

/* Stand-in for NCCL's array that has an id for each row of its function table;
 * has more rows than any version */
static int row_ids[2000];

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
	w->layout = &version_find(nccl_world_version)->layout;
	w->kernels = nvidia_kernels_open(nccl_world_version, look_up, NULL);
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

void nccl_plan_init(struct nccl_plan *p, const struct nccl_world *w, int rank,
                    int batches, bool fifo)
{
	const struct arguments a = {
		.comm = w->comm[rank],
		.channels = (UINT64_C(1) << w->channels) - 1,
		.mask = sizeof(p->fifo) - 1,
		.works = p->fifo,
	};

	*p = (struct nccl_plan){ .works = fifo ? sizeof(p->fifo) - 80 : 0 };
	nccl_write_arguments(w->layout, p->bytes, &a, !fifo);
	p->used = w->layout->arguments.bytes +
	          (size_t)(batches * w->channels) * w->layout->batch.bytes;
	p->launch = (struct nvidia_launch){
		.kernels = w->kernels,
		.name = "_Z21ncclDevKernel_Generic",
		.arguments = p->bytes,
		.bytes = sizeof(p->bytes),
		.grid = w->channels,
	};
}

/* Store one work item, and return its offset. */
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

/* Write work item @i of @works in NCCL's layout. */
static void write_work(const struct layout *l, enum work_type type, char *to,
                       const void *works, int i)
{
	if (type == WORK_P2P)
		nccl_write_p2p(l, to, (const struct p2p_work *)works + i);
	else if (type == WORK_BROADCAST)
		nccl_write_broadcast(l, to,
		                     (const struct broadcast_work *)works + i);
	else
		nccl_write_coll(l, to, (const struct coll_work *)works + i);
}

void nccl_plan_add(struct nccl_plan *p, const struct nccl_world *w,
                   enum work_type type, int row, const void *works, int count)
{
	char *batches = p->bytes + w->layout->arguments.bytes, work[512];
	const size_t bytes = w->layout->work_bytes[type];
	const size_t batch = w->layout->batch.bytes;
	struct batch b = {
		.type = type,
		.function = (unsigned)row,
		.offset = p->works ? p->works : (uint32_t)p->used,
		.works = (UINT64_C(1) << count) - 1,
	};

	for (int i = 0; i < count; i++) {
		write_work(w->layout, type, work, works, i);
		store_work(p, work, bytes);
	}
	for (int c = 0; c < w->channels; c++) {
		char *at = batches +
		           (size_t)(p->batches * w->channels + c) * batch;
		char *before = at - (size_t)w->channels * batch;
		struct batch last;

		nccl_write_batch(w->layout, at, &b);
		if (!p->batches)
			continue;
		last = read_batch(w->layout, before);
		last.jump = (unsigned)w->channels;
		nccl_write_batch(w->layout, before, &last);
	}
	p->batches++;
}

int nccl_row(const struct nccl_world *w, const struct function *f)
{
	int row = 0;
	struct function g;

	do
		g = read_row(w->layout, row++);
	while (g.collective != f->collective || g.algorithm != f->algorithm ||
	       g.protocol != f->protocol ||
	       ((f->collective == ALL_REDUCE || f->collective == REDUCE ||
	         f->collective == REDUCE_SCATTER) &&
	        (g.operation != f->operation || g.type != f->type)));
	return row - 1;
}

void nccl_split(const struct nccl_world *w, struct coll_work *work,
                const struct function *function, size_t count)
{
	static const uint64_t grains[] = { LL_STEP / 2 / 16, 1,
		                           WORLD_STEP / 512 };
	uint64_t chunk = grains[function->protocol];

	if (function->protocol == PROTOCOL_SIMPLE &&
	    function->algorithm == ALGORITHM_RING &&
	    function->collective != BROADCAST && function->collective != REDUCE)
		chunk *= 4;
	work->channel_low = 0;
	work->channel_high = w->channels - 1;
	work->count[2] = w->channels > 1 ? count / 3 : 0;
	work->count[0] = count - work->count[2];
	work->chunk_grains[0] = work->chunk_grains[2] = chunk;
}

/* ---- running ----------------------------------------------------------- */

/* Return whether all lines of a step have been written. */
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

/* Move the next step of @p to the other end if the step has been written and
 * the other end has room. Return whether a step was moved. */
static bool carry(const struct nccl_world *w, struct pipe *p)
{
	const uint64_t n = p->carried, next = n + (uint64_t)w->carried_steps;
	int64_t *announced = slot_size(w, p, n);
	const int64_t size = __atomic_load_n(announced, __ATOMIC_ACQUIRE);
	const size_t bytes = (size_t)size, i = n % STEPS;
	struct pipe *far = p->far;

	if (size < 0 ||
	    __atomic_load_n(&far->head, __ATOMIC_ACQUIRE) + STEPS < next)
		return false;
	if (w->carried_protocol != PROTOCOL_LL &&
	    __atomic_load_n(&p->tail, __ATOMIC_ACQUIRE) <= n)
		return false;
	if (w->carried_protocol == PROTOCOL_SIMPLE) {
		memcpy(far->simple + slot_offset(n), p->simple + slot_offset(n),
		       bytes);
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
	__atomic_store_n(announced, -1, __ATOMIC_RELAXED);
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
