/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Implements cohort_comm_subset(): a meeting of ranks of one communicator, and
 * the search for the rank to blame if the meeting does not complete
 */

#include <string.h>

#include "api/communicator.h"
#include "api/generation.h"
#include "api/join.h"
#include "base/clock.h"
#include "base/status.h"
#include "base/util.h"
#include "core/launch_lock.h"
#include "core/remote.h"
#include "watch/describe.h"
#include "watch/stall.h"
#include "watch/waits.h"

/* Describe what rank @c is doing, and which rank it waits for. */
static void report_rank(struct cohort_comm *c, struct remote_rank *out)
{
	const struct clique *q = c->clique;
	const struct snapshot s = { .group = q->name,
		                    .is_child = clique_is_child(q),
		                    .starts_are_marked = q->starts_are_marked,
		                    .now_ns = clock_now() };
	struct text t = { out->text, sizeof(out->text) };
	const struct wait_link *link;
	struct rank_snapshot r;
	struct waits w;

	snapshot_details(&r, c, 0);
	waits_of(c, 0, 0, &w);
	memcpy(r.elsewhere, w.culprits->at.elsewhere, sizeof(r.elsewhere));
	out->kind = stall_kind_of_absence(&r);
	out->waits = w.link_count;
	out->in_cycle = w.is_cycle;
	if (!w.link_count) {
		describe_rank(&t, &s, &r);
		return;
	}
	out->end = w.culprits->world;
	out->end_kind = stall_kind_of_culprit(w.culprits);
	for (link = w.links; link < w.links + w.link_count - 1 &&
	                     !rank_set_has(link->worlds, c->world_rank);
	     link++)
		;
	describe_name_of(&t, &s, &r);
	text_add(&t,
	         snapshot_has_left(c) ? " has left; it waited in %s"
	                              : " waits in %s",
	         link->call);
	if (link->for_world >= 0)
		text_add(&t, " for rank %d", link->for_world);
}

/* Ask the other processes what rank @r of the clique of @c is doing, and store
 * the answer in @x.  Return false if no process answers. */
static bool ask_about(const struct cohort_comm *c, int r, struct remote_rank *x)
{
	const struct clique *q = c->clique;
	const struct missing question = missing_any(q->identity, r, c->rank, 0);
	struct text silent = TEXT_NONE;

	return q->remote->ask(q->remote, q, &question, x, 1, &silent) == 1;
}

static bool waits_in_subset(const struct remote_rank *x)
{
	return x->waits && strncmp(x->in, SUBSET, strlen(SUBSET)) == 0;
}

/* Find a rank that has not called cohort_comm_subset() among the ranks in @set,
 * for which @c waits, and describe it in @x.  Return false if no such rank is
 * known. */
static bool find_absent(const struct cohort_comm *c, const uint64_t *set,
                        struct remote_rank *x)
{
	struct clique *q = c->clique;
	int i, r;

	for (i = 0; i < q->size; i++) {
		*x = (struct remote_rank){ .world = q->comms[i].world_rank };
		if (!rank_set_has(set, q->comms[i].rank))
			continue;
		report_rank(&q->comms[i], x);
		return true;
	}
	for (r = rank_set_next(set, -1); r >= 0 && q->remote;
	     r = rank_set_next(set, r))
		if (ask_about(c, r, x) && !waits_in_subset(x))
			return true;
	return false;
}

/* Record for @c which rank is to blame for the failure of
 * cohort_comm_subset(). */
static void blame_locked(const struct meeting *m, struct cohort_comm *c)
{
	uint64_t missed[COHORT_RANK_WORDS] = { 0 };
	int i;

	join_add_missing(m, missed);
	for (i = 0; i < COHORT_RANK_WORDS; i++)
		atomic_store(&c->subset.missed[i], missed[i]);
	atomic_store(&c->subset.culprit, m->blame.culprit);
	atomic_store(&c->subset.kind, m->blame.kind);
	atomic_store(&c->subset.failed_ns, clock_now());
}

