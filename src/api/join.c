/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Joining by unique id: a thread or a process per rank, no group
 *
 * NCCL counts all ranks of a process that join by one id as one, and frees them
 * together.  So they become one clique: the ranks of this process meet in a
 * table by their id, each connects on its own, and the last one makes the
 * clique.  No rank connects before all have called: a rank that is connected
 * finds all ranks of its process in the table.
 */

#include "api/join.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/generation.h"
#include "api/options.h"
#include "base/clock.h"
#include "base/environment.h"
#include "base/list.h"
#include "base/process.h"
#include "base/status.h"
#include "core/connect.h"
#include "core/launch_lock.h"
#include "core/native.h"

/* ---- ids -------------------------------------------------------------- */

#define ID_MAGIC UINT32_C(0x63684964)

/* The contents of a struct cohort_unique_id. */
struct id {
	uint32_t magic;
	int32_t platform;
	int64_t process; /* that made it, */
	/* And a number that tells it from an earlier process. */
	uint64_t instance;
	ncclUniqueId native;
};

_Static_assert(sizeof(struct id) <= sizeof(struct cohort_unique_id),
               "an id has room");

int cohort_unique_id(struct cohort_unique_id *out)
{
	const struct platform *p;
	struct id id = { .magic = ID_MAGIC, .process = getpid() };
	int rc;

	if (!out)
		return error_set(COHORT_INVALID, "id is NULL");
	process_watch();
	rc = process_check_closely();
	if (rc == COHORT_OK)
		rc = platform_open(COHORT_PLATFORM_AUTO, &p);
	if (rc == COHORT_OK)
		rc = native_set_nccl_error(p, "ncclGetUniqueId", NULL,
		                           p->ncclGetUniqueId(&id.native));
	if (rc != COHORT_OK)
		return rc;
	id.platform = p->kind;
	id.instance = process_number();
	*out = (struct cohort_unique_id){ { 0 } };
	memcpy(out->bytes, &id, sizeof(id));
	return COHORT_OK;
}

ncclUniqueId join_native_id(const struct cohort_unique_id *bytes,
                            const struct platform **platform)
{
	struct id id;

	memcpy(&id, bytes->bytes, sizeof(id));
	platform_open(id.platform, platform);
	return id.native;
}

/* ---- meetings --------------------------------------------------------- */

struct member {
	int rank;
	int device;
	struct connected connected; /* not connected without a communicator */
};

/* The ranks of this process that join by one id. */
struct meeting {
	/* Constant. */
	struct id id;
	const struct platform *platform;
	int size;
	struct cohort_group_options options; /* of the first rank to join */
	struct option_texts texts;           /* what the options point to */

	/* Guarded by lock. */
	struct meeting *next;
	pthread_cond_t changed; /* a member below was written */
	int present;            /* members whose thread is in the meeting */
	int connected;
	int joined; /* members in all; sorted by rank at the end */
	struct generation *generation;
	int status; /* why no rank can join, COHORT_OK: ranks can */
	char error[512];
	struct member members[];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Guarded by lock. */
static struct meeting *meetings;

static struct meeting *find_locked(const struct id *id)
{
	struct meeting *m;

	list_find(m, meetings, next, memcmp(&m->id, id, sizeof(*id)) == 0);
	return m;
}

static struct meeting *create_locked(const struct id *id,
                                     const struct platform *p, int size,
                                     const struct cohort_group_options *o)
{
	struct meeting *m =
		calloc(1, sizeof(*m) + (size_t)size * sizeof(m->members[0]));

	if (!m)
		return NULL;
	clock_cond_init(&m->changed);
	m->id = *id;
	m->platform = p;
	m->size = size;
	m->options = *o;
	m->options.abort = NULL; /* each rank's own */
	options_own(&m->options, &m->texts);
	list_add(meetings, m, next);
	return m;
}

/* Check whether anything keeps @rank on @device from joining. */
static int member_check(const struct meeting *m, int size, int rank, int device)
{
	int i;

	if (m->size != size)
		return error_set(COHORT_INVALID,
		                 "nranks is %d, but others have joined with %d",
		                 size, m->size);
	for (i = 0; i < m->joined; i++) {
		if (m->members[i].rank == rank)
			return error_set(COHORT_INVALID,
			                 "rank is %d, which has joined already",
			                 rank);
		if (m->members[i].device == device)
			return error_set(COHORT_INVALID,
			                 "device is %d, as is that of rank %d",
			                 device, m->members[i].rank);
	}
	return COHORT_OK;
}

/* Add a member to the meeting, and store its place in *@member. */
static int enter_locked(const struct id *id, const struct platform *p, int size,
                        int rank, int device,
                        const struct cohort_group_options *o,
                        struct meeting **out)
{
	struct meeting *m = find_locked(id);
	int rc, i;

