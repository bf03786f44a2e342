/* SPDX-License-Identifier: Apache-2.0 */

#include "core/stream.h"

#include <stdio.h>

#include "base/status.h"
#include "core/comm_lock.h"
#include "core/native.h"

/* Return true for streams that cannot be on another device: the default
 * streams, which belong to the current device, and the rank's own stream. */
static bool is_known(const struct cohort_comm *c, const void *stream)
{
	return !stream || stream == c->stream ||
	       stream == (const void *)cudaStreamLegacy ||
	       stream == (const void *)cudaStreamPerThread;
}

/* Name of an argument: streams[@i], or stream if @i is negative. */
struct argument {
	char name[24];
};

static struct argument argument_name(int i)
{
	struct argument argument = { "stream" };

	if (i >= 0)
		snprintf(argument.name, sizeof(argument.name), "streams[%d]",
		         i);
	return argument;
}

static int refuse_device(const struct cohort_comm *c, const void *stream, int i,
                         const char *of)
{
	return error_set(COHORT_INVALID,
	                 "%s is %p, a stream of %s, but rank %d is on device "
	                 "%d",
	                 argument_name(i).name, stream, of, c->rank, c->device);
}

/* Refuse a stream for which CUDA has returned @error. */
static int refuse_handle(const struct cohort_comm *c, const void *stream, int i,
                         cudaError_t error)
{
	return error_set(COHORT_INVALID,
	                 "%s is %p, which was destroyed or is no stream (%s): "
	                 "pass rank %d a live stream of device %d",
	                 argument_name(i).name, stream,
	                 c->clique->platform->cudaGetErrorString(error),
	                 c->rank, c->device);
}

/* Return true if @error, from a query of a stream, can only mean that the
 * handle is invalid. */
static bool is_of_handle(cudaError_t error)
{
	return error == cudaErrorInvalidResourceHandle ||
	       error == cudaErrorContextIsDestroyed ||
	       error == cudaErrorInvalidValue;
}

/* Find out with an event whether the stream is on another device.  Runtimes
 * before 12.8 have no query for the device, but they refuse to record an event
 * of one device on a stream of another. */
static int try_event(const struct cohort_comm *c, void *stream, int i)
{
	const struct platform *p = c->clique->platform;
	cudaError_t error = p->cudaEventRecord(c->after.event, stream);

	if (error != cudaSuccess)
		p->cudaGetLastError();
	return error == cudaErrorInvalidResourceHandle
	               ? refuse_device(c, stream, i, "another device")
	               : COHORT_OK;
}

/* Check the stream with the rank's device current.  Ignore errors that are not
 * about the stream handle, because the call itself will report them. */
static int check_on_device(const struct cohort_comm *c, void *stream, int i)
{
	const struct platform *p = c->clique->platform;
	const bool has_device = platform_has(p, FUNCTION_cudaStreamGetDevice);
	enum cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
	cudaError_t error = cudaSuccess;
	int device = c->device;
	char of[24];

	/* Make no other query of a stream that is being captured, because it
	 * would invalidate the capture. */
	if (p->has_captures)
		error = p->cudaStreamIsCapturing(stream, &status);
	if (error == cudaSuccess && status != cudaStreamCaptureStatusNone)
		return COHORT_OK;
	if (error == cudaSuccess && has_device)
		error = p->cudaStreamGetDevice(stream, &device);
	if (error != cudaSuccess)
		p->cudaGetLastError();
	if (is_of_handle(error))
		return refuse_handle(c, stream, i, error);
	if (!has_device && error == cudaSuccess)
		return try_event(c, stream, i);
	if (device == c->device)
		return COHORT_OK;
	snprintf(of, sizeof(of), "device %d", device);
	return refuse_device(c, stream, i, of);
}

int stream_check(const struct cohort_comm *c, void *stream, int i)
{
	const struct platform *p = c->clique->platform;
	struct device_scope scope;
	int device, rc;

	if (is_known(c, stream))
		return COHORT_OK;
	if (p->cudaGetDevice(&device) == cudaSuccess && device == c->device)
		return check_on_device(c, stream, i);
	/* The call itself will report a lost device. */
	if (device_enter(&scope, p, c->device) != COHORT_OK)
		return COHORT_OK;
	rc = check_on_device(c, stream, i);
	device_leave(&scope);
	return rc;
}

int stream_check_outside(struct cohort_comm *c, void *stream)
{
	int rc;

	if (is_known(c, stream) ||
	    platform_has(c->clique->platform, FUNCTION_cudaStreamGetDevice))
		return stream_check(c, stream, -1);
	rc = comm_enter(c, true); /* the event needs the lock */
	if (rc != COHORT_OK)
		return rc;
	/* After a cause, the reaper may be waiting for the event, and no more
	 * work is queued on the stream. */
	if (!cause_or_closing(c->clique->end))
		rc = stream_check(c, stream, -1);
	comm_leave(c);
	return rc;
}
