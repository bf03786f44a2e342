/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Turns bytes into a program, by a model that knows which steps are legal
 *
 * A step that would be illegal is dropped or changed into a legal one. The
 * model is conservative: it assumes that a queue may be stuck if anything on
 * its device may be.
 */
#include <string.h>

#include "base/type.h"
#include "sim/strict/strict.h"
#include "system/fuzz/plan.h"

/* ---- stuck devices ---------------------------------------------------- */

#define HELD (1u << MOST_FAMILIES)

unsigned plan_bit(const struct program *p, const struct family *f)
{
	return 1u << (f - p->families);
}

unsigned plan_taint(const struct program *p, const struct family *f)
{
	unsigned taint = 0;
	int r;

	for (r = 0; r < f->n; r++)
		taint |= p->tainted[f->device[r]];
	return taint;
}

/* If a device of the family @f is stuck, mark all of its devices as stuck. A
 * call on @f waits for all of its devices, and they wait for the call. */
static void spread_taint(struct program *p, struct family *f)
{
	unsigned taint = plan_taint(p, f);
	int r;

	if (f->hangs)
		taint |= plan_bit(p, f);
	for (r = 0; r < f->n; r++)
		p->tainted[f->device[r]] = taint;
}

bool plan_may_hang(const struct program *p, const struct family *f)
{
	return p->is_wild || plan_taint(p, f);
}

void plan_untaint(struct program *p, const struct family *f)
{
	int i;

	for (i = 0; i < DEVICES; i++)
		p->tainted[i] &= ~plan_bit(p, f);
}

void plan_doom(struct program *p, struct family *f)
{
	f->is_doomed = true;
	f->hangs = true;
	p->is_calm = false;
	spread_taint(p, f);
}

void plan_unsure(struct program *p, const struct family *f)
{
	int i;

	for (i = 0; i < p->step_count; i++)
		if (p->steps[i].family == f)
			p->steps[i].is_sure = false;
}

/* ---- choosing families ------------------------------------------------ */

/* Return the existing family (the ranks of one communicator) that @byte
 * selects, or NULL if there is none. */
struct family *plan_pick(struct program *p, unsigned byte)
{
	struct family *there[MOST_FAMILIES];
	unsigned n = 0;
	int i;

	for (i = 0; i < p->family_count; i++)
		if (!p->families[i].is_pending && !p->families[i].is_gone)
			there[n++] = &p->families[i];
	return n ? there[byte % n] : NULL;
}

static int pick_device(const struct program *p, int who, unsigned byte)
{
	int owned = (DEVICES - 1 - who) / p->threads + 1;

	return who + p->threads * (int)(byte % (unsigned)owned);
}

unsigned plan_owners(const struct family *f)
{
	unsigned mask = 0;
	int r;

	for (r = 0; r < f->n; r++)
		mask |= 1u << f->owner[r];
	return mask;
}

/* ---- calls ------------------------------------------------------------ */

/* Pick a count that is usually small, but sometimes exceeds one share of
 * work. */
static size_t pick_count(unsigned byte)
{
	static const size_t counts[] = { 1, 2, 3, 7, 16, 33, 64, 100, 0, 257 };

	if (byte >= 0xf0)
		return byte >= 0xf8 ? 9000 : 1500;
	return counts[byte % (sizeof(counts) / sizeof(counts[0]))];
}

/*
 * Pick an odd rank for some steps. In strict mode, the odd rank makes no call,
 * because all ranks that call must make the same call.
 */
static void plan_oddity(struct program *p, struct step *s)
{
	struct family *f = s->family;

	s->odd_rank = -1;
	if (s->raw[7] < 0xe8 || f->n == 1)
		return;
	s->odd_rank = s->raw[7] % f->n;
	if (strict_is_on())
		s->raw[7] = 0xff;
	plan_doom(p, f);
}

static bool can_be_in_place(const struct step *s)
{
	return s->call != FUZZ_ALL_TO_ALL && s->call != FUZZ_RING &&
	       s->call != FUZZ_PAIR;
}

bool plan_collective(struct program *p, struct step *s)
{
	struct family *f = plan_pick(p, s->raw[1]);

	if (!f || f->is_final || (f->is_async && p->depth))
		return false;
	/* Strict mode would report a call that an aborted rank has skipped. */
	if (f->is_doomed && strict_is_on())
		return false;
	s->family = f;
	s->call = s->raw[2] % (s->raw[2] < 64 ? FUZZ_FIRST_CALLS : FUZZ_CALLS);
	s->count = pick_count(s->raw[3]);
	s->type = s->raw[4] % ncclNumTypes;
	s->op = s->raw[5] % ncclNumOps;
	s->root = s->raw[6] % f->n;
	s->peer = s->raw[7] % f->n;
	s->in_place = can_be_in_place(s) && s->raw[6] & 0x80;
	s->is_scaled = s->raw[5] % 16 == 15;
	/* NCCL refuses to scale 8-bit floats on one rank. */
	if (f->n == 1 && type_size(s->type) == 1 && s->type > ncclUint8 &&
	    (s->is_scaled || s->op == ncclAvg))
		s->type = ncclFloat16;
	if (s->is_scaled)
		s->op = ncclSum;
	plan_oddity(p, s);
	spread_taint(p, f);
	f->touched = p->depth ? plan_owners(f) : 0;
	s->is_sure = !p->is_wild && !f->is_doomed;
	s->may_hang = p->is_wild;
	return true;
}

