/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_CONNECT_H
#define CORE_CONNECT_H

/*
 * Opening native communicators on a thread of their own, so that a connection
 * that never comes about is an error after its time, not a hang
 *
 * What that thread works on is its own and its caller's; if the caller has gone,
 * the thread takes back what it got in the end.
 */

#include "platform/platform.h"

/*
 * ncclCommInitAll() over @devices.  COHORT_INIT_TIMEOUT after @timeout_ns;
 * COHORT_NCCL, COHORT_CUDA, COHORT_NO_MEMORY, COHORT_SYSTEM.  On error nothing is
 * open, and nothing stays so.
 */
int connect_all(const struct platform *platform, const int *devices, int n,
                uint64_t timeout_ns, const char *name, ncclComm_t *native);

/* ncclCommInitRank() of one rank on @device, likewise. */
int connect_rank(const struct platform *platform, const ncclUniqueId *id,
                 int size, int rank, int device, uint64_t timeout_ns,
                 const char *name, ncclComm_t *native);

#endif
