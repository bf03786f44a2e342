/* SPDX-License-Identifier: Apache-2.0 */

#include "api/processes.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cohort/bootstrap.h>

#include "api/own_bootstrap.h"
#include "base/backoff.h"
#include "base/clock.h"
#include "base/process.h"
#include "base/sized.h"
#include "base/status.h"
#include "base/text.h"
#include "core/native.h"

/* What an exchange is for, which begins its records. */
enum purpose {
	MEETING = 0x63685072,
	SHARING_ID,
	AGREEING,
};

/* The processes of one generation. */
struct facts {
	struct facts *former;
	struct cohort_process of[];
};

struct processes {
	struct cohort_bootstrap table;
	const struct own_bootstrap *own; /* NULL: the program's table */

	/* The others, as far as they are watched. */
	struct peers *peers;
	struct peer_address address;

	bool has_connected;

	/* All processes watch all, and meet by that from now on. */
	bool by_peers;

	/* A meeting has failed: the others may be at another one. */
	bool is_broken;

	/* Atomic; of the latest generation.  Former ones stay: a thread may read
	 * them. */
	struct facts *_Atomic facts;
	struct facts *next; /* of a generation that is being opened, or NULL */
};

/* One exchange.  Until its request is done, the bootstrap may write to it. */
struct exchange {
	struct exchange *next_left;
	uint64_t came
		[COHORT_RANK_WORDS]; /* the set of processes with a record */
	struct process_record mine;
	struct process_record all[];
};

_Static_assert(sizeof(struct process_record) <= PEERS_RECORD &&
                       sizeof(struct process_record) % sizeof(uint64_t) == 0,
               "peers can gather it");

/* ---- creating --------------------------------------------------------- */

static int table_check(const struct cohort_bootstrap *t)
{
	if (t->processes < 1 || t->processes > COHORT_MAX_RANKS)
		return error_set(COHORT_INVALID,
		                 "bootstrap->processes is %d, not 1 to %d",
		                 t->processes, COHORT_MAX_RANKS);
	if (t->process < 0 || t->process >= t->processes)
		return error_set(COHORT_INVALID,
		                 "bootstrap->process is %d, not 0 to %d",
		                 t->process, t->processes - 1);
	if (!t->allgather || !t->req_test || !t->req_free)
		return error_set(COHORT_INVALID, "bootstrap->%s is NULL",
		                 !t->allgather  ? "allgather"
		                 : !t->req_test ? "req_test"
		                                : "req_free");
	return COHORT_OK;
}

/* Have the library make the table, of the kind that the caller wants. */
static int make_table(struct processes *p, const char *name,
                      uint64_t timeout_ns)
{
	const size_t bytes = sizeof(struct process_record);
	int kind = p->table.kind;

	if (kind == COHORT_BOOTSTRAP_AUTO)
		kind = environment_bootstrap_yields() && pmix_bootstrap_suits()
		               ? COHORT_BOOTSTRAP_PMIX
		               : COHORT_BOOTSTRAP_ENV;
	switch (kind) {
	case COHORT_BOOTSTRAP_ENV:
		return environment_bootstrap_create(name, bytes, &p->table,
		                                    &p->own);
	case COHORT_BOOTSTRAP_PMIX:
		return pmix_bootstrap_create(name, bytes, timeout_ns, &p->table,
		                             &p->own);
	default:
		return error_set(COHORT_INVALID,
		                 "bootstrap->kind is %d, not an enum "
		                 "cohort_bootstrap_kind",
		                 kind);
	}
}

/* Read the caller's table, or have one made. */
static int read_table(struct processes *p, const struct cohort_bootstrap *given,
                      const char *name, uint64_t timeout_ns)
{
	const size_t least = offsetof(struct cohort_bootstrap, process);
	int rc = sized_check("bootstrap", given->size, least,
	                     "set it to sizeof(struct cohort_bootstrap)");

	if (rc == COHORT_OK)
		rc = reserved_check("bootstrap->", given,
		                    offsetof(struct cohort_bootstrap, reserved),
		                    given->size);
	if (rc != COHORT_OK)
		return rc;
	memcpy(&p->table, given,
	       given->size < sizeof(p->table) ? given->size : sizeof(p->table));
	return p->table.kind == COHORT_BOOTSTRAP_TABLE
	               ? table_check(&p->table)
	               : make_table(p, name, timeout_ns);
}

