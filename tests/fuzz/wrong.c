/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Calls with arguments that are refused, each with the codes that it may answer
 */

#include <string.h>

#include "fuzz/program.h"

struct wrong {
	const char *name;
	bool poisons;    /* an open group fails */
	bool needs_rank; /* else @comm is NULL */
	int result, or_result;
	int (*call)(ncclComm_t comm, const struct step *step);
};

static unsigned char buffer[8];

/* ---- NCCL ------------------------------------------------------------- */

#define NONE NULL

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

/* A collective with one thing wrong. */
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

/* Not wrong at all. */
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

/* ---- CUDA ------------------------------------------------------------- */

static int bad_device(ncclComm_t comm, const struct step *s)
{
	(void)comm;
	return (int)host_cudaSetDevice(s->raw[4] % 2 ? -1 - s->raw[5]
	                                             : DEVICES + s->raw[5]);
}

static int to_none(ncclComm_t comm, const struct step *s)
{
	(void)comm;
	switch (s->raw[4] % 9) {
	case 0:
		return (int)host_cudaGetDevice(NULL);
	case 1:
		return (int)host_cudaGetDeviceCount(NULL);
	case 2:
		return (int)host_cudaMalloc(NULL, s->raw[5]);
	case 3:
		return (int)host_cudaMallocHost(NULL, s->raw[5]);
	case 4:
		return (int)host_cudaHostAlloc(NULL, s->raw[5], 0);
	case 5:
		return (int)host_cudaStreamCreate(NULL);
	case 6:
		return (int)host_cudaEventCreate(NULL);
	case 7:
		return (int)host_cudaRuntimeGetVersion(NULL);
	}
	return (int)host_cudaDriverGetVersion(NULL);
}

static int bad_free(ncclComm_t comm, const struct step *s)
{
	(void)comm;
	return (int)(s->raw[4] % 2 ? host_cudaFree(buffer + s->raw[5] % 8)
	                           : host_cudaFreeHost(buffer + s->raw[5] % 8));
}

static int bad_copy(ncclComm_t comm, const struct step *s)
{
	(void)comm;
	switch (s->raw[4] % 5) {
	case 0:
		return (int)host_cudaMemcpy(NULL, buffer, 8, cudaMemcpyDefault);
	case 1:
		return (int)host_cudaMemcpyAsync(buffer, NULL, 8,
		                                 cudaMemcpyDefault, NULL);
	case 2:
		return (int)host_cudaMemset(NULL, 0, 8);
	case 3:
		return (int)host_cudaMemsetAsync(NULL, 0, 8, NULL);
	}
	return (int)host_cudaMemcpyAsync(
		buffer, buffer, 8, (enum cudaMemcpyKind)(5 + s->raw[5]), NULL);
}

static int bad_flags(ncclComm_t comm, const struct step *s)
{
	unsigned int flags = 0x100u << s->raw[5] % 20;
	cudaStream_t stream;
	cudaEvent_t event;
	void *memory;

	(void)comm;
	switch (s->raw[4] % 3) {
	case 0:
		return (int)host_cudaStreamCreateWithFlags(&stream, flags);
	case 1:
		return (int)host_cudaEventCreateWithFlags(&event, flags);
	}
	return (int)host_cudaHostAlloc(&memory, 8, flags);
}

static int no_handle(ncclComm_t comm, const struct step *s)
{
	float ms;

	(void)comm;
	switch (s->raw[4] % 7) {
	case 0:
		return (int)host_cudaStreamDestroy(NULL);
	case 1:
		return (int)host_cudaEventDestroy(NULL);
	case 2:
		return (int)host_cudaEventRecord(NULL, NULL);
	case 3:
		return (int)host_cudaEventQuery(NULL);
	case 4:
		return (int)host_cudaEventSynchronize(NULL);
	case 5:
		return (int)host_cudaStreamWaitEvent(NULL, NULL, 0);
	}
	return (int)host_cudaEventElapsedTime(&ms, NULL, NULL);
}

static int no_function(ncclComm_t comm, const struct step *s)
{
	(void)comm;
	(void)s;
	return (int)host_cudaLaunchHostFunc(NULL, NULL, NULL);
}

/* ---- all of them ------------------------------------------------------ */

