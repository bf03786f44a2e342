/* SPDX-License-Identifier: Apache-2.0 */

#include "processes/oob.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/backoff.h"
#include "base/clock.h"
#include "base/pages.h"
#include "base/process.h"
#include "base/sized.h"
#include "base/status.h"
#include "base/text.h"
#include "base/util.h"
#include "processes/launcher.h"

_Static_assert(sizeof(struct process_record) <= PEERS_RECORD &&
                       sizeof(struct process_record) % sizeof(uint64_t) == 0,
               "peers can gather it");

/* ---- opening ----------------------------------------------------------- */

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

static int gather_alone(void *send, void *recv, size_t bytes, void *info,
                        void **request)
{
	(void)info;
	memcpy(recv, send, bytes);
	*request = recv;
	return 0;
}

static int is_done(void *request)
{
	(void)request;
	return 0;
}

/* Fill in a bootstrap table for this process alone, because no launcher has
 * started it. */
static int make_alone(struct oob *o)
{
	o->table.process = 0;
	o->table.processes = 1;
	o->table.allgather = gather_alone;
	o->table.req_test = o->table.req_free = is_done;
	return COHORT_OK;
}

static int make_table(struct oob *o, const char *name,
                      const struct patience *patience)
{
	const size_t bytes = sizeof(struct process_record);
	int kind = o->table.kind, rc;

	if (kind == COHORT_BOOTSTRAP_AUTO)
		kind = launcher_wants_pmix() && pmix_bootstrap_suits()
		               ? COHORT_BOOTSTRAP_PMIX
		       : launcher_find() ? COHORT_BOOTSTRAP_ENV
		                         : COHORT_BOOTSTRAP_AUTO;
	switch (kind) {
	case COHORT_BOOTSTRAP_AUTO:
		rc = launcher_check();
		return rc == COHORT_OK ? make_alone(o) : rc;
	case COHORT_BOOTSTRAP_ENV:
		return environment_bootstrap_create(name, bytes, patience,
		                                    &o->table, &o->own);
	case COHORT_BOOTSTRAP_PMIX:
		return pmix_bootstrap_create(name, bytes, patience, &o->table,
		                             &o->own);
	default:
		return error_set(COHORT_INVALID,
		                 "bootstrap->kind is %d, not a value of enum "
		                 "cohort_bootstrap_kind",
		                 kind);
	}
}

static int read_table(struct oob *o, const struct cohort_bootstrap *given,
                      const char *name, const struct patience *patience)
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
	memcpy(&o->table, given, MIN(given->size, sizeof(o->table)));
	return o->table.kind == COHORT_BOOTSTRAP_TABLE
	               ? table_check(&o->table)
	               : make_table(o, name, patience);
}

static void leave_table(struct oob *o)
{
	if (o->own)
		o->own->free(o->table.info);
}

int oob_open(struct oob *o, const struct cohort_bootstrap *given,
             const char *name, const struct patience *patience)
{
	int rc = read_table(o, given, name, patience);

	if (rc == COHORT_OK)
		rc = peers_create(o->table.process, o->table.processes, name,
		                  &o->address, &o->peers);
	if (rc != COHORT_OK)
		leave_table(o);
	return rc;
}

void oob_close(struct oob *o)
{
	peers_leave(o->peers);
	leave_table(o);
}

/* ---- exchanging records ------------------------------------------------ */

static bool has_ended(const struct oob *o)
{
	int i = 0;

	while (i < o->table.processes && !peers_has_ended(o->peers, i))
		i++;
	return i < o->table.processes;
}

/* Time to wait for an exchange through the program's bootstrap table after a
 * process has ended.  That process may have sent its record before it ended.
 * The library's own bootstraps detect the end of a process themselves. */
#define ENDED_NS UINT64_C(1000000000)

/* Poll the request until it is done.  Return 0 if it is done, 1 if the time is
 * up or the wait was aborted, or the request's error. */
static int await_request(const struct oob *o, void *request,
                         const struct patience *patience)
{
	const uint64_t deadline = clock_deadline(patience->timeout_ns);
	struct backoff b = BACKOFF;
	uint64_t sooner = UINT64_MAX;
	int answer;

	while ((answer = o->table.req_test(request)) == 1) {
		if (sooner == UINT64_MAX && !o->own && has_ended(o))
			sooner = clock_deadline(ENDED_NS);
		if (patience_is_aborted(patience) ||
		    clock_now() >= MIN(sooner, deadline))
			return 1;
		backoff_wait(&b, deadline);
	}
	return answer;
}

/* Set the error for an exchange that has failed: @what, and the processes that
 * have not arrived.  These are the processes that are not in @came or, if @came
 * is NULL, the processes that the library's own bootstrap names.  Return
 * @status. */
static int explain(const struct oob *o, const uint64_t *came, int status,
                   const char *what)
{
	char why[256] = "";
	struct text t = { why, sizeof(why) };
	uint64_t known[COHORT_RANK_WORDS];
	int i;

	if (came) {
		memcpy(known, came, sizeof(known));
		for (i = 0; i < o->table.processes; i++)
			if (!rank_set_has(came, i) &&
			    peers_add_stop(o->peers, i, &t))
				rank_set_add(known, i);
		bootstrap_add_absent(known, o->table.processes, &t);
	} else if (o->own)
		o->own->explain(o->table.info, &t);
	return error_set(status, "process %d of %d %s%s", o->table.process,
	                 o->table.processes, what, why);
}

