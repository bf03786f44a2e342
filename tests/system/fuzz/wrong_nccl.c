/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Invalid calls of NCCL, and some calls that only look invalid
 */

#include <string.h>

#include "system/fuzz/wrong.h"

static unsigned char buffer[8];

static int get_version(ncclComm_t comm, const struct step *s)
{
	(void)comm;
	(void)s;
	return (int)host_ncclGetVersion(NULL);
}

static int get_unique_id(ncclComm_t comm, const struct step *s)
{
	(void)comm;
	(void)s;
	return (int)host_ncclGetUniqueId(NULL);
}

static int fact_of_none(ncclComm_t comm, const struct step *s)
{
	int out = 0;
	ncclResult_t async;

	switch (s->raw[4] % 4) {
	case 0:
		return (int)host_ncclCommCount(comm, &out);
	case 1:
		return (int)host_ncclCommUserRank(comm, &out);
	case 2:
		return (int)host_ncclCommCuDevice(comm, &out);
	}
	return (int)host_ncclCommGetAsyncError(comm, &async);
}

static int fact_to_none(ncclComm_t comm, const struct step *s)
{
	switch (s->raw[4] % 4) {
	case 0:
		return (int)host_ncclCommCount(comm, NULL);
	case 1:
		return (int)host_ncclCommUserRank(comm, NULL);
	case 2:
		return (int)host_ncclCommCuDevice(comm, NULL);
	}
	return (int)host_ncclCommGetAsyncError(comm, NULL);
}

/* Make a collective with one invalid argument. */
static int collective(ncclComm_t comm, const struct step *s, int type, int op,
                      int root)
{
	ncclDataType_t t = (ncclDataType_t)type;
	ncclRedOp_t o = (ncclRedOp_t)op;

	switch (s->raw[4] % FUZZ_CALLS) {
	case FUZZ_ALL_REDUCE:
		if (!root)
			return (int)host_ncclAllReduce(buffer, buffer, 1, t, o,
			                               comm, NULL);
		break;
	case FUZZ_BROADCAST:
		if (!op)
			return (int)host_ncclBroadcast(buffer, buffer, 1, t,
			                               root, comm, NULL);
		break;
	case FUZZ_ALL_GATHER:
		if (!root && !op)
			return (int)host_ncclAllGather(buffer, buffer, 1, t,
			                               comm, NULL);
		break;
	case FUZZ_REDUCE_SCATTER:
		if (!root)
			return (int)host_ncclReduceScatter(buffer, buffer, 1, t,
			                                   o, comm, NULL);
		break;
	}
	return (int)host_ncclReduce(buffer, buffer, 1, t, o, root, comm, NULL);
}

static int no_comm(ncclComm_t comm, const struct step *s)
{
	return collective(comm, s, s->raw[5], s->raw[6], s->raw[7]);
}

static int bad_type(ncclComm_t comm, const struct step *s)
{
	int type = s->raw[5] % 2 ? -1 - s->raw[6] : ncclNumTypes + s->raw[6];

	return collective(comm, s, type, ncclSum, 0);
}

static int bad_op(ncclComm_t comm, const struct step *s)
{
	int op = s->raw[5] % 2 ? -1 - s->raw[6] : ncclNumOps + s->raw[6];

	return collective(comm, s, ncclInt8, op, 0);
}

static int bad_root(ncclComm_t comm, const struct step *s)
{
	int n = s->family->n;

	return collective(comm, s, ncclInt8, ncclSum,
	                  s->raw[5] % 2 ? -1 - s->raw[6] : n + s->raw[6]);
}

static int revoked(ncclComm_t comm, const struct step *s)
{
	return collective(comm, s, ncclInt8, ncclSum, 0);
}

static ncclUniqueId no_id(void)
{
	ncclUniqueId id;

	memset(&id, 0x55, sizeof(id));
	return id;
}

static int init_no_ranks(ncclComm_t comm, const struct step *s)
{
	return (int)host_ncclCommInitRank(&comm, -(int)s->raw[4], no_id(), 0);
}

static int init_bad_rank(ncclComm_t comm, const struct step *s)
{
	int rank = s->raw[4] % 2 ? -1 - s->raw[5] : 2 + s->raw[5];

	return (int)host_ncclCommInitRank(&comm, 2, no_id(), rank);
}

static int init_bad_id(ncclComm_t comm, const struct step *s)
{
	(void)s;
	return (int)host_ncclCommInitRank(&comm, 1, no_id(), 0);
}

static int init_all_none(ncclComm_t comm, const struct step *s)
{
	(void)comm;
	return (int)host_ncclCommInitAll(NULL, s->raw[4] % 4, NULL);
}