	if (!m)
		m = create_locked(id, p, size, o);
	if (!m)
		return error_set(COHORT_NO_MEMORY, "no memory for %d ranks",
		                 size);
	rc = member_check(m, size, rank, device);
	if (rc != COHORT_OK)
		return rc;
	for (i = m->joined; i && m->members[i - 1].rank > rank; i--)
		m->members[i] = m->members[i - 1];
	m->members[i] = (struct member){ .rank = rank, .device = device };
	m->joined++;
	m->present++;
	*out = m;
	return COHORT_OK;
}

static struct member *member_locked(struct meeting *m, int rank)
{
	struct member *member = m->members;

	while (member->rank != rank)
		member++;
	return member;
}

/* ---- connecting ------------------------------------------------------- */

/* Fail the meeting for all members; the first reason counts. */
static void fail_locked(struct meeting *m, int status)
{
	if (m->status != COHORT_OK)
		return;
	m->status = status;
	text_set(m->error, sizeof(m->error), "%s", cohort_last_error());
	list_remove(meetings, m, next);
	pthread_cond_broadcast(&m->changed);
}

/* Make one clique of the members, which are all connected.  Takes over their
 * native communicators, whatever it answers. */
static int make_clique(struct meeting *m, struct generation **out)
{
	size_t n = (size_t)m->joined;
	int *devices = malloc(2 * n * sizeof(*devices));
	struct connected *connected = malloc(n * sizeof(*connected));
	struct clique_options options = options_of_clique(&m->options);
	const struct watch_options watch = options_of_watch(&m->options);
	int i, rc = COHORT_NO_MEMORY;

	if (!devices || !connected) {
		error_set(rc, "no memory for %d ranks", m->joined);
		goto out;
	}
	for (i = 0; i < m->joined; i++) {
		devices[i] = m->members[i].device;
		devices[n + (size_t)i] = m->members[i].rank;
		connected[i] = m->members[i].connected;
		m->members[i].connected.native = NULL;
	}
	options.connected = connected;
	options.ranks = devices + n;
	options.world = m->size;
	rc = generation_open(m->platform, devices, m->joined, &options, &watch,
	                     NULL, out);
out:
	free(connected);
	free(devices);
	return rc;
}

/* Note that this rank is connected.  The last rank makes the clique. */
static void connected_locked(struct meeting *m, int rank,
                             const struct connected *connected)
{
	struct generation *g = NULL;
	int rc;

	member_locked(m, rank)->connected = *connected;
	if (++m->connected < m->joined || m->status != COHORT_OK)
		return;
	/* All ranks have come, and all but this one wait. */
	list_remove(meetings, m, next);
	pthread_mutex_unlock(&lock);
	rc = make_clique(m, &g);
	pthread_mutex_lock(&lock);
	if (rc != COHORT_OK)
		fail_locked(m, rc);
	if (g)
		g->clique->ends_with_last = true;
	m->generation = g;
	pthread_cond_broadcast(&m->changed);
}

/* Give back what was connected, as no clique was made of it. */
static void take_back(struct meeting *m)
{
	const struct platform *p = m->platform;
	int i;

	memory_section_begin();
	p->ncclGroupStart(); /* around the group of each rank */
	for (i = 0; i < m->joined; i++)
		if (m->members[i].connected.native)
			connect_discard(p, &m->members[i].device, 1,
			                &m->members[i].connected);
	p->ncclGroupEnd();
	memory_section_end();
}

/* Leave the meeting.  Unlocks. */
static void leave_locked(struct meeting *m)
{
	bool last = --m->present == 0;

	pthread_mutex_unlock(&lock);
	if (!last)
		return;
	if (!m->generation)
		take_back(m);
	pthread_cond_destroy(&m->changed);
	free(m);
}

/* Add which ranks have joined and which have not: NCCL waits for all of
 * them. */
static void add_absent_locked(const struct meeting *m)
{
	uint64_t here[COHORT_RANK_WORDS] = { 0 };
	uint64_t absent[COHORT_RANK_WORDS] = { 0 };
	char error[512], list[256];
	struct text t = { list, sizeof(list) };
	int r;

	for (r = 0; r < m->joined; r++)
		rank_set_add(here, m->members[r].rank);
	for (r = 0; r < m->size; r++)
		if (!rank_set_has(here, r))
			rank_set_add(absent, r);
	text_add(&t, m->joined > 1 ? "ranks " : "rank ");
	rank_set_spell(&t, here);
	text_add(&t, m->joined > 1 ? " have joined" : " has joined");
	if (m->joined < m->size) {
		text_add(&t, m->size - m->joined > 1 ? "; ranks " : "; rank ");
		rank_set_spell(&t, absent);
		text_add(&t, "%s not (or %s in another process)",
		         m->size - m->joined > 1 ? " have" : " has",
		         m->size - m->joined > 1 ? "are" : "is");
	}
	text_set(error, sizeof(error), "%s", cohort_last_error());
	error_set(COHORT_INIT_TIMEOUT, "%s; %s", error, list);
}

/* Fail the meeting: the time of @rank is up, which is connected, while other
 * ranks of this process are not. */
static void fail_unconnected_locked(struct meeting *m, int rank)
{
	uint64_t late[COHORT_RANK_WORDS] = { 0 };
	char list[256];
	struct text t = { list, sizeof(list) };
	int i;

	for (i = 0; i < m->joined; i++)
		if (!m->members[i].connected.native)
			rank_set_add(late, m->members[i].rank);
	rank_set_spell(&t, late);
	fail_locked(m, error_set(COHORT_INIT_TIMEOUT,
	                         "%s: rank %d is connected, but "
	                         "ncclCommInitRank has not returned for these "
	                         "ranks of this process: %s",
	                         cohort_verdict_text(COHORT_VERDICT_INIT_STUCK),
	                         rank, list));
}

/* How often a rank that may be aborted checks whether it is. */
#define LOOK_NS (5 * UINT64_C(1000000))

/* Wait for a change of the meeting.  True if the time is up, or the wait is
 * aborted. */
static bool await_change_locked(struct meeting *m,
                                const struct patience *patience,
                                uint64_t deadline)
{
	uint64_t look = patience->abort ? clock_deadline(LOOK_NS) : deadline;
	struct timespec until;

	until = clock_timespec(look < deadline ? look : deadline);
	pthread_cond_timedwait(&m->changed, &lock, &until);
	return patience_is_aborted(patience) || clock_now() >= deadline;
}

/* Connect this rank, and wait for the others of this process. */
static int meet(struct meeting *m, int rank, int device,
                struct cohort_abort *abort, struct cohort_comm **out)
{
	const struct connect_world world = { m->id.native, rank, m->size,
		                             NULL };
	const struct clique_options options = options_of_clique(&m->options);
	const struct patience patience = { m->options.deadlines.init_ns,
		                           abort };
	const uint64_t deadline = clock_deadline(patience.timeout_ns);
	struct connected connected;
	bool is_over = false;
	int rc = connect_ranks(m->platform, &device, 1, &world, &options.config,
	                       comm_words(options.slots), &patience,
	                       m->options.name, &connected);