/* Plan a captured step. Like any other work, its graph may wait for earlier
 * work. */
bool plan_captured(struct program *p, struct step *s)
{
	s->raw[7] = 0;
	return !p->depth && !p->is_wild && plan_collective(p, s) &&
	       !s->family->is_async;
}

/* ---- groups ----------------------------------------------------------- */

bool plan_group_begin(struct program *p, struct step *s)
{
	(void)s;
	if (p->depth == 3)
		return false;
	p->depth++;
	return true;
}

/*
 * Mark the results of a group's calls as uncertain, because only some ranks
 * queue the calls.
 */
static void unsure_group(struct program *p, const struct family *f)
{
	struct step *s = &p->steps[p->step_count];

	while (s-- != p->steps && s->grouped)
		if (s->family == f)
			s->is_sure = false;
}

static void end_family(struct program *p, struct family *f)
{
	unsigned failed = 0;
	int i;

	for (i = 0; i < p->threads; i++)
		failed |= (unsigned)p->has_failed[i] << i;
	if ((f->touched & failed) && (f->touched & ~failed)) {
		plan_doom(p, f);
		unsure_group(p, f);
	}
	f->is_pending = false;
}

/*
 * If a device of a group is stuck, mark the group's other devices as stuck. Its
 * calls are queued at its end, in any order, so anything that waits for one of
 * the calls may wait for all of them.
 */
static void spread_group(struct program *p)
{
	int i, k;

	for (k = 0; k < p->family_count; k++)
		for (i = 0; i < p->family_count; i++)
			if (p->families[i].touched)
				spread_taint(p, &p->families[i]);
}

bool plan_group_end(struct program *p, struct step *s)
{
	int i;

	if (!p->depth)
		return false;
	s->may_hang = p->is_wild;
	if (--p->depth)
		return true;
	s->is_simulated = !p->is_wild && !p->has_joins && !p->has_jobs &&
	                  s->raw[3] % 8 == 7;
	spread_group(p);
	for (i = 0; i < p->family_count; i++)
		end_family(p, &p->families[i]);
	spread_group(p);
	for (i = 0; i < p->family_count; i++)
		p->families[i].touched = 0;
	for (i = 0; i < DEVICES; i++)
		s->may_hang = s->may_hang || (p->has_jobs && p->tainted[i]);
	memset(p->has_failed, 0, sizeof(p->has_failed));
	p->has_joins = p->has_jobs = false;
	return true;
}

/* ---- streams ---------------------------------------------------------- */

/*
 * Plan a wait.  A thread never waits inside a group, and only rarely for an
 * operation that may never end.
 */
static bool plan_wait(struct program *p, struct step *s, bool tainted,
                      enum step_kind instead)
{
	s->may_hang = tainted || p->is_wild;
	if (p->depth || (s->may_hang && s->raw[7] % 8))
		s->kind = instead;
	return true;
}

bool plan_stream_sync(struct program *p, struct step *s)
{
	int device = pick_device(p, s->who, s->raw[2]);

	return plan_wait(p, s, p->tainted[device], STEP_stream_query);
}

bool plan_device_sync(struct program *p, struct step *s)
{
	int device = pick_device(p, s->who, s->raw[2]);

	return plan_wait(p, s, p->tainted[device], STEP_NOTHING);
}

bool plan_stream_query(struct program *p, struct step *s)
{
	(void)p;
	(void)s;
	return true;
}

bool plan_stream_destroy(struct program *p, struct step *s)
{
	(void)s;
	return !p->depth;
}

/* Plan a flush, which waits for nothing. */
bool plan_flush(struct program *p, struct step *s)
{
	(void)p;
	(void)s;
	return true;
}

bool plan_host_function(struct program *p, struct step *s)
{
	(void)p;
	(void)s;
	return true;
}

bool plan_hold(struct program *p, struct step *s)
{
	if (p->holds == HOLDS)
		return false;
	s->raw[1] = (uint8_t)p->holds++;
	p->is_calm = false;
	p->tainted[pick_device(p, s->who, s->raw[2])] |= HELD;
	return true;
}

bool plan_let_go(struct program *p, struct step *s)
{
	if (!p->holds)
		return false;
	s->raw[1] = (uint8_t)(s->raw[1] % p->holds);
	return true;
}

bool plan_event(struct program *p, struct step *s)
{
	unsigned *tainted = &p->event_tainted[s->who][s->raw[3] % EVENTS];
	int waiter = pick_device(p, s->who, s->raw[4]);

	switch (s->raw[2] % 8) {
	case 0:
	case 1:
		*tainted = p->tainted[s->who];
		break;
	case 2:
	case 3:
		p->tainted[waiter] |= *tainted;
		break;
	case 4:
		return plan_wait(p, s, *tainted, STEP_NOTHING);
	}
	return true;
}

