/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Implements meetings of ranks of one process (see meeting.h)
 *
 * One lock guards all meetings.  A meeting by a unique id exists from the
 * creation of the id until the meeting is complete; other meetings exist while
 * a rank is waiting in them.  If a rank is aborted while it waits in a meeting
 * by unique id, later joins with that id are refused; in NCCL, they wait
 * forever.
 *
 * A rank joins the oldest meeting that it has not joined before, so the k-th
 * splits of all ranks form one meeting.
 */

#include "sim/nccl/meeting.h"

#include <stdlib.h>
#include <string.h>

#include "base/backoff.h"
#include "base/list.h"
#include "base/scoped_lock.h"
#include "sim/nccl/buffers.h"
#include "sim/nccl/root.h"
#include "sim/strict/census.h"

/* ---- worlds ------------------------------------------------------------ */

/* Order ranks by color, then by key, then by old rank. */
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

/* Sort the ranks that will be in a communicator, so that the ranks of each
 * communicator are adjacent.  Return the number of these ranks. */
static int sort(struct join **places, int ranks)
{
	int i, n = 0;

	for (i = 0; i < ranks; i++)
		if (places[i] && places[i]->comm)
			places[n++] = places[i];
	qsort(places, (size_t)n, sizeof(struct join *), compare);
	return n;
}

/* Return the index after the last rank that is in the same communicator as rank
 * @first. */
static int run_end(struct join *const *sorted, int first, int n)
{
	int i = first;

	while (i < n && sorted[i]->color == sorted[first]->color)
		i++;
	return i;
}

/* Make @comm the communicator of rank @rank in @w.  Other ranks can then find
 * @comm through the world. */
static void take_place_locked(struct ncclComm *comm, struct world *w, int rank)
{
	w->members[rank] = &comm->member;
	w->check_arrival = buffers_check_arrival;
	/* If a rank joins by a unique id, both members are already set.  Do not
	 * write them again, because any thread might be reading them. */
	if (comm->n != w->n || comm->member.rank != rank) {
		comm->member.rank = rank;
		comm->n = w->n;
	}
	comm->member.number = w->number;
	comm->member.world = w;
}

/* Attach all ranks to their worlds or, if @keep is false, free the worlds.
 * Before this call, the first rank of each communicator points to its world,
 * and the other ranks do not. */
static void attach_worlds(struct join *const *sorted, int n, bool keep)
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

/* Create one world for the ranks of each color.  @places has an entry for each
 * rank (NULL for an excluded rank); this function sorts it.  Create no world at
 * all if out of memory. */
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
	attach_worlds(places, n, i == n);
	return i == n ? ncclSuccess
	              : comm_error(ncclSystemError, "out of memory");
}

struct meeting {
	enum join_kind kind; /* constant after creation */
	uint64_t number;     /* constant after creation */

	/* The following members are guarded by lock. */
	struct meeting *next;
	/* number of ranks, according to the first rank to arrive */
	int n;
	int awaited; /* number of ranks that have not arrived */
	/* joins of the waiting ranks, indexed by rank; NULL if no rank is
	 * waiting */
	struct join **places;
	/* true once the meeting is complete and removed from the list */
	bool complete;
	bool spoiled;        /* true if a rank was aborted while it waited */
	ncclResult_t result; /* valid once the meeting is complete */
	/* number of ranks that have not read the result */
	int staying;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

/* List of meetings, guarded by lock.  Meetings by an id are first, from the
 * newest to the oldest; the other meetings follow, from the oldest to the
 * newest. */
static struct meeting *meetings;
static uint64_t numbers; /* last meeting number that was assigned */

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

static enum answer_code check_place_locked(const struct meeting *m,
                                           const struct join *j)
{
	if (m->spoiled)
		return ANSWER_SPOILED;
	if (m->n != j->n)
		return ANSWER_COUNT;
	if (!same_list(anybody_locked(m), j))
		return ANSWER_IDS;
	return m->places[j->rank] ? ANSWER_TWICE : ANSWER_MET;
}

/* Find or create the meeting for @j, allocate the meeting's places, and store
 * the meeting in @out. */
static ncclResult_t enter_locked(const struct join *j, struct meeting **out)
{
	struct meeting *m = find_locked(j);

	if (!m && j->kind == JOIN_BY_ID)
		return comm_error(ncclInvalidUsage,
		                  "ncclCommInitRank: the id was already used");
	if (!m)
		m = meeting_create_locked(j->kind, j->number);
	*out = m;
	if (!m)
		return comm_error(ncclSystemError, "out of memory");
	if (m->places)
		return j->kind == JOIN_BY_ID
		               ? answer_error(check_place_locked(m, j))
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

static bool is_aborted(const struct ncclComm *comm)
{
	return comm && load_acquire(&comm->member.aborted);
}

/* Return true if the group of @j was aborted.  The acquire pairs with the
 * release of the thread that aborts the group. */
static bool is_ended(const struct join *j)
{
	return j->ended && load_acquire(j->ended);
}

static bool is_cut_locked(const struct join *j)
{
	return j->left || is_aborted(j->comm) || is_aborted(j->parent) ||
	       is_ended(j);
}

/* Let all ranks of a group arrive at their meetings, or none if one of them
 * cannot arrive. */
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

/* ---- completing a meeting --------------------------------------------- */

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

/* Complete a meeting and return its result.  As in NCCL, duplicate devices are
 * detected only after all ranks have arrived. */
static ncclResult_t end_locked(struct meeting *m)
{
	if (m->kind == JOIN_BY_ID && has_device_twice_locked(m))
		return answer_error(ANSWER_DEVICE);
	return make_worlds_locked(m->places, m->n);
}

/* Free the meetings of all ids of @j except the first, because these ids cannot
 * be used again. */
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

/* Leave a meeting because of an abort.  After that, no rank can join by the
 * same id. */
static void leave_for_good_locked(struct join *j)
{
	if (j->kind == JOIN_BY_ID && !j->meeting->spoiled) {
		use_up_locked(j);
		j->meeting->spoiled = true;
	}
	leave_locked(j);
}

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

/* Return true if the other joins of @j's group need not wait, because @j was
 * aborted or has failed. */
static bool ends_group_locked(const struct join *j)
{
	if (!has_met_locked(j))
		return is_cut_locked(j);
	return j->meeting->result != ncclSuccess;
}

/* Return true if all joins of a group are complete, or if one of them can never
 * complete. */
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

/* Return the result of @j's meeting, and leave the meeting.  The last rank to
 * leave frees it. */
static ncclResult_t result_locked(struct join *j)
{
	struct meeting *m = j->meeting;
	ncclResult_t result;

	if (!has_met_locked(j)) {
		if (m)
			leave_for_good_locked(j);
		return answer_error(ANSWER_LEFT);
	}
	result = m->result;
	j->meeting = NULL;
	if (--m->staying)
		return result;
	free(m->places);
	free(m);
	return result;
}

/* Wait until all meetings of a group are complete or one of the group's ranks
 * is aborted.  The caller holds the lock, which is released during the wait. */
static ncclResult_t wait_locked(struct join *first)
{
	ncclResult_t result = ncclSuccess, r;
	struct join *j;

	while (!is_over_locked(first))
		pthread_cond_wait(&changed, &lock);
	for (j = first; j; j = j->next) {
		r = result_locked(j);
		/* Prefer the cause of a failure to the error of a rank whose
		 * wait was cut short. */
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

/* ---- waiting ---------------------------------------------------------- */

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
