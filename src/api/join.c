/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Meetings: ranks join by a unique ID, for cohort_comm_join() and
 * cohort_comm_subset()
 *
 * NCCL frees all ranks of a process that join by one ID together, so they
 * become one clique.  Each rank adds itself to the meeting of its ID, then
 * connects.  The last rank of this process that is connected creates the
 * clique.  NCCL connects no rank before all ranks have joined, so the meeting
 * is then complete.
 */

#include "api/join.h"

#include <stdlib.h>
#include <string.h>

#include "api/communicator.h"
#include "api/generation.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/list.h"
#include "base/scoped_lock.h"
#include "base/status.h"
#include "base/util.h"
#include "core/connect.h"
#include "watch/waits.h"

/* ---- meetings --------------------------------------------------------- */

pthread_mutex_t join_lock = PTHREAD_MUTEX_INITIALIZER;

/* List of all meetings.  Guarded by join_lock. */
static struct meeting *meetings;

/* A meeting that has failed. */
struct failure {
	struct join_id id;
	int status;
	char error[512];
	struct subset_blame blame;
};

/* Ring buffer of the last failures.  Guarded by join_lock. */
static struct failure failures[16];
static unsigned failure_count;

static const struct failure *find_failure_locked(const struct join_id *id)
{
	const struct failure *f;

	for (f = failures; f < failures + ARRAY_SIZE(failures); f++)
		if (f->status != COHORT_OK &&
		    memcmp(&f->id, id, sizeof(*id)) == 0)
			return f;
	return NULL;
}

static struct meeting *find_locked(const struct join_id *id)
{
	struct meeting *m;

	list_find(m, meetings, next, memcmp(&m->id, id, sizeof(*id)) == 0);
	return m;
}

void join_add_missing(const struct meeting *m, uint64_t *set)
{
	int r, i = 0;

	for (r = 0; r < m->size; r++)
		if (i < m->joined && m->members[i].rank == r)
			i++;
		else
			rank_set_add(set, m->ranks[r]);
}

/* Publish the ranks that @c waits for in its calls of cohort_comm_subset(). */
static void publish_awaits_locked(struct cohort_comm *c)
{
	uint64_t awaits[COHORT_RANK_WORDS] = { 0 };
	const struct meeting *m;
	int i;

	for (m = meetings; m; m = m->next) {
		for (i = 0; i < m->joined && m->members[i].above != c; i++)
			;
		if (i < m->joined)
			join_add_missing(m, awaits);
	}
	for (i = 0; i < COHORT_RANK_WORDS; i++)
		atomic_store(&c->subset.awaits[i], awaits[i]);
}

static void publish_all_locked(const struct meeting *m)
{
	int i;

	for (i = 0; m->parent && i < m->joined; i++)
		publish_awaits_locked(m->members[i].above);
}

static void remove_locked(struct meeting *m)
{
	list_remove(meetings, m, next);
	publish_all_locked(m);
}

int join_world(const struct meeting *m, int rank)
{
	int world = m->parent ? clique_world(m->parent, m->ranks[rank]) : rank;

	return world < 0 ? m->ranks[rank] : world;
}

void join_add_ranks(struct text *t, const uint64_t *set, const char *one,
                    const char *several)
{
	rank_set_name(t, set, set, NULL);
	text_add(t, "%s", rank_set_count(set) == 1 ? one : several);
}

static struct clique_options clique_options_of(const struct meeting *m)
{
	struct clique_options options;

	if (!m->parent)
		return options_of_clique(&m->options);
	options = generation_child_options(m->parent);
	options.name = m->name;
	return options;
}

/* Create a meeting.  If an earlier meeting of this ID has failed, the new one
 * also fails, but only once its ranks are connected: NCCL may still wait for
 * them in threads that the earlier meeting has abandoned. */
static struct meeting *create_locked(const struct join_arguments *a)
{
	const size_t n = (size_t)a->size;
	struct meeting *m = calloc(1, sizeof(*m) + n * sizeof(m->members[0]) +
	                                      n * sizeof(m->ranks[0]));
	const struct failure *earlier = find_failure_locked(&a->id);

	if (!m)
		return NULL;
	clock_cond_init(&m->changed);
	m->id = a->id;
	m->platform = a->platform;
	m->size = a->size;
	if (a->above) {
		m->parent = a->above->clique;
		m->ranks = (int *)&m->members[n];
		memcpy(m->ranks, a->ranks, n * sizeof(m->ranks[0]));
		text_copy(m->name, sizeof(m->name),
		          a->name ? a->name : m->parent->name);
		if (!a->name)
			text_append(m->name, sizeof(m->name), ".subset");
	} else {
		m->options = *a->options;
		m->options.abort = NULL; /* each rank has its own handle */
		options_own(&m->options, &m->texts);
	}
	if (!a->above && !earlier && !a->platform->is_one_process)
		m->processes = peers_join_begin(&a->id, sizeof(a->id), a->size,
		                                clique_options_of(m).name);
	m->is_late = earlier;
	if (earlier) {
		m->status = earlier->status;
		text_set(m->error, sizeof(m->error), "rank %d is too late: %s",
		         join_world(m, a->rank), earlier->error);
		/* If the earlier meeting waited for another rank that has left,
		 * so would this one. */
		if (earlier->blame.is_left &&
		    earlier->blame.left != join_world(m, a->rank))
			m->blame = earlier->blame;
	} else {
		list_add(meetings, m, next);
	}
	return m;
}

