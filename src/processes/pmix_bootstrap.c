/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Bootstrap that lets the processes of a job find each other through the
 * launcher's PMIx server
 *
 * In each round a process publishes its record under its own key, and asks for
 * the records of the other processes until it has all of them.  (A fence would
 * cause less traffic, but would not show which process is missing, and PMIx
 * cannot distinguish the fences of two groups.)
 *
 * A key consists of the group's name, the number of times that the process has
 * begun to open a group of that name, and the round.  The value of a key never
 * changes, because servers and clients cache it.  When a process leaves, it
 * publishes this under another key.  So if a process arrives after others have
 * given up, it gets an error that says to open the group again.
 */

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/list.h"
#include "base/scoped_lock.h"
#include "base/status.h"
#include "base/thread.h"
#include "core/cause.h"
#include "processes/own_bootstrap.h"
#include "processes/pmix_client.h"
#include "processes/pmix_line.h"

/* First and longest pause before the processes that have not arrived are asked
 * for their records again. */
#define AGAIN_NS (10 * 1000000)
#define AGAIN_MOST_NS (160 * 1000000)

/* Maximum time that the server may delay its answer, in seconds. */
#define HOLD_S 1

/* A process is asked whether it has left after 1, 2, 4 and 8 questions for its
 * record, and then after every multiple of this number. */
#define LEAVING_EVERY 16

struct opening {
	struct opening *next;
	unsigned number; /* number of openings with this name so far */
	bool is_under_way;
	char name[64]; /* group name that the opening is for */
};

/* State of a question to a process. */
enum {
	ABSENT, /* no answer yet: ask again */
	ASKED,  /* PMIx has the question and will answer */
	COME,   /* the answer has arrived */
	/* There will be no record, because the process has left or ended. */
	LEFT,
	FOREIGN, /* the record is of another version of the library */
	LOST,    /* the server or PMIx_Put() has failed; see status */
};

/* A query about another process: asks either for its record, or whether it has
 * left. */
struct question {
	struct request *request;
	struct pmix_proc process; /* PMIx may read this until it answers */

	/* Atomic; an enumerator above.  Stored with release, so that a reader
	 * sees the record or the status. */
	atomic_int state;
	int status;     /* status of PMIx's last answer */
	unsigned asked; /* number of times that the question was asked */

	/* True if the question is for a record, and the process was known to
	 * have left or ended before it was asked. */
	bool is_last;
};

/* State of one round.  References are held by the group, by the round's thread,
 * and by each question that PMIx has not answered. */
struct request {
	const struct pmix_client *client;
	atomic_int holders;
	atomic_bool is_left; /* the group no longer waits for the round */
	int process, processes;
	char key[PMIX_KEY_BYTES], left_key[PMIX_KEY_BYTES];
	size_t bytes;
	char *records; /* records of all processes */

	/* For each process, the question for its record; then, for each
	 * process, the question whether it has left. */
	struct question questions[];
};

struct pmix_bootstrap {
	const struct pmix_client *client;
	struct pmix_line *line;
	struct opening *opening;
	bool has_opened; /* a round was completed, so the group has opened */
	/* Number of this opening among the process's openings of groups with
	 * the same name, counted from 1. */
	unsigned number;
	uint64_t round; /* round of the last request */
	size_t bytes;
	struct request *request; /* the last request, or NULL */
	void *recv; /* destination of the records of the last request */
};

/* ---- openings ---------------------------------------------------------- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Openings, one for each name; never freed.  The list and its members are
 * guarded by lock. */
static struct opening *openings;

/* Return the opening for @name.  Create it if necessary.  Called with the lock
 * held. */
static struct opening *find_opening(const char *name)
{
	struct opening *o;

	list_find(o, openings, next, strcmp(o->name, name) == 0);
	if (o)
		return o;
	o = calloc(1, sizeof(*o));
	if (!o)
		return NULL;
	text_copy(o->name, sizeof(o->name), name);
	return list_add(openings, o, next);
}

static int begin_opening(struct pmix_bootstrap *b, const char *name)
{
	struct opening *o;
	int rc = COHORT_OK;

	SCOPED_LOCK(&lock);
	o = find_opening(name);
	if (!o) {
		rc = error_set(COHORT_NO_MEMORY, "no memory for a group");
	} else if (o->is_under_way) {
		rc = error_set(
			COHORT_STATE,
			"this process is opening another group of the same "
			"name: give each group its own options->name");
	} else {
		o->is_under_way = true;
		b->number = ++o->number;
		b->opening = o;
	}
	return rc;
}

