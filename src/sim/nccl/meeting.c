/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Meetings (see meeting.h)
 *
 * One lock guards them all.  A meeting by an id exists from the making of the
 * id until it is complete, other meetings while a rank is there.  As in NCCL
 * no rank can join by an id of which a rank was aborted while it waited; there
 * a later rank waits for ever, here it is refused.
 *
 * A rank's k-th split meets the others' k-th split: it goes to the oldest
 * meeting that the rank has not been to.
 */

#include "sim/nccl/meeting.h"

#include <stdlib.h>
#include <string.h>

#include "base/backoff.h"
#include "base/list.h"
#include "base/scoped_lock.h"
#include "sim/nccl/buffers.h"
#include "sim/strict/census.h"

/* ---- worlds ------------------------------------------------------------ */

/* By color, then by key, then as they were. */
static int compare(const void *a, const void *b)
{
	const struct join *x = *(struct join *const *)a;
	const struct join *y = *(struct join *const *)b;

	if (x->color != y->color)
		return x->color < y->color ? -1 : 1;
	if (x->key != y->key)
		return x->key < y->key ? -1 : 1;
	return x->rank < y->rank ? -1 : 1;
}

/* Sort the ranks that will be in a communicator, those of one communicator next
 * to each other.  Returns how many there are. */
static int sort(struct join **places, int ranks)
{
	int i, n = 0;

	for (i = 0; i < ranks; i++)
		if (places[i] && places[i]->comm)
			places[n++] = places[i];
	qsort(places, (size_t)n, sizeof(struct join *), compare);
	return n;
}

/* Index just past the ranks that share a communicator with rank @first. */
static int run_end(struct join *const *sorted, int first, int n)
{
	int i = first;

	while (i < n && sorted[i]->color == sorted[first]->color)
		i++;
	return i;
}

/* Make @comm rank @rank of @world, as part of which it is known from then
 * on. */
static void take_place_locked(struct ncclComm *comm, struct world *w, int rank)
{
	w->members[rank] = &comm->member;
	w->check_arrival = buffers_check_arrival;
	/* A rank that joins by an id has both already, and any thread may ask
	 * for them. */
	if (comm->n != w->n || comm->member.rank != rank) {
		comm->member.rank = rank;
		comm->n = w->n;
	}
	comm->member.number = w->number;
	comm->member.world = w;
}

/* Put the ranks in place or, if @keep is false, free the worlds.  Until then
 * only the first rank of each communicator points to its world. */
static void settle(struct join *const *sorted, int n, bool keep)
{
	int i, k, end;
	struct world *w;

	for (i = 0; i < n; i = end) {
		end = run_end(sorted, i, n);
		w = sorted[i]->comm->member.world;
		for (k = i; keep && k < end; k++)
			take_place_locked(sorted[k]->comm, w, k - i);
		if (!keep && w) {
			sorted[i]->comm->member.world = NULL;
			world_free(w);
		}
	}
}

/* Make a world of the ranks of each color in @places, which has an entry for
 * each of @ranks ranks, NULL for one that is left out; the entries are sorted.
 * All worlds or, without memory, none. */
static ncclResult_t make_worlds_locked(struct join **places, int ranks)
{
	int i, end, n = sort(places, ranks);

	for (i = 0; i < n; i = end) {
		end = run_end(places, i, n);
		places[i]->comm->member.world =
			world_create(end - i, end - i, cpu_count(), NULL);
		if (!places[i]->comm->member.world)
			break;
	}
	settle(places, n, i == n);
	return i == n ? ncclSuccess
	              : comm_error(ncclSystemError, "out of memory");
}

struct meeting {
	enum join_kind kind; /* constant, */
	uint64_t number;     /* as this */

	/* Guarded by lock. */
	struct meeting *next;
	int n;                /* as the first rank that came has it */
	int awaited;          /* not yet arrived */
	struct join **places; /* by rank; NULL while nobody is there */
	bool complete;        /* and not in the list any more */
	bool spoiled;         /* a rank was aborted while it waited here */
	ncclResult_t result;  /* once complete */
	int staying;          /* how many ranks have not looked at the result */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

/* Guarded by lock.  Meetings by an id are sorted from the newest to the oldest,
 * the others from the oldest to the newest. */
static struct meeting *meetings;
static uint64_t numbers; /* given out */

/* ---- meetings --------------------------------------------------------- */

static struct meeting *meeting_create_locked(enum join_kind kind,
                                             uint64_t number)
{
	struct meeting **at = &meetings;
	struct meeting *m = calloc(1, sizeof(*m));

	if (!m)
		return NULL;
	m->kind = kind;
	m->number = number;
	while (kind != JOIN_BY_ID && *at)
		at = &(*at)->next;
	m->next = *at;
	*at = m;
	return m;
}

size_t meeting_live(void)
{
	const struct meeting *m;
	size_t n = 0;

	SCOPED_LOCK(&lock);
	for (m = meetings; m; m = m->next)
		n += m->kind == JOIN_BY_ID;
	return n;
}

uint64_t meeting_open(void)
{
	SCOPED_LOCK(&lock);
	return meeting_create_locked(JOIN_BY_ID, numbers + 1) ? ++numbers : 0;
}

uint64_t meeting_number(void)
{
	SCOPED_LOCK(&lock);
	return ++numbers;
}

/* One of the ranks that are there. */
static const struct join *anybody_locked(const struct meeting *m)
{
	int i = 0;

	while (!m->places[i])
		i++;
	return m->places[i];
}

static bool same_list(const struct join *a, const struct join *b)
{
	return a->list_count == b->list_count &&
	       (!a->list_count ||
	        memcmp(a->list, b->list, a->list_count * sizeof(*a->list)) ==
	                0);
}

static bool is_for_locked(const struct meeting *m, const struct join *j)
{
	if (m->kind != j->kind || m->number != j->number)
		return false;
	return j->kind == JOIN_BY_ID ||
	       (!m->places[j->rank] && same_list(anybody_locked(m), j));
}

static struct meeting *find_locked(const struct join *j)
{
	struct meeting *m;

