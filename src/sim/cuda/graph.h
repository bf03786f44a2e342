/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_CUDA_GRAPH_H
#define SIM_CUDA_GRAPH_H

/*
 * Graphs: work that was captured, with what each piece waits for
 *
 * Nodes are kept in an order in which each comes behind all that it depends on.
 * The nodes of one captured stream are a lane, which a replay runs in order on
 * a stream of its own, so that lanes may wait for each other as the streams
 * did.
 */

#include "platform/cuda_abi.h"
#include "sim/exec/stream_queue.h"

/* What a graph needs to know of a kind of captured work. */
struct graph_kind {
	int type; /* enum cudaGraphNodeType, or of the driver */

	/* Another copy of the work is made, or one is freed: so is a use of
	 * what it points to.  NULL: it points to nothing that ends. */
	void (*keep)(struct work *work);
	void (*drop)(struct work *work);

	/* Queue the work once more on @stream; NULL: it is queued as it is.
	 * False without memory. */
	bool (*replay)(const struct work *work, struct stream *stream);
};

#define GRAPH_MEMORY_OPERATION 12 /* the driver's type of marks */

struct node {
	/* Constant. */
	struct graph *graph;
	const struct graph_kind *kind;
	struct work work;
	int device;
	int lane;
	size_t index; /* in the graph */

	/* Guarded by the capture's lock while it is captured. */
	struct node **after;
	size_t after_count;
	bool reached; /* by a search */
	bool added;   /* by the program, not by a stream: need not be joined */

	/* Guarded by the lock of the executable graph. */
	uint64_t position; /* behind its last replay */
};

struct graph_use;

struct graph {
	struct node **nodes;
	size_t count, room;
	int lanes;
	bool capturing;         /* is not its owner's yet */
	struct graph_use *uses; /* of user objects: changed under their lock */
};

struct graph *graph_create(void);
void graph_free(struct graph *graph);

/* Add a node like @like behind the nodes @after; its work is the graph's then.
 * NULL without memory. */
struct node *graph_add(struct graph *graph, const struct node *like,
                       struct node *const *after, size_t after_count);

/* True if all of @nodes are of @graph. */
bool graph_has(const struct graph *graph, struct node *const *nodes,
               size_t count);

/* A node that records @event, for graph_add(); without a kind if it is no
 * event. */
struct node event_record_node(cudaEvent_t event);

/* A copy of @graph, or NULL without memory. */
struct graph *graph_clone(const struct graph *graph);

#endif
