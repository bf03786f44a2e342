/* SPDX-License-Identifier: Apache-2.0 */

/* Detects communicators that two threads use at the same time, and
 * communicators that are used after they were released (see lifetime.h) */

#include "sim/nccl/lifetime.h"

#include <pthread.h>
#include <string.h>

#include "sim/exec/split_round.h"
#include "sim/nccl/nccl_comm.h"
#include "sim/strict/census.h"

/* Atomic; list of destroyed communicators, which only grows. */
static struct ncclComm *_Atomic destroyed_comms;

/* Key whose value points to the thread's number of open groups. */
static pthread_key_t group_key;

/* List of the communicators that this thread is using. */
static _Thread_local struct ncclComm *inside;

/* ---- threads that use a communicator ---------------------------------- */

static uint64_t thread_number(void)
{
	/* Relaxed, because each value only has to be unique. */
	static _Atomic uint64_t threads;
	static _Thread_local uint64_t number;

	if (!number)
		number = add_relaxed(&threads, 1) + 1;
	return number;
}

static const char *name(const char *const _Atomic *function)
{
	const char *text = load_relaxed(function);

	return text ? text : "a function";
}

void lifetime_enter(struct ncclComm *comm, const char *function)
{
	uint64_t who = 0;

	if (atomic_compare_exchange_strong_explicit(
		    &comm->lifetime.inside, &who, thread_number(),
		    memory_order_relaxed, memory_order_relaxed)) {
		store_relaxed(&comm->lifetime.entered_by, function);
		comm->lifetime.next_inside = inside;
		inside = comm;
		return;
	}
	if (who != thread_number())
		member_abort_program(
			function, &comm->member,
			"another thread is using the communicator, in %s",
			name(&comm->lifetime.entered_by));
}

static void leave(struct ncclComm **link)
{
	struct ncclComm *comm = *link;

	*link = comm->lifetime.next_inside;
	/* The release orders the read of next_inside before the next thread's
	 * write. */
	store_release(&comm->lifetime.inside, 0);
}

void lifetime_leave(void)
{
	while (inside)
		leave(&inside);
}

void lifetime_check_idle(const struct ncclComm *comm, const char *function)
{
	if (member_has_work(&comm->member))
		member_abort_program(function, &comm->member,
		                     "called while work of %s is outstanding",
		                     name(&comm->lifetime.entered_by));
}

void lifetime_used(const struct ncclComm *comm, const char *function)
{
	member_abort_program(function, &comm->member,
	                     "used after it was freed");
}

/* ---- groups ----------------------------------------------------------- */

void lifetime_open_group(int *depth)
{
	pthread_setspecific(group_key, depth);
}

static void check_group(void *depth)
{
	if (*(int *)depth)
		member_abort_program("ncclGroupStart",
		                     inside ? &inside->member : NULL,
		                     "the thread ends with an open group");
}

/* ---- the end of a communicator ---------------------------------------- */

void lifetime_release(struct ncclComm *comm, const char *function)
{
	const char *before = atomic_exchange_explicit(
		&comm->lifetime.released_by, function, memory_order_relaxed);
	struct ncclComm **link = &inside;

	if (before)
		member_abort_program(function, &comm->member,
		                     "already released by %s", before);
	/* Unregister this thread now, because another thread might free the
	 * communicator before this thread reaches the end of its group. */
	while (*link && *link != comm)
		link = &(*link)->lifetime.next_inside;
	if (*link)
		leave(link);
}

void lifetime_check_child(const struct ncclComm *comm, const char *function)
{
	const struct ncclComm *child = load_acquire(&comm->lifetime.child);
	const char *by =
		child ? load_relaxed(&child->lifetime.released_by) : NULL;

	if (by)
		member_abort_program(
			function, &comm->member,
			"writes to the flags of a child whose creation "
			"failed, after %s released that child",
			by);
}

static bool is_released_by(const struct ncclComm *comm, const char *function)
{
	const char *by = load_relaxed(&comm->lifetime.released_by);

	return by && strcmp(by, function) == 0;
}

void lifetime_check_mixed(const struct world *w, const struct ncclComm *comm,
                          const char *function)
{
	bool aborted = false, hangs = false;
	int i;

	for (i = 0; i < w->n; i++) {
		if (!w->members[i])
			continue;
		aborted |=
			is_released_by(comm_of(w->members[i]), "ncclCommAbort");
		hangs |= is_released_by(comm_of(w->members[i]),
		                        "ncclCommDestroy") &&
		         member_has_work(w->members[i]);
	}
	if (aborted && hangs)
		member_abort_program(
			function, &comm->member,
			"a rank released by ncclCommDestroy has work in "
			"flight, but another rank was released by "
			"ncclCommAbort");
}

/* Return true if the communicator would be freed while a graph still uses it.
 * An aborted communicator does not count: a thread that aborts cannot know
 * whether other threads have captured graphs, so the abort waits for the
 * graphs. */
static bool outlived_by_graph(const struct ncclComm *comm)
{
	return load_relaxed(&comm->captured) &&
	       !load_relaxed(&comm->member.aborted);
}

void lifetime_check_free(const struct world *w, const char *function)
{
	uint64_t who;
	int i;

	for (i = 0; i < w->n; i++) {
		if (!w->members[i])
			continue;
		if (outlived_by_graph(comm_of(w->members[i])))
			member_abort_program(
				function, w->members[i],
				"freed while a graph uses it; NCCL would "
				"wait for the graph");
		who = load_relaxed(&comm_of(w->members[i])->lifetime.inside);
		if (who && who != thread_number())
			member_abort_program(
				function, w->members[i],
				"freed while a thread is using it, in %s",
				name(&comm_of(w->members[i])
			                      ->lifetime.entered_by));
	}
}

void lifetime_check_buffers(struct world *w, const char *function)
{
	int n;

	pthread_mutex_lock(&w->lock);
	n = split_round_inside(w) + atomic_load(&w->copying);
	pthread_mutex_unlock(&w->lock);
	if (n)
		member_abort_program(
			function, w->members[0],
			"freed while a thread may be accessing its buffers");
}

void lifetime_add_destroyed(struct ncclComm *comm)
{
	struct ncclComm *first = load_relaxed(&destroyed_comms);

	comm->magic = COMM_DESTROYED;
	do
		comm->lifetime.next_destroyed = first;
	while (!atomic_compare_exchange_weak_explicit(
		&destroyed_comms, &first, comm, memory_order_release,
		memory_order_relaxed));
}

unsigned long lifetime_destroyed_count(void)
{
	/* The acquire makes the links visible.  It pairs with the release in
	 * lifetime_add_destroyed(). */
	const struct ncclComm *comm = load_acquire(&destroyed_comms);
	unsigned long n = 0;

	for (; comm; comm = comm->lifetime.next_destroyed)
		n++;
	return n;
}

/* ---- initialization --------------------------------------------------- */

static void make_key(void)
{
	/* Strict mode does not work without this key. */
	if (pthread_key_create(&group_key, check_group) != 0)
		store_relaxed(&strict_on, false);
}

void lifetime_init(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	if (strict_is_on())
		pthread_once(&once, make_key);
}
