/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A device that is lost: a kernel of NCCL's gets an invalid address, after
 * which CUDA answers every call with the same error.  The library must say so,
 * name the rank, and end.
 *
 * On the drop-in libraries, where the address would end the program, a table in
 * front of theirs simulates the loss.  This program has only run there, and
 * never on a GPU.
 */

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "support/ranks.h"

/* A hang ends the program. */
#define MOST_SECONDS 120

static void must(int failed, const char *what)
{
	if (!failed)
		return;
	fprintf(stderr, "%s: %d: %s\n", what, failed, cohort_last_error());
	exit(1);
}

#define NOWHERE ((void *)0x10000)

/* ---- the simulated loss ----------------------------------------------- */

static const struct platform *whole;

/* Atomic; set once, read by the library's threads. */
static atomic_bool is_lost;

/* clang-format off */
#define IS_TEXT(result) _Generic((result)0, const char *: true, default: false)
#define LOST(code, result, name, parameters, arguments)                        \
	static result lost_##name parameters                                   \
	{                                                                      \
		if (!IS_TEXT(result) && is_lost)                               \
			return (result)(intptr_t)(code);                       \
		return whole->name arguments;                                  \
	}
#define LOST_NCCL(since, result, name, parameters, arguments)                  \
	LOST(ncclUnhandledCudaError, result, name, parameters, arguments)
#define LOST_CUDA(since, result, name, parameters, arguments)                  \
	LOST(cudaErrorIllegalAddress, result, name, parameters, arguments)
NCCL_FUNCTIONS(LOST_NCCL)
CUDA_FUNCTIONS(LOST_CUDA)
/* clang-format on */

static cudaError_t lost_mark(cudaStream_t stream, uint32_t *word,
                             uint32_t value)
{
	return is_lost ? cudaErrorIllegalAddress
	               : whole->mark(stream, word, value);
}

static ncclResult_t lose_by_address(const void *send, void *recv, size_t count,
                                    ncclDataType_t type, ncclRedOp_t op,
                                    ncclComm_t comm, cudaStream_t stream)
{
	if (send != NOWHERE)
		return lost_ncclAllReduce(send, recv, count, type, op, comm,
		                          stream);
	is_lost = true;
	return ncclSuccess;
}

static void install_simulated_loss(void)
{
	static struct platform table;

	whole = place_table();
	table = *whole;
#define ENTRY(since, result, name, parameters, arguments)                      \
	table.name = lost_##name;
	NCCL_FUNCTIONS(ENTRY)
	CUDA_FUNCTIONS(ENTRY)
#undef ENTRY
	table.ncclAllReduce = lose_by_address;
	/* The simulated loss leaves only memory behind. */
	table.ncclGroupStart = whole->ncclGroupStart;
	table.ncclGroupEnd = whole->ncclGroupEnd;
	table.mark = lost_mark;
	platform_override(&table);
}

/* ---- what the library says -------------------------------------------- */

/*
 * With one rank a scaled sum is a kernel; any other call is a copy, which would
 * check the address first.
 */
static void lose_device(const struct platform *p, struct cohort_comm *comm)
{
	void *native;
	cudaStream_t stream = cohort_comm_stream(comm);
	float two = 2;
	ncclRedOp_t op;

	must(cohort_comm_native_enter(comm, &native), "enter");
	must((int)p->cudaSetDevice(0), "cudaSetDevice");
	must((int)p->ncclRedOpCreatePreMulSum(&op, &two, ncclFloat32,
	                                      ncclScalarHostImmediate, native),
	     "ncclRedOpCreatePreMulSum");
	must((int)p->ncclAllReduce(NOWHERE, NOWHERE, 1000, ncclFloat32, op,
	                           native, stream),
	     "ncclAllReduce");
	must(p->cudaStreamSynchronize(stream) == cudaSuccess,
	     "the device is not lost");
	must(cohort_comm_native_leave(comm), "leave");
}

int main(void)
{
	struct cohort_platform_info info = { .size = sizeof(info) };
	const struct platform *p;
	struct cohort_group_options o;
	struct cohort_group *group;
	struct cohort_comm *comm;
	struct cohort_cause cause;
	int rc;

	alarm(MOST_SECONDS);
	must(cohort_platform_probe(place_platform(), &info), "probe");
	if (info.platform != COHORT_PLATFORM_GPU)
		place_skip("needs the gpu platform");
	if (info.is_drop_in)
		install_simulated_loss();
	must(platform_open(place_platform(), &p), "platform_open");
	cohort_group_options_init(&o);
	o.deadlines.abort_ns = RANKS_SOON / 10;
	group = ranks_split(1, &o, &comm);
	lose_device(p, comm);
	rc = cohort_barrier(comm, cohort_comm_stream(comm), NULL);
	printf("call: %d: %s\n", rc, cohort_last_error());
	must(rc >= 0, "a call on a lost device");
	must(cohort_comm_cause(comm, &cause), "cause");
	printf("cause: %d, rank %d, nccl %d, cuda %d: %s\n", cause.status,
	       cause.rank, cause.nccl, cause.cuda, cause.text);
	must(cause.status >= 0 || cause.rank != 0, "the cause");
	must(!cause.cuda && !cause.nccl, "the native error");
	rc = cohort_group_close(group);
	printf("close: %d: %s\n", rc, rc ? cohort_last_error() : "");
	return 0;
}
