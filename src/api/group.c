/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Opens, splits, closes and queries groups, and makes the calls of all ranks
 * from one thread
 */

#include "api/group.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cohort/bootstrap.h>

#include "api/communicator.h"
#include "api/options.h"
#include "base/clock.h"
#include "base/environment.h"
#include "base/hash.h"
#include "base/list.h"
#include "base/process.h"
#include "base/scoped_lock.h"
#include "base/status.h"
#include "base/thread.h"
#include "core/launch_lock.h"
#include "core/native.h"
#include "core/owner.h"
#include "core/submit.h"

int group_check(const struct cohort_group *group)
{
	if (!group)
		return error_set(COHORT_INVALID, "group is NULL");
	return process_check();
}

int group_check_closely(const struct cohort_group *group)
{
	int rc = group_check(group);

	return rc == COHORT_OK ? process_check_closely() : rc;
}

struct clique *group_clique(const struct cohort_group *group)
{
	return atomic_load(&group->now)->clique;
}

/* ---- open groups ------------------------------------------------------ */

/* List of open groups, with which cohort_group_close() detects a closed group
 * without reading its memory. */
static struct cohort_group *open_groups;
static pthread_mutex_t open_lock = PTHREAD_MUTEX_INITIALIZER;

static void add_open(struct cohort_group *g)
{
	SCOPED_LOCK(&open_lock);
	list_add(open_groups, g, next_open);
}

static int open_check(const struct cohort_group *g)
{
	const struct cohort_group *open;

	pthread_mutex_lock(&open_lock);
	list_find(open, open_groups, next_open, open == g);
	pthread_mutex_unlock(&open_lock);
	return open ? COHORT_OK
	            : error_set(COHORT_INVALID,
	                        "group %p is not open (was it closed?)",
	                        (const void *)g);
}

static void remove_open(struct cohort_group *g)
{
	SCOPED_LOCK(&open_lock);
	list_remove(open_groups, g, next_open);
}

/* ---- opening ---------------------------------------------------------- */

/* Refuse device lists with which NCCL would leak memory or fail late. */
static int devices_check(const int *devices, int n, int count)
{
	int i, k;

	for (i = 0; i < n; i++) {
		if (devices[i] < 0 || devices[i] >= count)
			return error_set(COHORT_INVALID,
			                 "devices[%d] is %d, not 0 to %d", i,
			                 devices[i], count - 1);
		for (k = 0; k < i; k++)
			if (devices[k] == devices[i])
				return error_set(COHORT_INVALID,
				                 "devices[%d] is %d, the same "
				                 "as devices[%d]: each rank "
				                 "needs its own device",
				                 i, devices[i], k);
	}
	return COHORT_OK;
}

static int refuse_count(const struct platform *p, int n, int count)
{
	const char *variable = p->devices_variable;

	return error_set(COHORT_INVALID,
	                 "n is %d, but the %s platform has %d device%s%s%s%s",
	                 n, p->name, count, count == 1 ? "" : "s",
	                 variable ? " (" : "", variable ? variable : "",
	                 variable ? " sets how many)" : "");
}

static int devices_list(const struct platform *p, const int *devices, int n,
                        struct new_rank **list_out, int *n_out)
{
	struct new_rank *list;
	int count, i;
	int rc = NATIVE_CUDA(p, cudaGetDeviceCount, (&count));

	if (rc != COHORT_OK)
		return rc;
	if (!devices && !n)
		n = count;
	if (n < 1 || n > count)
		return refuse_count(p, n, count);
	rc = devices ? devices_check(devices, n, count) : COHORT_OK;
	if (rc != COHORT_OK)
		return rc;
	list = calloc((size_t)n, sizeof(*list));
	if (!list)
		return error_set(COHORT_NO_MEMORY, "no memory for %d ranks", n);
	for (i = 0; i < n; i++)
		list[i].device = devices ? devices[i] : i;
	*list_out = list;
	*n_out = n;
	return COHORT_OK;
}