/* Blame the rank that @x waits for.  If it waits for none, blame the rank @x,
 * with the verdict @kind. */
static void set_blame_locked(struct meeting *m, const struct remote_rank *x,
                             int kind)
{
	m->blame.culprit = x->waits ? x->end : x->world;
	m->blame.kind = x->waits ? x->end_kind : kind;
	text_set(m->blame.why, sizeof(m->blame.why), "%s", remote_words(x));
}

void subset_timed_out_locked(struct meeting *m, struct cohort_comm *c)
{
	uint64_t missing[COHORT_RANK_WORDS] = { 0 };
	struct remote_rank x;
	bool is_found;
	int i;

	join_add_missing(m, missing);
	/* Other processes may take a second to answer. */
	pthread_mutex_unlock(&join_lock);
	is_found = find_absent(c, missing, &x);
	pthread_mutex_lock(&join_lock);
	if (!m->blame.kind && is_found) {
		set_blame_locked(m, &x, x.kind);
		for (i = 0; i < m->joined; i++)
			if (m->members[i].above->world_rank == m->blame.culprit)
				x.in_cycle = true;
		if (x.in_cycle) {
			m->blame.culprit = -1;
			m->blame.kind = COHORT_VERDICT_CYCLE;
		}
	}
	blame_locked(m, c);
	error_set(COHORT_INIT_TIMEOUT, "%s%s%s", cohort_last_error(),
	          *m->blame.why ? "; " : "", m->blame.why);
}

/* Interval at which a rank in cohort_comm_subset() asks another process. */
#define ASK_NS (100 * UINT64_C(1000000))

/* Time after which another process is asked again about a rank that has left.
 * The rank may have left only after the subset was complete, while
 * ncclCommInitRank() had not returned in this process yet.  In that case it
 * returns within this time. */
#define LEFT_NS (2 * UINT64_C(1000000000))

/* Return a rank of this process that the meeting waits for and that has left,
 * or NULL.  Add the ranks of other processes that the meeting waits for to
 * @far. */
static struct cohort_comm *find_left_locked(const struct meeting *m,
                                            uint64_t *far)
{
	struct clique *q = m->parent;
	uint64_t missing[COHORT_RANK_WORDS] = { 0 };
	const struct cohort_comm *c;
	int r;

	join_add_missing(m, missing);
	for (r = rank_set_next(missing, -1); r >= 0;
	     r = rank_set_next(missing, r)) {
		c = clique_rank(q, r);
		if (!c)
			rank_set_add(far, r);
		else if (snapshot_has_left(c) && !atomic_load(&c->lock.holders))
			return &q->comms[c - q->comms];
	}
	return NULL;
}

/* Ask whether one of the ranks in @far, a different one in each call, has
 * closed its communicator.  If it has, ask about it again after LEFT_NS.  If
 * the second answer is the same, describe the rank in @x and return true. */
static bool find_left_far(struct subset_caller *caller, const uint64_t *far,
                          struct remote_rank *x)
{
	const struct clique *q = caller->m->parent;
	bool is_left;
	int r = caller->suspect - 1;

	if (!q->remote || rank_set_is_empty(far) ||
	    clock_now() < caller->ask_ns ||
	    !q->remote->get_state(q, 0).has_closed)
		return false;
	if (r < 0) {
		r = rank_set_next(far, caller->asked - 1);
		r = r < 0 ? rank_set_next(far, -1) : r;
		caller->asked = r + 1;
	}
	is_left = ask_about(caller->c, r, x) && x->is_closed;
	if (x->world < 0)
		x->world = q->remote->world(q, r);
	if (is_left && caller->suspect)
		return true;
	caller->suspect = is_left ? r + 1 : 0;
	caller->ask_ns = clock_deadline(is_left ? LEFT_NS : ASK_NS);
	return false;
}

