/* SPDX-License-Identifier: Apache-2.0 */

#include "sim/strict/strict.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim/nccl/comm.h"

atomic_bool strict_on;

/* Atomic; the first of the buried.  A list that only grows. */
static struct ncclComm *_Atomic graveyard;

/* Its value is the depth of the thread's group. */
static pthread_key_t group_key;

/* Owned by the thread: the communicators that it is inside of. */
static _Thread_local struct ncclComm *inside;

/* ---- the end ---------------------------------------------------------- */

void strict_die(const char *function, const struct ncclComm *comm,
                const char *format, ...)
{
	char line[512], which[96] = "", what[320];
	va_list args;
	int n;

	va_start(args, format);
	vsnprintf(what, sizeof(what), format, args);
	va_end(args);

	if (comm && comm->number == NO_WORLD)
		snprintf(which, sizeof(which),
		         " rank %d, device %d, no world:", comm->rank,
		         comm->device);
	else if (comm)
		snprintf(which, sizeof(which),
		         " rank %d, device %d, world %llu:", comm->rank,
		         comm->device, (unsigned long long)comm->number);
	n = snprintf(line, sizeof(line), "strict host platform: %s:%s %s\n",
	             function, which, what);
	/* Nothing is left to do about an error. */
	if (write(STDERR_FILENO, line, (size_t)n) != n)
		_exit(1);
	abort();
}

void strict_used(const struct ncclComm *comm, const char *function)
{
	strict_die(function, comm, "used after it was freed");
}

/* ---- inside ----------------------------------------------------------- */

static uint64_t thread_number(void)
{
	static _Atomic uint64_t threads; /* relaxed: a number */
	static _Thread_local uint64_t number;

	if (!number)
		number = atomic_fetch_add_explicit(&threads, 1,
		                                   memory_order_relaxed) +
		         1;
	return number;
}

static const char *name(const char *const _Atomic *function)
{
	const char *text = atomic_load_explicit(function, memory_order_relaxed);

	return text ? text : "a function";
}

void strict_enter(struct ncclComm *comm, const char *function)
{
	uint64_t who = 0;

	if (atomic_compare_exchange_strong_explicit(
		    &comm->strict.inside, &who, thread_number(),
		    memory_order_relaxed, memory_order_relaxed)) {
		atomic_store_explicit(&comm->strict.entered_by, function,
		                      memory_order_relaxed);
		comm->strict.next_inside = inside;
		inside = comm;
		return;
	}
	if (who != thread_number())
		strict_die(function, comm, "another thread is inside, in %s",
		           name(&comm->strict.entered_by));
}

static void leave(struct ncclComm **link)
{
	struct ncclComm *comm = *link;

	*link = comm->strict.next_inside;
	/* Release: the next to be inside writes the link just read. */
	atomic_store_explicit(&comm->strict.inside, 0, memory_order_release);
}

void strict_leave(void)
{
	while (inside)
		leave(&inside);
}

void strict_check_idle(const struct ncclComm *comm, const char *function)
{
	if (comm_has_work(comm))
		strict_die(function, comm,
		           "called while work is outstanding, of %s",
		           name(&comm->strict.entered_by));
}

/* ---- groups ----------------------------------------------------------- */

void strict_open_group(int *depth)
{
	pthread_setspecific(group_key, depth);
}

static void check_group(void *depth)
{
	if (*(int *)depth)
		strict_die("ncclGroupStart", inside,
		           "the thread ends with its group open");
}

/* ---- the end of a communicator ---------------------------------------- */

void strict_release(struct ncclComm *comm, const char *function)
{
	const char *before = atomic_exchange_explicit(
		&comm->strict.released_by, function, memory_order_relaxed);
	struct ncclComm **link = &inside;

	if (before)
		strict_die(function, comm, "released before, by %s", before);
	/* Whoever releases it has done with it: another may free it before this
	 * thread is at the end of its group. */
	while (*link && *link != comm)
		link = &(*link)->strict.next_inside;
	if (*link)
		leave(link);
}

void strict_check_child(const struct ncclComm *comm, const char *function)
{
	const struct ncclComm *child =
		atomic_load_explicit(&comm->strict.child, memory_order_acquire);
	const char *by =
		child ? atomic_load_explicit(&child->strict.released_by,
	                                     memory_order_relaxed)
		      : NULL;

	if (by)
		strict_die(function, comm,
		           "writes to the flags of the child that its split "
		           "failed to make, which was released by %s",
		           by);
}

static bool is_by(const struct ncclComm *comm, const char *function)
{
	const char *by = atomic_load_explicit(&comm->strict.released_by,
	                                      memory_order_relaxed);

	return by && strcmp(by, function) == 0;
}

void strict_check_mixed(const struct world *w, const struct ncclComm *comm,
                        const char *function)
{
	bool aborted = false, hangs = false;
	int i;

	for (i = 0; i < w->n; i++) {
		aborted |= is_by(w->comms[i], "ncclCommAbort");
		hangs |= is_by(w->comms[i], "ncclCommDestroy") &&
		         comm_has_work(w->comms[i]);
	}
	if (aborted && hangs)
		strict_die(function, comm,
		           "work is in flight on a rank released by "
		           "ncclCommDestroy, another was by ncclCommAbort");
}

/* Whoever aborts cannot know what others have captured, and waits. */
static bool outlived_by_graph(const struct ncclComm *comm)
{
	return atomic_load_explicit(&comm->captured, memory_order_relaxed) &&
	       !atomic_load_explicit(&comm->aborted, memory_order_relaxed);
}

void strict_check_free(const struct world *w, const char *function)
{
	uint64_t who;
	int i;

	for (i = 0; i < w->n; i++) {
		if (outlived_by_graph(w->comms[i]))
			strict_die(function, w->comms[i],
			           "freed while a graph uses it, which NCCL "
			           "waits for");
		who = atomic_load_explicit(&w->comms[i]->strict.inside,
		                           memory_order_relaxed);
		if (who && who != thread_number())
			strict_die(function, w->comms[i],
			           "freed while a thread is inside, in %s",
			           name(&w->comms[i]->strict.entered_by));
	}
}

void strict_check_buffers(struct world *w, const char *function)
{
	int n;

	pthread_mutex_lock(&w->lock);
	n = world_inside(w) + atomic_load(&w->copying);
	pthread_mutex_unlock(&w->lock);
	if (n)
		strict_die(function, w->comms[0],
		           "freed while a thread may touch buffers");
}

void strict_bury(struct ncclComm *comm)
{
	struct ncclComm *first =
		atomic_load_explicit(&graveyard, memory_order_relaxed);

	comm->magic = COMM_BURIED;
	do
		comm->strict.next_buried = first;
	while (!atomic_compare_exchange_weak_explicit(&graveyard, &first, comm,
	                                              memory_order_release,
	                                              memory_order_relaxed));
}

unsigned long strict_buried(void)
{
	/* Acquire: the links.  Pairs with the release in strict_bury(). */
	const struct ncclComm *comm =
		atomic_load_explicit(&graveyard, memory_order_acquire);
	unsigned long n = 0;

	for (; comm; comm = comm->strict.next_buried)
		n++;
	return n;
}

/* ---- the start -------------------------------------------------------- */

static void read_environment(void)
{
	const char *text = getenv("COHORT_HOST_STRICT");

	if (!text || !*text || strcmp(text, "0") == 0 ||
	    pthread_key_create(&group_key, check_group) != 0)
		return;
	atomic_store_explicit(&strict_on, true, memory_order_relaxed);
}

void strict_init(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, read_environment);
}
