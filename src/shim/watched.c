/* SPDX-License-Identifier: Apache-2.0 */

#include "shim/watched.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/scoped_lock.h"
#include "base/thread.h"
#include "base/util.h"
#include "shim/stream_end.h"

/* ---- the shared memory -------------------------------------------------- */

/* Constant after map(); NULL if the program is not watched. */
static struct shared_calls *shared;

/* Close the entries of the program that this process ran before it called
 * exec().  An entry is in use only if it has an identity, which is stored after
 * the pid. */
static void close_former(void)
{
	const uint32_t used = atomic_load(&shared->used);
	struct shared_rank *s = shared->ranks;

	for (; s < shared->ranks + MIN(used, (uint32_t)SHARED_RANKS); s++)
		if (atomic_load(&s->identity) &&
		    atomic_load(&s->pid) == getpid())
			atomic_store(&s->state, SHARED_CLOSED);
}

static void map(void)
{
	const char *name = getenv("COHORT_WATCH");
	struct stat status;
	void *memory = MAP_FAILED;
	int fd = name ? open(name, O_RDWR | O_CLOEXEC) : -1;

	if (fd < 0)
		return;
	if (!fstat(fd, &status) && status.st_size == sizeof(*shared))
		memory = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
		              MAP_SHARED, fd, 0);
	close(fd);
	if (memory != MAP_FAILED &&
	    ((struct shared_calls *)memory)->magic == SHARED_MAGIC) {
		shared = memory;
		close_former();
	}
}

static struct shared_calls *shared_memory(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, map);
	return shared;
}

void watched_describe(struct watched *w, int rank, int ranks, int device)
{
	struct shared_rank *s = w->shared;

	atomic_store(&s->rank, rank);
	atomic_store(&s->ranks, ranks);
	atomic_store(&s->device, device);
	if (shared->marks)
		w->context = stream_end_open(device, shared);
}

/* Reserve a free entry.  Return its number, or -1 if there is none. */
static int claim(struct shared_calls *all)
{
	uint32_t i, used, free;

	for (i = 0; i < SHARED_RANKS; i++) {
		free = SHARED_FREE;
		if (!atomic_compare_exchange_strong(&all->ranks[i].state, &free,
		                                    SHARED_OPENING))
			continue;
		used = atomic_load(&all->used);
		while (used <= i &&
		       !atomic_compare_exchange_weak(&all->used, &used, i + 1))
			;
		return (int)i;
	}
	atomic_fetch_add(&all->missed, 1);
	return -1;
}

/* ---- the communicators -------------------------------------------------- */

/* Number of places in the table; a power of two.  It is several times the
 * number of communicators, so that searches are short. */
#define COMM_PLACES (4 * SHARED_RANKS)

/* Hash table of this process's communicators, by their pointers.  Written with
 * the lock held.  When a communicator is gone, its place stays in the table
 * with .of NULL, so that searches continue, until a new communicator gets
 * it. */