bool subset_is_futile(void *of, bool is_native)
{
	struct subset_caller *caller = of;
	struct meeting *m = caller->m;
	uint64_t far[COHORT_RANK_WORDS] = { 0 };
	struct remote_rank x = { .kind = 0 };
	struct cohort_comm *c = NULL;
	bool is_left;

	/* NCCL connects no rank before all members have called. */
	if (is_native)
		return false;
	pthread_mutex_lock(&join_lock);
	if (m->status == COHORT_OK)
		c = find_left_locked(m, far);
	is_left = m->blame.is_left;
	pthread_mutex_unlock(&join_lock);
	if (c) {
		x.world = c->world_rank;
		report_rank(c, &x);
	}
	if (is_left || (!c && !find_left_far(caller, far, &x)))
		return is_left;
	pthread_mutex_lock(&join_lock);
	if (m->status == COHORT_OK && !m->blame.is_left) {
		m->blame.is_left = true;
		m->blame.left = x.world;
		set_blame_locked(m, &x, COHORT_VERDICT_LEFT);
	}
	is_left = m->blame.is_left;
	pthread_mutex_unlock(&join_lock);
	return is_left;
}

int subset_left_locked(const struct meeting *m, struct cohort_comm *c)
{
	uint64_t here[COHORT_RANK_WORDS] = { 0 };
	char list[256];
	struct text t = { list, sizeof(list) };
	int i;

	for (i = 0; i < m->joined; i++)
		rank_set_add(here, join_world(m, m->members[i].rank));
	join_add_ranks(&t, here, " waits", " wait");
	blame_locked(m, c);
	return error_set(COHORT_INIT_TIMEOUT, "%s; %s in " SUBSET " for \"%s\"",
	                 m->blame.why, list, m->name);
}

/* ---- subsets ---------------------------------------------------------- */

/* Check @ranks, and store the position of the rank of @comm in @own. */
static int ranks_check(const struct cohort_comm *comm, const int *ranks, int n,
                       int *own)
{
	const int size = comm->clique->world_size;
	uint64_t set[COHORT_RANK_WORDS] = { 0 };
	int rc;

	if (!ranks)
		return error_set(COHORT_INVALID, "ranks is NULL");
	if (n < 1 || n > size)
		return error_set(COHORT_INVALID, "n is %d, not 1 to %d", n,
		                 size);
	rc = rank_list_check("ranks", ranks, n, size, set);
	if (rc != COHORT_OK)
		return rc;
	for (*own = 0; *own < n && ranks[*own] != comm->rank; ++*own)
		;
	return *own < n ? COHORT_OK
	                : error_set(COHORT_INVALID,
	                            "ranks does not contain %d, the calling "
	                            "rank",
	                            comm->rank);
}

int cohort_comm_subset(struct cohort_comm *comm,
                       const struct cohort_unique_id *id, const int *ranks,
                       int n, const char *name, struct cohort_comm **child)
{
	struct join_arguments a = {
		.above = comm, .size = n, .ranks = ranks, .name = name
	};
	int rc = comm_check_fork(comm);

	if (rc == COHORT_OK && (!id || !child))
		rc = error_set(COHORT_INVALID, "comm_subset: %s is NULL",
		               id ? "child" : "id");
	if (rc == COHORT_OK)
		rc = memory_section_check("comm_subset");
	if (rc == COHORT_OK)
		rc = ranks_check(comm, ranks, n, &a.rank);
	if (rc == COHORT_OK)
		rc = join_read_id(id, comm->clique->platform->kind,
		                  "the communicator's platform", &a.id,
		                  &a.platform);
	if (rc == COHORT_OK)
		rc = comm_hold(comm);
	if (rc != COHORT_OK)
		return rc;
	a.device = comm->device;
	generation_sweep(comm->clique);
	rc = join_meet(&a, comm->clique->end, child);
	/* The cause of @comm explains more than an error of the meeting. */
	if (rc != COHORT_OK && clique_cause(comm->clique))
		rc = clique_error(comm->clique);
	comm_release(comm);
	return rc;
}
