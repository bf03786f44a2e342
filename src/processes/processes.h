/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROCESSES_PROCESSES_H
#define PROCESSES_PROCESSES_H

/*
 * The processes of a group: they meet before each generation, and agree after
 * it whether all have it
 */

#include <stdint.h>

#include "core/cause.h"
#include "platform/platform.h"
#include "processes/peers.h"

struct processes;

/* What must be the same in all processes. */
enum {
	SETTING_GENERATION,
	SETTING_NCCL,     /* its version */
	SETTING_PLATFORM, /* this and NCCL's by processes_meet() itself */
	SETTING_LAUNCH,
	SETTING_CONNECT,
	SETTING_MANY,
	SETTINGS,
};

/* What a process tells the others. */
struct process_record {
	uint32_t purpose; /* of the exchange */
	int32_t status;   /* why it cannot go on; COHORT_OK: it can */
	char error[1024];
	char host[64];
	int64_t pid;
	uint64_t instance; /* tells it from an earlier process of that number */
	struct peer_address address;
	uint64_t watches[COHORT_RANK_WORDS]; /* the set of processes */
	ncclUniqueId id;                     /* the first process's */
	int32_t ranks; /* that it drives; less those that are lost, once all
	                      have told theirs */

	int64_t settings[SETTINGS];

	/* The set of its devices, and a hash of what numbers them. */
	uint64_t devices[COHORT_RANK_WORDS];
	uint64_t visible;

	/* Ranks, of any process, to go on without. */
	uint64_t lost[COHORT_RANK_WORDS];
};

/* The ranks of a generation that are here, and how many there are in all. */
struct process_part {
	ncclUniqueId id;
	int ranks[COHORT_MAX_RANKS];
	int size;
	uint64_t lost[COHORT_RANK_WORDS]; /* all that any process has named */
};

/* Check @given, and begin to look for the others.  @name: the group's.  Waits
 * for a PMIx server, or for another process that locks a file.  COHORT_INVALID,
 * COHORT_INIT_TIMEOUT, COHORT_ABORTED, COHORT_NO_LIBRARY, COHORT_NO_MEMORY,
 * COHORT_STATE, COHORT_SYSTEM, COHORT_UNSUPPORTED. */
int processes_create(const struct cohort_bootstrap *given, const char *name,
                     const struct patience *patience, struct processes **out);
void processes_free(struct processes *p);

/*
 * Meet the others before a generation.  @status: COHORT_OK, or why this process
 * cannot take part, which is this thread's error; it is told to the others, and
 * returned.
 *
 * Where all processes watch all, those that have ended since the last
 * generation are left out, with their ranks.
 *
 * COHORT_OK, with the part of this process in @part; COHORT_INIT_TIMEOUT;
 * COHORT_ABORTED; the status of another process, whose error is named with the
 * process; COHORT_INVALID if the processes do not fit each other;
 * COHORT_UNSUPPORTED; COHORT_STATE after a meeting that has failed by itself;
 * COHORT_PROCESS_EXITED, which names one that has ended on the way.
 */
int processes_meet(struct processes *p, int status,
                   const struct process_record *mine,
                   const struct platform *platform,
                   const struct patience *patience, struct process_part *part);

/* Tell the others whether this process has the generation, on these @n devices:
 * @status, as above.  Others may still be connecting, so it waits for them up
 * to a timeout and a quarter after all have met.  An error of NCCL's says if
 * two processes have the same device.  COHORT_OK: all have it. */
int processes_agree(struct processes *p, int status, const int *devices, int n,
                    const struct patience *patience);

/* The processes as watched from here.  Lives as long as @p. */
struct peers *processes_peers(const struct processes *p);

/* Facts for the program; see cohort/bootstrap.h. */
int processes_own(const struct processes *p);
int processes_facts(const struct processes *p, struct cohort_process *out,
                    int room);

#endif
