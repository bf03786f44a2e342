/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Runs launches of NCCL's kernels (see kernel_run.h)
 *
 * The thread that runs a launch visits its blocks in turn, and steps each as
 * far as possible without waiting.  So no channel blocks another channel of the
 * launch, which could lead to a deadlock through a peer.  A launch needs only
 * one thread, no matter how many channels it has.
 */

#include "sim/nvidia/kernel/kernel_run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/backoff.h"
#include "base/type.h"
#include "platform/nccl_abi.h"
#include "sim/nvidia/kernel/block.h"
#include "sim/nvidia/kernel/combine.h"
#include "sim/nvidia/kernel/layout_read.h"

/* ---- checking that CPUs can run a launch ------------------------------ */

/* Return true if buffers are registered with a network device, which the
 * simulator does not have. */
static bool needs_device(const struct nvidia_kernels *k,
                         const struct arguments *a, const struct works *works)
{
	struct work_bytes room;

	for (int n = 0; n < works->count; n++) {
		const void *work = works_at(works, k, a, n, &room);

		if (works->type == WORK_P2P &&
		    read_p2p(k->layout, work).net_registered)
			return true;
		if ((works->type == WORK_COLL ||
		     works->type == WORK_COLL_REG) &&
		    read_coll(k->layout, work).net_registered)
			return true;
	}
	return false;
}

/* Check all batches of a block.  @written is true if the works are already in
 * memory. */
static bool check_block(const struct nvidia_kernels *k,
                        const struct arguments *a, int index, bool written,
                        char *why, size_t size)
{
	struct works works;

	for (; index >= 0; index = works.next) {
		if (!works_read(&works, k, a, index)) {
			snprintf(why, size,
			         "a batch of an unknown kind of work");
			return false;
		}
		if (!program_exists(works.function)) {
			kernels_name(works.function, why, size);
			return false;
		}
		if (written && needs_device(k, a, &works)) {
			snprintf(why, size, "buffers of a network device");
			return false;
		}
	}
	return true;
}

static void find_arguments(const struct nvidia_launch *launch,
                           struct arguments *a)
{
	*a = read_arguments(launch->kernels->layout, launch->arguments);
	a->end = (const char *)launch->arguments + launch->bytes;
}

static int block_count(const struct nvidia_launch *launch,
                       const struct arguments *a)
{
	const int channels = __builtin_popcountll(a->channels);

	return channels < launch->grid ? channels : launch->grid;
}

static bool check(const struct nvidia_launch *launch, bool written, char *why,
                  size_t size)
{
	const struct layout *layout = launch->kernels->layout;
	struct arguments a;

	if (!strstr(launch->name, "ncclDevKernel_")) {
		snprintf(why, size, "the kernel %s", launch->name);
		return false;
	}
	if (launch->bytes < layout->arguments.bytes) {
		snprintf(why, size, "arguments of %zu bytes", launch->bytes);
		return false;
	}
	find_arguments(launch, &a);
	for (int i = 0; i < block_count(launch, &a); i++)
		if (!check_block(launch->kernels, &a, i, written, why, size))
			return false;
	return true;
}

/* Do not read the works, because they might not be written yet: a graph copies
 * them when it runs. */
bool nvidia_kernel_check(const struct nvidia_launch *launch, char *why,
                         size_t size)
{
	return check(launch, false, why, size);
}

/* ---- checking the program's buffers ----------------------------------- */

/* The work whose buffers are being checked. */
struct use {
	nvidia_may_use *may_use;
	const struct function *function;
	int rank;
};

/* Return true if a buffer may be used; otherwise, report the buffer. */
static bool may_use(const struct use *u, const void *p, size_t bytes,
                    bool write)
{
	char name[64];

	if (!bytes || u->may_use(p, bytes, write))
		return true;
	fprintf(stderr,
	        "cohort: rank %d: %s uses %zu bytes at %p, which are not all "
	        "in an allocation\n",
	        u->rank, kernels_name(u->function, name, sizeof(name)), bytes,
	        p);
	return false;
}

static bool coll_may_run(const struct use *u, const struct kernel_comm *comm,
                         const struct coll_work *w)
{
	const struct function *f = u->function;
	/* In collectives that only move data, counts are in bytes. */
	const size_t size =
		f->collective == BROADCAST || f->collective == ALL_GATHER
			? 1
			: type_size(f->type);
	size_t in = coll_work_count(w) * size, out = in;

	if (f->collective == ALL_GATHER)
		out *= (size_t)comm->ranks;
	if (f->collective == REDUCE_SCATTER)
		in *= (size_t)comm->ranks;
	if (f->collective == BROADCAST && comm->rank != w->root)
		in = 0;
	if (f->collective == REDUCE && comm->rank != w->root)
		out = 0;
	return may_use(u, w->send, in, false) &&
	       may_use(u, w->recv, out, true) &&
	       may_use(u, (const void *)(uintptr_t)w->scalar,
	               w->scalar_is_pointer ? size : 0, false);
}

/* Check the buffers of a message.  A direction with 0 parts has no message. */
static bool p2p_may_run(const struct use *u, const struct p2p_work *w)
{
	return may_use(u, w->send, w->send_parts ? w->send_bytes : 0, false) &&
	       may_use(u, w->recv, w->recv_parts ? w->recv_bytes : 0, true);
}

static bool broadcast_may_run(const struct use *u,
                              const struct broadcast_work *w)
{
	return may_use(u, w->send + w->begin, w->depth ? 0 : w->bytes, false) &&
	       may_use(u, w->recv + w->begin, w->bytes, true);
}

