/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The planner of steps that create and end communicators
 */

#include "sim/strict/strict.h"
#include "system/fuzz/plan.h"

/* ---- inits ------------------------------------------------------------ */

/*
 * Add a family (the ranks of one communicator) on devices that no other family
 * uses. Small families are more likely.
 */
static struct family *new_family(struct program *p, const uint8_t *raw)
{
	static const int strides[] = { 1, 3, 5, 7 };
	struct family *f;
	int r;

	if (p->family_count == MOST_FAMILIES)
		return NULL;
	f = &p->families[p->family_count++];
	f->n = raw[2] < 0xe0 ? 1 + raw[2] % 5 : 6 + raw[2] % 3;
	for (r = 0; r < f->n; r++) {
		f->device[r] = (raw[3] + r * strides[raw[4] % 4]) % DEVICES;
		f->owner[r] = f->device[r] % p->threads;
	}
	f->root = f;
	return f;
}

/* Give the communicators of some inits a configuration. */
static void pick_config(const struct program *p, struct family *f,
                        const uint8_t *raw)
{
	f->has_config = raw[7] & 0x40;
	f->is_async =
		f->has_config && (raw[7] & 0x8) && !p->is_wild && !p->depth;
	f->shares[0] = f->has_config && (raw[7] & 0x20);
	f->shares[1] = f->has_config && (raw[7] & 0x10);
}

bool plan_init_all(struct program *p, struct step *s)
{
	if (p->depth)
		return false;
	s->family = new_family(p, s->raw);
	s->may_hang = p->is_wild;
	return s->family;
}

/*
 * Plan an init by ranks. In a group with other calls, a thread waits while it
 * is inside communicators, which is illegal if another thread may hang before
 * it joins.
 */
bool plan_init_ranks(struct program *p, struct step *s)
{
	bool calm = !p->is_wild;
	int i;

	for (i = 0; i < DEVICES; i++)
		calm = calm && !p->tainted[i];
	for (i = 0; i < MOST_THREADS; i++)
		calm = calm && !p->has_failed[i];
	if (p->depth && !calm)
		return false;
	s->family = new_family(p, s->raw);
	if (!s->family)
		return false;
	if (host_ncclGetUniqueId(&s->family->id) != ncclSuccess)
		fuzz_fail("ncclGetUniqueId failed");
	pick_config(p, s->family, s->raw);
	s->may_hang = p->is_wild;
	s->family->is_pending = p->depth;
	p->has_joins = p->has_joins || p->depth;
	return true;
}

/*
 * Plan an init that one rank never joins. The others wait until they are
 * aborted.
 */
bool plan_init_cut(struct program *p, struct step *s)
{
	struct family *f;

	if (p->depth || s->raw[2] % 5 == 0)
		return false;
	f = new_family(p, s->raw);
	if (!f)
		return false;
	if (host_ncclGetUniqueId(&f->id) != ncclSuccess)
		fuzz_fail("ncclGetUniqueId failed");
	s->family = f;
	s->odd_rank = s->raw[5] % f->n;
	s->may_hang = true;
	f->is_partial = f->is_gone = true;
	p->is_calm = false;
	return true;
}

/* ---- children --------------------------------------------------------- */

/*
 * Return the step's family if it can have children: all its owners must have
 * joined and, if @idle is true, nothing on it may hang.
 */
static struct family *parent(struct program *p, struct step *s, bool idle)
{
	struct family *f = plan_pick(p, s->raw[1]);

	if (!f || (f->is_final && !f->is_revoked) || f->is_async || p->depth ||
	    (idle && plan_may_hang(p, f)) ||
	    p->family_count > MOST_FAMILIES - 2)
		return NULL;
	s->family = f;
	return f;
}

static bool has_kin(const struct program *p, const struct family *f)
{
	int i;

	for (i = 0; i < p->family_count; i++)
		if (&p->families[i] != f && p->families[i].root == f->root)
			return true;
	return false;
}

