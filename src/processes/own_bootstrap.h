/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROCESSES_OWN_BOOTSTRAP_H
#define PROCESSES_OWN_BOOTSTRAP_H

/*
 * The library's own bootstraps: a table as a program's, and what the library
 * asks beside it
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cohort/bootstrap.h>

#include "base/text.h"
#include "core/cause.h"
#include "processes/peers.h"

/* All take the table's info. */
struct own_bootstrap {
	/* Add what has kept the last request from being done: "; processes 1
	 * and 3 have not come". */
	void (*explain)(const void *info, struct text *t);

	/* A line to processes that share no memory, which stays until free.  It
	 * or the function is NULL: there is none. */
	const struct peer_line *(*line)(const void *info);

	/* Leave the others, in the middle of a request, too. */
	void (*free)(void *info);
};

/*
 * Fill @table, which gathers @bytes bytes from each process of the job for
 * groups called @name, and answer what goes with it in @own.
 *
 * environment_bootstrap_create - through a file in shared memory.  Reads number
 *  and count from the environment.  COHORT_INVALID, with the variable;
 *  COHORT_UNSUPPORTED for processes on other machines; COHORT_INIT_TIMEOUT or
 *  COHORT_ABORTED if another process locks the file; COHORT_STATE;
 *  COHORT_SYSTEM; COHORT_NO_MEMORY.
 * pmix_bootstrap_create - through the launcher's PMIx server, for which it
 *  waits up to the timeout.  COHORT_INVALID: no such launcher;
 *  COHORT_NO_LIBRARY; COHORT_INIT_TIMEOUT; COHORT_ABORTED; COHORT_STATE;
 *  COHORT_SYSTEM; COHORT_NO_MEMORY.
 */
int environment_bootstrap_create(const char *name, size_t bytes,
                                 const struct patience *patience,
                                 struct cohort_bootstrap *table,
                                 const struct own_bootstrap **own);
int pmix_bootstrap_create(const char *name, size_t bytes,
                          const struct patience *patience,
                          struct cohort_bootstrap *table,
                          const struct own_bootstrap **own);

/* Whether this process has a PMIx server. */
bool pmix_bootstrap_suits(void);

/* Add which of @n processes are not in @came: "; processes 1 and 3 have not
 * come". */
void bootstrap_add_absent(const uint64_t *came, int n, struct text *t);

#endif