/* Return an error if other ranks have joined with other arguments. */
static int agreement_check(const struct meeting *m,
                           const struct join_arguments *a)
{
	const char *n = a->above ? "n" : "nranks";

	if (m->parent != (a->above ? a->above->clique : NULL))
		return error_set(
			COHORT_INVALID,
			"ranks of another communicator have joined with this "
			"id: each communicator needs its own id");
	if (m->size != a->size)
		return error_set(COHORT_INVALID,
		                 "%s is %d, but other ranks have joined with "
		                 "%s %d",
		                 n, a->size, n, m->size);
	for (int i = 0; m->parent && i < m->size; i++)
		if (m->ranks[i] != a->ranks[i])
			return error_set(COHORT_INVALID,
			                 "ranks[%d] is %d, but other ranks "
			                 "have joined with %d",
			                 i, a->ranks[i], m->ranks[i]);
	return COHORT_OK;
}

/* Return an error if the rank cannot join the meeting with its device. */
static int member_check(const struct meeting *m, const struct join_arguments *a)
{
	const int rank = a->rank, device = a->device;
	int i, rc = agreement_check(m, a);

	if (rc != COHORT_OK)
		return rc;
	for (i = 0; i < m->joined; i++) {
		if (m->members[i].rank == rank)
			return error_set(COHORT_INVALID,
			                 "rank is %d, but that rank has joined "
			                 "already",
			                 rank);
		if (m->members[i].device == device)
			return error_set(COHORT_INVALID,
			                 "device is %d, which rank %d has "
			                 "already: each rank needs its own",
			                 device, m->members[i].rank);
	}
	return COHORT_OK;
}

/* Add a member to the meeting for its ID, which is created if necessary, and
 * store the meeting in @out. */
static int enter_locked(const struct join_arguments *a, struct meeting **out)
{
	struct meeting *m = find_locked(&a->id);
	int rc, i;

	if (!m)
		m = create_locked(a);
	if (!m)
		return error_set(COHORT_NO_MEMORY, "no memory for %d ranks",
		                 a->size);
	rc = member_check(m, a);
	if (rc != COHORT_OK)
		return rc;
	for (i = m->joined; i && m->members[i - 1].rank > a->rank; i--)
		m->members[i] = m->members[i - 1];
	m->members[i] = (struct new_rank){
		.device = a->device,
		.rank = a->rank,
		.origin = a->above ? a->above->origin : a->rank,
		.above = a->above,
	};
	m->joined++;
	m->present++;
	if (m->processes)
		peers_join_add(m->processes, a->rank);
	publish_all_locked(m);
	*out = m;
	return COHORT_OK;
}

static struct new_rank *member_locked(struct meeting *m, int rank)
{
	struct new_rank *member = m->members;

	while (member->rank != rank)
		member++;
	return member;
}

/* ---- connecting ------------------------------------------------------- */

/* Fail the meeting for all members, unless it has failed already. */
static void fail_locked(struct meeting *m, int status)
{
	struct failure *failure;

	if (m->status != COHORT_OK)
		return;
	m->status = status;
	text_set(m->error, sizeof(m->error), "%s", cohort_last_error());
	failure = &failures[failure_count++ % ARRAY_SIZE(failures)];
	failure->id = m->id;
	failure->status = status;
	failure->blame = m->blame;
	memcpy(failure->error, m->error, sizeof(m->error));
	remove_locked(m);
	pthread_cond_broadcast(&m->changed);
}

/* Open a generation that the watchdog sees together with the ranks of the other
 * processes of this machine. */
static int open_with_processes(struct meeting *m, struct peers *peers,
                               const struct clique_options *options,
                               const struct patience *patience,
                               struct generation **out)
{
	const struct watch_options watch = options_of_watch(&m->options);
	int rc = generation_open(m->platform, m->members, m->joined, options,
	                         &watch, peers, out),
	    agreed;

	if (!peers)
		return rc;
	agreed = peers_join_agree(peers, rc, patience);
	if (rc == COHORT_OK && agreed != COHORT_OK) {
		generation_discard(*out, agreed);
		*out = NULL;
	}
	if (agreed != COHORT_OK)
		peers_leave(peers);
	return agreed;
}

