/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_CUDA_STREAM_CAPTURE_H
#define SIM_CUDA_STREAM_CAPTURE_H

/*
 * Capturing streams: what is queued becomes a node of a graph instead
 *
 *	             first wait for an event of it
 *	not capturing <------------------------------ any stream
 *	      |  begin                    \
 *	      v                            v
 *	    ACTIVE --------------------------------> INVALID
 *	      |      what must not be during it         |
 *	      | end                                     | end
 *	      v                                         v
 *	   a graph                                    nothing
 *
 * While nobody captures, all of this is one number to look at.
 */

#include <pthread.h>

#include "sim/cuda/graph.h"

struct capture;

/* One stream that is part of a capture. */
struct captured {
	struct capture *capture;
	struct stream *stream;
	struct captured *next; /* of its capture */
	int lane;

	/* The nodes that its next node comes behind; the program may see the
	 * array. */
	struct node **after;
	size_t count, room;
};

/* Where a stream is in its capture: the capture's id, 0 if there is none, and
 * the nodes that its next node would come behind, to be freed. */
struct capture_point {
	unsigned long long id;
	struct node **after;
	size_t count;
};

/*
 * Queue work on @stream, or capture it as @kind has it (NULL: it cannot be
 * captured).  Stores the position behind it; work that is captured counts as
 * done.  An error is returned, not remembered; then the work is still the
 * caller's.
 */
cudaError_t stream_submit(struct stream *stream, const struct work *work,
                          const struct graph_kind *kind,
                          uint64_t *position_out);

/* The error that keeps the calling thread from waiting for @stream, from asking
 * about it, or from queueing there what cannot be captured; cudaSuccess if
 * nothing does.  An error makes the capture that @stream is part of invalid.
 * NULL for @stream is an error. */
cudaError_t capture_permits(const struct stream *stream);

/* As capture_permits(), for calls that wait for all of a device, and for those
 * that CUDA calls potentially unsafe. */
cudaError_t capture_permits_device_wait(int device);
cudaError_t capture_permits_unsafe(void);

/* True if @stream is part of a capture. */
bool capture_has(const struct stream *stream);

/* Take @stream, which is to be destroyed, out of its capture: what it did
 * stays, and need not be joined.  If the capture began there, nothing can end
 * it: it is given up. */
void capture_leave(struct stream *stream);

/* Whether work that is ordered between all of @streams can be queued or
 * captured: cudaErrorStreamCaptureIsolation if some are captured and others
 * not, or into another graph; cudaErrorStreamCaptureInvalidated if their
 * capture has failed, or would fail because of this. */
cudaError_t capture_check_together(struct stream *const *streams, size_t n);

/* Let the next node of @to come behind that of @from, too; both are part of one
 * capture. */
cudaError_t capture_join(struct stream *to, struct stream *from);

/* Store where @stream is in its capture, for an event. */
cudaError_t capture_point(struct stream *stream, struct capture_point *out);

/* Let @stream wait for @point, which may make it part of the capture.  Stores
 * false if neither is part of a capture. */
cudaError_t capture_wait(struct stream *stream,
                         const struct capture_point *point, bool *handled);

/* An event of capture @id was asked about, which makes the capture invalid. */
void capture_invalidate(unsigned long long id);

/* True if no stream is being captured. */
bool capture_none(void);

/* The lock of all captures: while a graph is captured into, it guards the
 * graph, too. */
extern pthread_mutex_t capture_lock;

#endif