/* Allow another group of the same name to be opened. */
static void end_opening(struct pmix_bootstrap *b)
{
	if (b->has_opened || !b->opening)
		return;
	b->has_opened = true;
	SCOPED_LOCK(&lock);
	b->opening->is_under_way = false;
}

/* ---- asking ------------------------------------------------------------ */

static void put_request(struct request *q)
{
	/* The release and acquire make every other thread's accesses to the
	 * request come before the free. */
	if (atomic_fetch_sub_explicit(&q->holders, 1, memory_order_acq_rel) > 1)
		return;
	free(q->records);
	free(q);
}

static int state_of(const struct question *u)
{
	return atomic_load_explicit(&u->state, memory_order_acquire);
}

static struct question *leave_question(struct request *q, int i)
{
	return &q->questions[q->processes + i];
}

static char *record(const struct request *q, int i)
{
	return q->records + (size_t)i * q->bytes;
}

/* Return the new state of question @u, now that PMIx has answered it. */
static int read_answer(const struct question *u, const struct pmix_value *value)
{
	struct request *q = u->request;
	const int i = (int)(u - q->questions);

	if (u->status == PMIX_ABI_ERR_UNREACH ||
	    u->status == PMIX_ABI_ERR_LOST_CONNECTION)
		return LOST;
	/* Other errors may be temporary, so ask again. */
	if (u->status != PMIX_ABI_SUCCESS || !value)
		return u->is_last ? LEFT : ABSENT;
	if (i >= q->processes)
		return COME;
	if (value->type != PMIX_ABI_BYTE_OBJECT ||
	    value->data.bytes.size != q->bytes)
		return FOREIGN;
	memcpy(record(q, i), value->data.bytes.bytes, q->bytes);
	return COME;
}

/* Store the answer to a question.  Runs on a thread of PMIx or of the round. */
static void on_answer(int status, struct pmix_value *value, void *arg)
{
	struct question *u = arg;

	u->status = status;
	atomic_store_explicit(&u->state, read_answer(u, value),
	                      memory_order_release);
	if (status == PMIX_ABI_SUCCESS && value &&
	    u->request->client->gives_values) {
		if (value->type == PMIX_ABI_BYTE_OBJECT)
			free(value->data.bytes.bytes);
		free(value);
	}
	put_request(u->request);
}

/* Info that limits how long the server may delay an answer.  PMIx may read this
 * until it answers. */
static const struct pmix_info hold = {
	.key = PMIX_ABI_TIMEOUT,
	.value = { .type = PMIX_ABI_INT, .data.integer = HOLD_S },
};

static void request_value(struct question *u, const char *key)
{
	struct request *q = u->request;
	int rc;

	atomic_fetch_add(&q->holders, 1);
	atomic_store(&u->state, ASKED);
	rc = q->client->PMIx_Get_nb(&u->process, key, &hold, 1, on_answer, u);
	if (rc != PMIX_ABI_SUCCESS)
		on_answer(rc, NULL, u);
}

/* Ask process @i again if it has not answered.  Return false if no further
 * answer is needed. */
static bool ask_again(struct request *q, int i)
{
	struct question *u = &q->questions[i], *left = leave_question(q, i);
	const int state = state_of(u);
	const unsigned n = u->asked;

	if (state == ABSENT) {
		u->is_last = state_of(left) == COME || pmix_line_has_ended(i);
		u->asked++;
		if (n && (!(n & (n - 1)) || n % LEAVING_EVERY == 0) &&
		    state_of(left) == ABSENT)
			request_value(left, q->left_key);
		request_value(u, q->key);
	}
	return state <= ASKED;
}

static bool ask_all(struct request *q)
{
	bool waits = false;
	int k;

	/* Spread the load: each process sends its first question to a different
	 * process. */
	for (k = 0; k < q->processes; k++)
		waits |= ask_again(q, (q->process + k) % q->processes);
	return waits;
}

static int put_value(const struct pmix_client *client, const char *key,
                     char *bytes, size_t n)
{
	struct pmix_value value = {
		.type = PMIX_ABI_BYTE_OBJECT,
		.data.bytes = { bytes, n },
	};
	int rc = client->PMIx_Put(PMIX_ABI_GLOBAL, key, &value);

	return rc == PMIX_ABI_SUCCESS ? client->PMIx_Commit() : rc;
}

