/* SPDX-License-Identifier: Apache-2.0 */

#include "sim/nccl/simulate.h"

#include <string.h>

#include "base/type.h"
#include "base/util.h"
#include "sim/nccl/comm.h"

#define LAUNCH_US 5.0F
#define BYTES_PER_US 10000.0F

/* True if @info, by its own size, has the bytes up to @end. */
static bool reaches(const ncclSimInfo_t *info, size_t end)
{
	return info->size >= end;
}

ncclResult_t simulate_check(const ncclSimInfo_t *info)
{
	if (reaches(info, offsetof(ncclSimInfo_t, version)) &&
	    info->magic == NCCL_SIM_INFO_MAGIC)
		return ncclSuccess;
	return comm_error(ncclInvalidArgument,
	                  "ncclGroupSimulateEnd: the info is not initialized "
	                  "with NCCL_SIM_INFO_INITIALIZER");
}

/* How many bytes one rank sends and receives if a collective is done plainly:
 * blocks to and from each other rank. */
static float sent_bytes(const struct call *c, int n)
{
	const float others = (float)(n - 1);
	const float block = (float)c->count * (float)type_size(c->type);

	switch (c->kind) {
	case CALL_ALL_REDUCE:
		return 2 * block * others / (float)n;
	case CALL_ALL_GATHER:
	case CALL_REDUCE_SCATTER:
	case CALL_ALL_TO_ALL:
	case CALL_GATHER:
	case CALL_SCATTER:
		return block * others;
	case CALL_BROADCAST:
	case CALL_REDUCE:
	case CALL_SEND:
	case CALL_RECV:
		break;
	}
	return block;
}

static float launch_us(const struct launch *l)
{
	const struct transfer *t;
	float bytes = 0;
	size_t i;

	for (i = 0; i < l->call_count; i++)
		bytes += sent_bytes(&l->calls[i], l->member->world->n);
	for (i = 0; i < l->transfer_count; i++) {
		t = &l->transfers[i];
		bytes += (float)t->count * (float)type_size(t->type);
	}
	return LAUNCH_US + bytes / BYTES_PER_US;
}

void simulate_launches(const struct launch *first, ncclSimInfo_t *info)
{
	const struct launch *l;
	float us, most = 0;

	if (!first || !reaches(info, sizeof(*info)))
		return;
	for (l = first; l; l = l->next) {
		us = launch_us(l);
		most = MAX(most, us);
	}
	info->estimatedTime = most;
}
