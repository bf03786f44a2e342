/* SPDX-License-Identifier: Apache-2.0 */

#include "processes/processes.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/status.h"
#include "base/text.h"
#include "core/native.h"
#include "processes/oob.h"

/* Facts about the processes of one generation, as reported to the program. */
struct facts {
	struct facts *former;
	struct cohort_process of[];
};

struct processes {
	struct oob oob;
	bool has_connected;
	uint64_t met_ns; /* time at which all processes began to connect the
	                  * next generation */

	/* Atomic; facts of the latest generation.  Facts of former generations
	 * are kept, because a thread may be reading them. */
	struct facts *_Atomic facts;
	/* Facts of a generation that is being opened, or NULL. */
	struct facts *next;
};

int processes_create(const struct cohort_bootstrap *given, const char *name,
                     const struct patience *patience, struct processes **out)
{
	struct processes *p = calloc(1, sizeof(*p));
	int rc;

	if (!p)
		return error_set(COHORT_NO_MEMORY, "no memory for a group");
	rc = oob_open(&p->oob, given, name, patience);
	if (rc == COHORT_OK)
		*out = p;
	else
		free(p);
	return rc;
}

void processes_free(struct processes *p)
{
	struct facts *f, *former;

	if (!p)
		return;
	oob_close(&p->oob);
	for (f = atomic_load(&p->facts); f; f = former) {
		former = f->former;
		free(f);
	}
	free(p->next);
	free(p);
}

/* ---- errors of other processes ----------------------------------------- */

/* Store @status and, if it is an error, this thread's error text in the
 * record. */
static void record_status(struct process_record *r, int status)
{
	r->status = status;
	if (status != COHORT_OK)
		text_set(r->error, sizeof(r->error), "%s", cohort_last_error());
}

/* Return a weight for how informative an error is: lowest if the process only
 * reports that another process has left, higher if it has timed out waiting for
 * others, and highest if it has failed itself. */
static int weight(int status)
{
	return status == COHORT_OK               ? 0
	       : status == COHORT_PROCESS_EXITED ? 1
	       : status == COHORT_INIT_TIMEOUT   ? 2
	                                         : 3;
}

/* Return the process with the most informative error, or the first of several.
 * Return -1 if all processes can continue. */
static int find_failed(const struct processes *p, const struct exchange *e)
{
	int i, failed = -1;

	for (i = 0; i < p->oob.table.processes; i++)
		if (rank_set_has(e->came, i) &&
		    weight(e->all[i].status) >
		            (failed < 0 ? 0 : weight(e->all[failed].status)))
			failed = i;
	return failed;
}

static int error_left(const struct processes *p, const struct facts *facts,
                      int i)
{
	const struct cohort_process *f = &facts->of[i];
	char how[64] = "";
	struct text t = { how, sizeof(how) };

	if (peers_has_ended(p->oob.peers, i))
		peers_add_end(p->oob.peers, i, &t);
	else
		text_add(&t, "has closed the group");
	return error_set(COHORT_PROCESS_EXITED,
	                 "while the generation was being opened: process %d "
	                 "(host %s, pid %lld) %s",
	                 i, f->host, (long long)f->pid, how);
}

/* Return an error if a process of the next generation has not sent its
 * record. */
static int presence_check(const struct processes *p, const struct exchange *e)
{
	int i;

	for (i = 0; i < p->oob.table.processes; i++)
		if (p->next->of[i].ranks && !rank_set_has(e->came, i))
			return error_left(p, p->next, i);
	return COHORT_OK;
}

/* Return the first process with ranks in @facts that has ended, or -1. */
static int find_ended(const struct processes *p, const struct facts *facts)
{
	int i = 0;

	while (i < p->oob.table.processes &&
	       !(facts->of[i].ranks && peers_has_ended(p->oob.peers, i)))
		i++;
	return i < p->oob.table.processes ? i : -1;
}

/* Exchange records.  If an exchange through the program's table times out
 * because a process of @facts has ended, the error names that process.  @facts
 * may be NULL. */
static int exchange(struct processes *p, const struct facts *facts,
                    enum purpose purpose, const struct process_record *mine,
                    const struct patience *patience, struct exchange **out)
{
	int rc = oob_exchange(&p->oob, purpose, mine, patience, out), ended;

	if (rc != COHORT_INIT_TIMEOUT || !facts || p->oob.own ||
	    p->oob.by_peers)
		return rc;
	ended = find_ended(p, facts);
	return ended < 0 ? rc : error_left(p, facts, ended);
}