/* ---- with other processes ---------------------------------------------- */

static int next_generation(const struct cohort_group *g)
{
	const struct generation *now = atomic_load(&g->now);

	return now ? now->clique->generation + 1 : 1;
}

int group_exchange(struct cohort_group *g, int status, int n,
                   const uint64_t *lost, struct process_part *part)
{
	const struct cohort_group_options *o = &g->options;
	struct process_record mine = {
		.ranks = n,
		.settings = { [SETTING_GENERATION] = next_generation(g),
		              [SETTING_LAUNCH] = o->launch,
		              [SETTING_CONNECT] = o->connect,
		              [SETTING_MANY] = o->many },
	};
	struct patience patience = { o->deadlines.init_ns, o->abort };

	if (!g->processes)
		return status;
	if (lost)
		memcpy(mine.lost, lost, sizeof(mine.lost));
	/* Extend the timeout, because another process may first wait up to the
	 * abort deadline for its former generation to end, and as long again
	 * for the generations split from it. */
	if (atomic_load(&g->now))
		patience.timeout_ns = clock_after(
			clock_after(patience.timeout_ns, o->deadlines.abort_ns),
			o->deadlines.abort_ns);
	return processes_exchange(g->processes, status, &mine, g->platform,
	                          &patience, part);
}

/* Agree with the other processes on whether all of them have opened the
 * generation.  If not, discard @now and return the error.
 * @rc: COHORT_OK if this process has opened the generation, as @now */
static int agree_to_open(struct cohort_group *g, int rc,
                         const struct new_rank *ranks, int n,
                         struct generation *now)
{
	const struct patience patience = { g->options.deadlines.init_ns,
		                           g->options.abort };
	int devices[COHORT_MAX_RANKS], i, agreed;

	for (i = 0; i < n; i++)
		devices[i] = ranks[i].device;
	agreed = processes_agree(g->processes, rc, devices, n, &patience);
	if (agreed == COHORT_OK || rc != COHORT_OK)
		return agreed;
	return generation_discard(now, agreed);
}

int group_open_generation(struct cohort_group *g, struct new_rank *ranks, int n,
                          const struct process_part *part)
{
	struct generation *now = NULL, *former = atomic_load(&g->now);
	struct clique_options options = options_of_clique(&g->options);
	struct watch_options watch = options_of_watch(&g->options);
	struct peers *peers = NULL;
	int i, rc;

	for (i = 0; i < n; i++) {
		ranks[i].rank = part ? part->ranks[i] : i;
		if (!former)
			ranks[i].origin = ranks[i].rank;
	}
	options.generation = next_generation(g);
	if (part) {
		options.world = part->size;
		options.id = &part->id;
		/* Unique, because every attempt to open a generation has a new
		 * id. */
		options.identity = hash_bytes(0, &part->id, sizeof(part->id));
		peers = processes_peers(g->processes);
		options.is_futile = peers_is_futile;
		options.of = peers;
		/* Run no callback until all processes have opened the
		 * generation. */
		watch.is_deferred = true;
		peers_open(peers, options.identity);
	}
	rc = generation_open(g->platform, ranks, n, &options, &watch, peers,
	                     &now);
	if (part && rc != COHORT_OK)
		peers_give_up(peers, options.identity);
	if (part)
		rc = agree_to_open(g, rc, ranks, n, now);
	if (rc != COHORT_OK)
		return rc;
	if (part)
		watch_release(now->watch);
	now->former = former;
	atomic_store(&g->now, now);
	return COHORT_OK;
}

/* Return true if CUDA_LAUNCH_BLOCKING is set to a nonzero number.  CUDA reads
 * the variable in the same way when it starts. */
static bool launches_block(void)
{
	const char *text = getenv("CUDA_LAUNCH_BLOCKING");

	return text && atoi(text) != 0;
}

