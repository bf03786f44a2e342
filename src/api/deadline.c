/* SPDX-License-Identifier: Apache-2.0 */

/* Deadlines of a rank's calls: push, pop, pause and resume */

#include "api/communicator.h"
#include "base/clock.h"
#include "base/sized.h"
#include "base/status.h"
#include "base/util.h"
#include "core/comm_lock.h"
#include "core/pair.h"
#include "core/remote.h"
#include "watch/watch.h"

#define LEAST_NS UINT64_C(1000000)

int deadlines_check(const char *owner, const struct cohort_deadlines *d)
{
	const struct {
		const char *name;
		uint64_t ns;
	} all[] = {
		{ "init_ns", d->init_ns },   { "join_ns", d->join_ns },
		{ "exec_ns", d->exec_ns },   { "close_ns", d->close_ns },
		{ "abort_ns", d->abort_ns },
	};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(all); i++)
		if (all[i].ns && all[i].ns < LEAST_NS)
			return error_set(COHORT_INVALID,
			                 "%s%s is %llu, but the unit is "
			                 "nanoseconds, and the minimum is "
			                 "1000000 (1 ms)",
			                 owner, all[i].name,
			                 (unsigned long long)all[i].ns);
	return COHORT_OK;
}

/* Check deadlines to be pushed.  Only join_ns and exec_ns can be pushed. */
static int pushed_check(const struct cohort_deadlines *d)
{
	const struct {
		const char *name;
		uint64_t ns;
	} of_the_group[] = {
		{ "init_ns", d->init_ns },
		{ "close_ns", d->close_ns },
		{ "abort_ns", d->abort_ns },
	};
	size_t i;
	int rc;

	for (i = 0; i < ARRAY_SIZE(of_the_group); i++)
		if (of_the_group[i].ns)
			return error_set(
				COHORT_INVALID,
				"deadlines->%s is %llu, not 0: only the "
				"group's options can set it",
				of_the_group[i].name,
				(unsigned long long)of_the_group[i].ns);
	rc = reserved_check("deadlines->", d,
	                    offsetof(struct cohort_deadlines, reserved),
	                    sizeof(*d));
	return rc == COHORT_OK ? deadlines_check("deadlines->", d) : rc;
}

/* Return the shorter of two deadlines.  If @other is 0, return @ns. */
static uint64_t shorter(uint64_t ns, uint64_t other)
{
	return other && other < ns ? other : ns;
}

static uint64_t shortest_pushed(const struct cohort_comm *c)
{
	uint64_t ns = COHORT_FOREVER;
	unsigned i;

	for (i = 0; i < c->deadlines.count; i++) {
		ns = shorter(ns, c->deadlines.pushed[i].join_ns);
		ns = shorter(ns, c->deadlines.pushed[i].exec_ns);
	}
	return ns;
}

/* Publish the last pushed deadlines to communicators split from @c. */
static void publish_pushed(struct cohort_comm *c)
{
	const struct limits none = { 0, 0 };
	const struct limits *l =
		c->deadlines.count
			? &c->deadlines.pushed[c->deadlines.count - 1]
			: &none;

	atomic_store(&c->deadlines.join_ns, l->join_ns);
	atomic_store(&c->deadlines.exec_ns, l->exec_ns);
	atomic_store(&c->deadlines.shortest_ns, shortest_pushed(c));
}

/* Exclude the next call from adaptive deadlines, because its duration after a
 * pause or a pop is not typical. */
static void excuse(struct cohort_comm *c)
{
	atomic_store(&c->deadlines.excused,
	             atomic_load(&c->agreement.collectives) + 1);
}

/* Pop all but the first @count pushed deadlines.  Calls in flight keep the
 * deadlines under which they were made. */
