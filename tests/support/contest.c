/* SPDX-License-Identifier: Apache-2.0 */

#include "support/contest.h"

#include <string.h>

#include "core/cause.h"
#include "support/stress.h"

#define PREFIX "aborted: "

void contest_begin(struct contest *contest, struct cohort_comm *comm)
{
	contest->handle = cohort_comm_abort_handle(comm);
	atomic_store(&contest->winners, 0);
	atomic_store(&contest->winner, -1);
}

const char *contest_reason(int who)
{
	static const char *const reasons[CONTEST_MOST] = {
		"number 0",  "number 1",  "number 2",  "number 3",
		"number 4",  "number 5",  "number 6",  "number 7",
		"number 8",  "number 9",  "number 10", "number 11",
		"number 12", "number 13", "number 14", "number 15",
	};

	return reasons[who];
}

void contest_record(struct contest *contest, int who, int rc)
{
	if (rc == COHORT_ALREADY)
		return;
	if (rc != COHORT_OK)
		stress_fail("%s got the result %d", contest_reason(who), rc);
	atomic_fetch_add(&contest->winners, 1);
	atomic_store(&contest->winner, who);
}

void contest_fire(struct contest *contest, int who)
{
	contest_record(contest, who,
	               cohort_abort_fire(contest->handle, contest_reason(who)));
}

/* Return whether @text is @reason, alone or followed by what the ranks were
 * doing. */
static bool is_reason(const char *text, const char *reason)
{
	size_t n = strlen(reason);

	return strncmp(text, reason, n) == 0 && (!text[n] || text[n] == ';');
}

/* Check that at most one abort succeeded, and that its reason is the group's
 * cause. */
static void check(const struct contest *contest,
                  const struct cohort_cause *cause)
{
	const char *text = cause ? cause->text : "";

	if (contest->winners > 1)
		stress_fail("%d aborts won", contest->winners);
	if (cohort_abort_fired(contest->handle) != (cause != NULL))
		stress_fail("the handle disagrees with the cause \"%s\"", text);
	if (!contest->winners && strncmp(text, PREFIX, strlen(PREFIX)) == 0)
		stress_fail("no abort won, but the cause is \"%s\"", text);
	if (contest->winners && (strncmp(text, PREFIX, strlen(PREFIX)) != 0 ||
	                         !is_reason(text + strlen(PREFIX),
	                                    contest_reason(contest->winner))))
		stress_fail("\"%s\" won, but the cause is \"%s\"",
		            contest_reason(contest->winner), text);
}

int contest_end(struct contest *contest)
{
	const struct cohort_cause *cause = cause_peek(contest->handle);
	int status = cause ? cause->status : COHORT_OK;

	check(contest, cause);
	cohort_abort_put(contest->handle);
	return status;
}
