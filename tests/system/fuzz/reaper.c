/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The reaper: a thread that aborts families (the ranks of one communicator) as
 * the library does. It raises all abort flags first, and ends its native group
 * after all threads have left.
 */

#include "system/fuzz/program.h"

bool is_ready(const struct family *f)
{
	return atomic_load(&f->ready) == f->n;
}

void reap_want(struct program *p, struct family *f)
{
	pthread_mutex_lock(&p->lock);
	f->is_wanted = true;
	pthread_cond_broadcast(&p->changed);
	pthread_mutex_unlock(&p->lock);
}

bool settle_ending(struct family *f, int how)
{
	int none = ENDING_NONE;

	return atomic_compare_exchange_strong(&f->ending, &none, how) ||
	       none == how;
}

static bool is_inside(const struct family *f)
{
	int r;

	for (r = 0; r < f->n; r++)
		if (atomic_load(&f->inside[r]))
			return true;
	return false;
}

/*
 * Return whether a family must be aborted: a step has asked for it, or all
 * threads are stuck.
 */
static bool is_due(const struct program *p, const struct family *f)
{
	return f->is_wanted || is_stuck(p) || !is_alive(f);
}

/*
 * Return whether the reaper may make a call on a family now. Two threads must
 * not call a nonblocking communicator at the same time. A thread that is inside
 * it may wait until another family's abort flags are raised, so the reaper must
 * not wait for that thread.
 */
static bool may_be_called(const struct family *f)
{
	return !f->is_async || !is_inside(f);
}

/* Return the next family whose abort flags must be raised, or NULL. The lock
 * must be held. */
static struct family *next_to_flag_locked(struct program *p)
{
	struct family *f;
	int i;

	for (i = 0; i < p->family_count; i++) {
		f = &p->families[i];
		if (is_stuck(p) && partial_waits(f))
			return f;
		if (f->is_flagged || !is_ready(f) || !is_due(p, f) ||
		    !settle_ending(f, ENDING_ABORT))
			continue;
		/* From now on, a thread that leaves wakes the reaper. */
		atomic_store(&f->is_dead, true);
		if (may_be_called(f))
			return f;
	}
	return NULL;
}

/* Return whether no thread is inside any family whose abort flags are or will
 * be raised. */
static bool is_clear(const struct program *p)
{
	int i;

	for (i = 0; i < p->family_count; i++)
		if (!is_alive(&p->families[i]) && is_inside(&p->families[i]))
			return false;
	return true;
}

/*
 * Raise a family's abort flags. Other families that are aborted together with
 * this one may have ranks that this one does not have, which may then wait for
 * the aborted ranks.
 */
static void flag(struct program *p, struct family *f)
{
	int r;

	if (!is_alone(p, f))
		wait_cut(p);
	f->is_flagged = true;
	for (r = 0; r < f->n; r++)
		if (!atomic_exchange(&f->is_released[r], true))
			expect(true, host_ncclCommAbort(f->comm[r]),
			       "ncclCommAbort");
	atomic_store(&f->is_aborted, true);
}

/* Release all held host functions. */
static void let_go_all(struct program *p)
{
	int i;

	cohort_sim_faults_clear();
	for (i = 0; i < p->holds; i++)
		sem_post(&p->held[i]);
}

/*
 * Return whether the reaper may end its native group. The end waits for earlier
 * operations, which may hang until they are aborted, so it must be the last
 * step.
 */
static bool may_end_locked(const struct program *p)
{
	return (p->is_calm || p->is_over) && is_clear(p);
}

/* Raise the abort flags of one family after another, until no family is left to
 * abort or the native group may be ended. */
static void reap_locked(struct program *p, bool *open)
{
	struct family *f = next_to_flag_locked(p);

	if (!f && *open && may_end_locked(p)) {
		pthread_mutex_unlock(&p->lock);
		expect(true, host_ncclGroupEnd(), "ncclGroupEnd of aborts");
		pthread_mutex_lock(&p->lock);
		*open = false;
		return;
	}
	if (!f) {
		pthread_cond_wait(&p->changed, &p->lock);
		return;
	}
	pthread_mutex_unlock(&p->lock);
	if (!*open)
		expect(true, host_ncclGroupStart(), "ncclGroupStart");
	*open = true;
	if (f->is_partial)
		partial_abort(f);
	else
		flag(p, f);
	pthread_mutex_lock(&p->lock);
}

void reap(void *round, int i)
{
	struct program *p = round;
	bool open = false;

	(void)i;
	pthread_mutex_lock(&p->lock);
	while (!p->is_over || open) {
		if (is_stuck(p))
			let_go_all(p);
		reap_locked(p, &open);
	}
	pthread_mutex_unlock(&p->lock);
}
