/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROCESSES_OWN_BOOTSTRAP_H
#define PROCESSES_OWN_BOOTSTRAP_H

/*
 * Bootstraps that the library provides: each fills in the table that a program
 * would otherwise provide, and has a few more functions
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cohort/bootstrap.h>

#include "base/text.h"
#include "core/cause.h"
#include "processes/peers.h"

/* Functions of a bootstrap beyond its table.  Each takes the table's info
 * pointer. */
struct own_bootstrap {
	/* Add the reason why the last request is not done: "; processes 1 and 3
	 * have not arrived". */
	void (*explain)(const void *info, struct text *t);

	/* Return functions that pass messages to the processes that share no
	 * memory with this one, or NULL.  The result is valid until free() is
	 * called.  The function pointer itself may be NULL. */
	const struct peer_line *(*line)(const void *info);

	/* Leave the group and free the bootstrap, even during a request. */
	void (*free)(void *info);
};

/*
 * Make a bootstrap that uses a file in shared memory.  Reads the number of the
 * process and the number of processes from the environment.
 * @name:  the group's name; groups with equal names find each other
 * @bytes: size of the record that is gathered from each process of the job
 * @table: filled in
 * @own:   set to the additional functions of the bootstrap
 *
 * Returns:
 *   COHORT_OK
 *   COHORT_INVALID       a variable is missing or wrong; the error names it
 *   COHORT_UNSUPPORTED   some processes are on other machines
 *   COHORT_INIT_TIMEOUT  another process keeps the file locked
 *   COHORT_ABORTED       the wait for the locked file was aborted
 *   COHORT_STATE         another group of that name is being opened
 *   COHORT_SYSTEM, COHORT_NO_MEMORY
 */
int environment_bootstrap_create(const char *name, size_t bytes,
                                 const struct patience *patience,
                                 struct cohort_bootstrap *table,
                                 const struct own_bootstrap **own);

/* Store in @out the common prefix of the names of a job's files, which are in
 * /dev/shm.  @job is a result of launcher_job(). */
void bootstrap_file_name(uint64_t job, char *out, size_t size);

/*
 * Make a bootstrap that uses the launcher's PMIx server, and wait for the
 * server.  The arguments are those of environment_bootstrap_create().
 *
 * Returns:
 *   COHORT_OK
 *   COHORT_INVALID       the launcher has no PMIx server
 *   COHORT_NO_LIBRARY    libpmix cannot be loaded
 *   COHORT_INIT_TIMEOUT  the server does not reply
 *   COHORT_ABORTED       the wait was aborted
 *   COHORT_STATE         another group of that name is being opened
 *   COHORT_SYSTEM, COHORT_NO_MEMORY
 */
int pmix_bootstrap_create(const char *name, size_t bytes,
                          const struct patience *patience,
                          struct cohort_bootstrap *table,
                          const struct own_bootstrap **own);

/* Return true if this process's launcher has a PMIx server. */
bool pmix_bootstrap_suits(void);

/* If a process of this machine is stopped, add "; process 1 (pid 4711) is
 * stopped" and return true. */
bool bootstrap_add_stop(int process, int64_t pid, struct text *t);

/* Add the processes, out of @n, that are not in @came: "; processes 1 and 3
 * have not arrived". */
void bootstrap_add_absent(const uint64_t *came, int n, struct text *t);

#endif
