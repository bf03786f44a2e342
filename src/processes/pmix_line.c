/* SPDX-License-Identifier: Apache-2.0 */

#include "processes/pmix_line.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "base/scoped_lock.h"
#include "base/text.h"
#include "base/util.h"
#include "core/cause.h"

/* Size of the key of a line.  Each message begins with the key. */
#define KEY_BYTES 96

struct pmix_line {
	const struct pmix_client *client;
	struct peer_line line;
	char key[KEY_BYTES];

	/* Guarded by lock.  If peers is NULL, the line does not listen and is
	 * not in the list. */
	struct pmix_line *next;
	struct peers *peers;
};

/* Guards the list of lines.  Held only briefly: while the list changes, and
 * while messages or ends of processes are passed to struct peers. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct pmix_line *lines;

/* Atomic; set of processes that are known to have ended. */
static _Atomic uint64_t ended[COHORT_RANK_WORDS];

static const struct pmix_client *client_of_events; /* constant once started */

/* ---- receiving --------------------------------------------------------- */

bool pmix_line_has_ended(int process)
{
	return atomic_load(&ended[process / 64]) >> process % 64 & 1;
}

static void dispatch_end(const struct pmix_proc *process)
{
	const struct pmix_line *l;

	if (strcmp(process->nspace, client_of_events->own.nspace) != 0 ||
	    process->rank >= COHORT_MAX_RANKS)
		return;
	atomic_fetch_or(&ended[process->rank / 64],
	                UINT64_C(1) << process->rank % 64);
	for (l = lines; l; l = l->next)
		peers_receive_end(l->peers, (int)process->rank);
}

static void dispatch_message(const struct pmix_proc *source,
                             const struct pmix_bytes *message)
{
	const struct pmix_line *l;

	if (message->size < KEY_BYTES ||
	    strcmp(source->nspace, client_of_events->own.nspace) != 0 ||
	    source->rank >= COHORT_MAX_RANKS ||
	    source->rank == client_of_events->own.rank)
		return;
	for (l = lines; l; l = l->next)
		if (memcmp(l->key, message->bytes, KEY_BYTES) == 0)
			peers_receive(l->peers, (int)source->rank,
			              message->bytes + KEY_BYTES,
			              message->size - KEY_BYTES);
}

/* Handle an event from the server.  Runs on PMIx's thread. */
static void handle(size_t id, int code, const struct pmix_proc *source,
                   struct pmix_info *info, size_t n, struct pmix_info *results,
                   size_t n_results, pmix_event_done done, void *arg)
{
	const struct pmix_info *i;

	(void)id, (void)results, (void)n_results;
	pthread_mutex_lock(&lock);
	for (i = info; i < info + n; i++) {
		if (code == PMIX_LINE_EVENT && source &&
		    i->value.type == PMIX_ABI_BYTE_OBJECT &&
		    strcmp(i->key, PMIX_LINE_MESSAGE) == 0)
			dispatch_message(source, &i->value.data.bytes);
		if (code != PMIX_LINE_EVENT && i->value.type == PMIX_ABI_PROC &&
		    strcmp(i->key, PMIX_ABI_EVENT_AFFECTED_PROC) == 0)
			dispatch_end(i->value.data.proc);
	}
	pthread_mutex_unlock(&lock);
	done(PMIX_ABI_SUCCESS, NULL, 0, NULL, NULL, arg);
}

/* ---- sending ----------------------------------------------------------- */

/* A request to the server.  PMIx reads it until it calls free_message(). */
struct letter {
	struct pmix_proc to;
	struct pmix_info info;
	char bytes[];
};

static void free_message(int status, struct pmix_info *info, size_t n,
                         void *letter, void (*release)(void *),
                         void *release_arg)
{
	(void)status, (void)info, (void)n;
	free(letter);
	if (release)
		release(release_arg);
}

/* Send a message as a job control request.  PMIx_Notify_event() is not safe: in
 * a client of OpenPMIx 4.2, it changes lists that libpmix's own thread also
 * changes. */
static void send_message(const struct pmix_client *client, int process,
                         struct letter *m)
{
	const bool is_for_all = process < 0;