/* Return this process's own error, unless the error of another process is more
 * informative. */
static int status_of_all(const struct processes *p, const struct exchange *e)
{
	const struct process_record *r = e->all;
	const int i = find_failed(p, e);

	if (i < 0)
		return COHORT_OK;
	if (weight(e->mine.status) >= weight(r[i].status))
		return error_set(e->mine.status, "%s", e->mine.error);
	return error_set(r[i].status,
	                 "process %d (host %s, pid %lld) cannot continue: %s",
	                 i, r[i].host, (long long)r[i].pid, r[i].error);
}

static const char *const settings[SETTINGS] = {
	[SETTING_GENERATION] = "the generation",
	[SETTING_NCCL] = "NCCL's version",
	[SETTING_PLATFORM] = "options->platform",
	[SETTING_LAUNCH] = "options->launch",
	[SETTING_CONNECT] = "options->connect",
	[SETTING_MANY] = "options->many",
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

/* Return an error if the platform cannot join processes @first and @i. */
static int place_check(const struct platform *platform,
                       const struct exchange *e, int first, int i)
{
	const struct process_record *all = e->all;
	int k;

	if (platform->is_one_process)
		return is_same_process(&all[first], &all[i])
		               ? COHORT_OK
		               : error_set(COHORT_UNSUPPORTED,
		                           "processes %d and %d have pids "
		                           "%lld and %lld, but the %s platform "
		                           "joins ranks of one process only, "
		                           "unless COHORT_HOST_SHARED=1 is "
		                           "set",
		                           first, i, (long long)all[first].pid,
		                           (long long)all[i].pid,
		                           platform->name);
	/* NCCL counts and frees all ranks of a process together, so one process
	 * cannot take part as two. */
	for (k = first; k < i; k++)
		if (rank_set_has(e->came, k) &&
		    is_same_process(&all[k], &all[i]))
			return error_set(COHORT_INVALID,
			                 "processes %d and %d are the same "
			                 "process (host %s, pid %lld)",
			                 k, i, all[i].host,
			                 (long long)all[i].pid);
	return COHORT_OK;
}

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

	for (i = first + 1; i < p->oob.table.processes && rc == COHORT_OK;
	     i++) {
		if (!rank_set_has(e->came, i))
			continue;
		rc = settings_check(e->all, first, i);
		if (rc == COHORT_OK)
			rc = place_check(platform, e, first, i);
	}
	return rc;
}

/* ---- exchanging records ------------------------------------------------ */

/* Reduce each process's number of ranks by its lost ranks.  All ranks of a
 * process that has not arrived are lost. */
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

/* Check the numbers of ranks.  Processes that watch each other continue without
 * a process that has no ranks left. */
