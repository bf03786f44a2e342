/* SPDX-License-Identifier: Apache-2.0 */

/* Implements NCCL's user-defined reduction operations */

#include "sim/nccl/nccl_redop.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/type.h"
#include "sim/host.h"
#include "sim/nccl/nccl_comm.h"

/* A handle has the communicator's number, never 0, in its high bits, and the
 * operation's index in the communicator's list in its low bits. */
#define PLACE_BITS 16
#define MARKS (1 << (30 - PLACE_BITS))

static int place_of(const struct redops *all, int handle)
{
	if (handle < ncclNumOps || handle >> PLACE_BITS != all->mark)
		return -1;
	handle &= (1 << PLACE_BITS) - 1;
	return handle < all->count && all->list[handle].live ? handle : -1;
}

const struct redop *redop_find(const struct redops *all, int handle)
{
	int place = place_of(all, handle);

	return place < 0 ? NULL : &all->list[place];
}

static int new_mark(void)
{
	/* Relaxed, because each value only has to be unique. */
	static atomic_uint marks;

	return 1 + (int)(add_relaxed(&marks, 1) % (MARKS - 1));
}

static int new_place(struct redops *all)
{
	int i;

	for (i = 0; i < all->count; i++)
		if (!all->list[i].live)
			return i;
	if (all->count == 1 << PLACE_BITS ||
	    !array_grow(&all->list, NULL, (size_t)all->count, &all->room,
	                sizeof(*all->list)))
		return -1;
	return all->count++;
}

static int redop_add(struct redops *all, const struct redop *op)
{
	int place = new_place(all);

	if (place < 0)
		return -1;
	if (!all->mark)
		all->mark = new_mark();
	all->list[place] = *op;
	return all->mark << PLACE_BITS | place;
}

/* ---- NCCL's functions -------------------------------------------------- */

ncclResult_t host_ncclRedOpCreatePreMulSum(ncclRedOp_t *op, void *scalar,
                                           ncclDataType_t type,
                                           ncclScalarResidence_t residence,
                                           ncclComm_t comm)
{
	const size_t bytes = type_size((int)type);
	struct redop new = { .live = true, .type = (int)type };
	ncclResult_t result;
	int handle;

	if (!comm_is_valid(comm, "ncclRedOpCreatePreMulSum"))
		return comm_error(ncclInvalidArgument,
		                  "comm is not a communicator");
	result = comm_ready(comm);
	if (result != ncclSuccess)
		return result;
	if (!op || !scalar)
		return comm_error(ncclInvalidArgument,
		                  "ncclRedOpCreatePreMulSum: op or scalar is "
		                  "NULL");
	if (residence == ncclScalarHostImmediate)
		memcpy(new.scalar.value, scalar, bytes);
	else
		new.scalar.at = scalar;
	handle = redop_add(&comm->redops, &new);
	if (handle < 0)
		return comm_error(ncclSystemError, "out of memory");
	/* As in NCCL, the failed operation keeps its slot. */
	if (residence == ncclScalarHostImmediate && !bytes)
		return comm_error(
			ncclInternalError,
			"ncclRedOpCreatePreMulSum: invalid data type");
	*op = (ncclRedOp_t)handle;
	return ncclSuccess;
}

ncclResult_t host_ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm)
{
	int place;

	if ((int)op >= 0 && (int)op < ncclNumOps)
		return comm_error(ncclInvalidArgument,
		                  "ncclRedOpDestroy: op is built in and cannot "
		                  "be destroyed");
	if ((int)op < 0)
		return comm_error(ncclInvalidArgument,
		                  "ncclRedOpDestroy: op is negative");
	if (!comm_is_valid(comm, "ncclRedOpDestroy"))
		return comm_error(ncclInvalidArgument,
		                  "comm is not a communicator");
	place = place_of(&comm->redops, (int)op);
	if (place < 0)
		return comm_error(ncclInvalidArgument,
		                  "ncclRedOpDestroy: op does not belong to "
		                  "this communicator");
	comm->redops.list[place].live = false;
	return ncclSuccess;
}
