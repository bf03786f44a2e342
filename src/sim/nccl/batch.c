/* SPDX-License-Identifier: Apache-2.0 */

#include "sim/nccl/batch.h"

#include <stdlib.h>

#include "sim/cuda/capture.h"
#include "sim/cuda/sync.h"
#include "sim/nccl/buffers.h"
#include "sim/nccl/kernels.h"
#include "sim/nccl/lazy.h"
#include "sim/nccl/queue.h"
#include "sim/nccl/simulate.h"
#include "sim/strict/strict.h"

/* The joins come before the rest, as in NCCL: if a rank cannot join, the group
 * has failed. */
static ncclResult_t end_joins(struct join *joins, ncclResult_t error)
{
	if (error == ncclSuccess && joins)
		error = join_run(joins);
	join_free(joins);
	return error;
}

static void end_launches(struct launch *l, bool queue)
{
	const struct launch *c;
	struct launch *next;

	for (c = l; c && queue && strict_is_on(); c = c->next)
		buffers_check_launch(c);
	for (; l; l = next) {
		next = l->next;
		if (queue)
			launch_queue(l);
		else
			launch_put(l);
	}
}

static ncclResult_t end_jobs(const struct batch *b, bool run)
{
	ncclResult_t first = ncclSuccess, r;
	size_t i;

	for (i = 0; run && i < b->job_count; i++) {
		r = b->jobs[i].fn(b->jobs[i].comm);
		if (first == ncclSuccess)
			first = r;
	}
	free(b->jobs);
	return first;
}

static ncclResult_t check_launches(const struct launch *l)
{
	ncclResult_t result = ncclSuccess;

	for (; l && result == ncclSuccess; l = l->next) {
		result = launch_check_self(l);
		if (result == ncclSuccess)
			result = launch_check(l);
	}
	return result;
}

static void load_kernels(const struct launch *l)
{
	for (; l; l = l->next)
		if (!capture_has(l->streams[0]))
			kernels_load(l);
}

ncclResult_t batch_finish(struct batch *batch, ncclResult_t error,
                          ncclSimInfo_t *info)
{
	const struct batch b = *batch;
	ncclResult_t result;

	*batch = (struct batch){ .first = NULL };
	error = end_joins(b.joins, error);
	if (error == ncclSuccess)
		error = check_launches(b.first);
	if (error == ncclSuccess)
		error = lazy_connect(b.first, info);
	if (error == ncclSuccess && info)
		simulate_launches(b.first, info);
	else if (error == ncclSuccess && sync_is_on())
		load_kernels(b.first);
	end_launches(b.first, error == ncclSuccess && !info);
	result = end_jobs(&b, error == ncclSuccess);
	return error != ncclSuccess ? error : result;
}

ncclResult_t batch_run(struct batch *batch, ncclResult_t error)
{
	return batch_finish(batch, error, NULL);
}