	/* exit() waits until this count is 0 before it finalizes the client. */
	atomic_fetch_add(&pmix_client_threads, 1);
	if (atomic_load(&pmix_client_ends) ||
	    client->PMIx_Job_control_nb(is_for_all ? NULL : &m->to,
	                                is_for_all ? 0 : 1, &m->info, 1,
	                                free_message, m) != PMIX_ABI_SUCCESS)
		free(m);
	atomic_fetch_sub(&pmix_client_threads, 1);
}

static void post(void *info, int process, const void *message, size_t bytes)
{
	const struct pmix_line *l = info;
	struct letter *m = calloc(1, sizeof(*m) + KEY_BYTES + bytes);

	if (!m)
		return;
	memcpy(m->bytes, l->key, KEY_BYTES);
	memcpy(m->bytes + KEY_BYTES, message, bytes);
	m->info = (struct pmix_info){
		.key = PMIX_LINE_MESSAGE,
		.value = { .type = PMIX_ABI_BYTE_OBJECT,
		           .data.bytes = { m->bytes, KEY_BYTES + bytes } },
	};
	m->to = l->client->own;
	m->to.rank = (uint32_t)process;
	send_message(l->client, process, m);
}

/* ---- starting ---------------------------------------------------------- */

/* Notify the launcher whether the end of this connection is the end of the
 * process. */
static void send_member(const struct pmix_client *client, bool is_member)
{
	struct letter *m = calloc(1, sizeof(*m));

	if (!m)
		return;
	m->info = (struct pmix_info){
		.key = PMIX_LINE_MEMBER,
		.value = { .type = PMIX_ABI_BOOL, .data.flag = is_member },
	};
	if (client->PMIx_Job_control_nb(NULL, 0, &m->info, 1, free_message,
	                                m) != PMIX_ABI_SUCCESS)
		free(m);
}

struct registration {
	sem_t done;
	int status;
};

static void registered(int status, size_t id, void *arg)
{
	struct registration *r = arg;

	(void)id;
	r->status = status;
	sem_post(&r->done);
}

bool pmix_line_start(const struct pmix_client *client)
{
	static int codes[] = {
		PMIX_LINE_EVENT,
		PMIX_ABI_ERR_PROC_ABORTED,
		PMIX_ABI_ERR_PROC_TERM_WO_SYNC,
		PMIX_ABI_EVENT_PROC_TERMINATED,
		PMIX_ABI_ERR_PROC_ABORTED_BY_SIG,
	};

	struct registration r;

	client_of_events = client;
	/* Pass a callback: without one, the calling thread would change lists
	 * that belong to libpmix's thread. */
	sem_init(&r.done, 0, 0);
	client->PMIx_Register_event_handler(codes, ARRAY_SIZE(codes), NULL, 0,
	                                    handle, registered, &r);
	while (sem_wait(&r.done))
		;
	sem_destroy(&r.done);
	if (r.status != PMIX_ABI_SUCCESS)
		return false;
	send_member(client, true);
	return true;
}

void pmix_line_stop(void)
{
	bool has_lines;

	pthread_mutex_lock(&lock);
	has_lines = lines != NULL;
	pthread_mutex_unlock(&lock);
	if (!has_lines)
		send_member(client_of_events, false);
}

/* ---- lines ------------------------------------------------------------- */

static void set_listener(void *info, struct peers *peers)
{
	struct pmix_line *l = info;
	uint32_t i;

	SCOPED_LOCK(&lock);
	l->peers = peers;
	if (!peers) {
		list_remove(lines, l, next);
		return;
	}
	list_add(lines, l, next);
	/* Report the processes that are already known to have ended. */
	for (i = 0; i < l->client->processes; i++)
		if (pmix_line_has_ended((int)i))
			peers_receive_end(peers, (int)i);
}

struct pmix_line *pmix_line_create(const struct pmix_client *client,
                                   const char *key)
{
	struct pmix_line *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	l->client = client;
	text_copy(l->key, sizeof(l->key), key);
	l->line = (struct peer_line){
		.send = post,
		.listen = set_listener,
		.info = l,
	};
	return l;
}

void pmix_line_free(struct pmix_line *l)
{
	free(l);
}

const struct peer_line *pmix_line_get(const struct pmix_line *l)
{
	return l->client->has_events ? &l->line : NULL;
}