/* Create one clique from the members, all of which are connected.  Takes
 * ownership of their native communicators even if it fails.  If there is a
 * parent, the members' calls of cohort_comm_subset() keep it open. */
static int make_clique(struct meeting *m, const struct patience *patience,
                       struct generation **out)
{
	struct clique_options options = clique_options_of(m);
	struct peers *peers = NULL;
	int i, rc;

	options.world = m->size;
	options.identity = hash_bytes(m->parent ? m->parent->identity : 0,
	                              &m->id, sizeof(m->id));
	if (m->processes)
		peers = peers_join_connect(m->processes);
	m->processes = NULL;
	rc = m->parent ? generation_open_child(m->members, m->joined, &options,
	                                       out)
	               : open_with_processes(m, peers, &options, patience, out);
	for (i = 0; i < m->joined; i++)
		m->members[i].connected = (struct connected){ .native = NULL };
	return rc;
}

/* Record that this rank is connected.  The last rank creates the clique. */
static void connected_locked(struct meeting *m, int rank,
                             const struct connected *connected,
                             const struct patience *patience)
{
	struct generation *g = NULL;
	int rc;

	member_locked(m, rank)->connected = *connected;
	if (++m->connected < m->joined || m->status != COHORT_OK)
		return;
	/* All ranks are connected, and all but this one are waiting. */
	remove_locked(m);
	pthread_mutex_unlock(&join_lock);
	rc = make_clique(m, patience, &g);
	pthread_mutex_lock(&join_lock);
	if (rc != COHORT_OK)
		fail_locked(m, rc);
	if (g)
		g->clique->ends_with_last = true;
	m->generation = g;
	pthread_cond_broadcast(&m->changed);
}

/* Remove this thread from the meeting.  The last thread frees the meeting.
 * Releases the lock. */
static void leave_locked(struct meeting *m)
{
	bool last = --m->present == 0;

	pthread_mutex_unlock(&join_lock);
	if (!last)
		return;
	if (!m->generation)
		connect_discard(m->platform, m->members, m->joined);
	if (m->processes)
		peers_join_abandon(m->processes, m->status);
	pthread_cond_destroy(&m->changed);
	free(m);
}

/* Append to the thread's error which ranks have joined and which have not,
 * because NCCL waits for all of them.  If a rank of this process has not called
 * cohort_comm_subset(), replace the error with a text that names the rank. */
static void add_absent_locked(const struct meeting *m, uint64_t timeout_ns)
{
	uint64_t here[COHORT_RANK_WORDS] = { 0 };
	uint64_t absent[COHORT_RANK_WORDS] = { 0 };
	uint64_t late[COHORT_RANK_WORDS] = { 0 };
	char list[256];
	struct text t = { list, sizeof(list) };
	int r, i = 0;

	if (m->processes)
		peers_join_list(m->processes, here);
	for (r = 0; r < m->size; r++)
		if (i < m->joined && m->members[i].rank == r) {
			rank_set_add(here, join_world(m, m->members[i++].rank));
		} else if (!rank_set_has(here, r)) {
			rank_set_add(absent, join_world(m, r));
			if (m->parent && clique_rank(m->parent, m->ranks[r]))
				rank_set_add(late, join_world(m, r));
		}
	if (!rank_set_is_empty(late)) {
		join_add_ranks(&t, late, " has", " have");
		text_add(&t,
		         " not called " SUBSET " for \"%s\" within %llu ms; ",
		         m->name, (unsigned long long)(timeout_ns / 1000000));
		join_add_ranks(&t, here, " waits", " wait");
		error_set(COHORT_INIT_TIMEOUT, "%s", list);
		return;
	}
	join_add_ranks(&t, here, " has joined", " have joined");
	if (!rank_set_is_empty(absent)) {
		text_add(&t, "; ");
		join_add_ranks(&t, absent, " has not", " have not");
		if (!m->platform->is_one_process)
			text_add(&t, " (unless %s)",
			         m->processes ? "on another machine"
			                      : "in another process");
	}
	error_set(COHORT_INIT_TIMEOUT, "%s; %s", cohort_last_error(), list);
}

/* Fail the meeting because the init deadline of @rank has passed.  @rank is
 * connected, but other ranks of this process are not. */
static void fail_unconnected_locked(struct meeting *m, int rank)
{
	uint64_t late[COHORT_RANK_WORDS] = { 0 };
	char list[256];
	struct text t = { list, sizeof(list) };
	int i;

	for (i = 0; i < m->joined; i++)
		if (!m->members[i].connected.native)
			rank_set_add(late, join_world(m, m->members[i].rank));
	rank_set_format(&t, late);
	fail_locked(m, error_set(COHORT_INIT_TIMEOUT,
	                         "%s: rank %d is connected, but "
	                         "ncclCommInitRank has not returned for these "
	                         "ranks of this process: %s",
	                         cohort_verdict_text(COHORT_VERDICT_INIT_STUCK),
	                         join_world(m, rank), list));
}