	list_find(m, meetings, next, is_for_locked(m, j));
	return m;
}

/* ---- arriving and leaving --------------------------------------------- */

static ncclResult_t check_place_locked(const struct meeting *m,
                                       const struct join *j)
{
	if (m->spoiled)
		return comm_error(ncclInvalidUsage,
		                  "ncclCommInitRank: a join by the id was "
		                  "aborted");
	if (m->n != j->n)
		return comm_error(ncclInvalidUsage,
		                  "ncclCommInitRank: another rank has another "
		                  "number of ranks");
	if (!same_list(anybody_locked(m), j))
		return comm_error(ncclInvalidUsage,
		                  "ncclCommInitRankScalable: another rank has "
		                  "other ids");
	if (m->places[j->rank])
		return comm_error(
			ncclInvalidUsage,
			"ncclCommInitRank: the rank is there already");
	return ncclSuccess;
}

/* Store the meeting for @j, with room for it. */
static ncclResult_t enter_locked(const struct join *j, struct meeting **out)
{
	struct meeting *m = find_locked(j);

	if (!m && j->kind == JOIN_BY_ID)
		return comm_error(ncclInvalidUsage,
		                  "ncclCommInitRank: the id was used before");
	if (!m)
		m = meeting_create_locked(j->kind, j->number);
	*out = m;
	if (!m)
		return comm_error(ncclSystemError, "out of memory");
	if (m->places)
		return j->kind == JOIN_BY_ID ? check_place_locked(m, j)
		                             : ncclSuccess;
	m->places = calloc((size_t)j->n, sizeof(struct join *));
	if (m->places) {
		m->n = j->n;
		m->awaited = j->n;
		if (j->kind == JOIN_SHRINK)
			m->awaited -= (int)j->list_count;
		m->staying = m->awaited;
		return ncclSuccess;
	}
	if (j->kind != JOIN_BY_ID) {
		list_remove(meetings, m, next);
		free(m);
	}
	return comm_error(ncclSystemError, "out of memory");
}

static ncclResult_t arrive_locked(struct join *j)
{
	struct meeting *m = NULL;
	ncclResult_t result = enter_locked(j, &m);

	if (result != ncclSuccess)
		return result;
	m->places[j->rank] = j;
	m->awaited--;
	j->meeting = m;
	return ncclSuccess;
}

static bool is_empty_locked(const struct meeting *m)
{
	return m->awaited == m->staying;
}

/* Leave a meeting that is not complete. */
static void leave_locked(struct join *j)
{
	struct meeting *m = j->meeting;

	j->left = true;
	j->meeting = NULL;
	m->places[j->rank] = NULL;
	m->awaited++;
	if (!is_empty_locked(m))
		return;
	free(m->places);
	m->places = NULL;
	if (m->kind == JOIN_BY_ID && !m->spoiled)
		return;
	list_remove(meetings, m, next);
	free(m);
}

static bool is_up(const struct ncclComm *comm)
{
	return comm && load_acquire(&comm->member.aborted);
}

/* Acquire: pairs with the release of the thread that ends the group. */
static bool is_ended(const struct join *j)
{
	return j->ended && load_acquire(j->ended);
}

/* True if @j does not wait any more. */
static bool is_cut_locked(const struct join *j)
{
	return j->left || is_up(j->comm) || is_up(j->parent) || is_ended(j);
}

/* Let all ranks of a group arrive, or none. */
static ncclResult_t arrive_all_locked(struct join *first)
{
	ncclResult_t result = ncclSuccess;
	struct join *j, *k;

	for (j = first; j && result == ncclSuccess; j = j->next) {
		if (is_cut_locked(j))
			result = comm_error(ncclInternalError,
			                    "aborted before it could join");
		else
			result = arrive_locked(j);
	}
	if (result != ncclSuccess)
		for (k = first; k != j; k = k->next)
			if (k->meeting)
				leave_locked(k);
	return result;
}

/* ---- the end of a meeting --------------------------------------------- */

static bool has_device_twice_locked(const struct meeting *m)
{
	int i, k;

	for (i = 0; i < m->n; i++)
		for (k = 0; k < i; k++)
			if (m->places[i]->comm->member.device ==
			    m->places[k]->comm->member.device)
				return true;
	return false;
}

/* As in NCCL, ranks hear of each other's devices when all have come. */
static ncclResult_t end_locked(struct meeting *m)
{
	if (m->kind == JOIN_BY_ID && has_device_twice_locked(m))
		return comm_error(ncclInvalidUsage,
		                  "ncclCommInitRank: duplicate device");
	return make_worlds_locked(m->places, m->n);
}

/* An id that was used for a complete or a spoiled meeting is used up. */
static void use_up_locked(const struct join *j)
{
	struct join further = { .kind = JOIN_BY_ID };
	struct meeting *m;
	size_t i;

	for (i = 0; j->kind == JOIN_BY_ID && i < j->list_count; i++) {
		further.number = j->list[i];
		m = find_locked(&further);
		if (!m || m->places)
			continue;
		list_remove(meetings, m, next);
		free(m);
	}
}

/* Leave a meeting because of an abort. */
static void leave_for_good_locked(struct join *j)
{
	if (j->kind == JOIN_BY_ID && !j->meeting->spoiled) {
		use_up_locked(j);
		j->meeting->spoiled = true;
	}
	leave_locked(j);
}

/* End the meetings of a group that are complete. */
static void complete_locked(const struct join *first)
{
	const struct join *j;
	struct meeting *m;

	for (j = first; j; j = j->next) {
		m = j->meeting;
		if (m->complete || m->awaited)
			continue;
		use_up_locked(j);
		list_remove(meetings, m, next);
		m->result = end_locked(m);
		m->complete = true;
		pthread_cond_broadcast(&changed);
	}
}

static bool has_met_locked(const struct join *j)
{
	return j->meeting && j->meeting->complete;
}

/* True if the rest of the group of @j need not meet. */
static bool ends_group_locked(const struct join *j)
{
	if (!has_met_locked(j))
		return is_cut_locked(j);
	return j->meeting->result != ncclSuccess;
}

/* True if all of a group have met, or never will. */
static bool is_over_locked(const struct join *first)
{
	const struct join *j;
	bool all = true;

	for (j = first; j; j = j->next) {
		if (ends_group_locked(j))
			return true;
		all = all && has_met_locked(j);
	}
	return all;
}

/* The result of @j's meeting, which the last rank to ask frees. */
static ncclResult_t result_locked(struct join *j)
{
	struct meeting *m = j->meeting;
	ncclResult_t result;

	if (!has_met_locked(j)) {
		if (m)
			leave_for_good_locked(j);
		return comm_error(ncclInternalError,
		                  "aborted while waiting for other ranks");
	}
	result = m->result;
	j->meeting = NULL;
	if (--m->staying)
		return result;
	free(m->places);
	free(m);
	return result;
}

/* Wait until all meetings of a group are complete, or one of its ranks is
 * aborted.  Called with the lock held; releases and re-acquires it. */
static ncclResult_t wait_locked(struct join *first)
{
	ncclResult_t result = ncclSuccess, r;
	struct join *j;

	while (!is_over_locked(first))
		pthread_cond_wait(&changed, &lock);
	for (j = first; j; j = j->next) {
		r = result_locked(j);
		/* Prefer the reason of a failure to the news that others were
		 * cut off. */
		if (r != ncclSuccess &&
		    (result == ncclSuccess || r != ncclInternalError))
			result = r;
	}
	return result;
}

struct world *meeting_world(const struct ncclComm *comm)
{
	SCOPED_LOCK(&lock);
	return comm->member.world;
}

void meeting_leave_world(struct ncclComm *comm)
{
	SCOPED_LOCK(&lock);
	comm->member.world = NULL;
}

/* ---- those that wait -------------------------------------------------- */

ncclResult_t meeting_run(struct join *first)
{
	ncclResult_t result;

	SCOPED_LOCK(&lock);
	result = arrive_all_locked(first);
	if (result != ncclSuccess)
		return result;
	complete_locked(first);
	return wait_locked(first);
}

bool meeting_is_cut(const struct join *j)
{
	SCOPED_LOCK(&lock);
	return is_cut_locked(j);
}

void meeting_place(const struct join *j, struct world *w, int rank)
{
	SCOPED_LOCK(&lock);
	take_place_locked(j->comm, w, rank);
}

void meeting_wake(void)
{
	SCOPED_LOCK(&lock);
	pthread_cond_broadcast(&changed);
}

struct world *meeting_cut(struct ncclComm *comm)
{
	struct world *w;

	SCOPED_LOCK(&lock);
	w = comm->member.world;
	if (!w && comm->join && !has_met_locked(comm->join)) {
		comm->join->left = true;
		if (comm->join->meeting)
			leave_for_good_locked(comm->join);
	}
	pthread_cond_broadcast(&changed);
	return w;
}

void meeting_forget(struct ncclComm *comm)
{
	SCOPED_LOCK(&lock);
	comm->join = NULL;
}
