/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_CUDA_STREAM_CAPTURE_H
#define SIM_CUDA_STREAM_CAPTURE_H

/*
 * Captures streams: work becomes nodes of a graph instead of being queued
 *
 *           not capturing
 *                 |
 *                 |  cudaStreamBeginCapture(), or the first wait
 *                 v  for an event recorded in the capture
 *              ACTIVE ----- a forbidden call -----> INVALID
 *                 |                                    |
 *                 |  cudaStreamEndCapture()            |
 *                 v                                    v
 *              a graph                              no graph
 *
 * While no stream is being captured, each check only reads one counter.
 */

#include <pthread.h>

#include "sim/cuda/graph.h"

struct capture;

/* A stream that is part of a capture. */
struct captured {
	struct capture *capture;
	struct stream *stream;
	struct captured *next; /* next stream of the same capture */
	int lane;

	/* The nodes on which the stream's next node will depend.  The program
	 * may read the array. */
	struct node **after;
	size_t count, room;
};

/* A stream's position in a capture: the capture's id, or 0 if there is no
 * capture, and the nodes on which the stream's next node would depend.  The
 * owner frees the array. */
struct capture_point {
	unsigned long long id;
	struct node **after;
	size_t count;
};

/*
 * Queue @work on @stream, or capture it as a node of @kind
 *
 * @kind is NULL if the work cannot be captured.  Stores in @position_out the
 * stream's position after the work; captured work counts as done.  Returns an
 * error without storing it as the last error; the caller then still owns the
 * work.
 */
cudaError_t stream_submit(struct stream *stream, const struct work *work,
                          const struct graph_kind *kind,
                          uint64_t *position_out);

/* Return the error that prevents the calling thread from waiting for @stream,
 * from querying it, or from queueing work that cannot be captured on it.
 * Return cudaSuccess if all are allowed.  An error invalidates the capture of
 * @stream.  @stream may be NULL, which is an error. */
cudaError_t capture_permits(const struct stream *stream);

/* Return the error that prevents the calling thread from waiting for a whole
 * device, or cudaSuccess.  An error invalidates the captures that cause it. */
cudaError_t capture_permits_device_wait(int device);

/* Return the error that prevents the calling thread from a call that CUDA
 * documents as potentially unsafe, or cudaSuccess.  An error invalidates the
 * captures that cause it. */
cudaError_t capture_permits_unsafe(void);

bool capture_has(const struct stream *stream);

/* Remove @stream, which is about to be destroyed, from its capture.  The nodes
 * captured from it stay in the graph and need not be joined.  If the capture
 * began on @stream, it can no longer be ended, so it is discarded. */
void capture_leave(struct stream *stream);

/*
 * capture_check_together - check that work across all @streams can be ordered
 *
 * Returns:
 *   cudaSuccess                          the work can be queued or captured
 *   cudaErrorStreamCaptureIsolation      the streams are not all in the same
 *                                        capture
 *   cudaErrorStreamCaptureInvalidated    their capture is invalid, or would
 *                                        become so
 */
cudaError_t capture_check_together(struct stream *const *streams, size_t n);

/* Make the next node of @to also depend on the last nodes of @from.  Both
 * streams must be in one capture. */
cudaError_t capture_join(struct stream *to, struct stream *from);

/* Store the position of @stream in its capture, for an event. */
cudaError_t capture_point(struct stream *stream, struct capture_point *out);

/* Make @stream wait for @point, which can add @stream to a capture.  Set
 * *@handled to false if neither @stream nor @point is part of a capture; the
 * caller must then queue an ordinary wait. */
cudaError_t capture_wait(struct stream *stream,
                         const struct capture_point *point, bool *handled);

/* Invalidate capture @id, because one of its events was queried. */
void capture_invalidate(unsigned long long id);

bool capture_none(void);

/* Guards all captures, and every graph while streams are captured into it. */
extern pthread_mutex_t capture_lock;

#endif