static void leave_table(struct processes *p)
{
	if (p->own)
		p->own->free(p->table.info);
}

int processes_create(const struct cohort_bootstrap *given, const char *name,
                     uint64_t timeout_ns, struct processes **out)
{
	struct processes *p = calloc(1, sizeof(*p));
	int rc;

	if (!p)
		return error_set(COHORT_NO_MEMORY, "no memory for a group");
	rc = read_table(p, given, name, timeout_ns);
	if (rc == COHORT_OK)
		rc = peers_create(p->table.process, p->table.processes, name,
		                  &p->address, &p->peers);
	if (rc == COHORT_OK) {
		*out = p;
	} else {
		leave_table(p);
		free(p);
	}
	return rc;
}

void processes_free(struct processes *p)
{
	struct facts *f, *former;

	if (!p)
		return;
	peers_leave(p->peers);
	for (f = atomic_load(&p->facts); f; f = former) {
		former = f->former;
		free(f);
	}
	free(p->next);
	leave_table(p);
	free(p);
}

/* ---- exchanging records ------------------------------------------------ */

/* Ask the request until it is done: 0, 1 if the time is up, or its error. */
static int await_request(const struct cohort_bootstrap *t, void *request,
                         uint64_t deadline)
{
	struct backoff b = BACKOFF;
	int answer;

	while ((answer = t->req_test(request)) == 1) {
		if (clock_now() >= deadline)
			return 1;
		backoff_wait(&b, deadline);
	}
	return answer;
}

/* Why the processes have not met: @what, and which have not come, by @came, or, if that is
 * NULL, as far as the library's own bootstrap knows. */
static int explain(const struct processes *p, const uint64_t *came, int status,
                   const char *what)
{
	char why[256] = "";
	struct text t = { why, sizeof(why) };

	if (came)
		bootstrap_add_absent(came, p->table.processes, &t);
	else if (p->own)
		p->own->explain(p->table.info, &t);
	return error_set(status, "process %d of %d %s%s", p->table.process,
	                 p->table.processes, what, why);
}

static int explain_timeout(const struct processes *p, const uint64_t *came,
                           uint64_t timeout_ns)
{
	char what[96];

	snprintf(what, sizeof(what), "has waited for the others for %llu ms",
	         (unsigned long long)(timeout_ns / 1000000));
	return explain(p, came, COHORT_INIT_TIMEOUT, what);
}

static int explain_failure(const struct processes *p, const char *function,
                           int answer)
{
	char what[96] = "cannot meet the others";

	if (!p->own)
		snprintf(what, sizeof(what),
		         "cannot meet the others: bootstrap->%s has answered "
		         "%d",
		         function, answer);
	return explain(p, NULL, COHORT_SYSTEM, what);
}

/* Gather among the processes that have not ended. */
static int gather_by_peers(struct processes *p, struct exchange *e,
                           uint64_t timeout_ns)
{
	int rc = peers_gather(p->peers, &e->mine, sizeof(e->mine), e->all,
	                      e->came, clock_deadline(timeout_ns));

	return rc == COHORT_OK ? rc : explain_timeout(p, e->came, timeout_ns);
}

/* Gather all records of @e.  On an error the bootstrap cannot be used again; after
 * COHORT_INIT_TIMEOUT it may still write to @e. */
static int gather_by_table(struct processes *p, struct exchange *e,
                           uint64_t timeout_ns)
{
	const struct cohort_bootstrap *t = &p->table;
	void *request = NULL;
	int i, answer = t->allgather(&e->mine, e->all, sizeof(e->mine), t->info,
	                             &request);

	if (answer)
		return explain_failure(p, "allgather", answer);
	answer = await_request(t, request, clock_deadline(timeout_ns));
	if (answer == 1)
		return explain_timeout(p, NULL, timeout_ns);
	t->req_free(request);
	for (i = 0; i < t->processes; i++)
		rank_set_add(e->came, i);
	return answer ? explain_failure(p, "req_test", answer) : COHORT_OK;
}