	pthread_mutex_lock(&lock);
	if (rc == COHORT_INIT_TIMEOUT)
		add_absent_locked(m);
	if (rc == COHORT_OK)
		connected_locked(m, rank, &connected);
	else
		fail_locked(m, rc);
	/* A rank does not give up while the clique is being made. */
	while (!m->generation && m->status == COHORT_OK &&
	       (!is_over || m->connected == m->joined)) {
		if (is_over)
			pthread_cond_wait(&m->changed, &lock);
		else
			is_over = await_change_locked(m, &patience, deadline);
	}
	if (!m->generation && m->status == COHORT_OK &&
	    patience_is_aborted(&patience))
		fail_locked(m, patience_error(&patience));
	if (!m->generation && m->status == COHORT_OK)
		fail_unconnected_locked(m, rank);
	if (m->generation)
		*out = &m->generation->clique
		                ->comms[member_locked(m, rank) - m->members];
	else if (rc == COHORT_OK)
		rc = error_set(m->status, "%s", m->error);
	leave_locked(m);
	return rc;
}

/* ---- joining ---------------------------------------------------------- */

/* Have @abort end the clique of @c from now on.  On an error, or if it was
 * fired by now, @c is closed. */
static int follow(struct cohort_comm *c, struct cohort_abort *abort)
{
	char error[256];
	int rc = cause_forward(abort, c->clique->end);

	if (rc == COHORT_OK)
		return rc;
	text_set(error, sizeof(error), "%s", cohort_last_error());
	cohort_comm_close(c);
	return error_set(rc, "%s", error);
}

/* Read and check the id, and open its platform. */
static int id_read(const struct cohort_unique_id *bytes,
                   const struct cohort_group_options *o, struct id *id,
                   const struct platform **platform_out)
{
	int rc;

	memcpy(id, bytes->bytes, sizeof(*id));
	if (id->magic != ID_MAGIC)
		return error_set(COHORT_INVALID,
		                 "id does not come from cohort_unique_id()");
	if (o->platform != COHORT_PLATFORM_AUTO && o->platform != id->platform)
		return error_set(COHORT_INVALID,
		                 "options->platform is %d, but the id is for "
		                 "platform %d",
		                 o->platform, id->platform);
	rc = platform_open(id->platform, platform_out);
	if (rc == COHORT_OK && (*platform_out)->is_one_process &&
	    (id->process != getpid() || id->instance != process_number()))
		return error_set(
			COHORT_UNSUPPORTED,
			"the id was made in process %lld, but this is "
			"process %lld: the %s platform joins ranks of "
			"one process only, unless COHORT_HOST_SHARED=1",
			(long long)id->process, (long long)getpid(),
			(*platform_out)->name);
	return rc;
}

static int place_check(const struct platform *p, int size, int rank, int device)
{
	int count, rc;

	if (size < 1 || size > COHORT_MAX_RANKS)
		return error_set(COHORT_INVALID, "nranks is %d, not 1 to %d",
		                 size, COHORT_MAX_RANKS);
	if (rank < 0 || rank >= size)
		return error_set(COHORT_INVALID, "rank is %d, not 0 to %d",
		                 rank, size - 1);
	rc = native_set_cuda_error(p, "cudaGetDeviceCount",
	                           p->cudaGetDeviceCount(&count));
	if (rc != COHORT_OK)
		return rc;
	if (device < 0 || device >= count)
		return error_set(COHORT_INVALID, "device is %d, not 0 to %d",
		                 device, count - 1);
	return COHORT_OK;
}

int cohort_comm_join(const struct cohort_unique_id *id, int nranks, int rank,
                     int device, const struct cohort_group_options *options,
                     struct cohort_comm **comm)
{
	struct cohort_group_options o;
	const struct platform *p;
	struct meeting *m = NULL;
	struct id read;
	struct log log;
	int rc;

	if (!id || !comm)
		return error_set(COHORT_INVALID, "%s is NULL",
		                 id ? "comm" : "id");
	process_watch();
	rc = process_check_closely();
	if (rc == COHORT_OK)
		rc = memory_section_check("comm_join");
	if (rc == COHORT_OK)
		rc = options_read(options, &o);
	if (rc != COHORT_OK)
		return rc;
	log = log_of(o.log);
	environment_report(&log);
	rc = environment_check();
	if (rc == COHORT_OK && o.bootstrap)
		rc = error_set(COHORT_INVALID,
		               "options->bootstrap is for cohort_group_open(): "
		               "ranks that join find each other by id");
	if (rc == COHORT_OK)
		rc = id_read(id, &o, &read, &p);
	if (rc == COHORT_OK)
		rc = place_check(p, nranks, rank, device);
	if (rc != COHORT_OK)
		return rc;
	pthread_mutex_lock(&lock);
	rc = enter_locked(&read, p, nranks, rank, device, &o, &m);
	pthread_mutex_unlock(&lock);
	if (rc == COHORT_OK)
		rc = meet(m, rank, device, o.abort, comm);
	return rc == COHORT_OK && o.abort ? follow(*comm, o.abort) : rc;
}