static int open_first(struct cohort_group *g, const int *devices, int n)
{
	struct process_part part;
	struct new_rank *list = NULL;
	int rc = environment_check();

	g->launches_block = launches_block();
	if (rc == COHORT_OK)
		rc = platform_open(g->options.platform, &g->platform);
	if (rc == COHORT_OK)
		rc = devices_list(g->platform, devices, n, &list, &n);
	rc = group_exchange(g, rc, n, NULL, &part);
	if (rc == COHORT_OK)
		rc = group_open_generation(g, list, n,
		                           g->processes ? &part : NULL);
	free(list);
	return rc;
}

/* Let @abort end the group from now on.  Close the group if this fails, or if
 * @abort has been fired already. */
static int follow(struct cohort_group *g, struct cohort_abort *abort)
{
	char error[512];
	int rc = cause_forward(abort, group_clique(g)->end);

	if (rc == COHORT_OK)
		return rc;
	text_set(error, sizeof(error), "%s", cohort_last_error());
	cohort_group_close(g);
	return error_set(rc, "%s", error);
}

/* Connect to any other processes, and open the first generation. */
static int open_group(struct cohort_group *g, const int *devices, int n)
{
	struct cohort_group_options *o = &g->options;
	const struct patience patience = { o->deadlines.init_ns, o->abort };
	int rc = COHORT_OK;

	if (o->bootstrap)
		rc = processes_create(o->bootstrap, o->name, &patience,
		                      &g->processes);
	o->bootstrap = NULL; /* owned by the caller */
	if (rc == COHORT_OK)
		rc = open_first(g, devices, n);
	o->abort = NULL; /* applies to the first generation only */
	return rc;
}

int cohort_group_open(const int *devices, int n,
                      const struct cohort_group_options *options,
                      struct cohort_group **group)
{
	struct cohort_abort *abort = NULL;
	struct cohort_group *g;
	struct log log;
	int rc;

	if (!group)
		return error_set(COHORT_INVALID, "group is NULL");
	process_watch();
	rc = process_check_closely();
	if (rc == COHORT_OK)
		rc = memory_section_check("group_open");
	if (rc != COHORT_OK)
		return rc;
	g = calloc(1, sizeof(*g));
	if (!g)
		return error_set(COHORT_NO_MEMORY, "no memory for a group");
	rc = options_read(options, &g->options);
	if (rc == COHORT_OK) {
		options_own(&g->options, &g->texts);
		log = log_parse(g->options.log);
		environment_report(&log);
		abort = g->options.abort;
		rc = open_group(g, devices, n);
	}
	if (rc != COHORT_OK) {
		processes_free(g->processes);
		free(g);
		return rc;
	}
	add_open(g);
	rc = abort ? follow(g, abort) : COHORT_OK;
	if (rc == COHORT_OK)
		*group = g;
	return rc;
}

int cohort_group_split(struct cohort_group *group, struct cohort_comm *comms[])
{
	const struct cohort_cause *cause;
	struct clique *q;
	int i, rc = group_check_closely(group);

	if (rc != COHORT_OK)
		return rc;
	if (!comms)
		return error_set(COHORT_INVALID, "comms is NULL");
	q = group_clique(group);
	cause = clique_explained_cause(q);
	if (cause)
		return error_set(COHORT_STATE, "the group has ended: %s",
		                 cause->text);
	if (atomic_exchange(&group->split, true))
		return error_set(COHORT_STATE,
		                 "cohort_group_split() or cohort_group_run() "
		                 "was already called on the group");
	atomic_store_explicit(&q->split_tid, thread_id(), memory_order_relaxed);
	for (i = 0; i < q->size; i++)
		comms[i] = &q->comms[i];
	return COHORT_OK;
}

/* ---- closing ---------------------------------------------------------- */