/* Make the texts of records end, and check that these are records. */
static int records_check(enum purpose purpose, struct exchange *e, int n)
{
	struct process_record *all = e->all;
	int i;

	for (i = 0; i < n; i++) {
		if (!rank_set_has(e->came, i))
			continue;
		all[i].error[sizeof(all[i].error) - 1] = '\0';
		all[i].host[sizeof(all[i].host) - 1] = '\0';
		if (all[i].purpose != (uint32_t)purpose)
			return error_set(
				COHORT_INVALID,
				"process %d has another version of "
				"the library, or is at another call, "
				"or the bootstrap has not brought what "
				"it sent",
				i);
	}
	return COHORT_OK;
}

/* Keep an exchange that the bootstrap may still write to, for ever. */
static void keep(struct exchange *e)
{
	/* Atomic; all that were left. */
	static struct exchange *_Atomic left;

	e->next_left = atomic_exchange(&left, e);
}

static int exchange(struct processes *p, enum purpose purpose,
                    const struct process_record *mine, uint64_t timeout_ns,
                    struct exchange **out)
{
	const size_t n = (size_t)p->table.processes;
	struct exchange *e;
	int rc;

	if (p->is_broken)
		return error_set(COHORT_STATE,
		                 "the processes have not met before: close the "
		                 "group, and open another");
	e = calloc(1, sizeof(*e) + n * sizeof(e->all[0]));
	if (!e) {
		p->is_broken = true; /* the others may be ahead */
		return error_set(COHORT_NO_MEMORY,
		                 "no memory for %zu processes", n);
	}
	e->mine = *mine;
	e->mine.purpose = purpose;
	e->mine.pid = getpid();
	e->mine.instance = process_number();
	gethostname(e->mine.host, sizeof(e->mine.host) - 1);
	e->mine.address = p->address;
	rc = p->by_peers ? gather_by_peers(p, e, timeout_ns)
	                 : gather_by_table(p, e, timeout_ns);
	if (rc == COHORT_OK)
		rc = records_check(purpose, e, p->table.processes);
	p->is_broken = rc != COHORT_OK;
	if (rc == COHORT_OK)
		*out = e;
	else if (rc == COHORT_INIT_TIMEOUT && !p->own && !p->by_peers)
		keep(e);
	else
		free(e);
	/* Why this process cannot go on says more than that it cannot tell. */
	return rc != COHORT_OK && mine->status != COHORT_OK
	               ? error_set(mine->status, "%s", mine->error)
	               : rc;
}

/* ---- what the others say ----------------------------------------------- */

/* Take this thread's error for the record, if @status is one. */
static void record_status(struct process_record *r, int status)
{
	r->status = status;
	if (status != COHORT_OK)
		text_set(r->error, sizeof(r->error), "%s", cohort_last_error());
}

/* How much an error says: least if the process has only been told that another one has
 * given up, more if it has waited for the others, most if it has failed itself. */
static int weight(int status)
{
	return status == COHORT_OK               ? 0
	       : status == COHORT_PROCESS_EXITED ? 1
	       : status == COHORT_INIT_TIMEOUT   ? 2
	                                         : 3;
}

/* The first of the processes whose errors say most; -1: all can go on. */
static int find_failed(const struct processes *p, const struct exchange *e)
{
	int i, failed = -1;

	for (i = 0; i < p->table.processes; i++)
		if (rank_set_has(e->came, i) &&
		    weight(e->all[i].status) >
		            (failed < 0 ? 0 : weight(e->all[failed].status)))
			failed = i;
	return failed;
}

static int error_left(const struct processes *p, int i)
{
	const struct cohort_process *f = &p->next->of[i];

	return error_set(COHORT_PROCESS_EXITED,
	                 "process %d (host %s, pid %lld) has %s while the "
	                 "generation was being opened",
	                 i, f->host, (long long)f->pid,
	                 peers_has_ended(p->peers, i) ? "exited"
	                                              : "closed the group");
}

/* An error if a process of the next generation has not brought its record. */
static int presence_check(const struct processes *p, const struct exchange *e)
{
	int i;

	for (i = 0; i < p->table.processes; i++)
		if (p->next->of[i].ranks && !rank_set_has(e->came, i))
			return error_left(p, i);
	return COHORT_OK;
}

