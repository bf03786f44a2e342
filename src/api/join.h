/* SPDX-License-Identifier: Apache-2.0 */
#ifndef API_JOIN_H
#define API_JOIN_H

/*
 * A meeting: the ranks of this process that join with the same unique ID
 *
 * join.c implements all of a meeting except the search for a rank that never
 * calls cohort_comm_subset(), which is in subset.c.
 */

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "api/options.h"
#include "core/connect.h"
#include "processes/peers_join.h"

struct generation;

/* The contents of a struct cohort_unique_id. */
struct join_id {
	uint32_t magic;
	int32_t platform;
	int64_t process; /* pid of the process that created the ID */
	/* Random number of the process, which distinguishes it from an earlier
	 * process with the same pid. */
	uint64_t instance;
	ncclUniqueId native;
};

struct join_arguments {
	struct join_id id;
	const struct platform *platform;
	int size, rank, device;

	/* Used only by cohort_comm_join(). */
	const struct cohort_group_options *options;

	/* Used only by cohort_comm_subset(); @above is NULL in
	 * cohort_comm_join(). */
	struct cohort_comm *above;
	const int *ranks; /* ranks in the parent, in the child's order */
	const char *name;
};

/* Reason why cohort_comm_subset() failed.  Ranks are numbered in the root
 * group. */
struct subset_blame {
	int culprit;   /* the rank at fault, or -1 */
	int kind;      /* enum cohort_verdict_kind, or 0 if unknown */
	char why[400]; /* what the missing rank is doing */
	bool is_left;  /* true if the rank @left will never call */
	int left;
};

/* State of the ranks of this process that join with the same unique ID. */
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
	int *ranks;                /* see struct join_arguments */
	char name[64];             /* used if there is a parent */
	/* The other processes; NULL if there is a parent, if this process
	 * cannot find them, or once they were connected. */
	struct peers_join *processes;
	bool is_late; /* an earlier meeting of this ID has failed */

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
	struct subset_blame blame;
	struct new_rank members[];
};

/* Return NCCL's own ID from @id, and store its platform in @platform, so that
 * the caller can join with plain NCCL calls. */
ncclUniqueId join_native_id(const struct cohort_unique_id *id,
                            const struct platform **platform);

/* Guards all meetings. */
extern pthread_mutex_t join_lock;

/* Decode and check the ID, and open its platform.
 * @wanted: platform that the program has chosen (enum cohort_platform)
 * @how:    source of @wanted, for error texts */
int join_read_id(const struct cohort_unique_id *bytes, int wanted,
                 const char *how, struct join_id *id,
                 const struct platform **platform_out);

/* Join the meeting of @a->id, and wait until it is complete.  Firing @abort
 * ends the wait. */
int join_meet(const struct join_arguments *a, struct cohort_abort *abort,
              struct cohort_comm **out);

/* Return the number by which messages name rank @rank: its number in the root
 * group if there is a parent, otherwise @rank. */
int join_world(const struct meeting *m, int rank);

/* Add the ranks of the parent that have not joined to @set. */
void join_add_missing(const struct meeting *m, uint64_t *set);

/* Append the ranks in @set, numbered as by join_world(), followed by @one if
 * there is one rank, otherwise by @several. */
void join_add_ranks(struct text *t, const uint64_t *set, const char *one,
                    const char *several);

/* A rank that waits in cohort_comm_subset(). */
struct subset_caller {
	struct meeting *m;
	struct cohort_comm *c;
	uint64_t ask_ns; /* time of the next question to another process */
	/* The rank of @c's clique that was asked about last, and a rank that
	 * has left according to one answer.  Both are stored plus 1; 0 means
	 * none. */
	int asked, suspect;
};

/* Return true if a rank that has not called cohort_comm_subset() will never
 * call it, so the other ranks need not wait for their deadline.
 * @of: a struct subset_caller, all zero except its pointers */
bool subset_is_futile(void *of, bool is_native);

/* Handle a true result of subset_is_futile(): record for @c which rank is to
 * blame, set the thread's error, and return the status.  Call it with the lock
 * held, before fail_locked(), which clears the ranks that @c waits for. */
int subset_left_locked(const struct meeting *m, struct cohort_comm *c);

/* Handle a timeout like subset_left_locked(), but append to the thread's error
 * what the missing rank is doing, instead of replacing the error.  Drops the
 * lock while it asks other processes, then takes it again. */
void subset_timed_out_locked(struct meeting *m, struct cohort_comm *c);

#endif
