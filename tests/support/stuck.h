/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STUCK_H
#define STUCK_H

/*
 * The host platform with native functions that do not return until they are let
 * go, or that report an error
 *
 * There is one for the whole program.  A failure in here ends the program with
 * a message.
 */

#include "platform/platform.h"

/* Have groups that are opened from now on use this platform. */
void stuck_install(void);

/*
 * Make the next call of @function stuck before it does anything.  @function is
 * one of "ncclCommInitAll", "ncclCommSplit", "ncclAllReduce", "ncclGroupEnd",
 * "ncclCommAbort", "ncclCommGetAsyncError" or "cudaEventQuery", for @rank's
 * communicator (-1: for any, or none); a CUDA function that makes or frees what
 * a rank owns, "cudaMemsetAsync" or "cudaStreamSynchronize", with device @rank
 * current; or "cudaSetDevice" of device @rank, called by the prober's thread, or
 * "cudaSetDevice of the reaper".
 */
void stuck_at(const char *function, int rank);

/* Wait until a call is stuck. */
void stuck_await(void);

/* Let the stuck call go, and wait until it is about to return. */
void stuck_let_go(void);

/* From now on ncclCommGetAsyncError() reports @code for @rank; and how often it has. */
void stuck_async_error(int rank, ncclResult_t code);
int stuck_async_told(void);

/*
 * How many streams, events and pieces of memory were made and not yet given
 * back.
 */
int stuck_held(void);

/* How many communicators were opened, and how many were aborted. */
int stuck_opened(void);
int stuck_aborted(void);

#endif