/* The first process of the next generation that has ended; -1: none. */
static int find_ended(const struct processes *p)
{
	int i = 0;

	while (i < p->table.processes &&
	       !(p->next->of[i].ranks && peers_has_ended(p->peers, i)))
		i++;
	return i < p->table.processes ? i : -1;
}

/* This process's own error, unless another's says more. */
static int status_of_all(const struct processes *p, const struct exchange *e)
{
	const struct process_record *r = e->all;
	const int i = find_failed(p, e);

	if (i < 0)
		return COHORT_OK;
	if (weight(e->mine.status) >= weight(r[i].status))
		return error_set(e->mine.status, "%s", e->mine.error);
	return error_set(r[i].status > COHORT_OK ? COHORT_SYSTEM : r[i].status,
	                 "process %d (host %s, pid %lld) cannot go on: %s", i,
	                 r[i].host, (long long)r[i].pid, r[i].error);
}

static const char *const settings[SETTINGS] = {
	[SETTING_GENERATION] = "the generation",
	[SETTING_NCCL] = "NCCL's version",
	[SETTING_PLATFORM] = "options->platform",
	[SETTING_LAUNCH] = "options->launch",
	[SETTING_CONNECT] = "options->connect",
	[SETTING_MANY] = "options->many",
	[SETTING_GROUP_MOST] = "options->many_group_most",
	[SETTING_FLAT_BELOW] = "options->many_flat_below",
};

static int settings_check(const struct process_record *all, int first, int i)
{
	const struct process_record *a = &all[first], *b = &all[i];
	int k = 0;

	while (k < SETTINGS && a->settings[k] == b->settings[k])
		k++;
	if (k == SETTINGS)
		return COHORT_OK;
	return error_set(COHORT_INVALID,
	                 "%s is %lld in process %d, but %lld in process %d",
	                 settings[k], (long long)a->settings[k], first,
	                 (long long)b->settings[k], i);
}

static bool is_same_process(const struct process_record *a,
                            const struct process_record *b)
{
	return a->pid == b->pid && a->instance == b->instance &&
	       strcmp(a->host, b->host) == 0;
}

/* Whether the platform can join processes @first and @i. */
static int place_check(const struct platform *platform,
                       const struct exchange *e, int first, int i)
{
	const struct process_record *all = e->all;
	int k;

	if (platform->is_one_process)
		return is_same_process(&all[first], &all[i])
		               ? COHORT_OK
		               : error_set(COHORT_UNSUPPORTED,
		                           "processes %d and %d are two (pids "
		                           "%lld and %lld): the %s platform "
		                           "joins ranks of one process only, "
		                           "unless COHORT_HOST_SHARED=1",
		                           first, i, (long long)all[first].pid,
		                           (long long)all[i].pid,
		                           platform->name);
	/* NCCL counts and frees all ranks of a process together. */
	for (k = first; k < i; k++)
		if (rank_set_has(e->came, k) &&
		    is_same_process(&all[k], &all[i]))
			return error_set(COHORT_INVALID,
			                 "processes %d and %d are one (host "
			                 "%s, pid %lld)",
			                 k, i, all[i].host,
			                 (long long)all[i].pid);
	return COHORT_OK;
}

/* The first process that has brought its record. */
static int first_of(const struct exchange *e)
{
	int i = 0;

	while (!rank_set_has(e->came, i))
		i++;
	return i;
}

static int records_fit(const struct processes *p,
                       const struct platform *platform,
                       const struct exchange *e)
{
	const int first = first_of(e);
	int i, rc = COHORT_OK;

	for (i = first + 1; i < p->table.processes && rc == COHORT_OK; i++) {
		if (!rank_set_has(e->came, i))
			continue;
		rc = settings_check(e->all, first, i);
		if (rc == COHORT_OK)
			rc = place_check(platform, e, first, i);
	}
	return rc;
}

/* ---- meeting ----------------------------------------------------------- */

/* Take the ranks that are lost from those of each process.  All ranks of a process
 * that has not come are. */
static void count_lost(struct exchange *e, int n, const struct facts *now,
                       struct process_part *part)
{
	const struct cohort_process *f = now ? now->of : NULL;
	struct process_record *r;
	int i, k;

