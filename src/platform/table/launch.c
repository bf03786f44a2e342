/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A launch by marks and native calls alone, as on a GPU
 */

#include "platform/platform.h"

void native_note_nccl(struct native_result *r, const char *what,
                      ncclResult_t result)
{
	if (r->what || result == ncclSuccess)
		return;
	r->what = what;
	r->nccl = result;
}

void native_note_cuda(struct native_result *r, const char *what,
                      cudaError_t error)
{
	if (r->what || error == cudaSuccess)
		return;
	r->what = what;
	r->cuda = error;
}

/* Mark one word of each rank, on its device if there are several ranks. */
static inline void mark(const struct platform *p,
                        const struct native_launch *first, bool is_end,
                        struct native_result *r)
{
	const struct native_launch *l;
	uint32_t *word;

	for (l = first; l && !r->what; l = l->next) {
		word = is_end ? l->done : l->started;
		if (!word)
			continue;
		r->rank = l->rank;
		if (first->next)
			native_note_cuda(r, "cudaSetDevice",
			                 p->cudaSetDevice(l->device));
		if (!r->what)
			native_note_cuda(r, "mark",
			                 p->mark(l->stream, word, l->value));
	}
}

static void call_in_group(const struct platform *p,
                          const struct native_launch *first,
                          struct native_result *r)
{
	const struct native_launch *l;

	native_note_nccl(r, "ncclGroupStart", p->ncclGroupStart());
	for (l = first; l && !r->what; l = l->next) {
		r->rank = l->rank;
		l->call(l, r);
	}
	native_note_nccl(r, "ncclGroupEnd", p->ncclGroupEnd());
}

void launch_between_marks(const struct platform *p, struct native_launch *l,
                          struct native_result *r)
{
	mark(p, l, false, r);
	if (r->what)
		return;
	if (l->is_group || l->next)
		call_in_group(p, l, r);
	else
		l->call(l, r);
	mark(p, l, true, r);
}