static int init_all_bad(ncclComm_t comm, const struct step *s)
{
	int device = s->raw[4] % 2 ? -1 - s->raw[5] : DEVICES + s->raw[5];

	if (s->raw[6] % 2)
		return (int)host_ncclCommInitAll(&comm, -1 - s->raw[5], NULL);
	return (int)host_ncclCommInitAll(&comm, 1, &device);
}

static int init_all_twice(ncclComm_t comm, const struct step *s)
{
	ncclComm_t comms[2] = { comm, comm };
	int device = s->raw[4] % DEVICES;

	return (int)host_ncclCommInitAll(comms, 2, (int[]){ device, device });
}

static int end_none(ncclComm_t comm, const struct step *s)
{
	switch (s->raw[4] % 3) {
	case 0:
		return (int)host_ncclCommDestroy(comm);
	case 1:
		return (int)host_ncclCommAbort(comm);
	}
	return (int)host_ncclCommFinalize(comm);
}

/* Make queries, all of which are valid. */
static int ask(ncclComm_t comm, const struct step *s)
{
	ncclResult_t async = ncclSuccess;
	int result = (int)host_ncclCommGetAsyncError(comm, &async);

	(void)s;
	if (!host_ncclGetLastError(comm) || !host_ncclGetErrorString(async))
		fuzz_fail("no text");
	expect(false, async, "ncclCommGetAsyncError");
	return result;
}

static int texts(ncclComm_t comm, const struct step *s)
{
	int code = (int)s->raw[4] * (s->raw[5] % 2 ? -1 : 5);

	(void)comm;
	if (!host_ncclGetErrorString((ncclResult_t)code) ||
	    !host_cudaGetErrorString((cudaError_t)code) ||
	    !host_cudaGetErrorName((cudaError_t)code))
		fuzz_fail("no text for %d", code);
	return 0;
}

static int move_without_comm(ncclComm_t comm, const struct step *s)
{
	switch (s->raw[4] % 6) {
	case 0:
		return (int)host_ncclSend(buffer, 1, ncclInt8, 0, comm, NULL);
	case 1:
		return (int)host_ncclRecv(buffer, 1, ncclInt8, 0, comm, NULL);
	case 2:
		return (int)host_ncclBcast(buffer, 1, ncclInt8, 0, comm, NULL);
	case 3:
		return (int)host_ncclAlltoAll(buffer, buffer, 1, ncclInt8, comm,
		                              NULL);
	case 4:
		return (int)host_ncclGather(buffer, buffer, 1, ncclInt8, 0,
		                            comm, NULL);
	}
	return (int)host_ncclScatter(buffer, buffer, 1, ncclInt8, 0, comm,
	                             NULL);
}

static int bad_peer(ncclComm_t comm, const struct step *s)
{
	int n = s->family->n;
	int peer = s->raw[5] % 2 ? -1 - s->raw[6] : n + s->raw[6];

	return (int)(s->raw[4] % 2 ? host_ncclSend(buffer, s->raw[7] % 2,
	                                           ncclInt8, peer, comm, NULL)
	                           : host_ncclRecv(buffer, s->raw[7] % 2,
	                                           ncclInt8, peer, comm, NULL));
}

static int bad_redop(ncclComm_t comm, const struct step *s)
{
	int op = s->raw[4] % 3 == 0   ? s->raw[5] % ncclNumOps
	         : s->raw[4] % 3 == 1 ? -1 - s->raw[5]
	                              : ncclNumOps + s->raw[5];

	return (int)host_ncclRedOpDestroy((ncclRedOp_t)op, comm);
}

static int bad_children(ncclComm_t comm, const struct step *s)
{
	int rank = 0, list[] = { -1 - s->raw[6] };
	ncclComm_t child = NULL;

	switch (s->raw[4] % 6) {
	case 0:
		return (int)host_ncclCommSplit(comm, 0, 0, NULL, NULL);
	case 1:
		return (int)host_ncclCommShrink(comm, NULL, 1, &child, NULL, 0);
	case 2:
		return (int)host_ncclCommShrink(comm, list, -(s->raw[5] % 8),
		                                &child, NULL, 0);
	case 3:
		return (int)host_ncclCommShrink(comm, list, 1, &child, NULL, 0);
	case 4:
		host_ncclCommUserRank(comm, &rank);
		return (int)host_ncclCommShrink(comm, &rank, 1, &child, NULL,
		                                0);
	}
	return (int)host_ncclCommRevoke(comm, 1 + s->raw[5]);
}

static int bad_handle(ncclComm_t comm, const struct step *s)
{
	(void)s;
	return (int)host_ncclCommDeregister(comm, buffer);
}

