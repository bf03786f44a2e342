/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Inits that cannot complete, because one rank never joins. The reaper aborts
 * the communicators that exist.
 */

#include "system/fuzz/program.h"

static ncclComm_t comm_of(struct family *f, int rank)
{
	/* This acquire pairs with the host platform's release store. */
	return __atomic_load_n(&f->comm[rank], __ATOMIC_ACQUIRE);
}

bool partial_waits(struct family *f)
{
	int r;

	for (r = 0; f->is_partial && r < f->n; r++)
		if (comm_of(f, r) && !atomic_load(&f->is_released[r]))
			return true;
	return false;
}

/* Abort a rank. Only the first thread that calls this does so. */
static void end_rank(struct family *f, int rank)
{
	ncclComm_t comm = comm_of(f, rank);

	if (comm && !atomic_exchange(&f->is_released[rank], true))
		expect(true, host_ncclCommAbort(comm), "ncclCommAbort");
}

void partial_abort(struct family *f)
{
	int r;

	for (r = 0; r < f->n; r++)
		end_rank(f, r);
}

/*
 * End a family whose init can never complete. If no rank has joined, its id is
 * still unused, so let one rank join with it to use it up.
 */
void partial_end(struct family *f)
{
	ncclResult_t result;
	ncclComm_t comm;

	if (!f->is_partial)
		return;
	partial_abort(f);
	result = host_ncclCommInitRank(&comm, 1, f->id, 0);
	expect(result != ncclInvalidUsage, result, "ncclCommInitRank");
	expect(true,
	       result == ncclSuccess ? host_ncclCommDestroy(comm)
	                             : host_ncclCommAbort(comm),
	       "the end of a communicator");
}

static ncclResult_t join_ranks(struct runner *r, struct step *s)
{
	struct family *f = s->family;
	ncclResult_t result = ncclInternalError;
	int rank;

	host_ncclGroupStart();
	for (rank = 0; rank < f->n; rank++) {
		if (f->owner[rank] != r->index || rank == s->odd_rank)
			continue;
		expect_cuda(host_cudaSetDevice(f->device[rank]),
		            "cudaSetDevice");
		result = host_ncclCommInitRank(&f->comm[rank], f->n, f->id,
		                               rank);
		expect(true, result, "ncclCommInitRank");
	}
	wait_begin(r->program, true);
	result = host_ncclGroupEnd();
	wait_end(r->program, true);
	return result;
}

void run_init_cut(struct runner *r, struct step *s)
{
	struct family *f = s->family;
	int rank, before, own = own_ranks(r, f);

	own -= f->owner[s->odd_rank] == r->index;
	if (!own)
		return;
	host_cudaGetDevice(&before);
	if (join_ranks(r, s) == ncclSuccess)
		fuzz_fail("an init completed without rank %d", s->odd_rank);
	for (rank = 0; rank < f->n; rank++)
		if (f->owner[rank] == r->index)
			end_rank(f, rank);
	expect_cuda(host_cudaSetDevice(before), "cudaSetDevice");
}