/* Set the error for a wait that has timed out (perhaps early, see ENDED_NS) or
 * was aborted. */
static int explain_timeout(const struct oob *o, const uint64_t *came,
                           uint64_t began_ns, const struct patience *patience)
{
	const uint64_t waited_ns = clock_now() - began_ns;
	const uint64_t timeout_ns = patience->timeout_ns;
	char what[96];

	if (patience_is_aborted(patience))
		return patience_error(patience);
	snprintf(what, sizeof(what),
	         "has waited for the other processes for %llu ms",
	         (unsigned long long)(waited_ns < timeout_ns ? waited_ns
	                                                     : timeout_ns) /
	                 1000000);
	return explain(o, came, COHORT_INIT_TIMEOUT, what);
}

static int explain_failure(const struct oob *o, const char *function,
                           int answer)
{
	char what[96] = "cannot reach the other processes";

	if (!o->own)
		snprintf(what, sizeof(what),
		         "cannot reach the other processes: bootstrap->%s "
		         "returned %d",
		         function, answer);
	return explain(o, NULL, COHORT_SYSTEM, what);
}

/* Gather the records of all processes that have not ended, through the peers'
 * pages. */
static int gather_by_peers(struct oob *o, struct exchange *e,
                           const struct patience *patience)
{
	const uint64_t began_ns = clock_now();
	int rc = peers_gather(o->peers, &e->mine, sizeof(e->mine), e->all,
	                      e->came, patience);

	return rc == COHORT_OK
	               ? rc
	               : explain_timeout(o, e->came, began_ns, patience);
}

/* Gather all records through the bootstrap's table.  After an error, the
 * bootstrap cannot be used again.  After COHORT_INIT_TIMEOUT or COHORT_ABORTED,
 * the bootstrap may still write to @e. */
static int gather_by_table(struct oob *o, struct exchange *e,
                           const struct patience *patience)
{
	const struct cohort_bootstrap *t = &o->table;
	const uint64_t began_ns = clock_now();
	void *request = NULL;
	int i, answer = t->allgather(&e->mine, e->all, sizeof(e->mine), t->info,
	                             &request);

	if (answer)
		return explain_failure(o, "allgather", answer);
	answer = await_request(o, request, patience);
	if (answer == 1)
		return explain_timeout(o, NULL, began_ns, patience);
	t->req_free(request);
	for (i = 0; i < t->processes; i++)
		rank_set_add(e->came, i);
	return answer ? explain_failure(o, "req_test", answer) : COHORT_OK;
}

/* Validate the records: terminate their texts, map unknown statuses to known
 * ones, and check that they belong to this exchange. */
static int records_check(enum purpose purpose, struct exchange *e, int n)
{
	struct process_record *all = e->all;
	int i;

	for (i = 0; i < n; i++) {
		if (!rank_set_has(e->came, i))
			continue;
		all[i].error[sizeof(all[i].error) - 1] = '\0';
		all[i].host[sizeof(all[i].host) - 1] = '\0';
		all[i].status = status_sanitize(all[i].status);
		if (all[i].purpose != (uint32_t)purpose)
			return error_set(
				COHORT_INVALID,
				"process %d has a different version of "
				"the library or is in a different "
				"call, or the bootstrap did not deliver "
				"its record",
				i);
	}
	return COHORT_OK;
}

int oob_exchange(struct oob *o, enum purpose purpose,
                 const struct process_record *mine,
                 const struct patience *patience, struct exchange **out)
{
	const size_t n = (size_t)o->table.processes;
	struct exchange *e;
	int rc;

	if (o->is_broken)
		return error_set(COHORT_STATE,
		                 "an earlier exchange of the processes has "
		                 "failed: close the group and open another");
	e = calloc(1, sizeof(*e) + n * sizeof(e->all[0]));
	if (!e) {
		/* This process will miss an exchange that the other processes
		 * make, so no later exchange could match theirs. */
		o->is_broken = true;
		return error_set(COHORT_NO_MEMORY,
		                 "no memory for %zu processes", n);
	}
	e->mine = *mine;
	e->mine.purpose = purpose;
	e->mine.pid = getpid();
	e->mine.instance = process_number();
	gethostname(e->mine.host, sizeof(e->mine.host) - 1);
	e->mine.address = o->address;
	rc = o->by_peers ? gather_by_peers(o, e, patience)
	                 : gather_by_table(o, e, patience);
	if (rc == COHORT_OK)
		rc = records_check(purpose, e, o->table.processes);
	o->is_broken = rc != COHORT_OK;
	if (rc == COHORT_OK)
		*out = e;
	else if ((rc == COHORT_INIT_TIMEOUT || rc == COHORT_ABORTED) &&
	         !o->own && !o->by_peers)
		leak_on_purpose(e);
	else
		free(e);
	/* If this process cannot continue, its own error is more useful than
	 * the failed exchange. */
	return rc != COHORT_OK && mine->status != COHORT_OK
	               ? error_set(mine->status, "%s", mine->error)
	               : rc;
}
