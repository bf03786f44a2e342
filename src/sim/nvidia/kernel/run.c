/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Carrying out launches (see sim/nvidia/kernel.h)
 *
 * The thread that runs a launch goes around its blocks, and does for each what can be
 * done.  So no channel waits for another, which could wait for a peer that waits for the
 * first one; and a launch takes no more threads for many channels than for one.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/backoff.h"
#include "sim/nvidia/kernel/block.h"
#include "sim/nvidia/kernel/own_buffers.h"
#include "sim/nvidia/kernel/read.h"

/* ---- what can be carried out ------------------------------------------ */

/* Whether buffers are registered with a network device: there is no such device. */
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

/* @written: the works are in memory already. */
static bool check_block(const struct nvidia_kernels *k,
                        const struct arguments *a, int index, bool written,
                        char *why, size_t size)
{
	struct works works;

	for (; index >= 0; index = works.next) {
		if (!works_read(&works, k, a, index)) {
			snprintf(why, size, "an unknown batch of works");
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

/* The works of a graph's launch are copied to where they will be by the graph itself. */
bool nvidia_kernel_check(const struct nvidia_launch *launch, char *why,
                         size_t size)
{
	return check(launch, false, why, size);
}

/* ---- the program's buffers --------------------------------------------- */

static bool work_may_run(const struct nvidia_launch *launch,
                         const struct kernel_comm *comm,
                         const struct works *works, const void *work,
                         struct bad_buffer *bad)
{
	const struct layout *l = launch->kernels->layout;
	struct broadcast_work broadcast;
	struct coll_work coll;
	struct p2p_work p2p;

	switch (works->type) {
	case WORK_P2P:
		p2p = read_p2p(l, work);
		return own_buffers_of_p2p(&p2p, launch->may_use, bad);
	case WORK_BROADCAST:
		broadcast = read_broadcast(l, work);
		return own_buffers_of_broadcast(&broadcast, launch->may_use,
		                                bad);
	default:
		coll = read_coll(l, work);
		return own_buffers_of_coll(works->function, comm, &coll,
		                           launch->may_use, bad);
	}
}

static bool works_may_run(const struct nvidia_launch *launch,
                          const struct arguments *a,
                          const struct kernel_comm *comm,
                          const struct works *works, struct bad_buffer *bad)
{
	const struct nvidia_kernels *k = launch->kernels;
	struct work_bytes room;
	bool ok = true;

	for (int n = 0; ok && n < works->count; n++) {
		const void *work = works_at(works, k, a, n, &room);

		ok = work_may_run(launch, comm, works, work, bad);
	}
	return ok;
}

/* False, which is said, if a buffer of a work must not be used. */
static bool may_run(const struct nvidia_launch *launch,
                    const struct arguments *a, const struct kernel_comm *comm)
{
	struct bad_buffer bad;
	struct works works;
	char name[64];

	for (int i = 0; i < block_count(launch, a); i++)
		for (int index = i; index >= 0; index = works.next) {
			works_read(&works, launch->kernels, a, index);
			if (works_may_run(launch, a, comm, &works, &bad))
				continue;
			fprintf(stderr,
			        "cohort: rank %d: %s uses %zu bytes at %p, "
			        "which are not all in an allocation\n",
			        comm->rank,
			        kernels_name(works.function, name,
			                     sizeof(name)),
			        bad.bytes, bad.start);
			return false;
		}
	return true;
}

/* ---- running ----------------------------------------------------------- */

static bool is_set(const uint32_t *flag)
{
	return flag && __atomic_load_n(flag, __ATOMIC_ACQUIRE);
}

/* One round: true if something was done. */
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
		fprintf(stderr, "cohort: %s: CPUs do not carry out %s\n",
		        launch->name, why);
		return NVIDIA_UNSUPPORTED;
	}
	find_arguments(launch, &a);
	comm = read_comm(launch->kernels->layout, a.comm);
	if (launch->may_use && !may_run(launch, &a, &comm))
		return NVIDIA_ILLEGAL_ADDRESS;
	count = block_count(launch, &a);
	blocks = calloc((size_t)count, sizeof(*blocks));
	if (count && !blocks) {
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
