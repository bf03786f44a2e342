/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Steps that create communicators from others, or revoke them
 */

#include "system/fuzz/program.h"

static struct family *child_of(const struct step *s, int rank)
{
	if (s->excluded >> rank & 1)
		return NULL;
	return s->kind == STEP_shrink ? s->children[0]
	                              : s->children[s->raw[4] >> rank & 1];
}

static ncclResult_t split(struct step *s, int rank, ncclComm_t *out,
                          ncclConfig_t *config)
{
	const bool in = child_of(s, rank);

	return host_ncclCommSplit(s->family->comm[rank],
	                          in ? s->raw[4] >> rank & 1
	                             : NCCL_SPLIT_NOCOLOR,
	                          s->raw[7] * (rank + 1) % 5, out, config);
}

/* Shrink a rank's communicator. The call sorts the list, so pass a copy. */
static ncclResult_t shrink(struct step *s, int rank, ncclComm_t *out,
                           ncclConfig_t *config)
{
	int i, n = 0, list[MOST_RANKS];

	for (i = s->family->n - 1; i >= 0; i--)
		if (s->excluded >> i & 1)
			list[n++] = i;
	return host_ncclCommShrink(s->family->comm[rank], list, n, out, config,
	                           s->raw[3] % 2 ? NCCL_SHRINK_ABORT
	                                         : NCCL_SHRINK_DEFAULT);
}

/* Make a thread's calls in its group. Return false if one could not be made. */
static bool call_children(struct runner *r, struct step *s, ncclComm_t *made)
{
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
	ncclConfig_t *own = s->raw[2] % 2 ? &config : NULL;
	struct family *f = s->family;
	ncclResult_t result;
	bool all = true;
	int rank;

	for (rank = 0; rank < f->n; rank++) {
		made[rank] = NULL;
		if (f->owner[rank] != r->index ||
		    (s->kind == STEP_shrink && s->excluded >> rank & 1))
			continue;
		if (!go_inside(r, f, rank)) {
			all = false;
			continue;
		}
		wait_begin(r->program, s->may_hang);
		result = s->kind == STEP_split
		                 ? split(s, rank, &made[rank], own)
		                 : shrink(s, rank, &made[rank], own);
		wait_end(r->program, s->may_hang);
		expect(s->is_sure && is_intact(r->program, f), result,
		       "a split or shrink");
		all = all && result == ncclSuccess;
	}
	return all;
}

static void publish_children(struct runner *r, struct step *s, ncclComm_t *made,
                             bool good)
{
	struct family *child;
	int rank;

	for (rank = 0; rank < s->family->n; rank++) {
		child = child_of(s, rank);
		if (!child || s->family->owner[rank] != r->index)
			continue;
		child->comm[s->child_rank[rank]] = made[rank];
		if (good)
			check_comm(child, s->child_rank[rank]);
		else
			atomic_store(&child->is_broken, true);
		publish(child, r->program, 1);
	}
}

static void make_children(struct runner *r, struct step *s)
{
	ncclComm_t made[MOST_RANKS];
	ncclResult_t result;
	bool good;

	fuzz_group_start(r);
	r->group_waits = r->group_is_loose = true;
	good = call_children(r, s, made);
	result = fuzz_group_end(r, s->may_hang);
	expect(s->is_sure && is_intact(r->program, s->family), result,
	       "ncclGroupEnd of splits or shrinks");
	publish_children(r, s, made, good && result == ncclSuccess);
}

void run_split(struct runner *r, struct step *s)
{
	if (!own_ranks(r, s->family))
		return;
	ranks_drain(r, s->family, s->may_hang);
	make_children(r, s);
}

void cut_together(struct runner *r, struct step *s)
{
	if (s->raw[7] % 8)
		wait_for_owners(r->program, s);
	else
		wait_cut(r->program);
}

static void call_without(struct runner *r, struct step *s)
{
	struct family *f = s->family;
	int rank;

	fuzz_group_start(r);
	for (rank = 0; rank < f->n; rank++)
		if (f->owner[rank] == r->index && !(s->excluded >> rank & 1))
			call_rank(r, s, rank);
	fuzz_group_end(r, false);
}

void run_shrink(struct runner *r, struct step *s)
{
	int before;

	if (!own_ranks(r, s->family))
		return;
	host_cudaGetDevice(&before);
	if (s->is_loss || s->raw[3] % 2 == 0)
		ranks_drain(r, s->family, s->may_hang);
	if (s->is_loss) {
		wait_for_owners(r->program, s);
		call_without(r, s);
	} else if (s->raw[3] % 2) {
		cut_together(r, s);
	}
	host_cudaSetDevice(before);
	make_children(r, s);
}

void run_revoke(struct runner *r, struct step *s)
{
	struct family *f = s->family;
	ncclResult_t result;
	int rank;

	if (!own_ranks(r, f))
		return;
	cut_together(r, s);
	fuzz_group_start(r);
	r->group_waits = r->group_is_loose = true;
	for (rank = 0; rank < f->n; rank++) {
		if (f->owner[rank] != r->index || !go_inside(r, f, rank))
			continue;
		result =
			host_ncclCommRevoke(f->comm[rank], NCCL_REVOKE_DEFAULT);
		expect(s->is_sure && is_intact(r->program, f), result,
		       "ncclCommRevoke");
	}
	result = fuzz_group_end(r, s->may_hang);
	expect(s->is_sure && is_intact(r->program, f), result,
	       "ncclGroupEnd of revokes");
}
