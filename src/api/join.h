/* SPDX-License-Identifier: Apache-2.0 */
#ifndef API_JOIN_H
#define API_JOIN_H

/*
 * Meetings of the ranks that join by one unique ID
 *
 * join.c has what all of them do; subset.c has what cohort_comm_subset() adds,
 * whose members know which ranks they wait for.
 */

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "api/options.h"
#include "core/connect.h"

struct generation;

/* The contents of a struct cohort_unique_id. */
struct join_id {
	uint32_t magic;
	int32_t platform;
	int64_t process; /* pid of the process that made the ID */
	/* Random number of that process, which distinguishes it from an earlier
	 * process with the same pid. */
	uint64_t instance;
	ncclUniqueId native;
};

/* Arguments of a rank that joins. */
struct join_arguments {
	struct join_id id;
	const struct platform *platform;
	int size, rank, device;

	/* Of cohort_comm_join() only. */
	const struct cohort_group_options *options;

	/* Of cohort_comm_subset() only; NULL for cohort_comm_join(). */
	struct cohort_comm *above;
	const int *ranks; /* ranks of the parent, by their ranks in the child */
	const char *name;
};

/* State of the ranks of this process that join by one ID. */
struct meeting {
	/* The following members are constant. */
	struct join_id id;
	const struct platform *platform;
	int size;
	/* Options of the first rank that joined; unused if there is a
	 * parent. */
	struct cohort_group_options options;
	struct option_texts texts; /* strings of @options */
	struct clique *parent;     /* NULL for cohort_comm_join() */
	int *ranks;    /* see struct join_arguments; after @members */
	char name[64]; /* of a child */

	/* The following members are guarded by join_lock. */
	struct meeting *next;
	pthread_cond_t changed; /* signaled when a member below changes */
	/* Number of members whose thread is still in connect_rank(). */
	int present;
	int connected;
	int joined; /* number of members, which are sorted by rank */
	struct generation *generation;
	int status; /* reason why no rank can join, or COHORT_OK */
	char error[512];
	/* Why a subset has failed: the rank at fault by its number in the root
	 * group, or -1; an enum cohort_verdict_kind, or 0 if unknown; and what
	 * the rank that has not called does. */
	int culprit, kind;
	char why[400];
	struct new_rank members[];
};

/* Return NCCL's own ID from @id, and store its platform in @platform.  The
 * caller can then join by plain NCCL calls. */
ncclUniqueId join_native_id(const struct cohort_unique_id *id,
                            const struct platform **platform);

/* Lock of all meetings. */
extern pthread_mutex_t join_lock;

/* Decode and check the ID, and open its platform.
 * @wanted: platform that the program has chosen (enum cohort_platform)
 * @how:    what has chosen it, for the error */
int join_read_id(const struct cohort_unique_id *bytes, int wanted,
                 const char *how, struct join_id *id,
                 const struct platform **platform_out);

/* Join the meeting of @a->id, and wait until it is complete.  @abort ends the
 * wait. */
int join_meet(const struct join_arguments *a, struct cohort_abort *abort,
              struct cohort_comm **out);

/* Return the number of rank @rank for texts: in the root of a child. */
int join_world(const struct meeting *m, int rank);

/* Append the ranks in @set, numbered as by join_world(), and then @one or
 * @several. */
void join_add_ranks(struct text *t, const uint64_t *set, const char *one,
                    const char *several);

/* A rank that waits in cohort_comm_subset(). */
struct subset_caller {
	struct meeting *m;
	struct cohort_comm *c;
	/* Time at which other processes are asked, and the last interval. */
	uint64_t ask_ns, interval_ns;
	bool was_left; /* an answer was that a rank has left */
};

/* Return true if a rank that has not called cohort_comm_subset() has left, so
 * that the others need not wait for their deadline.
 * @of: a struct subset_caller, zero but for its pointers */
bool subset_is_futile(void *of);

/* Set the thread's error after subset_is_futile() has returned true, record for
 * @c which rank is to blame, and return the status.  Call it with the lock,
 * before the meeting fails, because its members wait until then. */
int subset_left_locked(const struct meeting *m, struct cohort_comm *c);

/* As subset_left_locked(), for a timeout: add to the thread's error what the
 * rank that has not called does. */
void subset_timed_out_locked(struct meeting *m, struct cohort_comm *c);

#endif