static void publish(struct request *q)
{
	struct question *own = &q->questions[q->process];

	own->status =
		put_value(q->client, q->key, record(q, q->process), q->bytes);
	atomic_store_explicit(&own->state,
	                      own->status == PMIX_ABI_SUCCESS ? COME : LOST,
	                      memory_order_release);
}

/* Run a round.  This has no deadline, because PMIx's functions have none.  The
 * group has a deadline, and may stop waiting for this thread. */
static void *gather_main(void *arg)
{
	struct timespec again = { .tv_nsec = AGAIN_NS };
	struct request *q = arg;

	publish(q);
	while (!atomic_load(&q->is_left) && !atomic_load(&pmix_client_ends) &&
	       ask_all(q)) {
		clock_nanosleep(CLOCK_MONOTONIC, 0, &again, NULL);
		if (again.tv_nsec < AGAIN_MOST_NS)
			again.tv_nsec += AGAIN_NS;
	}
	put_request(q);
	atomic_fetch_sub(&pmix_client_threads, 1);
	return NULL;
}

/* Start @fn(@arg) on a new thread.  Before it returns, @fn must decrement
 * pmix_client_threads.  Return 0 or an errno value. */
static int start(void *(*fn)(void *), void *arg)
{
	pthread_t thread;
	int err;

	atomic_fetch_add(&pmix_client_threads, 1);
	err = thread_start(&thread, fn, arg, "cohort pmix");
	if (err)
		atomic_fetch_sub(&pmix_client_threads, 1);
	else
		pthread_detach(thread);
	return err;
}

/* ---- the table --------------------------------------------------------- */

static void leave_key(const struct pmix_bootstrap *b, char key[PMIX_KEY_BYTES])
{
	snprintf(key, PMIX_KEY_BYTES, "cohort.%u.left.%s", b->number,
	         b->opening->name);
}

static struct request *make_request(const struct pmix_bootstrap *b,
                                    const void *send)
{
	const size_t n = b->client->processes;
	struct request *q =
		calloc(1, sizeof(*q) + 2 * n * sizeof(q->questions[0]));
	size_t i;

	if (!q)
		return NULL;
	q->records = calloc(n, b->bytes);
	if (!q->records) {
		free(q);
		return NULL;
	}
	q->client = b->client;
	q->process = (int)b->client->own.rank;
	q->processes = (int)n;
	q->bytes = b->bytes;
	snprintf(q->key, sizeof(q->key), "cohort.%u.%llu.%s", b->number,
	         (unsigned long long)b->round, b->opening->name);
	leave_key(b, q->left_key);
	for (i = 0; i < 2 * n; i++) {
		q->questions[i].request = q;
		q->questions[i].process = b->client->own;
		q->questions[i].process.rank = (uint32_t)(i % n);
	}
	atomic_store(&q->questions[q->process].state, ASKED);
	memcpy(record(q, q->process), send, b->bytes);
	atomic_store(&q->holders, 2);
	return q;
}

static void leave_request(struct pmix_bootstrap *b)
{
	if (!b->request)
		return;
	atomic_store(&b->request->is_left, true);
	put_request(b->request);
	b->request = NULL;
}

static int gather(void *send, void *recv, size_t bytes, void *info,
                  void **request)
{
	struct pmix_bootstrap *b = info;
	struct request *q;
	int err;

	(void)bytes;
	leave_request(b);
	b->round++;
	q = make_request(b, send);
	if (!q)
		return -1;
	err = start(gather_main, q);
	if (err) {
		atomic_store(&q->holders, 1);
		put_request(q);
		return -err;
	}
	b->request = q;
	b->recv = recv;
	*request = b;
	return 0;
}

static int test(void *request)
{
	struct pmix_bootstrap *b = request;
	const struct request *q = b->request;
	bool all = true;
	int i, state;

	for (i = 0; i < q->processes; i++) {
		state = state_of(&q->questions[i]);
		if (state > COME)
			return -1;
		all = all && state == COME;
	}
	if (!all)
		return 1;
	memcpy(b->recv, q->records, (size_t)q->processes * q->bytes);
	end_opening(b);
	return 0;
}

/* Keep the request, so that its errors can be explained.  The next request, or
 * the end of the group, releases it. */
static int release(void *request)
{
	(void)request;
	return 0;
}

/* If process @i has prevented the round from completing, add the reason, and
 * return true. */
