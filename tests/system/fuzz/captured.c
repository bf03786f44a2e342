/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Steps in which all ranks capture collectives into graphs and launch them
 */

#include "system/fuzz/program.h"

void part_capture(struct part *part)
{
	expect_cuda(host_cudaStreamCreateWithFlags(&part->stream,
	                                           cudaStreamNonBlocking),
	            "cudaStreamCreateWithFlags");
	part->slot = NO_SLOT;
	/*
	 * Use relaxed mode, because other modes would forbid other calls of
	 * this or other threads during the capture.
	 */
	expect_cuda(host_cudaStreamBeginCapture(part->stream,
	                                        cudaStreamCaptureModeRelaxed),
	            "cudaStreamBeginCapture");
}

/* Return how often to launch a graph: more than once only if a repetition gives
 * the same results. */
static int times(const struct step *s)
{
	return s->in_place ? 1 : 1 + s->raw[1] / 8 % 3;
}

static void launch(struct part *part, cudaGraph_t graph)
{
	cudaGraphExec_t exec;
	int i;

	expect_cuda(host_cudaGraphInstantiate(&exec, graph, 0),
	            "cudaGraphInstantiate");
	for (i = 0; i < times(part->step); i++)
		expect_cuda(host_cudaGraphLaunch(exec, part->stream),
		            "cudaGraphLaunch");
	expect_cuda(host_cudaGraphExecDestroy(exec), "cudaGraphExecDestroy");
	expect_cuda(host_cudaGraphDestroy(graph), "cudaGraphDestroy");
}

/* End a capture. It returns a graph unless the family was aborted. */
static void end_capture(struct runner *r, struct part *part)
{
	cudaGraph_t graph = NULL;
	cudaError_t error;

	expect_cuda(host_cudaSetDevice(part->step->family->device[part->rank]),
	            "cudaSetDevice");
	error = host_cudaStreamEndCapture(part->stream, &graph);
	if (is_intact(r->program, part->step->family))
		expect_cuda(error, "cudaStreamEndCapture");
	if (graph)
		launch(part, graph);
	part->queued = part->queued && graph;
	expect_cuda(host_cudaStreamDestroy(part->stream), "cudaStreamDestroy");
	host_cudaGetLastError();
}

/*
 * Run a step with captured collectives. The thread stays inside until it has
 * destroyed its graphs, because the communicator must outlive them.
 */
void run_captured(struct runner *r, struct step *s)
{
	struct family *f = s->family;
	int rank, before;

	host_cudaGetDevice(&before);
	r->stays_inside = true;
	run_collective(r, s);
	for (rank = 0; rank < f->n; rank++)
		if (f->owner[rank] == r->index && s->parts[rank].stream)
			end_capture(r, &s->parts[rank]);
	r->stays_inside = false;
	expect_cuda(host_cudaSetDevice(before), "cudaSetDevice");
}
