/* SPDX-License-Identifier: Apache-2.0 */

/* Communicators in two threads at once, or used after their end (see
 * lifetime.h) */

#include "sim/nccl/lifetime.h"

#include <pthread.h>
#include <string.h>

#include "sim/exec/round.h"
#include "sim/nccl/nccl_comm.h"
#include "sim/strict/census.h"

/* Atomic; the first of the buried communicators.  A list that only grows. */
static struct ncclComm *_Atomic graveyard;

/* Its value is the depth of the thread's group. */
static pthread_key_t group_key;

/* Owned by the thread: the list of communicators that it is inside of. */
static _Thread_local struct ncclComm *inside;

/* ---- inside ----------------------------------------------------------- */

static uint64_t thread_number(void)
{
	static _Atomic uint64_t threads; /* relaxed: a number */
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
		member_die(function, &comm->member,
		           "another thread is inside, in %s",
		           name(&comm->lifetime.entered_by));
}

static void leave(struct ncclComm **link)
{
	struct ncclComm *comm = *link;

	*link = comm->lifetime.next_inside;
	/* Release: the next thread to go inside writes the link that was just
	 * read. */
	store_release(&comm->lifetime.inside, 0);
}

void lifetime_leave(void)
{
	while (inside)
		leave(&inside);
}

void lifetime_check_idle(const struct ncclComm *comm, const char *function)
{
	if (comm_has_work(comm))
		member_die(function, &comm->member,
		           "called while work is outstanding, of %s",
		           name(&comm->lifetime.entered_by));
}

void lifetime_used(const struct ncclComm *comm, const char *function)
{
	member_die(function, &comm->member, "used after it was freed");
}

/* ---- groups ----------------------------------------------------------- */

void lifetime_open_group(int *depth)
{
	pthread_setspecific(group_key, depth);
}

static void check_group(void *depth)
{
	if (*(int *)depth)
		member_die("ncclGroupStart", inside ? &inside->member : NULL,
		           "the thread ends with its group open");
}

/* ---- the end of a communicator ---------------------------------------- */

void lifetime_release(struct ncclComm *comm, const char *function)
{
	const char *before = atomic_exchange_explicit(
		&comm->lifetime.released_by, function, memory_order_relaxed);
	struct ncclComm **link = &inside;

	if (before)
		member_die(function, &comm->member, "released before, by %s",
		           before);
	/* A thread that releases a communicator is done with it: another thread
	 * may free it before this one is at the end of its group. */
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
		member_die(function, &comm->member,
		           "writes to the flags of the child that its split "
		           "failed to make, which was released by %s",
		           by);
}

static bool is_by(const struct ncclComm *comm, const char *function)
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
		aborted |= is_by(comm_of(w->members[i]), "ncclCommAbort");
		hangs |= is_by(comm_of(w->members[i]), "ncclCommDestroy") &&
		         comm_has_work(comm_of(w->members[i]));
	}
	if (aborted && hangs)
		member_die(function, &comm->member,
		           "work is in flight on a rank released by "
		           "ncclCommDestroy, another was by ncclCommAbort");
}

/* A thread that aborts cannot know what others have captured, and waits. */
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
			member_die(function, w->members[i],
			           "freed while a graph uses it, which NCCL "
			           "waits for");
		who = load_relaxed(&comm_of(w->members[i])->lifetime.inside);
		if (who && who != thread_number())
			member_die(function, w->members[i],
			           "freed while a thread is inside, in %s",
			           name(&comm_of(w->members[i])
			                         ->lifetime.entered_by));
	}
}

void lifetime_check_buffers(struct world *w, const char *function)
{
	int n;

	pthread_mutex_lock(&w->lock);
	n = round_inside(w) + atomic_load(&w->copying);
	pthread_mutex_unlock(&w->lock);
	if (n)
		member_die(function, w->members[0],
		           "freed while a thread may touch buffers");
}

void lifetime_bury(struct ncclComm *comm)
{
	struct ncclComm *first = load_relaxed(&graveyard);

	comm->magic = COMM_BURIED;
	do
		comm->lifetime.next_buried = first;
	while (!atomic_compare_exchange_weak_explicit(&graveyard, &first, comm,
	                                              memory_order_release,
	                                              memory_order_relaxed));
}

unsigned long lifetime_buried(void)
{
	/* Acquire: the links.  Pairs with the release in lifetime_bury(). */
	const struct ncclComm *comm = load_acquire(&graveyard);
	unsigned long n = 0;

	for (; comm; comm = comm->lifetime.next_buried)
		n++;
	return n;
}

/* ---- the start -------------------------------------------------------- */

static void make_key(void)
{
	/* There is no strict mode without it. */
	if (pthread_key_create(&group_key, check_group) != 0)
		store_relaxed(&strict_on, false);
}

void lifetime_init(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	if (strict_is_on())
		pthread_once(&once, make_key);
}