	for (i = 0; i < n; i++)
		rank_set_add_all(part->lost, e->all[i].lost);
	for (i = 0, r = e->all; f && i < n; i++, r++, f++) {
		r->ranks = 0;
		for (k = f->first_rank; k < f->first_rank + f->ranks; k++)
			if (!rank_set_has(e->came, i))
				rank_set_add(part->lost, k);
			else if (!rank_set_has(part->lost, k))
				r->ranks++;
	}
}

static int parts_check(const struct exchange *e, int n)
{
	const struct process_record *r = e->all;
	int i, size = 0;

	for (i = 0; i < n; i++, r++) {
		if (rank_set_has(e->came, i) && r->ranks < 1)
			return error_set(COHORT_INVALID,
			                 "process %d (host %s, pid %lld) would "
			                 "have no rank left",
			                 i, r->host, (long long)r->pid);
		if (r->ranks > COHORT_MAX_RANKS - size)
			return error_set(COHORT_INVALID,
			                 "processes 0 to %d have more than %d "
			                 "ranks",
			                 i, COHORT_MAX_RANKS);
		size += r->ranks;
	}
	return COHORT_OK;
}

/* Number the ranks by process. */
static void number_ranks(struct processes *p, const struct exchange *e,
                         struct process_part *part)
{
	const struct cohort_process *own = &p->next->of[p->table.process];
	const struct facts *now = atomic_load(&p->facts);
	struct cohort_process *f = p->next->of;
	int i, r;

	for (i = 0; i < p->table.processes; i++, f++) {
		if (now)
			*f = now->of[i];
		f->first_rank = part->size;
		f->ranks = e->all[i].ranks;
		part->size += f->ranks;
		if (!rank_set_has(e->came, i))
			continue;
		f->pid = e->all[i].pid;
		memcpy(f->host, e->all[i].host, sizeof(f->host));
	}
	for (r = 0; r < own->ranks; r++)
		part->ranks[r] = own->first_rank + r;
}

/* Make room for the facts of the next generation. */
static int make_next(struct processes *p)
{
	const size_t n = (size_t)p->table.processes;
	struct facts *now = atomic_load(&p->facts);

	/* Those of a generation that did not come about. */
	peers_set_ranks(p->peers, now ? now->of : NULL);
	free(p->next);
	p->next = calloc(1, sizeof(*p->next) + n * sizeof(p->next->of[0]));
	if (!p->next)
		return error_set(COHORT_NO_MEMORY,
		                 "no memory for %zu processes", n);
	p->next->former = now;
	return COHORT_OK;
}

static int read_version(const struct platform *platform,
                        struct process_record *r)
{
	int version = 0;
	int rc = native_nccl(platform, "ncclGetVersion", NULL,
	                     platform->ncclGetVersion(&version));

	r->settings[SETTING_NCCL] = version;
	r->settings[SETTING_PLATFORM] = platform->kind;
	return rc;
}

/* Watch the others from now on. */
static void connect_peers(struct processes *p, const struct exchange *e)
{
	struct peer_address all[COHORT_MAX_RANKS];
	int i;

	for (i = 0; i < p->table.processes; i++)
		all[i] = e->all[i].address;
	peers_connect(p->peers, all,
	              p->own && p->own->line ? p->own->line(p->table.info)
	                                     : NULL);
	p->has_connected = true;
}

/* Tell the others this process's record, and number the ranks by theirs.  What
 * it answers for records that do not fit is the same in all processes. */
static int meet(struct processes *p, int status,
                const struct process_record *given,
                const struct platform *platform, uint64_t timeout_ns,
                struct process_part *part)
{
	struct process_record mine = *given;
	struct exchange *e;
	int rc;

	if (status == COHORT_OK)
		status = make_next(p);
	if (status == COHORT_OK)
		status = read_version(platform, &mine);
	record_status(&mine, status);
	rc = exchange(p, MEETING, &mine, timeout_ns, &e);
	if (rc != COHORT_OK)
		return rc;
	memset(part, 0, sizeof(*part));
	rc = status_of_all(p, e);
	if (rc == COHORT_OK)
		rc = records_fit(p, platform, e);
	if (rc == COHORT_OK) {
		count_lost(e, p->table.processes, atomic_load(&p->facts), part);
		rc = parts_check(e, p->table.processes);
	}
	if (rc == COHORT_OK) {
		number_ranks(p, e, part);
		if (!p->has_connected)
			connect_peers(p, e);
		peers_set_ranks(p->peers, p->next->of);
	}
	free(e);
	return rc;
}