/* Interval at which a waiting rank checks its abort handle. */
#define LOOK_NS (5 * UINT64_C(1000000))

/* Wait until the meeting changes.  Return true if the deadline has passed or
 * the wait was aborted. */
static bool await_change_locked(struct meeting *m,
                                const struct patience *patience,
                                uint64_t deadline)
{
	uint64_t look = patience->abort ? clock_deadline(LOOK_NS) : deadline;
	struct timespec until;

	until = clock_timespec(look < deadline ? look : deadline);
	pthread_cond_timedwait(&m->changed, &join_lock, &until);
	return patience_is_aborted(patience) || clock_now() >= deadline;
}

/* Return true if the ranks of a meeting without a parent will never all be
 * connected.  Ranks that are too late always connect, see create_locked(). */
static bool is_futile(void *of, bool is_native)
{
	const struct meeting *m = of;
	struct text none = TEXT_NONE;

	(void)is_native;
	SCOPED_LOCK(&join_lock);
	return !m->is_late &&
	       (m->status != COHORT_OK ||
	        (m->processes && peers_join_is_futile(m->processes, &none)));
}

/* Handle a true result of is_futile(): return the error of another rank of this
 * process, or COHORT_PROCESS_EXITED. */
static int futile_locked(const struct meeting *m)
{
	char why[256] = "";
	struct text t = { why, sizeof(why) };

	if (m->status != COHORT_OK)
		return error_set(m->status, "%s", m->error);
	/* If @abort was fired, its cause may have the same status. */
	if (m->processes && peers_join_is_futile(m->processes, &t))
		error_set(COHORT_PROCESS_EXITED, "%s", why);
	return COHORT_PROCESS_EXITED;
}

/* Connect this rank and wait for the other ranks of this process. */
static int connect_rank(struct meeting *m, const struct join_arguments *a,
                        struct cohort_abort *abort, struct cohort_comm **out)
{
	struct subset_caller caller = { .m = m, .c = a->above };
	const struct connect_world world = {
		.id = m->id.native,
		.size = m->size,
		.is_futile = a->above ? subset_is_futile : is_futile,
		.of = a->above ? (void *)&caller : m,
	};
	const struct clique_options options = clique_options_of(m);
	const struct patience patience = { options.deadlines.init_ns, abort };
	const uint64_t deadline = clock_deadline(patience.timeout_ns);
	struct new_rank own = { .device = a->device, .rank = a->rank };
	bool is_over = false;
	int rc = connect_ranks(m->platform, &own, 1, &world, &options.config,
	                       comm_words(options.slots), &patience,
	                       options.name);

	pthread_mutex_lock(&join_lock);
	if (rc == COHORT_INIT_TIMEOUT)
		add_absent_locked(m, patience.timeout_ns);
	if (rc == COHORT_INIT_TIMEOUT && a->above)
		subset_timed_out_locked(m, a->above);
	/* If @abort was fired, its cause may have the same status. */
	if (rc == COHORT_PROCESS_EXITED && m->blame.is_left)
		rc = subset_left_locked(m, a->above);
	else if (rc == COHORT_PROCESS_EXITED && !a->above)
		rc = futile_locked(m);
	if (rc == COHORT_OK)
		connected_locked(m, a->rank, &own.connected, &patience);
	else
		fail_locked(m, rc);
	/* Do not give up while another rank is creating the clique. */
	while (!m->generation && m->status == COHORT_OK &&
	       (!is_over || m->connected == m->joined)) {
		if (is_over)
			pthread_cond_wait(&m->changed, &join_lock);
		else
			is_over = await_change_locked(m, &patience, deadline);
	}
	if (!m->generation && m->status == COHORT_OK &&
	    patience_is_aborted(&patience))
		fail_locked(m, patience_error(&patience));
	if (!m->generation && m->status == COHORT_OK)
		fail_unconnected_locked(m, a->rank);
	if (m->generation)
		*out = &m->generation->clique
		                ->comms[member_locked(m, a->rank) - m->members];
	else if (rc == COHORT_OK)
		rc = error_set(m->status, "%s", m->error);
	leave_locked(m);
	return rc;
}

int join_meet(const struct join_arguments *a, struct cohort_abort *abort,
              struct cohort_comm **out)
{
	struct meeting *m = NULL;
	int rc;

	pthread_mutex_lock(&join_lock);
	rc = enter_locked(a, &m);
	pthread_mutex_unlock(&join_lock);
	if (rc != COHORT_OK)
		return rc;
	return connect_rank(m, a, abort, out);
}
