/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_CUDA_CAPTURE_STATE_H
#define SIM_CUDA_CAPTURE_STATE_H

/*
 * What capture.c and capture_calls.c share
 *
 * One lock guards all captures.  Functions whose name ends in _locked are called with
 * it held.
 */

#include "sim/cuda/capture.h"

struct capture {
	/* Constant. */
	unsigned long long id;
	enum cudaStreamCaptureMode mode;
	const void *thread; /* that began it */
	struct stream *origin;
	struct graph *graph;

	/* Guarded by lock. */
	bool invalid;
	struct captured *streams;
	struct capture *next; /* of all */
};

void capture_lock(void);
void capture_unlock(void);

/* The calling thread's mode, as cudaThreadExchangeStreamCaptureMode() sets it.  Its
 * address is the thread's own, and tells it from other threads. */
enum cudaStreamCaptureMode *capture_thread_mode(void);

/* Take a stream out of its capture. */
void captured_forget_locked(struct captured *captured);

/* A capture that begins on @stream, or NULL without memory; and take one that has ended
 * from its streams and from the list of all. */
struct capture *capture_create_locked(struct stream *stream,
                                      enum cudaStreamCaptureMode mode);
void capture_remove_locked(struct capture *capture);

/* A call has failed with @error, which makes the capture invalid: returns what the call
 * answers. */
cudaError_t capture_fail_locked(struct capture *capture, cudaError_t error);

/* The capture, if any, that keeps the legacy stream of @device from being used: the
 * legacy stream waits for blocking streams, and one of them is part of that capture. */
struct capture *capture_implicit_locked(int device);

/* What @stream is in a capture, or NULL if it is part of none. */
struct captured *captured_of_locked(const struct stream *stream);

/* True if the next node of @captured comes right behind @node; and let it come behind
 * all of @nodes, too: false without memory. */
bool captured_has_node(const struct captured *captured,
                       const struct node *node);
bool captured_add_all_locked(struct captured *captured,
                             struct node *const *nodes, size_t n);

#endif