static bool explain_process(struct request *q, int i, struct text *t)
{
	const struct question *u = &q->questions[i];

	switch (state_of(u)) {
	case LEFT:
		text_add(t,
		         state_of(leave_question(q, i)) == COME
		                 ? "; process %d has left: open the group again"
		                 : "; process %d has exited",
		         i);
		return true;
	case FOREIGN:
		text_add(t,
		         "; process %d has a different version of the library",
		         i);
		return true;
	case LOST:
		text_add(t, "; the launcher's PMIx server: %s (%d)",
		         q->client->PMIx_Error_string(u->status), u->status);
		return true;
	default:
		return false;
	}
}

static void explain(const void *info, struct text *t)
{
	const struct pmix_bootstrap *b = info;
	struct request *q = b->request;
	uint64_t came[COHORT_RANK_WORDS] = { 0 };
	int i;

	if (!q)
		return;
	if (state_of(&q->questions[q->process]) == ASKED) {
		text_add(t, "; the launcher's PMIx server does not answer");
		return;
	}
	for (i = 0; i < q->processes; i++) {
		if (explain_process(q, i, t))
			return;
		if (state_of(&q->questions[i]) == COME)
			rank_set_add(came, i);
	}
	bootstrap_add_absent(came, q->processes, t);
}

/* ---- messages ---------------------------------------------------------- */

static int make_line(struct pmix_bootstrap *b)
{
	char key[sizeof(b->opening->name) + 16];

	snprintf(key, sizeof(key), "%u.%s", b->number, b->opening->name);
	b->line = pmix_line_create(b->client, key);
	return b->line ? COHORT_OK
	               : error_set(COHORT_NO_MEMORY, "no memory for a group");
}

static const struct peer_line *line(const void *info)
{
	const struct pmix_bootstrap *b = info;

	return pmix_line_get(b->line);
}

/* ---- creating ---------------------------------------------------------- */

/* Publish that this process has left. */
static void *end_main(void *arg)
{
	struct pmix_bootstrap *b = arg;
	char key[PMIX_KEY_BYTES], nothing[] = "";

	leave_key(b, key);
	put_value(b->client, key, nothing, sizeof(nothing));
	free(b);
	atomic_fetch_sub(&pmix_client_threads, 1);
	return NULL;
}

static void end(void *info)
{
	struct pmix_bootstrap *b = info;

	leave_request(b);
	end_opening(b);
	pmix_line_free(b->line);
	if (!b->opening || start(end_main, b))
		free(b);
}

bool pmix_bootstrap_suits(void)
{
	return getenv("PMIX_NAMESPACE") && getenv("PMIX_RANK");
}

static int open_client(const struct patience *patience,
                       struct pmix_bootstrap *b)
{
	int rc;

	if (!pmix_bootstrap_suits())
		return error_set(
			COHORT_INVALID,
			"bootstrap->kind is COHORT_BOOTSTRAP_PMIX, but "
			"no launcher with a PMIx server has started "
			"this process: PMIX_NAMESPACE and PMIX_RANK "
			"are not set");
	rc = pmix_client_open(patience, &b->client);
	if (rc != COHORT_OK)
		return rc;
	if (b->client->processes < 1 ||
	    b->client->processes > COHORT_MAX_RANKS ||
	    b->client->own.rank >= b->client->processes)
		return error_set(COHORT_INVALID,
		                 "the PMIx server says that this is process %u "
		                 "of %u, but a group has 1 to %d processes",
		                 b->client->own.rank, b->client->processes,
		                 COHORT_MAX_RANKS);
	return COHORT_OK;
}

int pmix_bootstrap_create(const char *name, size_t bytes,
                          const struct patience *patience,
                          struct cohort_bootstrap *table,
                          const struct own_bootstrap **own)
{
	static const struct own_bootstrap functions = {
		.explain = explain,
		.line = line,
		.free = end,
	};
	struct pmix_bootstrap *b = calloc(1, sizeof(*b));
	int rc;

	if (!b)
		return error_set(COHORT_NO_MEMORY, "no memory for a group");
	b->bytes = bytes;
	rc = open_client(patience, b);
	if (rc == COHORT_OK)
		rc = begin_opening(b, name);
	if (rc == COHORT_OK)
		rc = make_line(b);
	if (rc != COHORT_OK) {
		end(b);
		return rc;
	}
	table->process = (int)b->client->own.rank;
	table->processes = (int)b->client->processes;
	table->allgather = gather;
	table->req_test = test;
	table->req_free = release;
	table->info = b;
	*own = &functions;
	return COHORT_OK;
}
