/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STUCK_H
#define STUCK_H

/*
 * A host platform whose native calls can get stuck or report an error
 *
 * A stuck call returns only after the test lets it continue. A program has only
 * one of these platforms. If a helper fails, it ends the program with a
 * message.
 */

#include "platform/platform.h"

/* Make groups that are opened later use this platform. */
void stuck_install(void);

/*
 * stuck_at - make the next call of a function get stuck before it does anything
 * @function: name of the function
 * @rank:     rank or device of the call, or -1 for any
 *
 * The meaning of @rank depends on @function:
 * - ncclCommSplit, ncclAllReduce, ncclCommAbort, ncclCommGetAsyncError: rank of
 *   the communicator
 * - ncclCommInitAll, ncclGroupEnd, cudaEventQuery: must be -1
 * - CUDA functions that create or free a resource of a rank, cudaMemsetAsync,
 *   cudaStreamSynchronize: current device
 * - "cudaSetDevice", which means a call by the prober's thread, and
 *   "cudaSetDevice of the reaper": device that is set
 */
void stuck_at(const char *function, int rank);

/* Wait until a call is stuck. */
void stuck_await(void);

/* Let the stuck call continue, and wait until it is about to return. */
void stuck_release(void);

/* Make ncclCommGetAsyncError() return @code for @rank from now on. */
void stuck_async_error(int rank, ncclResult_t code);

/* Return how often ncclCommGetAsyncError() has returned the code that has set
 * set. */
int stuck_async_reported(void);

/*
 * Return the number of streams, events and allocations that were created and
 * not yet freed.
 */
int stuck_held(void);

/* Return the number of communicators that were opened. */
int stuck_opened(void);

/* Return the number of communicators that were aborted. */
int stuck_aborted(void);

#endif
