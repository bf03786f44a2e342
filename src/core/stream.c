/* SPDX-License-Identifier: Apache-2.0 */

#include "core/stream.h"

#include <stdio.h>

#include "base/status.h"
#include "core/gate.h"
#include "core/native.h"

/* Ask which device the stream is of. */
static int refuse(const struct cohort_comm *c, const void *stream, int i,
                  const char *of)
{
	char name[24] = "stream";

	if (i >= 0)
		snprintf(name, sizeof(name), "streams[%d]", i);
	return error_set(COHORT_INVALID,
	                 "%s is %p, a stream of %s, but rank %d is on device "
	                 "%d",
	                 name, stream, of, c->rank, c->device);
}

/* False if @stream is being captured: any other question makes the capture invalid. */
static bool may_ask(const struct platform *p, void *stream)
{
	enum cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;

	if (p->has_captures &&
	    p->cudaStreamIsCapturing(stream, &status) != cudaSuccess)
		p->cudaGetLastError();
	return status == cudaStreamCaptureStatusNone;
}

/* Runtimes before 12.8 cannot be asked; but they do not record an event of one
 * device on a stream of another. */
static int try_event(const struct cohort_comm *c, void *stream, int i)
{
	const struct platform *p = c->clique->platform;
	cudaError_t error = p->cudaEventRecord(c->event, stream);

	if (error != cudaSuccess)
		p->cudaGetLastError();
	return error == cudaErrorInvalidResourceHandle
	               ? refuse(c, stream, i, "another device")
	               : COHORT_OK;
}

static int check_on_device(const struct cohort_comm *c, void *stream, int i)
{
	const struct platform *p = c->clique->platform;
	int device = c->device;
	char of[24];

	/* The call itself finds out. */
	if (!may_ask(p, stream))
		return COHORT_OK;
	if (!platform_has(p, FUNCTION_cudaStreamGetDevice))
		return try_event(c, stream, i);
	/* The call itself will report whatever else is wrong with the
	 * stream. */
	if (p->cudaStreamGetDevice(stream, &device) != cudaSuccess)
		p->cudaGetLastError();
	if (device == c->device)
		return COHORT_OK;
	snprintf(of, sizeof(of), "device %d", device);
	return refuse(c, stream, i, of);
}

int stream_check(const struct cohort_comm *c, void *stream, int i)
{
	const struct platform *p = c->clique->platform;
	struct device_scope scope;
	int device, rc;

	if (stream_is_known(c, stream))
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

	if (stream_is_known(c, stream) ||
	    platform_has(c->clique->platform, FUNCTION_cudaStreamGetDevice))
		return stream_check(c, stream, -1);
	rc = gate_enter(c, true); /* for the event */
	if (rc != COHORT_OK)
		return rc;
	/* After a cause the reaper may be waiting for the event, and nothing is
	 * queued on the stream any more. */
	if (!cause_any(c->clique->end))
		rc = stream_check(c, stream, -1);
	gate_leave(c);
	return rc;
}
