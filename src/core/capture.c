/* SPDX-License-Identifier: Apache-2.0 */

#include "core/capture.h"

#include "base/status.h"

/* Find out whether @stream is being captured.  Return COHORT_UNSUPPORTED if the
 * stream can neither be used nor captured now.  Ignore errors that are not
 * about captures, because the call itself will report them. */
static int find_captured(const struct platform *p, void *stream,
                         const char *what, bool *captured_out)
{
	enum cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
	cudaError_t error;

	*captured_out = false;
	if (!p->has_captures)
		return COHORT_OK;
	error = p->cudaStreamIsCapturing(stream, &status);
	if (error != cudaSuccess)
		p->cudaGetLastError();
	if (error == cudaErrorStreamCaptureImplicit)
		return error_set(
			COHORT_UNSUPPORTED,
			"%s: stream is the legacy default stream, which "
			"cannot be used while another stream is being "
			"captured",
			what);
	if (error != cudaSuccess)
		return COHORT_OK;
	if (status == cudaStreamCaptureStatusInvalidated)
		return error_set(
			COHORT_UNSUPPORTED,
			"%s: the capture of the stream has failed: end "
			"it first",
			what);
	*captured_out = status != cudaStreamCaptureStatusNone;
	return COHORT_OK;
}

int capture_refuse(const struct platform *p, void *stream, const char *what)
{
	bool captured;
	int rc = find_captured(p, stream, what, &captured);

	if (rc == COHORT_OK && captured)
		return error_set(COHORT_UNSUPPORTED,
		                 "%s: the stream is being captured, which this "
		                 "call does not support",
		                 what);
	return rc;
}

int capture_check(const struct cohort_comm *comms, int n, const struct op *ops,
                  bool *captured_out)
{
	const struct clique *q = comms->clique;
	const char *what = op_name_of(ops);
	bool first = false, captured;
	int i, rc;

	for (i = 0; i < n && ops[i].kind != OP_SPLIT; i++) {
		rc = find_captured(q->platform, ops[i].stream, what, &captured);
		if (rc != COHORT_OK)
			return rc;
		if (i && captured != first)
			return error_set(COHORT_UNSUPPORTED,
			                 "%s: only some of the ranks' streams "
			                 "are being captured: capture all or "
			                 "none",
			                 what);
		first = captured;
	}
	if (first && ops->is_of_all)
		return error_set(COHORT_UNSUPPORTED,
		                 "%s: the streams are being captured, which a "
		                 "group-level call does not support",
		                 what);
	if (first && ops->from_host)
		return error_set(COHORT_UNSUPPORTED,
		                 "%s: the communicator's own stream is being "
		                 "captured, which a call with host memory does "
		                 "not support",
		                 what);
	if (first && !q->allow_capture)
		return error_set(COHORT_UNSUPPORTED,
		                 "%s: the stream is being captured, but "
		                 "options->allow_capture is not set",
		                 what);
	*captured_out = first;
	return COHORT_OK;
}
