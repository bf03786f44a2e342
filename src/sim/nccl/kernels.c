/* SPDX-License-Identifier: Apache-2.0 */

#include "sim/nccl/kernels.h"

#include "sim/cuda/sync.h"
#include "sim/nccl/comm.h"

/* The only rank of a world uses a kernel that others do not. */
#define KERNEL_ALONE 31

/* Sends, receives and the collectives that NCCL builds from them share one
 * kernel. */
static unsigned kernel_of(enum call_kind kind)
{
	switch (kind) {
	case CALL_RECV:
	case CALL_ALL_TO_ALL:
	case CALL_GATHER:
	case CALL_SCATTER:
		return CALL_SEND;
	default:
		return kind;
	}
}

static uint32_t kernels_of(const struct launch *l)
{
	uint32_t kernels = 0;
	size_t i;

	if (l->member->world->n == 1)
		return UINT32_C(1) << KERNEL_ALONE;
	for (i = 0; i < l->call_count; i++)
		kernels |= UINT32_C(1) << kernel_of(l->calls[i].kind);
	if (l->transfer_count)
		kernels |= UINT32_C(1) << kernel_of(CALL_SEND);
	return kernels;
}

/* Loading never waits for another rank's kernel of the same communicator: the
 * first rank is launched only after all kernels are loaded, and the others find
 * them loaded.  They are loaded on the devices of all ranks, as a smaller
 * communicator may have used only some of them. */
void kernels_load(const struct launch *l)
{
	const struct world *w = l->member->world;
	int devices[HOST_MAX_RANKS], r, n = 0;

	for (r = 0; r < w->n; r++)
		if (w->members[r])
			devices[n++] = w->members[r]->device;
	sync_load(l->member->device, devices, n, kernels_of(l));
}
