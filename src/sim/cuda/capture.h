/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_CUDA_CAPTURE_H
#define SIM_CUDA_CAPTURE_H

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

#include "sim/cuda/graph.h"

struct capture;

/* One stream that is part of a capture. */
struct captured {
	struct capture *capture;
	struct stream *stream;
	struct captured *next; /* of the same capture */
	int lane;

	/* What its next node comes behind; an array for the program to see, too. */
	struct node **after;
	size_t count, room;
};

/* How a stream stands: the id of its capture, 0 if there is none, and what its next
 * node would come behind, to be freed. */
struct capture_point {
	unsigned long long id;
	struct node **after;
	size_t count;
};

/*
 * Queue work on @stream, or capture it as @kind has it (NULL: it cannot be).
 * Stores the position behind it; one that is captured is done already.  An error
 * is returned only, the work is then still the caller's.
 */
cudaError_t stream_submit(struct stream *stream, const struct work *work,
                          const struct graph_kind *kind,
                          uint64_t *position_out);

/* What keeps the calling thread from waiting for @stream (NULL: none), asking
 * about it, or queueing there what cannot be captured: that makes a capture it is
 * part of invalid.  cudaSuccess if nothing. */
cudaError_t capture_permits(const struct stream *stream);

/* The same for what waits for all of a device, and for what CUDA calls potentially
 * unsafe. */
cudaError_t capture_permits_device_wait(int device);
cudaError_t capture_permits_unsafe(void);

/* True if @stream is part of a capture. */
bool capture_has(const struct stream *stream);

/* ncclSuccess if work that is ordered between all of @streams can be queued or
 * captured. */
ncclResult_t capture_check_together(struct stream *const *streams, size_t n);

/* Let the next node of @to come behind that of @from, too; both are of the same
 * capture. */
cudaError_t capture_join(struct stream *to, struct stream *from);

/* Store where @stream stands, for an event. */
cudaError_t capture_point(struct stream *stream, struct capture_point *out);

/* Let @stream wait for where @point was, which may make it part of the capture.
 * Stores false if it is no matter of a capture at all. */
cudaError_t capture_wait(struct stream *stream,
                         const struct capture_point *point, bool *handled);

/* An event of a capture was asked about. */
void capture_invalidate(unsigned long long id);

/* True if no stream is being captured. */
bool capture_none(void);

#endif