static int key_of(const struct step *s, int rank)
{
	return s->kind == STEP_split ? s->raw[7] * (rank + 1) % 5 : 0;
}

/* Return the next rank of @mask, by key and then by number, or -1 if none is
 * left. */
static int next_rank(const struct step *s, unsigned mask)
{
	int r, best = -1;

	for (r = 0; r < s->family->n; r++)
		if (mask >> r & 1 &&
		    (best < 0 || key_of(s, r) < key_of(s, best)))
			best = r;
	return best;
}

/* Add a child of the step's family with the ranks of @mask. */
static struct family *new_child(struct program *p, struct step *s,
                                unsigned mask, bool shares)
{
	const struct family *parent = s->family;
	struct family *f;
	int r;

	if (!mask)
		return NULL;
	f = &p->families[p->family_count++];
	while ((r = next_rank(s, mask)) >= 0) {
		mask &= ~(1u << r);
		s->child_rank[r] = f->n;
		f->device[f->n] = parent->device[r];
		f->owner[f->n++] = parent->owner[r];
	}
	f->root = shares ? parent->root : f;
	/* A child with its own configuration inherits nothing. */
	f->shares[0] = parent->shares[0] && !(s->raw[2] % 2);
	f->shares[1] = parent->shares[1] && !(s->raw[2] % 2);
	f->is_doomed = s->may_hang || parent->is_ending;
	if (s->may_hang)
		plan_doom(p, f);
	return f;
}

/* Plan a split into up to two children. Some ranks are in neither. */
bool plan_split(struct program *p, struct step *s)
{
	struct family *f = parent(p, s, !p->is_wild);
	unsigned all, none, one;

	if (!f)
		return false;
	all = (1u << f->n) - 1;
	none = s->raw[5] & s->raw[6] & all;
	one = s->raw[4] & all & ~none;
	s->excluded = none;
	s->may_hang = p->is_wild;
	s->is_sure = !p->is_wild;
	s->children[0] = new_child(p, s, all & ~none & ~one,
	                           f->shares[0] && !f->is_revoked);
	s->children[1] = new_child(p, s, one, f->shares[0] && !f->is_revoked);
	return true;
}

static unsigned survivors_taint(const struct program *p, const struct step *s)
{
	unsigned taint = 0;
	int r;

	for (r = 0; r < s->family->n; r++)
		if (!(s->excluded >> r & 1))
			taint |= p->tainted[s->family->device[r]];
	return taint;
}

/*
 * Plan a loss: the remaining ranks make a call that the excluded ranks do not
 * make, and this call is aborted. Nothing else may be in flight.
 */
static void plan_loss(struct step *s)
{
	s->is_loss = true;
	s->call = FUZZ_ALL_REDUCE;
	s->count = 16;
	s->odd_rank = -1;
}

/*
 * Plan a shrink. After a shrink with an abort, the parent gets no more calls,
 * because the excluded ranks may still wait in it.
 */
bool plan_shrink(struct program *p, struct step *s)
{
	bool aborts = s->raw[3] % 2;
	struct family *f = parent(p, s, !aborts && !p->is_wild);
	unsigned all;

	if (!f || (aborts && has_kin(p, f)))
		return false;
	all = (1u << f->n) - 1;
	s->excluded = s->raw[4] & s->raw[5] & all;
	if (!s->excluded || s->excluded == all)
		return false;
	if (aborts && s->raw[3] % 4 == 3 && !plan_may_hang(p, f) &&
	    !f->is_doomed && !f->is_revoked)
		plan_loss(s);
	else if (aborts)
		plan_unsure(p, f);
	if (aborts && !s->is_loss)
		plan_doom(p, f);
	f->is_doomed = f->is_doomed || aborts;
	f->is_final = f->is_final || aborts;
	s->may_hang = p->is_wild || survivors_taint(p, s);
	s->is_sure = !s->may_hang;
	s->children[0] = new_child(p, s, all & ~s->excluded,
	                           f->shares[1] && !f->is_revoked && !aborts);
	return true;
}