static int close_check(const struct cohort_group *group)
{
	const struct generation *now = atomic_load(&group->now);
	const struct cohort_comm *c;
	int rc;

	if (atomic_load(&group->running))
		return error_set(COHORT_STATE,
		                 "a cohort_group_run() or "
		                 "cohort_group_respawn() is in progress");
	rc = watch_check_callback(now->clique);
	if (rc != COHORT_OK)
		return rc;
	c = generation_occupied(now);
	if (c)
		return error_set(COHORT_STATE,
		                 "a thread is in a call on the communicator of "
		                 "rank %d of \"%s\"",
		                 c->rank, c->clique->name);
	return COHORT_OK;
}

int cohort_group_close(struct cohort_group *group)
{
	struct generation *g, *former;
	int i, rc, freed;

	if (!group)
		return COHORT_OK;
	rc = process_check_closely();
	if (rc == COHORT_OK)
		rc = open_check(group);
	if (rc == COHORT_OK)
		rc = memory_section_check("group_close");
	if (rc == COHORT_OK)
		rc = close_check(group);
	if (rc != COHORT_OK)
		return rc;
	g = atomic_load(&group->now);
	for (i = 0; g->clique->remote && i < g->clique->size; i++)
		g->clique->remote->publish_event(&g->clique->comms[i],
		                                 REMOTE_LEAVING);
	rc = generation_end(g);
	for (; g; g = former) {
		former = g->former;
		freed = generation_free(g);
		if (freed != COHORT_OK)
			rc = freed;
	}
	processes_free(group->processes);
	/* Callbacks may use the group until its generations have ended. */
	remove_open(group);
	free(group);
	return rc;
}

int cohort_group_abort(struct cohort_group *group, const char *reason)
{
	int rc = group_check_closely(group);

	return rc == COHORT_OK
	               ? cause_set_aborted(group_clique(group)->end, reason)
	               : rc;
}

/* ---- facts ------------------------------------------------------------ */

int cohort_group_size(const struct cohort_group *group)
{
	return group ? group_clique(group)->size : -1;
}

int cohort_group_process(const struct cohort_group *group)
{
	if (!group)
		return -1;
	return group->processes ? processes_own(group->processes) : 0;
}

int cohort_group_processes(const struct cohort_group *group,
                           struct cohort_process *processes, int room)
{
	if (!group)
		return -1;
	if (!processes)
		room = 0;
	if (group->processes)
		return processes_describe(group->processes, processes, room);
	if (room > 0) {
		processes[0] = (struct cohort_process){
			.ranks = group_clique(group)->size,
			.pid = getpid(),
		};
		gethostname(processes[0].host, sizeof(processes[0].host) - 1);
	}
	return 1;
}

int cohort_group_platform(const struct cohort_group *group)
{
	return group ? group->platform->kind : -1;
}

int cohort_group_devices(const struct cohort_group *group, int *devices)
{
	const struct clique *q;
	int i, rc = group_check(group);

	if (rc != COHORT_OK)
		return rc;
	if (!devices)
		return error_set(COHORT_INVALID, "devices is NULL");
	q = group_clique(group); /* read once, because a respawn replaces it */
	for (i = 0; i < q->size; i++)
		devices[i] = q->comms[i].device;
	return COHORT_OK;
}

int cohort_group_generation(const struct cohort_group *group)
{
	return group ? group_clique(group)->generation : -1;
}

int cohort_group_abandoned(const struct cohort_group *group, int *ranks,
                           int room)
{
	const struct clique *q;
	int i, n = 0;

	if (!group)
		return -1;
	if (!ranks)
		room = 0;
	q = group_clique(group);
	for (i = 0; i < q->size; i++)
		if (atomic_load(&q->comms[i].thread.abandoned) && n++ < room)
			ranks[n - 1] = q->comms[i].rank;
	return n;
}

/* If @cause blames a whole process, add the ranks of that process to @set,
 * because a cause from a split names only those of them that are in the
 * split. */