static int bad_memory(ncclComm_t comm, const struct step *s)
{
	(void)comm;
	return (int)(s->raw[4] % 2 ? host_ncclMemAlloc(NULL, s->raw[5])
	                           : host_ncclMemFree(buffer));
}

static int bad_config(ncclComm_t comm, const struct step *s)
{
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;

	switch (s->raw[4] % 5) {
	case 0:
		config.magic ^= 1u << s->raw[5] % 32;
		break;
	case 1:
		config.blocking = 2 + s->raw[5];
		break;
	case 2:
		config.minCTAs = -(int)s->raw[5];
		break;
	case 3:
		config.minCTAs = 3;
		config.maxCTAs = 2;
		break;
	default:
		config.splitShare = 2 + s->raw[5];
	}
	return (int)host_ncclCommInitRankConfig(&comm, 1, s->family->id, 0,
	                                        &config);
}

/* ---- the table -------------------------------------------------------- */

const struct wrong wrong_nccl[] = {
	{ "ncclGetVersion", false, NEEDS_NOTHING, ncclInvalidArgument,
	  ncclInvalidArgument, get_version },
	{ "ncclGetUniqueId", false, NEEDS_NOTHING, ncclInvalidArgument,
	  ncclInvalidArgument, get_unique_id },
	{ "a fact of no communicator", false, NEEDS_NOTHING,
	  ncclInvalidArgument, ncclInvalidArgument, fact_of_none },
	{ "a fact to nowhere", false, NEEDS_RANK, ncclInvalidArgument,
	  ncclInvalidArgument, fact_to_none },
	{ "a collective without communicator", true, NEEDS_NOTHING,
	  ncclInvalidArgument, ncclInvalidArgument, no_comm },
	{ "a collective of no type", true, NEEDS_RANK, ncclInvalidArgument,
	  ncclInvalidArgument, bad_type },
	{ "a collective of no operation", true, NEEDS_RANK, ncclInvalidArgument,
	  ncclInvalidArgument, bad_op },
	{ "a collective of no root", true, NEEDS_RANK, ncclInvalidArgument,
	  ncclInvalidArgument, bad_root },
	{ "an init without ranks", false, NEEDS_NOTHING, ncclInvalidArgument,
	  ncclInvalidArgument, init_no_ranks },
	{ "an init of no rank", true, NEEDS_NOTHING, ncclInvalidArgument,
	  ncclInvalidArgument, init_bad_rank },
	{ "an init without id", true, NEEDS_NOTHING, ncclInvalidUsage,
	  ncclInvalidArgument, init_bad_id },
	{ "ncclCommInitAll to nowhere", false, NEEDS_NOTHING,
	  ncclInvalidArgument, ncclInvalidArgument, init_all_none },
	{ "ncclCommInitAll of no device", false, NEEDS_NOTHING,
	  ncclInvalidArgument, ncclInvalidArgument, init_all_bad },
	{ "ncclCommInitAll of one device twice", false, NEEDS_NOTHING,
	  ncclInvalidUsage, ncclInvalidUsage, init_all_twice },
	{ "the end of no communicator", false, NEEDS_NOTHING, ncclSuccess,
	  ncclSuccess, end_none },
	{ "ncclCommGetAsyncError", false, NEEDS_RANK, ncclSuccess, ncclSuccess,
	  ask },
	{ "texts", false, NEEDS_NOTHING, 0, 0, texts },
	{ "a collective on what is revoked", true, NEEDS_REVOKED,
	  ncclInvalidUsage, ncclInvalidUsage, revoked },
	{ "data moved without communicator", true, NEEDS_NOTHING,
	  ncclInvalidArgument, ncclInvalidArgument, move_without_comm },
	{ "a message to no rank", true, NEEDS_RANK, ncclInvalidArgument,
	  ncclInvalidArgument, bad_peer },
	{ "ncclRedOpDestroy", false, NEEDS_RANK, ncclInvalidArgument,
	  ncclInvalidArgument, bad_redop },
	{ "a child that cannot be", true, NEEDS_RANK, ncclInvalidArgument,
	  ncclInvalidArgument, bad_children },
	{ "ncclCommDeregister", false, NEEDS_RANK, ncclInvalidUsage,
	  ncclInvalidUsage, bad_handle },
	{ "NCCL's memory", false, NEEDS_NOTHING, ncclUnhandledCudaError,
	  ncclUnhandledCudaError, bad_memory },
	{ "a configuration", true, NEEDS_RANK, ncclInvalidArgument,
	  ncclInvalidUsage, bad_config },
};

const unsigned wrong_nccl_count = sizeof(wrong_nccl) / sizeof(wrong_nccl[0]);
