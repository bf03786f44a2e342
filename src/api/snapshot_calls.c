/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Implements the calls that report what the ranks are doing
 *
 * A snapshot contains the same facts as a verdict.  These calls take no lock:
 * they read memory, and the system's data about threads.
 */

#include "watch/snapshot.h"

#include "api/communicator.h"
#include "api/group.h"
#include "base/clock.h"
#include "base/sized.h"
#include "base/status.h"
#include "watch/verdict.h"

static int check(const struct clique *q, const struct cohort_rank_report *ranks,
                 int room, size_t rank_size)
{
	if (!ranks)
		return error_set(COHORT_INVALID, "ranks is NULL");
	if (room < q->size)
		return error_set(COHORT_INVALID,
		                 "room is %d, less than the %d ranks", room,
		                 q->size);
	if (rank_size < offsetof(struct cohort_rank_report, reserved) ||
	    rank_size > SIZED_MOST ||
	    /* The elements of an array must be aligned. */
	    rank_size % _Alignof(struct cohort_rank_report))
		return error_set(COHORT_INVALID,
		                 "rank_size is %zu, not sizeof(struct "
		                 "cohort_rank_report)",
		                 rank_size);
	return COHORT_OK;
}

static int take_reports(struct clique *q, struct cohort_rank_report *ranks,
                        int room, size_t rank_size)
{
	const struct cohort_rank_report none = { .rank = -1, .stack = "" };
	struct snapshot s = {
		.group = q->name,
		.is_child = clique_is_child(q),
		.starts_are_marked = q->starts_are_marked,
	};
	struct cohort_rank_report report;
	struct rank_snapshot r;
	char *to = (char *)ranks;
	int i, rc = check(q, ranks, room, rank_size);

	if (rc != COHORT_OK)
		return rc;
	s.front = snapshot_front(q);
	for (i = 0; i < room; i++, to += rank_size) {
		if (i < q->size) {
			snapshot_details(&r, &q->comms[i], s.front);
			s.now_ns = clock_now();
			verdict_report(&s, &r, &report);
		}
		sized_fill(to, rank_size, i < q->size ? &report : &none,
		           sizeof(report));
	}
	return COHORT_OK;
}

int cohort_group_snapshot(struct cohort_group *group,
                          struct cohort_rank_report *ranks, int room,
                          size_t rank_size)
{
	int rc = group_check(group);

	return rc == COHORT_OK ? take_reports(group_clique(group), ranks, room,
	                                      rank_size)
	                       : rc;
}

int cohort_comm_snapshot(struct cohort_comm *comm,
                         struct cohort_rank_report *ranks, int room,
                         size_t rank_size)
{
	int rc = comm_check(comm);

	return rc == COHORT_OK
	               ? take_reports(comm->clique, ranks, room, rank_size)
	               : rc;
}
