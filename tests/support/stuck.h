/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STUCK_H
#define STUCK_H

/*
 * The host platform with native functions that do not return until they are let
 * go, or that tell of an error
 *
 * One for the whole program.  Whatever fails in here ends it with a message.
 */

#include "platform/platform.h"

/* Have groups that are opened from now on use it. */
void stuck_install(void);

/* The next call of @function ("ncclCommInitAll", "ncclCommSplit", "ncclAllReduce",
 * "ncclGroupEnd", "ncclCommAbort", "ncclCommGetAsyncError" or "cudaEventQuery") for
 * @rank's communicator (-1: for any, or none) is stuck before it does anything; or of
 * a CUDA function that makes or frees what a rank has, "cudaMemsetAsync" or
 * "cudaStreamSynchronize", with device @rank current; or of "cudaSetDevice" of device
 * @rank, by a prober's thread. */
void stuck_at(const char *function, int rank);

/* Wait until it is. */
void stuck_await(void);

/* Let it go, and wait until it is about to return. */
void stuck_let_go(void);

/* From now on ncclCommGetAsyncError() tells of @code for @rank. */
void stuck_async_error(int rank, ncclResult_t code);

/* How many streams, events and pieces of memory were made and not given back. */
int stuck_held(void);

/* How many communicators were opened, and how many aborted. */
int stuck_opened(void);
int stuck_aborted(void);

#endif
