/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROCESSES_OOB_H
#define PROCESSES_OOB_H

/*
 * How the processes of a group exchange records, out of band: by the
 * bootstrap's table, and once they watch each other by their pages
 */

#include <stdbool.h>
#include <stdint.h>

#include <cohort/bootstrap.h>

#include "processes/own_bootstrap.h"
#include "processes/processes.h"

struct oob {
	struct cohort_bootstrap table;
	const struct own_bootstrap *own; /* NULL: the program's table */

	/* The others, as far as they are watched. */
	struct peers *peers;
	struct peer_address address;

	/* All processes watch all, and meet by that from now on. */
	bool by_peers;

	/* A meeting has failed: the others may be at another one. */
	bool is_broken;
};

/* What an exchange is for, which begins its records. */
enum purpose {
	MEETING = 0x63685072,
	SHARING_ID,
	AGREEING,
};

/* One exchange.  Until its request is done, the bootstrap may write to it. */
struct exchange {
	/* The set of processes that have brought a record. */
	uint64_t came[COHORT_RANK_WORDS];
	struct process_record mine;
	struct process_record all[];
};

/* Read the caller's table, or make one, for the group called @name.  An error
 * is one of processes_create(), and nothing is open then. */
int oob_open(struct oob *o, const struct cohort_bootstrap *given,
             const char *name, const struct patience *patience);
void oob_close(struct oob *o);

/* Bring @mine to all processes.  COHORT_OK, with the records in @out, to be
 * freed.  On an error there are none: @mine's own error, if it has one and is
 * sent; else COHORT_INIT_TIMEOUT, COHORT_ABORTED, COHORT_INVALID,
 * COHORT_NO_MEMORY or COHORT_SYSTEM; COHORT_STATE after any of these. */
int oob_exchange(struct oob *o, enum purpose purpose,
                 const struct process_record *mine,
                 const struct patience *patience, struct exchange **out);

#endif
