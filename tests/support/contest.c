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

void contest_told(struct contest *contest, int who, int rc)
{
	if (rc == COHORT_ALREADY)
		return;
	if (rc != COHORT_OK)
		stress_fail("%s is told %d", contest_reason(who), rc);
	atomic_fetch_add(&contest->winners, 1);
	atomic_store(&contest->winner, who);
}

void contest_fire(struct contest *contest, int who)
{
	contest_told(contest, who,
	             cohort_abort_fire(contest->handle, contest_reason(who)));
}

/* The cause's text may go on with what the ranks were doing. */
static bool is_reason(const char *text, const char *reason)
{
	size_t n = strlen(reason);

	return strncmp(text, reason, n) == 0 && (!text[n] || text[n] == ';');
}

/* The cause belongs to the thread that was told so; or to none that fired. */
static void check(const struct contest *contest,
                  const struct cohort_cause *cause)
{
	const char *text = cause ? cause->text : "";

	if (contest->winners > 1)
		stress_fail("%d fires have won", contest->winners);
	if (cohort_abort_fired(contest->handle) != (cause != NULL))
		stress_fail("the handle does not tell of \"%s\"", text);
	if (!contest->winners && strncmp(text, PREFIX, strlen(PREFIX)) == 0)
		stress_fail("no fire has won with \"%s\"", text);
	if (contest->winners && (strncmp(text, PREFIX, strlen(PREFIX)) != 0 ||
	                         !is_reason(text + strlen(PREFIX),
	                                    contest_reason(contest->winner))))
		stress_fail("\"%s\" has won, the cause is \"%s\"",
		            contest_reason(contest->winner), text);
}

int contest_end(struct contest *contest)
{
	const struct cohort_cause *cause = cause_look(contest->handle);
	int status = cause ? cause->status : COHORT_OK;

	check(contest, cause);
	cohort_abort_put(contest->handle);
	return status;
}