bool plan_handoff(struct program *p, struct step *s)
{
	int to = s->raw[2] % p->threads;

	if (p->depth || to == s->who)
		return false;
	p->tainted[pick_device(p, to, s->raw[4])] |=
		p->tainted[pick_device(p, s->who, s->raw[3])];
	sem_init(&s->done, 0, 0);
	return true;
}

/* Plan a memory step; some of its operations wait for a stream. */
bool plan_memory(struct program *p, struct step *s)
{
	bool tainted = p->is_wild;
	int i;

	for (i = s->who; i < DEVICES; i += p->threads)
		tainted = tainted || p->tainted[i];
	return !tainted && !p->depth;
}

bool plan_extra(struct program *p, struct step *s)
{
	return plan_memory(p, s);
}

bool plan_scene(struct program *p, struct step *s)
{
	return plan_memory(p, s);
}

/* ---- wrong calls ------------------------------------------------------ */

bool plan_wrong(struct program *p, struct step *s)
{
	struct family *f = plan_pick(p, s->raw[3]);

	if (wrong_needs_rank(s->raw[2])) {
		if (!f || f->is_async || !(plan_owners(f) >> s->who & 1) ||
		    (f->is_final &&
		     !(f->is_revoked && wrong_needs_revoked(s->raw[2]))))
			return false;
		if (wrong_needs_revoked(s->raw[2]) && !f->is_revoked)
			return false;
		s->family = f;
	}
	s->is_sure = !p->is_wild;
	s->may_hang = p->is_wild;
	if (!p->depth || !wrong_is_poison(s->raw[2]))
		return true;
	if (p->has_joins || p->has_jobs)
		return false;
	p->has_failed[s->who] = true;
	return true;
}

/* ---- main ------------------------------------------------------------- */

static bool (*const planners[])(struct program *p, struct step *s) = {
#define STEP_PLANNER(name, weight) [STEP_##name] = plan_##name,
	STEP_LIST(STEP_PLANNER)
#undef STEP_PLANNER
};

/*
 * Return the kind of step for a byte.  New kinds go at the end of the list, so
 * that the corpus keeps its meaning.
 */
static enum step_kind kind_of(unsigned byte)
{
	static const struct {
		enum step_kind kind;
		unsigned weight;
	} kinds[] = {
#define STEP_WEIGHT(name, weight) { STEP_##name, weight },
		STEP_LIST(STEP_WEIGHT)
#undef STEP_WEIGHT
	};
	unsigned i;

	for (i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		if (byte < kinds[i].weight)
			return kinds[i].kind;
		byte -= kinds[i].weight;
	}
	return STEP_collective;
}

static void add_step(struct program *p, const uint8_t *raw)
{
	struct step *s = &p->steps[p->step_count];

	memcpy(s->raw, raw, STEP_BYTES);
	s->kind = kind_of(raw[0]);
	s->number = p->step_count;
	s->who = raw[1] % p->threads;
	s->grouped = p->depth;
	if (planners[s->kind](p, s) && s->kind != STEP_NOTHING) {
		p->step_count++;
		return;
	}
	memset(s, 0, sizeof(*s));
}

/* Return whether the input scripts a fault, which may hit an earlier step. */
static bool has_fault(const uint8_t *data, size_t steps)
{
	size_t i;

	for (i = 0; i < steps; i++)
		if (kind_of(data[HEADER_BYTES + i * STEP_BYTES]) == STEP_fault)
			return true;
	return false;
}

static void close_groups(struct program *p)
{
	static const uint8_t none[STEP_BYTES];
	struct step *s;

	while (p->depth) {
		s = &p->steps[p->step_count];
		memcpy(s->raw, none, STEP_BYTES);
		s->kind = STEP_group_end;
		s->number = p->step_count;
		s->grouped = true;
		plan_group_end(p, s);
		p->step_count++;
	}
}

bool plan(struct program *p, const uint8_t *data, size_t size)
{
	static const int threads[] = { 1, 2, 3, 4, 2, 3, 4, 8 };
	size_t i, steps;

	memset(p, 0, sizeof(*p));
	if (size < HEADER_BYTES + STEP_BYTES)
		return false;
	p->threads = threads[data[0] % 8];
	p->ends_by_destroy = data[0] & 0x80;
	steps = (size - HEADER_BYTES) / STEP_BYTES;
	if (steps > MOST_STEPS - 3)
		steps = MOST_STEPS - 3;
	/* Script few faults, because a fault makes every result uncertain. */
	p->is_wild = data[1] % 8 == 0 && has_fault(data, steps);
	p->is_calm = !p->is_wild;
	for (i = 0; i < steps; i++)
		add_step(p, data + HEADER_BYTES + i * STEP_BYTES);
	close_groups(p);
	return p->step_count;
}
