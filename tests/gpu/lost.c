/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A device that is lost: a kernel of NCCL's is given an address that is none, after
 * which CUDA answers every call with the same error.  The library must say so, name
 * the rank, and come to an end.
 *
 * Only for real GPUs: elsewhere the address would end the program.
 */

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "support/ranks.h"

/* What hangs ends the program. */
#define MOST_SECONDS 120

static void must(int failed, const char *what)
{
	if (!failed)
		return;
	fprintf(stderr, "%s: %d: %s\n", what, failed, cohort_last_error());
	exit(1);
}

/* With one rank a scaled sum is a kernel, and any other call a copy, which would
 * look at the address first. */
static void lose(const struct platform *p, struct cohort_comm *comm)
{
	void *nowhere = (void *)0x10000, *native;
	cudaStream_t stream = cohort_comm_stream(comm);
	float two = 2;
	ncclRedOp_t op;

	must(cohort_comm_native_enter(comm, &native), "enter");
	must((int)p->cudaSetDevice(0), "cudaSetDevice");
	must((int)p->ncclRedOpCreatePreMulSum(&op, &two, ncclFloat32,
	                                      ncclScalarHostImmediate, native),
	     "ncclRedOpCreatePreMulSum");
	must((int)p->ncclAllReduce(nowhere, nowhere, 1000, ncclFloat32, op,
	                           native, stream),
	     "ncclAllReduce");
	must(p->cudaStreamSynchronize(stream) == cudaSuccess,
	     "the device is not lost");
	must(cohort_comm_native_leave(comm), "leave");
}

int main(void)
{
	const struct platform *p = place_table();
	struct cohort_platform_info info;
	struct cohort_group_options o;
	struct cohort_group *group;
	struct cohort_comm *comm;
	struct cohort_cause cause;
	int rc;

	alarm(MOST_SECONDS);
	must(cohort_platform_probe(place_platform(), &info), "probe");
	if (info.platform != COHORT_PLATFORM_GPU || info.is_drop_in)
		place_skip("needs a real GPU to lose");
	cohort_group_options_init(&o);
	o.deadlines.abort_ns = RANKS_SOON / 10;
	group = ranks_split(1, &o, &comm);
	lose(p, comm);
	rc = cohort_barrier(comm, cohort_comm_stream(comm), NULL);
	printf("call: %d: %s\n", rc, cohort_last_error());
	must(rc >= 0, "a call on a lost device");
	must(cohort_comm_cause(comm, &cause), "cause");
	printf("cause: %d, rank %d, nccl %d, cuda %d: %s\n", cause.status,
	       cause.rank, cause.nccl, cause.cuda, cause.text);
	must(cause.status >= 0 || cause.rank != 0, "the cause");
	rc = cohort_group_close(group);
	printf("close: %d: %s\n", rc, rc ? cohort_last_error() : "");
	return 0;
}