static struct place {
	/* Both atomic; .of is stored before .comm, which is stored with
	 * release. */
	ncclComm_t _Atomic comm;
	struct watched *_Atomic of;
} places[COMM_PLACES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Return the place of @comm, or NULL if there is none.  If @is_new, return the
 * first place that @comm can use. */
static struct place *find(ncclComm_t comm, bool is_new)
{
	size_t at = (size_t)hash_step(0, (uintptr_t)comm);
	struct place *p;
	ncclComm_t other;

	for (int i = 0; i < COMM_PLACES; i++, at++) {
		p = &places[at & (COMM_PLACES - 1)];
		other = atomic_load_explicit(&p->comm, memory_order_acquire);
		if (is_new ? !atomic_load(&p->of) : other == comm)
			return p;
		if (!is_new && !other)
			return NULL;
	}
	return NULL;
}

struct watched *watched_find(ncclComm_t comm)
{
	const struct place *p = shared && comm ? find(comm, false) : NULL;

	return p ? atomic_load_explicit(&p->of, memory_order_relaxed) : NULL;
}

/* Clear the records of an entry, which may have belonged to another rank. */
static void clear(int number)
{
	struct shared_rank *s = &shared->ranks[number];
	int i;

	for (i = 0; i < SHARED_SLOTS; i++) {
		atomic_store(&s->slots[i].ticket, 0);
		atomic_store(&shared->done[number][i], 0);
	}
	for (i = 0; i < COHORT_MAX_RANKS; i++) {
		atomic_store(&s->sends[i], 0);
		atomic_store(&s->receives[i], 0);
	}
	atomic_store(&s->last, 0);
	atomic_store(&s->collectives, 0);
	atomic_store(&s->closing_ns, 0);
	atomic_store(&s->grouped, 0);
}

struct watched *watched_open(uint64_t identity, uint64_t parent, int rank,
                             int ranks, const char *name)
{
	struct shared_calls *all = shared_memory();
	const int number = all ? claim(all) : -1;
	struct watched *w = NULL;
	int i;

	if (number < 0)
		return NULL;
	/* struct recorder needs more alignment than malloc() guarantees. */
	w = aligned_alloc(_Alignof(struct watched), sizeof(*w));
	if (!w) {
		atomic_store(&all->ranks[number].state, SHARED_FREE);
		return NULL;
	}
	*w = (struct watched){
		.users = 1,
		.number = number,
		.shared = &all->ranks[number],
		.recorder = SHARED_RECORDER(&all->ranks[number]),
	};
	clear(number);
	watched_describe(w, rank, ranks, -1);
	atomic_store(&w->shared->root_rank, rank);
	for (i = 0; i < SHARED_NAME; i++) {
		atomic_store(&w->shared->name[i],
		             name && i < SHARED_NAME - 1 ? *name : '\0');
		name += name && *name;
	}
	atomic_store(&w->shared->pid, getpid());
	atomic_store(&w->shared->tid, thread_id());
	atomic_store(&w->shared->parent, parent);
	atomic_store(&w->shared->opened_ns, clock_now());
	atomic_store(&w->shared->identity, identity);
	return w;
}

void watched_hold(struct watched *w)
{
	atomic_fetch_add_explicit(&w->users, 1, memory_order_relaxed);
}

void watched_put(struct watched *w)
{
	if (atomic_fetch_sub_explicit(&w->users, 1, memory_order_acq_rel) != 1)
		return;
	atomic_store_explicit(&w->shared->state, SHARED_CLOSED,
	                      memory_order_release);
	if (w->child)
		watched_put(w->child);
	free(w);
}

void watched_opened(struct watched *w, ncclComm_t comm)
{
	struct watched *former;
	struct place *p;

	if (!w)
		return;
	/* Forget a communicator that had this address, and that NCCL has freed
	 * without this library's knowledge. */
	former = watched_take(comm);
	if (former)
		watched_put(former);
	SCOPED_LOCK(&lock);
	p = comm ? find(comm, true) : NULL;
	if (!p) {
		watched_put(w);
		return;
	}
	atomic_store(&p->of, w);
	atomic_store_explicit(&p->comm, comm, memory_order_release);
	atomic_store_explicit(&w->shared->state, SHARED_OPEN,
	                      memory_order_release);
}

struct watched *watched_take(ncclComm_t comm)
{
	struct place *p;

	if (!shared || !comm)
		return NULL;
	SCOPED_LOCK(&lock);
	p = find(comm, false);
	return p ? atomic_exchange(&p->of, NULL) : NULL;
}

/* ---- aborts -------------------------------------------------------------- */

/* Abort the communicators that the program has not begun to destroy. */
static void abort_all(void)
{
	struct watched *w;
	struct place *p;

	SCOPED_LOCK(&lock);
	for (p = places; p < places + COMM_PLACES; p++) {
		w = atomic_load(&p->of);
		if (!w || atomic_exchange(&w->is_aborted, true))
			continue;
		watched_abort(atomic_load(&p->comm));
		atomic_store(&w->shared->state, SHARED_ABORTED);
	}
}

/* Abort all communicators at each request after the first @seen requests. */
static void *await_aborts(void *seen)
{
	uint32_t n = (uint32_t)(uintptr_t)seen;

	for (;; n = atomic_load(&shared->abort)) {
		while (atomic_load(&shared->abort) == n)
			syscall(SYS_futex, &shared->abort, FUTEX_WAIT, n, NULL);
		abort_all();
	}
	return NULL;
}

void watched_start_aborter(void)
{
	/* A child of fork() has none of its parent's threads. */
	static _Atomic pid_t started_by;
	struct shared_calls *all = shared_memory();
	pthread_t thread;

	if (!all || !all->aborts ||
	    atomic_exchange(&started_by, getpid()) == getpid())
		return;
	if (!thread_start(&thread, await_aborts,
	                  (void *)(uintptr_t)atomic_load(&all->abort),
	                  "cohort-watch"))
		pthread_detach(thread);
}

/* ---- calls --------------------------------------------------------------- */

/* Count a collective.  Storing the number with release makes the call's record
 * and ticket visible.  Storing the ticket with release makes a reader that sees
 * the ticket also see the number of the previous call. */
static void count_collective(struct watched *w, uint64_t ticket)
{
	struct shared_rank *s = w->shared;

	w->collectives++;
	atomic_store_explicit(&s->tickets[w->collectives & (SHARED_SLOTS - 1)],
	                      ticket, memory_order_release);
	atomic_store_explicit(&s->collectives, w->collectives,
	                      memory_order_release);
}

/* Return the counter of sends to @peer, or of receives from it.  Return NULL if
 * the call is neither, or the peer does not exist. */
static _Atomic uint32_t *transfers_of(struct shared_rank *s, enum op_kind kind,
                                      int peer)
{
	if (!op_has_peer(kind) || peer < 0 || peer >= COHORT_MAX_RANKS)
		return NULL;
	return kind == OP_SEND ? &s->sends[peer] : &s->receives[peer];
}

/* Count a send or receive of this thread's rank, as count_collective() does. */
static void count_transfer(struct shared_rank *s, const struct op *op,
                           uint64_t ticket)
{
	_Atomic uint32_t *count = transfers_of(s, op->kind, op->root);
	uint32_t number;

	if (!count)
		return;
	number = atomic_load_explicit(count, memory_order_relaxed) + 1;
	atomic_store_explicit(&s->transfers[ticket & (SHARED_SLOTS - 1)],
	                      number, memory_order_relaxed);
	atomic_store_explicit(count, number, memory_order_release);
}

static void uncount_transfer(struct watched *w, uint64_t ticket)
{
	_Atomic uint32_t *count = NULL;
	struct record r;

	if (recorder_read(&w->recorder, ticket, &r))
		count = transfers_of(w->shared, r.kind, r.root);
	if (count && atomic_load(count))
		atomic_fetch_sub(count, 1);
}

/* Subtract a communicator's last calls from its counts, because the calls have
 * failed or were captured into a graph. */
static void uncount(struct watched *w, const struct watched_calls *c)
{
	uint64_t t = c->last;

	w->collectives -= c->collectives;
	atomic_store_explicit(&w->shared->collectives, w->collectives,
	                      memory_order_release);
	for (; t >= c->first && c->last - t < SHARED_SLOTS; t--)
		uncount_transfer(w, t);
}

uint64_t watched_begin(struct watched *w, const struct op *op)
{
	struct shared_rank *s = w->shared;
	const uint64_t ticket = ++w->last;

	recorder_begin(&w->recorder, ticket, op, 0, thread_id(), clock_now());
	if (op_is_common(op->kind))
		count_collective(w, ticket);
	else
		count_transfer(s, op, ticket);
	atomic_store_explicit(&s->last, ticket, memory_order_release);
	return ticket;
}

/* Mark the calls as done once their stream reaches this point. */
static enum stream_mark mark_end(struct watched *w,
                                 const struct watched_calls *c)
{
	const uint64_t slot = c->last & (SHARED_SLOTS - 1);

	return stream_end_mark(w->context, c->stream,
	                       &shared->done[w->number][slot],
	                       (uint32_t)c->last);
}

void watched_end(struct watched *w, const struct watched_calls *c,
                 ncclResult_t result)
{
	const bool has_failed =
		result != ncclSuccess && result != ncclInProgress;
	_Atomic uint32_t *marks = shared->done[w->number];
	enum stream_mark mark = STREAM_UNMARKED;
	uint64_t t;

	if (result == ncclSuccess && w->context)
		mark = mark_end(w, c);
	if (has_failed || mark == STREAM_CAPTURED)
		uncount(w, c);
	for (t = c->last; t >= c->first && c->last - t < SHARED_SLOTS; t--) {
		recorder_end(&w->recorder, t,
		             has_failed ? COHORT_NCCL : COHORT_OK);
		if (mark == STREAM_CAPTURED)
			recorder_set_captured(&w->recorder, t);
		if (mark != STREAM_MARKED)
			atomic_store_explicit(&marks[t & (SHARED_SLOTS - 1)],
			                      ~(uint32_t)t,
			                      memory_order_release);
	}
}
