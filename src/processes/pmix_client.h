/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROCESSES_PMIX_CLIENT_H
#define PROCESSES_PMIX_CLIENT_H

/*
 * This process's connection to its launcher's PMIx server, shared by all groups
 *
 * The connection lasts until the process exits, because a PMIx client that has
 * finalized cannot start again.  exit() finalizes the client, because launchers
 * regard a process that ends without this as failed.
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
	uint32_t processes;   /* number of processes in the job */

	/* True if the server passes events between processes, and reports the
	 * end of each process after all events that the process has sent. */
	bool has_events;

	/* True if the caller must free the value that pmix_get_callback
	 * receives.  This is known only for OpenPMIx 4.2 and 5.0.  With other
	 * versions the value is not freed, and may leak. */
	bool gives_values;
};

/*
 * Return the client.  The first caller starts it on a separate thread, because
 * PMIx_Init() has no deadline.  Waits until the client has started or the
 * timeout has passed.
 *
 * Returns:
 *   COHORT_OK
 *   COHORT_NO_LIBRARY    libpmix cannot be loaded
 *   COHORT_INIT_TIMEOUT  the server has not replied; the next call waits again
 *   COHORT_ABORTED       the wait was aborted
 *   COHORT_SYSTEM        the server has refused the client; this is final,
 *                        because PMIx cannot start twice
 */
int pmix_client_open(const struct patience *patience,
                     const struct pmix_client **out);

/* Number of library threads that call the client's functions.  Most of these
 * threads wait for the server without a deadline. */
extern atomic_int pmix_client_threads;

/* True once the process is exiting.  The threads that pmix_client_threads
 * counts must then end; exit() waits for them for up to a second. */
extern atomic_bool pmix_client_ends;

#endif