/* What came of an exchange: an error of this process's own, which says more than that
 * another has exited; a process that has; or an error of any. */
static int outcome(const struct processes *p, const struct exchange *e)
{
	const int own = e->mine.status;
	int rc = COHORT_OK;

	if (own == COHORT_OK || own == COHORT_INIT_TIMEOUT ||
	    own == COHORT_NCCL || own == COHORT_PROCESS_EXITED)
		rc = presence_check(p, e);
	return rc == COHORT_OK ? status_of_all(p, e) : rc;
}

/* The first process with ranks in the next generation. */
static int first_next(const struct processes *p)
{
	int i = 0;

	while (!p->next->of[i].ranks)
		i++;
	return i;
}

/* Note which processes and this one watch each other. */
static void note_watched(struct processes *p, const struct exchange *e)
{
	const int own = p->table.process;
	int i;

	for (i = 0; i < p->table.processes; i++)
		p->next->of[i].watched = peers_watches(p->peers, i) &&
		                         rank_set_has(e->all[i].watches, own);
}

static bool all_watch_all(const struct processes *p, const struct exchange *e)
{
	int i, k;

	for (i = 0; i < p->table.processes; i++)
		for (k = 0; k < p->table.processes; k++)
			if (!rank_set_has(e->all[i].watches, k))
				return false;
	return true;
}

/* The first process tells the others by which id the ranks connect.  NCCL's has a
 * thread and a socket until the ranks have connected, so it is not made before all
 * processes can. */
static int share_id(struct processes *p, const struct platform *platform,
                    uint64_t timeout_ns, struct process_part *part)
{
	struct process_record mine = { .status = COHORT_OK };
	const int first = first_next(p);
	struct exchange *e;
	int i, rc = COHORT_OK;

	for (i = 0; i < p->table.processes; i++)
		if (peers_watches(p->peers, i))
			rank_set_add(mine.watches, i);

	if (p->table.process == first)
		rc = native_nccl(platform, "ncclGetUniqueId", NULL,
		                 platform->ncclGetUniqueId(&mine.id));
	record_status(&mine, rc);
	rc = exchange(p, SHARING_ID, &mine, timeout_ns, &e);
	if (rc != COHORT_OK)
		return rc;
	part->id = e->all[first].id;
	rc = outcome(p, e);
	if (!atomic_load(&p->facts)) {
		note_watched(p, e);
		p->by_peers = p->table.processes > 1 && all_watch_all(p, e);
	}
	free(e);
	return rc;
}

int processes_meet(struct processes *p, int status,
                   const struct process_record *mine,
                   const struct platform *platform, uint64_t timeout_ns,
                   struct process_part *part)
{
	const int rc = meet(p, status, mine, platform, timeout_ns, part);

	return rc == COHORT_OK ? share_id(p, platform, timeout_ns, part) : rc;
}

int processes_agree(struct processes *p, int status, uint64_t timeout_ns)
{
	struct process_record mine = { .status = COHORT_OK };
	struct exchange *e;
	int rc;

	/* What waited for it in vain does not know which process that is. */
	if (status == COHORT_PROCESS_EXITED && find_ended(p) >= 0)
		status = error_left(p, find_ended(p));
	record_status(&mine, status);
	rc = exchange(p, AGREEING, &mine, clock_after(timeout_ns, timeout_ns),
	              &e);
	if (rc != COHORT_OK)
		return rc;
	rc = outcome(p, e);
	free(e);
	if (rc == COHORT_OK) {
		atomic_store(&p->facts, p->next);
		p->next = NULL;
	}
	return rc;
}

/* ---- facts ------------------------------------------------------------- */

struct peers *processes_peers(const struct processes *p)
{
	return p->peers;
}

int processes_own(const struct processes *p)
{
	return p->table.process;
}

int processes_facts(const struct processes *p, struct cohort_process *out,
                    int room)
{
	const struct facts *now = atomic_load(&p->facts);
	int i;

	for (i = 0; i < p->table.processes && i < room; i++)
		out[i] = now->of[i];
	return p->table.processes;
}
