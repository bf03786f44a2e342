/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_CUDA_GRAPH_H
#define SIM_CUDA_GRAPH_H

/*
 * Graphs: captured work and its dependencies
 *
 * Nodes are stored in an order in which each node follows all nodes that it
 * depends on.  The nodes captured from one stream form a lane.  A launch of the
 * graph runs each lane, in order, on a separate stream.  Lanes wait for each
 * other as the captured streams did.
 */

#include "platform/cuda_abi.h"
#include "sim/exec/stream_queue.h"

/* Functions with which a graph handles one kind of captured work. */
struct graph_kind {
	int type; /* enum cudaGraphNodeType or CUgraphNodeType */

	/* Acquire references to the objects that a copy of the work points to.
	 * NULL if the work needs no references. */
	void (*keep)(struct work *work);

	/* Release the references to the objects that a copy of the work points
	 * to.  NULL if the work needs no references. */
	void (*drop)(struct work *work);

	/* Queue the work again on @stream, and return false if out of memory.
	 * NULL if the work item itself can be queued again. */
	bool (*replay)(const struct work *work, struct stream *stream);
};

#define GRAPH_MEMORY_OPERATION 12 /* CU_GRAPH_NODE_TYPE_BATCH_MEM_OP */

struct node {
	/* The following members are constant. */
	struct graph *graph;
	const struct graph_kind *kind;
	struct work work;
	int device;
	int lane;
	size_t index; /* index in the graph's list of nodes */

	/* Guarded by capture_lock during capture. */
	struct node **after;
	size_t after_count;
	bool reached; /* marks nodes that a search has reached */
	/* True if the program added the node, which then need not be joined
	 * before the capture ends. */
	bool added;

	/* Guarded by the executable graph's lock. */
	uint64_t position; /* in the node's stream, in the last launch */
};

struct graph_use;

struct graph {
	struct node **nodes;
	size_t count, room;
	int lanes;
	/* true during a capture, when the program does not own the graph */
	bool capturing;
	/* References to user objects.  Guarded by user_object.c's lock. */
	struct graph_use *uses;
};

struct graph *graph_create(void);
void graph_free(struct graph *graph);

/* Add a copy of node @like that depends on the nodes @after.  The graph takes
 * ownership of the work in @like.  Return NULL if out of memory. */
struct node *graph_add(struct graph *graph, const struct node *like,
                       struct node *const *after, size_t after_count);

bool graph_has(const struct graph *graph, struct node *const *nodes,
               size_t count);

/* Return a node that records @event, for graph_add().  Its kind is NULL if
 * @event is not a live event. */
struct node event_record_node(cudaEvent_t event);

/* Copy @graph.  Return NULL if out of memory. */
struct graph *graph_clone(const struct graph *graph);

/* ---- user objects (user_object.c) -------------------------------------- */

/*
 * User objects: resources of the program that a graph keeps alive.  Each has a
 * function that is called when its last reference is released.
 */

struct user_object;

/* References that a graph holds to one object. */
struct graph_use {
	struct user_object *object;
	unsigned int count;
	struct graph_use *next;
};

/* Add the references in @from to @to, which is empty.  Return false if out of
 * memory; @to then has some of the references. */
bool user_objects_copy(struct graph_use **to, const struct graph_use *from);

/* Release all references in the list @uses.  Releasing the last reference to an
 * object calls the object's function. */
void user_objects_drop(struct graph_use *uses);

#endif
