/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROCESSES_PMIX_CLIENT_H
#define PROCESSES_PMIX_CLIENT_H

/*
 * This process as a client of its launcher's PMIx server: one for all groups
 *
 * It stays one until the process exits, because a PMIx client that has
 * finalized cannot start again.  exit() finalizes it; a launcher takes a
 * process that ends without that for one that has failed.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/cause.h"
#include "processes/pmix_abi.h"

struct pmix_client {
#define PMIX_MEMBER(name, result, arguments) result(*name) arguments;
	PMIX_ABI_FUNCTIONS(PMIX_MEMBER)
#undef PMIX_MEMBER
	struct pmix_proc own; /* job and number of this process */
	uint32_t processes;   /* of the job */

	/* The server passes events between processes, and tells each process's
	 * end, behind all that it has sent. */
	bool has_events;

	/* What pmix_get_callback gets is the caller's to free: known of
	 * OpenPMIx 4.2 and 5.0.  Elsewhere it is left, and may be lost
	 * memory. */
	bool gives_values;
};

/*
 * The client, which the first caller starts on a thread of its own, because
 * PMIx_Init() has no deadline.  Waits for it up to @timeout_ns.
 * COHORT_NO_LIBRARY; COHORT_INIT_TIMEOUT, after which another call waits again;
 * COHORT_SYSTEM if the server has refused, which does not change: PMIx cannot
 * start twice.
 */
int pmix_client_open(const struct patience *patience,
                     const struct pmix_client **out);

/* How many threads of the library call the client's functions, most of which
 * wait for the server without a deadline; and that they are to end, because the
 * process exits.  exit() gives them a second. */
extern atomic_int pmix_client_threads;
extern atomic_bool pmix_client_ends;

#endif