static int parts_check(const struct processes *p, const struct exchange *e)
{
	const int n = p->oob.table.processes;
	const struct process_record *r = e->all;
	int i, size = 0;
	bool has_any = false;

	for (i = 0; i < n; i++)
		has_any |= r[i].ranks > 0;
	for (i = 0; i < n; i++, r++) {
		if (rank_set_has(e->came, i) && r->ranks < 1 &&
		    !(p->oob.by_peers && has_any))
			return error_set(COHORT_INVALID,
			                 "process %d (host %s, pid %lld) would "
			                 "have no ranks left",
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

/* Leave the other processes, which continue without this one. */
static int leave_without_ranks(struct processes *p)
{
	peers_announce_leave(p->oob.peers);
	p->oob.is_broken = true;
	return error_set(COHORT_STATE,
	                 "all ranks of this process are lost, and the other "
	                 "processes continue without it: close the group");
}

/* Number the ranks in the order of the processes. */
static void number_ranks(struct processes *p, const struct exchange *e,
                         struct process_part *part)
{
	const struct cohort_process *own = &p->next->of[p->oob.table.process];
	const struct facts *now = atomic_load(&p->facts);
	struct cohort_process *f = p->next->of;
	int i, r;

	for (i = 0; i < p->oob.table.processes; i++, f++) {
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

static int make_next(struct processes *p)
{
	const size_t n = (size_t)p->oob.table.processes;
	struct facts *now = atomic_load(&p->facts);

	/* Drop the ranks of a generation that could not be opened. */
	peers_set_ranks(p->oob.peers, now ? now->of : NULL);
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
	int rc = NATIVE_NCCL(platform, NULL, ncclGetVersion, (&version));

	r->settings[SETTING_NCCL] = version;
	r->settings[SETTING_PLATFORM] = platform->kind;
	return rc;
}

static void connect_peers(struct processes *p, const struct exchange *e)
{
	struct peer_address all[COHORT_MAX_RANKS];
	int i;

	for (i = 0; i < p->oob.table.processes; i++)
		all[i] = e->all[i].address;
	peers_connect(p->oob.peers, all,
	              p->oob.own && p->oob.own->line
	                      ? p->oob.own->line(p->oob.table.info)
	                      : NULL);
	p->has_connected = true;
}

/* Exchange records with the other processes and number the ranks accordingly.
 * If records do not match, all processes return the same error. */
static int exchange_records(struct processes *p, int status,
                            const struct process_record *given,
                            const struct platform *platform,
                            const struct patience *patience,
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
	rc = exchange(p, atomic_load(&p->facts), MEETING, &mine, patience, &e);
	if (rc != COHORT_OK)
		return rc;
	memset(part, 0, sizeof(*part));
	rc = status_of_all(p, e);
	if (rc == COHORT_OK)
		rc = records_fit(p, platform, e);
	if (rc == COHORT_OK) {
		count_lost(e, p->oob.table.processes, atomic_load(&p->facts),
		           part);
		rc = parts_check(p, e);
	}
	if (rc == COHORT_OK && !e->all[p->oob.table.process].ranks)
		rc = leave_without_ranks(p);
	if (rc == COHORT_OK) {
		number_ranks(p, e, part);
		if (!p->has_connected)
			connect_peers(p, e);
		peers_set_ranks(p->oob.peers, p->next->of);
	}
	free(e);
	return rc;
}

/* Return the result of an exchange: this process's own error if it is specific,
 * otherwise COHORT_PROCESS_EXITED if a process is missing, otherwise another
 * process's error. */
static int exchange_status(const struct processes *p, const struct exchange *e)
{
	const int own = e->mine.status;
	int rc = COHORT_OK;

	if (own == COHORT_OK || own == COHORT_INIT_TIMEOUT ||
	    own == COHORT_NCCL || own == COHORT_PROCESS_EXITED)
		rc = presence_check(p, e);
	return rc == COHORT_OK ? status_of_all(p, e) : rc;
}

static int first_next(const struct processes *p)
{
	int i = 0;

	while (!p->next->of[i].ranks)
		i++;
	return i;
}

/* Record which processes watch this one and are watched by it. */
static void record_watched(struct processes *p, const struct exchange *e)
{
	const int own = p->oob.table.process;
	int i;

	for (i = 0; i < p->oob.table.processes; i++)
		p->next->of[i].watched = peers_watches(p->oob.peers, i) &&
		                         rank_set_has(e->all[i].watches, own);
}

static bool all_watch_all(const struct processes *p, const struct exchange *e)
{
	int i, k;

	for (i = 0; i < p->oob.table.processes; i++)
		for (k = 0; k < p->oob.table.processes; k++)
			if (!rank_set_has(e->all[i].watches, k))
				return false;
	return true;
}

/* Share the ID by which the ranks connect; the first process creates it.  NCCL
 * keeps a thread and a socket for an ID until the ranks have connected, so the
 * ID is created only once all processes can continue. */
static int share_id(struct processes *p, const struct platform *platform,
                    const struct patience *patience, struct process_part *part)
{
	struct process_record mine = { .status = COHORT_OK };
	const int first = first_next(p);
	struct exchange *e;
	int i, rc = COHORT_OK;

	for (i = 0; i < p->oob.table.processes; i++)
		if (peers_watches(p->oob.peers, i))
			rank_set_add(mine.watches, i);

	if (p->oob.table.process == first)
		rc = NATIVE_NCCL(platform, NULL, ncclGetUniqueId, (&mine.id));
	record_status(&mine, rc);
	rc = exchange(p, p->next, SHARING_ID, &mine, patience, &e);
	if (rc != COHORT_OK)
		return rc;
	part->id = e->all[first].id;
	p->met_ns = clock_now();
	rc = exchange_status(p, e);
	if (!atomic_load(&p->facts)) {
		record_watched(p, e);
		p->oob.by_peers =
			p->oob.table.processes > 1 && all_watch_all(p, e);
	}
	free(e);
	return rc;
}

int processes_exchange(struct processes *p, int status,
                       const struct process_record *mine,
                       const struct platform *platform,
                       const struct patience *patience,
                       struct process_part *part)
{
	const int rc =
		exchange_records(p, status, mine, platform, patience, part);

	return rc == COHORT_OK ? share_id(p, platform, patience, part) : rc;
}

static void record_devices(struct process_record *r, const int *devices, int n)
{
	const char *visible = getenv("CUDA_VISIBLE_DEVICES");
	int i;

	for (i = 0; i < n; i++)
		if (devices[i] >= 0 && devices[i] < COHORT_MAX_RANKS)
			rank_set_add(r->devices, devices[i]);
	r->visible = visible ? hash_bytes(0, visible, strlen(visible)) : 0;
}

/* Return a device that processes @i and @k have both opened, or -1 if no such
 * device is known. */
static int common_device(const struct exchange *e, int i, int k)
{
	const struct process_record *a = &e->all[i], *b = &e->all[k];
	int device = 0;

	if (!rank_set_has(e->came, i) || !rank_set_has(e->came, k) ||
	    strcmp(a->host, b->host) != 0 || a->visible != b->visible)
		return -1;
	while (device < COHORT_MAX_RANKS &&
	       !(rank_set_has(a->devices, device) &&
	         rank_set_has(b->devices, device)))
		device++;
	return device < COHORT_MAX_RANKS ? device : -1;
}

/* Prepend to this thread's error that processes @i and @k have both opened
 * @device. */
static int error_device(const struct exchange *e, int i, int k, int device,
                        int status)
{
	return error_set(status,
	                 "processes %d and %d (pids %lld and %lld) have both "
	                 "opened device %d, but each process needs its own "
	                 "devices%s: %s",
	                 i, k, (long long)e->all[i].pid,
	                 (long long)e->all[k].pid, device,
	                 getenv("LOCAL_RANK") ? "" : " (LOCAL_RANK is not set)",
	                 cohort_last_error());
}

/* If two processes have opened the same device, which makes NCCL fail, add this
 * to the error. */
static int explain_devices(const struct processes *p, const struct exchange *e,
                           int status)
{
	int i, k, device;

	for (k = 1; k < p->oob.table.processes; k++)
		for (i = 0; i < k; i++) {
			device = common_device(e, i, k);
			if (device >= 0)
				return error_device(e, i, k, device, status);
		}
	return status;
}

/* Return the limits of the wait for the other processes' agreement.  All
 * processes began to connect at the same time and with the same timeout, and
 * may then need a little longer to report the result. */
static struct patience patience_to_agree(const struct processes *p,
                                         const struct patience *patience)
{
	const uint64_t ns = patience->timeout_ns, now = clock_now();
	uint64_t until = clock_after(clock_after(p->met_ns, ns), ns / 4);

	until = clock_after(until, peers_patience_ns(p->oob.peers));
	return (struct patience){ until > now ? until - now : 0,
		                  patience->abort };
}

int processes_agree(struct processes *p, int status, const int *devices, int n,
                    const struct patience *patience)
{
	const struct patience limit = patience_to_agree(p, patience);
	struct process_record mine = { .status = COHORT_OK };
	const int ended = find_ended(p, p->next);
	struct exchange *e;
	int rc;

	/* Name the process that has ended, which the thread that set the error
	 * did not know. */
	if (status == COHORT_PROCESS_EXITED && ended >= 0)
		status = error_left(p, p->next, ended);
	/* This process has opened the generation, and no process leaves the
	 * generation before this process has sent its record.  So no process is
	 * ending. */
	if (status == COHORT_OK)
		peers_settle(p->oob.peers);
	record_status(&mine, status);
	record_devices(&mine, devices, n);
	rc = exchange(p, p->next, AGREEING, &mine, &limit, &e);
	if (rc != COHORT_OK)
		return rc;
	rc = exchange_status(p, e);
	if (rc == COHORT_NCCL)
		rc = explain_devices(p, e, rc);
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
	return p->oob.peers;
}

int processes_own(const struct processes *p)
{
	return p->oob.table.process;
}

int processes_describe(const struct processes *p, struct cohort_process *out,
                       int room)
{
	const struct facts *now = atomic_load(&p->facts);
	int i;

	for (i = 0; i < p->oob.table.processes && i < room; i++)
		out[i] = now->of[i];
	return p->oob.table.processes;
}
