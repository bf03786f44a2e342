/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Abort handles, and cohort_comm_fail()
 *
 * A handle is a reference to the block that holds the cause of a clique.
 * cohort_abort_fire() and cohort_abort_fired() are async-signal-safe: they take
 * no lock, allocate nothing and use no thread-local storage, and so set no text
 * for cohort_last_error().
 */

#include "api/communicator.h"
#include "base/process.h"
#include "base/status.h"
#include "base/text.h"
#include "watch/gave_up.h"

struct cohort_abort *cohort_comm_abort_handle(struct cohort_comm *comm)
{
	if (comm_check(comm) != COHORT_OK)
		return NULL;
	cause_get(comm->clique->end);
	return comm->clique->end;
}

struct cohort_abort *cohort_abort_create(void)
{
	struct cohort_abort *a;

	if (process_check() != COHORT_OK)
		return NULL;
	a = cause_create();
	if (a)
		a->precedes_open = true;
	else
		error_set(COHORT_NO_MEMORY, "no memory for an abort handle");
	return a;
}

int cohort_abort_fire(struct cohort_abort *handle, const char *reason)
{
	if (!handle)
		return COHORT_INVALID;
	return process_is_child() ? COHORT_FORKED : cause_fire(handle, reason);
}

int cohort_abort_fired(const struct cohort_abort *handle)
{
	const struct cohort_abort *target;

	if (!handle)
		return 0;
	target = atomic_load(&handle->target);
	return cause_peek(target ? target : handle) != NULL;
}

void cohort_abort_put(struct cohort_abort *handle)
{
	if (handle)
		cause_put(handle);
}

int cohort_comm_fail(struct cohort_comm *comm, int code, const char *text)
{
	const struct cohort_cause cause = {
		.status = COHORT_WORKER,
		.kind = COHORT_VERDICT_WORKER,
		.rank = comm ? comm->rank : -1,
		.worker = code,
	};
	char reason[CAUSE_MAX_REASON + 1] = "";
	char how[CAUSE_MAX_REASON + 64], name[RANK_NAME_SIZE];
	struct cohort_cause witness;
	int rc = comm_check_fork(comm);

	if (rc != COHORT_OK)
		return rc;
	if (!code)
		return error_set(
			COHORT_INVALID,
			"code is 0, which means success: pass a nonzero code");
	if (text)
		text_set(reason, sizeof(reason), "%.*s", CAUSE_MAX_REASON + 1,
		         text);
	text_set(how, sizeof(how), "%s%s%s", cohort_status_name(code),
	         *reason ? ": " : "", reason);
	if (gave_up(comm, code, how, &witness))
		return cause_set(comm->clique->end, &witness);
	return clique_fire(comm->clique, &cause, "%s gave up with code %d%s%s",
	                   clique_name_rank(comm->clique, comm->rank, name),
	                   code, *reason ? ": " : "", reason);
}
