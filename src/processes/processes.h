/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROCESSES_PROCESSES_H
#define PROCESSES_PROCESSES_H

/*
 * Coordinates the processes of a group: they exchange records before each
 * generation, and agree afterward on whether all of them have opened it
 */

#include <stdint.h>

#include "core/cause.h"
#include "platform/platform.h"
#include "processes/peers.h"

struct processes;

/* Settings that must be the same in all processes. */
enum {
	SETTING_GENERATION,
	SETTING_NCCL,     /* NCCL's version */
	SETTING_PLATFORM, /* set by processes_exchange(), like SETTING_NCCL */
	SETTING_LAUNCH,
	SETTING_CONNECT,
	SETTING_MANY,
	SETTINGS,
};

/* The record that each process sends to the others in an exchange */
struct process_record {
	uint32_t purpose; /* purpose of the exchange */
	/* COHORT_OK, or the reason why the process cannot take part */
	int32_t status;
	char error[1024];
	char host[64];
	int64_t pid;
	uint64_t instance; /* random, because pids are reused */
	struct peer_address address;
	/* Processes that the sender watches. */
	uint64_t watches[COHORT_RANK_WORDS];
	ncclUniqueId id; /* set by the first process only */
	int32_t ranks;   /* number of its ranks; see count_lost() */

	int64_t settings[SETTINGS];

	/* Set of the process's devices, and a hash of CUDA_VISIBLE_DEVICES,
	 * which determines how devices are numbered. */
	uint64_t devices[COHORT_RANK_WORDS];
	uint64_t visible;

	/* Set of ranks to drop.  They may belong to any process. */
	uint64_t lost[COHORT_RANK_WORDS];
};

/* A process's part in a generation: its own ranks, and the number of all
 * ranks. */
struct process_part {
	ncclUniqueId id;
	int ranks[COHORT_MAX_RANKS];
	int size;
	uint64_t lost[COHORT_RANK_WORDS]; /* all ranks that any process drops */
};

/*
 * Check the bootstrap @given and open it for the group called @name.  May wait
 * for a PMIx server, or for another process that keeps a file locked.
 *
 * Returns COHORT_OK, COHORT_INVALID, COHORT_INIT_TIMEOUT, COHORT_ABORTED,
 * COHORT_NO_LIBRARY, COHORT_NO_MEMORY, COHORT_STATE, COHORT_SYSTEM or
 * COHORT_UNSUPPORTED.
 */
int processes_create(const struct cohort_bootstrap *given, const char *name,
                     const struct patience *patience, struct processes **out);

/* Leave the other processes and free @p.  Does nothing if @p is NULL. */
void processes_free(struct processes *p);

/*
 * Exchange records with the other processes before a generation is opened.  If
 * every process watches every other, processes that have ended since the last
 * generation are dropped, with their ranks.
 * @status: COHORT_OK, or the reason why this process cannot take part, with its
 *          text as this thread's error.  The other processes receive the error,
 *          and this function returns it.
 * @part:   this process's part in the generation
 *
 * Returns:
 *   COHORT_OK              @part is set
 *   COHORT_INIT_TIMEOUT    not all processes have arrived in time
 *   COHORT_ABORTED         the wait was aborted
 *   COHORT_INVALID         the processes' settings or ranks do not match
 *   COHORT_UNSUPPORTED     the platform cannot join several processes
 *   COHORT_STATE           an earlier exchange has failed
 *   COHORT_PROCESS_EXITED  a process has ended during the exchange; the error
 *                          names it
 *   otherwise              the status of another process that cannot take part;
 *                          the error names it
 */
int processes_exchange(struct processes *p, int status,
                       const struct process_record *mine,
                       const struct platform *platform,
                       const struct patience *patience,
                       struct process_part *part);

/* Agree with the other processes on whether all have opened the generation.
 * Wait for processes that are still connecting, until slightly more than 1.25
 * timeouts after processes_exchange().  If NCCL has failed because two
 * processes opened the same device, the error names the device.
 * @status:  as in processes_exchange()
 * @devices: the @n devices of this process
 *
 * Return COHORT_OK if all processes have opened the generation. */
int processes_agree(struct processes *p, int status, const int *devices, int n,
                    const struct patience *patience);

/* Return the struct peers of @p, which is valid as long as @p is. */
struct peers *processes_peers(const struct processes *p);

int processes_own(const struct processes *p);

/* Implementation of cohort_group_processes(). */
int processes_describe(const struct processes *p, struct cohort_process *out,
                       int room);

#endif