/* Plan a window step. It frees memory immediately, so nothing may be stuck. */
bool plan_window(struct program *p, struct step *s)
{
	struct family *f = plan_pick(p, s->raw[1]);

	if (!f || f->is_final || f->is_async || p->depth || plan_may_hang(p, f))
		return false;
	s->family = f;
	return true;
}

bool plan_revoke(struct program *p, struct step *s)
{
	struct family *f = plan_pick(p, s->raw[1]);

	if (!f || f->is_final || f->is_async || f->touched || p->depth ||
	    has_kin(p, f))
		return false;
	s->family = f;
	plan_unsure(p, f);
	plan_untaint(p, f);
	s->may_hang = plan_may_hang(p, f);
	s->is_sure = !s->may_hang;
	f->is_doomed = f->is_final = f->is_revoked = true;
	f->hangs = false;
	/*
	 * The revoke by the first rank cuts short the operations for which
	 * other ranks still wait.
	 */
	if (s->raw[7] % 8 == 0)
		plan_doom(p, f);
	return true;
}

/* ---- teardown --------------------------------------------------------- */

/*
 * Return the family to end, or NULL. In an open group, NCCL ends the family
 * when the group ends. So return NULL if the group may fail, because NCCL would
 * then not end the family, or if the group contains calls on the family.
 */
static struct family *family_to_end(struct program *p, struct step *s)
{
	struct family *f = plan_pick(p, s->raw[1]);
	int i;

	for (i = 0; i < MOST_THREADS; i++)
		if (p->has_failed[i])
			return NULL;
	if (!f || f->touched || p->is_wild || (f->is_async && p->depth))
		return NULL;
	p->has_jobs = p->depth;
	s->family = f;
	return f;
}

bool plan_finalize(struct program *p, struct step *s)
{
	struct family *f = family_to_end(p, s);

	if (!f || f->is_final || p->depth ||
	    (f->is_async && plan_may_hang(p, f)))
		return false;
	s->may_hang = plan_may_hang(p, f);
	f->is_final = true;
	return true;
}

bool plan_destroy(struct program *p, struct step *s)
{
	struct family *f = family_to_end(p, s);

	if (!f || plan_may_hang(p, f) || (p->depth && has_kin(p, f)))
		return false;
	f->is_gone = true;
	return true;
}

/*
 * Record that calls may hang on the other families that are aborted together
 * with @f, because their ranks outside @f may wait for the aborted ranks.
 */
static void doom_family(struct program *p, const struct family *f)
{
	int i;

	for (i = 0; i < p->family_count; i++)
		if (&p->families[i] != f && p->families[i].root == f->root)
			plan_doom(p, &p->families[i]);
}

bool plan_own_abort(struct program *p, struct step *s)
{
	struct family *f = family_to_end(p, s);

	if (!f)
		return false;
	s->may_hang = plan_may_hang(p, f);
	f->is_gone = true;
	p->is_calm = false;
	doom_family(p, f);
	return true;
}

/* Plan an abort by the reaper, which takes time and races with later steps. */
bool plan_abort(struct program *p, struct step *s)
{
	s->family = plan_pick(p, s->raw[2]);
	if (!s->family)
		return false;
	s->family->is_doomed = s->family->is_ending = true;
	doom_family(p, s->family);
	return true;
}

/*
 * Plan a fault. In strict mode, plan no fault that makes a call fail: the
 * failure would fail the whole native group, and the rank must not continue.
 */
bool plan_fault(struct program *p, struct step *s)
{
	const int kind = fault_kind(s);

	return p->is_wild &&
	       (!strict_is_on() || kind == COHORT_FAULT_NEVER ||
	        kind == COHORT_FAULT_DELAY || kind == COHORT_FAULT_INIT);
}