static void pop_to(struct cohort_comm *c, unsigned count)
{
	uint64_t ns = shortest_pushed(c);

	if (ns < atomic_load(&c->deadlines.popped_shortest_ns))
		atomic_store(&c->deadlines.popped_shortest_ns, ns);
	atomic_store(&c->deadlines.popped_last,
	             atomic_load(&c->agreement.collectives));
	atomic_store(&c->deadlines.popped_transfers, pair_count(c));
	c->deadlines.count = count;
	publish_pushed(c);
	if (count)
		return;
	excuse(c);
	atomic_fetch_sub(&c->clique->pushed, 1);
}

static int push(struct cohort_comm *c, const struct cohort_deadlines *d)
{
	/* 0 selects the group's limit, see comm_limits() */
	struct limits l = { 0, 0 };

	if (c->deadlines.count == MAX_PUSHED)
		return error_set(COHORT_STATE,
		                 "%d deadlines are pushed, which is the limit: "
		                 "pop one first",
		                 MAX_PUSHED);
	if (c->deadlines.count)
		l = c->deadlines.pushed[c->deadlines.count - 1];
	if (d->join_ns && !c->clique->deadlines_are_fixed)
		l.join_ns = d->join_ns;
	if (d->exec_ns && !c->clique->deadlines_are_fixed)
		l.exec_ns = d->exec_ns;
	if (!c->deadlines.count)
		atomic_fetch_add(&c->clique->pushed, 1);
	c->deadlines.pushed[c->deadlines.count++] = l;
	publish_pushed(c);
	/* Wake the watchdog, because the next call's deadline may pass before
	 * the watchdog would check again. */
	watch_wake(c->clique);
	return COHORT_OK;
}

int cohort_deadline_push(struct cohort_comm *comm,
                         const struct cohort_deadlines *deadlines)
{
	int rc = comm_check(comm);

	if (rc != COHORT_OK)
		return rc;
	if (!deadlines)
		return error_set(COHORT_INVALID, "deadlines is NULL");
	rc = pushed_check(deadlines);
	if (rc == COHORT_OK)
		rc = comm_enter(comm, true);
	if (rc != COHORT_OK)
		return rc;
	rc = push(comm, deadlines);
	comm_leave(comm);
	return rc;
}

static int pop(struct cohort_comm *c)
{
	if (!c->deadlines.count)
		return error_set(COHORT_STATE,
		                 "rank %d has no pushed deadlines", c->rank);
	pop_to(c, c->deadlines.count - 1);
	return COHORT_OK;
}

static int pause_rank(struct cohort_comm *c)
{
	if (c->deadlines.paused++)
		return COHORT_OK;
	atomic_fetch_add(&c->clique->paused, 1);
	if (c->clique->remote)
		c->clique->remote->publish_event(c, REMOTE_PAUSED);
	return COHORT_OK;
}

static int resume_rank(struct cohort_comm *c)
{
	if (!c->deadlines.paused)
		return error_set(COHORT_STATE, "rank %d is not paused",
		                 c->rank);
	if (--c->deadlines.paused)
		return COHORT_OK;
	excuse(c);
	atomic_store(&c->clique->resumed_ns, clock_now());
	atomic_fetch_sub(&c->clique->paused, 1);
	if (c->clique->remote)
		c->clique->remote->publish_event(c, REMOTE_RESUMED);
	/* Wake the watchdog, because the clocks of paused deadlines run
	 * again. */
	watch_wake(c->clique);
	return COHORT_OK;
}

int cohort_deadline_pop(struct cohort_comm *comm)
{
	return comm_call_locked(comm, pop);
}

int cohort_pause(struct cohort_comm *comm)
{
	return comm_call_locked(comm, pause_rank);
}

int cohort_resume(struct cohort_comm *comm)
{
	return comm_call_locked(comm, resume_rank);
}

int deadlines_forget(struct cohort_comm *c)
{
	if (c->deadlines.count)
		pop_to(c, 0);
	if (!c->deadlines.paused)
		return COHORT_OK;
	c->deadlines.paused = 1;
	return resume_rank(c);
}

int deadlines_reset(struct cohort_comm *comm)
{
	return comm_call_locked(comm, deadlines_forget);
}
