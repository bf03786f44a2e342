/* SPDX-License-Identifier: Apache-2.0 */
#ifndef API_ENVIRONMENT_BOOTSTRAP_H
#define API_ENVIRONMENT_BOOTSTRAP_H

/*
 * Processes of one machine that find each other by what a launcher has set in
 * their environment, and gather through a file in shared memory
 */

#include <stddef.h>
#include <stdint.h>

#include <cohort/bootstrap.h>

#include "base/text.h"

struct environment_bootstrap;

/*
 * Read the environment, open the file that the processes of the job share for
 * groups called @name, and fill @table, which gathers @bytes bytes from each
 * process.  COHORT_INVALID, with the variable; COHORT_UNSUPPORTED for processes
 * on other machines; COHORT_SYSTEM; COHORT_NO_MEMORY.
 */
int environment_bootstrap_create(const char *name, size_t bytes,
                                 struct cohort_bootstrap *table,
                                 struct environment_bootstrap **out);

/* Leave the others.  NULL: nothing happens. */
void environment_bootstrap_free(struct environment_bootstrap *e);

/* Add which of @n processes are not in @came: "; processes 1 and 3 have not come". */
void bootstrap_add_absent(const uint64_t *came, int n, struct text *t);

/* Add which processes have kept the last request from being done: "; processes
 * 1 and 3 have not come".  NULL: nothing is known. */
void environment_bootstrap_explain(const struct environment_bootstrap *e,
                                   struct text *t);

#endif
