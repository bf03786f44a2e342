/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The step that makes an invalid call
 */

#include "system/fuzz/wrong.h"

static const struct wrong *wrong_find(unsigned n)
{
	n %= wrong_nccl_count + wrong_cuda_count;
	return n < wrong_nccl_count ? &wrong_nccl[n]
	                            : &wrong_cuda[n - wrong_nccl_count];
}

bool wrong_is_poison(unsigned n)
{
	return wrong_find(n)->poisons;
}

bool wrong_needs_rank(unsigned n)
{
	return wrong_find(n)->needs != NEEDS_NOTHING;
}

bool wrong_needs_revoked(unsigned n)
{
	return wrong_find(n)->needs == NEEDS_REVOKED;
}

/* Return one of the thread's communicators of @f. */
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
	ncclComm_t comm = w->needs ? own_comm(r, s->family) : NULL;
	int result;

	if (w->needs && !comm) {
		/* The wrong call is skipped, so an open group may succeed
		 * although the model expects it to fail. */
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
