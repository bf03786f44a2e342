/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROCESSES_OOB_H
#define PROCESSES_OOB_H

/*
 * Out-of-band exchange of records between the processes of a group: through the
 * bootstrap's table and, once the processes watch each other, through their
 * shared pages (peers.h)
 */

#include <stdbool.h>
#include <stdint.h>

#include <cohort/bootstrap.h>

#include "processes/own_bootstrap.h"
#include "processes/processes.h"

struct oob {
	struct cohort_bootstrap table;
	const struct own_bootstrap *own; /* NULL if the table is the
	                                  * program's */

	/* State of the other processes, some of which may not be watched. */
	struct peers *peers;
	struct peer_address address;

	/* True if every process watches every other.  The processes then
	 * exchange records through their pages. */
	bool by_peers;

	/* True if an exchange has failed, so that the other processes may be in
	 * a different exchange. */
	bool is_broken;
};

/* Purpose of an exchange.  Each record begins with it. */
enum purpose {
	MEETING = 0x63685072,
	SHARING_ID,
	AGREEING,
};

/* State of one exchange of records.  Until the request is done, the bootstrap
 * may write to this structure. */
struct exchange {
	/* Set of processes whose records have arrived. */
	uint64_t came[COHORT_RANK_WORDS];
	struct process_record mine;
	struct process_record all[];
};

/* Copy the bootstrap table @given and, unless the program has provided the
 * functions in it, fill them in for the group named @name.  Return the status
 * that processes_create() returns.  On an error no resource stays allocated. */
int oob_open(struct oob *o, const struct cohort_bootstrap *given,
             const char *name, const struct patience *patience);

/* Leave the other processes and free the resources that oob_open() has
 * allocated. */
void oob_close(struct oob *o);

/*
 * Send @mine to all processes and receive theirs.
 * @out: the records, which the caller frees; not set on an error
 *
 * Returns:
 *   COHORT_OK     all records have arrived
 *   COHORT_STATE  an earlier exchange has failed
 *   @mine->status if that is an error and the exchange failed
 *   otherwise     COHORT_INIT_TIMEOUT, COHORT_ABORTED, COHORT_INVALID,
 *                 COHORT_NO_MEMORY or COHORT_SYSTEM
 */
int oob_exchange(struct oob *o, enum purpose purpose,
                 const struct process_record *mine,
                 const struct patience *patience, struct exchange **out);

#endif