static void add_process(const struct cohort_group *group,
                        const struct cohort_cause *cause, uint64_t *set)
{
	const int n = cohort_group_processes(group, NULL, 0);
	struct cohort_process *all;
	int i, r, first, end;

	if (!cause || (cause->kind != COHORT_VERDICT_PROCESS_STOPPED &&
	               cause->kind != COHORT_VERDICT_PROCESS_EXITED))
		return;
	all = calloc((size_t)n, sizeof(*all));
	if (all)
		cohort_group_processes(group, all, n);
	for (i = 0; all && i < n; i++) {
		first = all[i].first_rank;
		end = first + all[i].ranks;
		if (cause->rank < first || cause->rank >= end)
			continue;
		for (r = first; r < end; r++)
			rank_set_add(set, r);
	}
	free(all);
}

/* Add to @set the ranks that a supervisor should drop: the rank that the cause
 * blames, missing ranks if these are at most half of all, and abandoned ranks.
 * Omit abandoned ranks if they are more than half of all, because another rank
 * in @set has then probably blocked them, for example by holding Python's
 * interpreter lock.  Never omit them if there is no other rank in @set, or if
 * the clique is wedged, because a respawn then requires that every rank that
 * hangs is dropped.  Return the number of ranks in @set. */
static int find_lost(struct clique *q, uint64_t *set)
{
	const struct cohort_cause *cause = clique_explained_cause(q);
	uint64_t missing[COHORT_RANK_WORDS] = { 0 };
	uint64_t abandoned[COHORT_RANK_WORDS] = { 0 };
	int r;

	if (cause)
		memcpy(missing, cause->missing, sizeof(missing));
	if (2 * rank_set_count(missing) <= q->world_size)
		rank_set_add_all(set, missing);
	if (cause && cause->rank >= 0 && cause->rank < q->world_size)
		rank_set_add(set, cause->rank);
	for (r = 0; r < q->size; r++)
		if (atomic_load(&q->comms[r].thread.abandoned))
			rank_set_add(abandoned, q->comms[r].rank);
	if (2 * rank_set_count(abandoned) <= q->world_size ||
	    rank_set_is_empty(set) || clique_update_state(q) == CLIQUE_WEDGED)
		rank_set_add_all(set, abandoned);
	return rank_set_count(set);
}

int cohort_group_lost(const struct cohort_group *group, int *ranks, int room)
{
	uint64_t set[COHORT_RANK_WORDS] = { 0 };
	struct clique *q;
	int r, n, stored = 0;

	if (!group)
		return -1;
	q = group_clique(group);
	add_process(group, clique_explained_cause(q), set);
	n = find_lost(q, set);
	if (n == q->world_size)
		return 0;
	for (r = 0; ranks && r < q->world_size && stored < room; r++)
		if (rank_set_has(set, r))
			ranks[stored++] = r;
	return n;
}

int cohort_group_cause(const struct cohort_group *group,
                       struct cohort_cause *cause)
{
	int rc = group_check(group);

	if (rc != COHORT_OK)
		return rc;
	if (!cause)
		return error_set(COHORT_INVALID, "cause is NULL");
	cause_copy(group_clique(group), cause);
	return COHORT_OK;
}

/* ---- collectives of all ranks ----------------------------------------- */

/* Submit one operation per rank, with one tensor each, as a unit.  @shared has
 * the fields that are equal in all operations. */
