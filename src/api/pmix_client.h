/* SPDX-License-Identifier: Apache-2.0 */
#ifndef API_PMIX_CLIENT_H
#define API_PMIX_CLIENT_H

/*
 * This process as a client of its launcher's PMIx server: one for all groups
 *
 * It stays one until the process exits, because a PMIx client that has finalized
 * cannot start again.  exit() finalizes it; a launcher takes a process that ends
 * without that for one that has failed.
 */

#include <stdatomic.h>
#include <stdint.h>

#include "api/pmix_abi.h"

struct pmix_client {
#define PMIX_MEMBER(name, result, arguments) result(*name) arguments;
	PMIX_ABI_FUNCTIONS(PMIX_MEMBER)
#undef PMIX_MEMBER
	struct pmix_proc own; /* job and number of this process */
	uint32_t processes;   /* of the job */
};

/*
 * The client, which the first caller starts on a thread of its own, because
 * PMIx_Init() has no deadline.  Waits for it up to @timeout_ns.  COHORT_NO_LIBRARY;
 * COHORT_INIT_TIMEOUT, after which another call waits again; COHORT_SYSTEM if the
 * server refuses, after which another call starts anew.
 */
int pmix_client_open(uint64_t timeout_ns, const struct pmix_client **out);

/* How many threads of the library call the client's functions, most of which wait for
 * the server without a deadline.  exit() gives these a second. */
extern atomic_int pmix_client_threads;

#endif