static const struct wrong wrongs[] = {
	{ "ncclGetVersion", false, false, ncclInvalidArgument,
	  ncclInvalidArgument, get_version },
	{ "ncclGetUniqueId", false, false, ncclInvalidArgument,
	  ncclInvalidArgument, get_unique_id },
	{ "a fact of no communicator", false, false, ncclInvalidArgument,
	  ncclInvalidArgument, fact_of_none },
	{ "a fact to nowhere", false, true, ncclInvalidArgument,
	  ncclInvalidArgument, fact_to_none },
	{ "a collective without communicator", true, false, ncclInvalidArgument,
	  ncclInvalidArgument, no_comm },
	{ "a collective of no type", true, true, ncclInvalidArgument,
	  ncclInvalidArgument, bad_type },
	{ "a collective of no operation", true, true, ncclInvalidArgument,
	  ncclInvalidArgument, bad_op },
	{ "a collective of no root", true, true, ncclInvalidArgument,
	  ncclInvalidArgument, bad_root },
	{ "an init without ranks", false, false, ncclInvalidArgument,
	  ncclInvalidArgument, init_no_ranks },
	{ "an init of no rank", true, false, ncclInvalidArgument,
	  ncclInvalidArgument, init_bad_rank },
	{ "an init without id", true, false, ncclInvalidUsage,
	  ncclInvalidArgument, init_bad_id },
	{ "ncclCommInitAll to nowhere", false, false, ncclInvalidArgument,
	  ncclInvalidArgument, init_all_none },
	{ "ncclCommInitAll of no device", false, false, ncclInvalidArgument,
	  ncclInvalidArgument, init_all_bad },
	{ "ncclCommInitAll of one device twice", false, false, ncclInvalidUsage,
	  ncclInvalidUsage, init_all_twice },
	{ "the end of no communicator", false, false, ncclSuccess, ncclSuccess,
	  end_none },
	{ "ncclCommGetAsyncError", false, true, ncclSuccess, ncclSuccess, ask },
	{ "texts", false, false, 0, 0, texts },
	{ "cudaSetDevice", false, false, cudaErrorInvalidDevice,
	  cudaErrorInvalidDevice, bad_device },
	{ "an output that is NULL", false, false, cudaErrorInvalidValue,
	  cudaErrorInvalidValue, to_none },
	{ "freeing what is not allocated", false, false, cudaErrorInvalidValue,
	  cudaErrorInvalidValue, bad_free },
	{ "a copy", false, false, cudaErrorInvalidValue,
	  21 /* cudaErrorInvalidMemcpyDirection */, bad_copy },
	{ "flags", false, false, cudaErrorInvalidValue, cudaErrorInvalidValue,
	  bad_flags },
	{ "no handle", false, false, cudaErrorInvalidResourceHandle,
	  cudaErrorInvalidValue, no_handle },
	{ "a collective on what is revoked", true, true, ncclInvalidUsage,
	  ncclInvalidUsage, revoked },
	{ "no function", false, false, cudaErrorInvalidValue,
	  cudaErrorInvalidValue, no_function },
};

static const struct wrong *wrong_find(unsigned n)
{
	return &wrongs[n % (sizeof(wrongs) / sizeof(wrongs[0]))];
}

bool wrong_is_poison(unsigned n)
{
	return wrong_find(n)->poisons;
}

bool wrong_needs_rank(unsigned n)
{
	return wrong_find(n)->needs_rank;
}

bool wrong_needs_revoked(unsigned n)
{
	return wrong_find(n)->call == revoked;
}

/* Of the family, one of this thread's. */
static ncclComm_t own_comm(struct runner *r, struct family *f)
{
	int rank;

	for (rank = 0; rank < f->n; rank++)
		if (f->owner[rank] == r->index && go_inside(r, f, rank))
			return f->comm[rank];
	return NULL;
}

void run_wrong(struct runner *r, struct step *s)
{
	const struct wrong *w = wrong_find(s->raw[2]);
	ncclComm_t comm = w->needs_rank ? own_comm(r, s->family) : NULL;
	int result;

	if (w->needs_rank && !comm) {
		/* The group does not fail, then. */
		r->group_is_loose = r->depth;
		return;
	}
	if (s->may_hang)
		wait_begin(r->program, true);
	result = w->call(comm, s);
	if (s->may_hang)
		wait_end(r->program, true);
	if (s->is_sure && result != w->result && result != w->or_result)
		fuzz_fail("%s: %d, not %d: %s", w->name, result, w->result,
		          host_ncclGetLastError(NULL));
	if (w->poisons && r->depth)
		r->group_error = result;
	host_cudaGetLastError();
}