static bool work_may_run(const struct use *u, const struct layout *l,
                         const struct kernel_comm *comm, enum work_type type,
                         const void *work)
{
	struct broadcast_work broadcast;
	struct coll_work coll;
	struct p2p_work p2p;

	switch (type) {
	case WORK_P2P:
		p2p = read_p2p(l, work);
		return p2p_may_run(u, &p2p);
	case WORK_BROADCAST:
		broadcast = read_broadcast(l, work);
		return broadcast_may_run(u, &broadcast);
	default:
		coll = read_coll(l, work);
		return coll_may_run(u, comm, &coll);
	}
}

static bool may_run(const struct nvidia_launch *launch,
                    const struct arguments *a, const struct kernel_comm *comm)
{
	const struct nvidia_kernels *k = launch->kernels;
	struct use u = { .may_use = launch->may_use, .rank = comm->rank };
	struct work_bytes room;
	struct works works;

	for (int i = 0; i < block_count(launch, a); i++)
		for (int index = i; index >= 0; index = works.next) {
			works_read(&works, k, a, index);
			u.function = works.function;
			for (int n = 0; n < works.count; n++)
				if (!work_may_run(
					    &u, k->layout, comm, works.type,
					    works_at(&works, k, a, n, &room)))
					return false;
		}
	return true;
}

/* ---- running ----------------------------------------------------------- */

static bool is_set(const uint32_t *flag)
{
	return flag && __atomic_load_n(flag, __ATOMIC_ACQUIRE);
}

static bool step_all(struct block *blocks, int count, const uint32_t *abort)
{
	bool progress = false;

	for (struct block *b = blocks; b < blocks + count; b++) {
		if (block_step(b))
			progress = true;
		else if (!b->done && !b->aborted && is_set(abort))
			block_abort(b);
	}
	return progress;
}

static int count_done(const struct block *blocks, int count)
{
	int done = 0;

	for (int i = 0; i < count; i++)
		done += blocks[i].done;
	return done;
}

static enum nvidia_result run_blocks(struct block *blocks, int count,
                                     const struct kernel_comm *comm)
{
	const struct backoff fresh = backoff_among(comm->ranks);
	struct backoff backoff = fresh;

	while (count_done(blocks, count) < count) {
		if (step_all(blocks, count, comm->abort_flag))
			backoff = fresh;
		else
			backoff_wait(&backoff, UINT64_MAX);
	}
	for (int i = 0; i < count; i++)
		if (blocks[i].aborted)
			return NVIDIA_ABORTED;
	return NVIDIA_DONE;
}

enum nvidia_result nvidia_kernel_run(const struct nvidia_launch *launch)
{
	enum nvidia_result result;
	struct kernel_comm comm;
	struct block *blocks;
	struct arguments a;
	char why[128];
	int count, channel = 0;

	if (!check(launch, true, why, sizeof(why))) {
		fprintf(stderr, "cohort: %s: not supported on CPUs: %s\n",
		        launch->name, why);
		return NVIDIA_UNSUPPORTED;
	}
	find_arguments(launch, &a);
	comm = read_comm(launch->kernels->layout, a.comm);
	if (launch->may_use && !may_run(launch, &a, &comm))
		return NVIDIA_ILLEGAL_ADDRESS;
	count = block_count(launch, &a);
	if (count <= 0)
		return NVIDIA_DONE;
	blocks = calloc((size_t)count, sizeof(*blocks));
	if (!blocks) {
		fprintf(stderr, "cohort: %s: out of memory\n", launch->name);
		return NVIDIA_NO_MEMORY;
	}
	for (int i = 0; i < count; i++, channel++) {
		while (!(a.channels >> channel & 1))
			channel++;
		block_init(&blocks[i], launch->kernels, &a, &comm, i, channel);
	}
	result = run_blocks(blocks, count, &comm);
	free(blocks);
	return result;
}

/* ---- the kernel of one-rank communicators ----------------------------- */

#define KERNEL "oneRankReduceI13FuncPreMulSumI"

static const struct {
	const char *name;
	int type;
} types[] = {
	{ "aE", ncclInt8 },
	{ "hE", ncclUint8 },
	{ "iE", ncclInt32 },
	{ "jE", ncclUint32 },
	{ "lE", ncclInt64 },
	{ "mE", ncclUint64 },
	{ "6__halfE", ncclFloat16 },
	{ "fE", ncclFloat32 },
	{ "dE", ncclFloat64 },
	{ "13__nv_bfloat16E", ncclBfloat16 },
	{ "13__nv_fp8_e4m3E", ncclFloat8e4m3 },
	{ "13__nv_fp8_e5m2E", ncclFloat8e5m2 },
};

int nvidia_one_rank_type(const char *name)
{
	const char *type = strstr(name, KERNEL);

	if (!type)
		return -1;
	type += strlen(KERNEL);
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		if (strncmp(type, types[i].name, strlen(types[i].name)) == 0)
			return types[i].type;
	return -1;
}

void nvidia_one_rank_reduce(int type, void *dst, const void *src, size_t count,
                            uint64_t scalar, bool is_pointer)
{
	struct combine c;

	if (is_pointer)
		scalar = combine_scalar_at(type,
		                           (const void *)(uintptr_t)scalar);
	c = combine_make(type, OPERATION_PRE_MUL_SUM, scalar);
	combine(&c, &dst, 1, &src, 1, count, true, true);
}