static int submit_each(struct cohort_group *group, const struct op *shared,
                       const void *const send[], void *const recv[],
                       size_t count, int type, void *const streams[],
                       uint64_t *ticket)
{
	struct clique *q = group_clique(group);
	struct cohort_tensor *tensors;
	struct op *ops;
	int i, rc;

	if (atomic_load(&group->split))
		return error_set(COHORT_STATE,
		                 "the group was split or run: use the "
		                 "communicators of its ranks");
	tensors = malloc((size_t)q->size * sizeof(*tensors));
	ops = malloc((size_t)q->size * sizeof(*ops));
	for (i = 0; tensors && ops && i < q->size; i++) {
		tensors[i] =
			(struct cohort_tensor){ send[i], recv[i], count, type };
		ops[i] = *shared;
		ops[i].tensors = &tensors[i];
		ops[i].n = 1;
		ops[i].is_of_all = true;
		ops[i].stream = streams ? streams[i] : q->comms[i].stream;
	}
	rc = tensors && ops ? submit(q->comms, q->size, ops, ticket)
	                    : error_set(COHORT_NO_MEMORY,
	                                "no memory for the calls of %d ranks",
	                                q->size);
	free(ops);
	free(tensors);
	return rc;
}

static int submit_group(struct cohort_group *group, const struct op *shared,
                        const void *const send[], void *const recv[],
                        size_t count, int type, void *const streams[],
                        uint64_t *ticket)
{
	int rc = group_check(group);

	if (rc != COHORT_OK)
		return rc;
	if (!send || !recv)
		return error_set(COHORT_INVALID, "%s is NULL",
		                 send ? "recv" : "send");
	/* CUDA would block in the launch for the first rank until its kernel
	 * ends, and the kernel waits for the other ranks' launches. */
	if (group->launches_block && group_clique(group)->size > 1)
		return error_set(COHORT_UNSUPPORTED,
		                 "CUDA_LAUNCH_BLOCKING is set in the "
		                 "environment: one thread cannot launch for "
		                 "several ranks (unset it, or use a thread per "
		                 "rank)");
	return submit_each(group, shared, send, recv, count, type, streams,
	                   ticket);
}

int cohort_group_all_reduce(struct cohort_group *group,
                            const void *const send[], void *const recv[],
                            size_t count, int type, int op,
                            void *const streams[], uint64_t *ticket)
{
	const struct op shared = { .kind = OP_ALL_REDUCE, .redop = op };

	return submit_group(group, &shared, send, recv, count, type, streams,
	                    ticket);
}

int cohort_group_broadcast(struct cohort_group *group, const void *const send[],
                           void *const recv[], size_t count, int type, int root,
                           void *const streams[], uint64_t *ticket)
{
	const struct op shared = { .kind = OP_BROADCAST, .root = root };

	return submit_group(group, &shared, send, recv, count, type, streams,
	                    ticket);
}

static int copy_check(const struct cohort_group *group, void *const dst[],
                      const void *const src[], size_t bytes)
{
	int i, rc = group_check(group);

	if (rc != COHORT_OK)
		return rc;
	if (!dst || !src)
		return error_set(COHORT_INVALID, "%s is NULL",
		                 dst ? "src" : "dst");
	for (i = 0; bytes && i < group_clique(group)->size; i++)
		if (!dst[i] || !src[i])
			return error_set(COHORT_INVALID,
			                 "copy: %s[%d] is NULL, but bytes is "
			                 "%zu",
			                 dst[i] ? "src" : "dst", i, bytes);
	return COHORT_OK;
}

int cohort_group_copy(struct cohort_group *group, void *const dst[],
                      const void *const src[], size_t bytes,
                      void *const streams[], uint64_t *ticket)
{
	const struct op shared = { .kind = OP_COPY };
	int rc = copy_check(group, dst, src, bytes);

	if (rc != COHORT_OK)
		return rc;
	return submit_each(group, &shared, src, dst, bytes, COHORT_U8, streams,
	                   ticket);
}

int cohort_group_wait(struct cohort_group *group, uint64_t ticket,
                      uint64_t timeout_ns)
{
	uint64_t deadline = clock_deadline(timeout_ns);
	struct clique *q;
	int i, rc = group_check(group);

	if (rc != COHORT_OK)
		return rc;
	q = group_clique(group);
	for (i = 0; rc == COHORT_OK && i < q->size; i++)
		rc = comm_await(&q->comms[i], ticket, deadline);
	return rc;
}
