/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DIFFER_H
#define DIFFER_H

/*
 * Small scenes that record every result of NCCL and CUDA, so that two libraries
 * can be compared (differ.py)
 *
 * A scene has one actor for each rank, and one for the thread that sets the
 * scene. The results of an actor's calls are appended to the actor's own text
 * as NAME=RESULT, so that the texts do not depend on which thread is faster. If
 * a scene does not end in time, the call that each actor is in is printed.
 */

#include <cuda_runtime.h>
#include <nccl.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#define MOST_ACTORS 5
#define FLOATS 1024 /* floats in each buffer */

struct actor {
	struct stage *stage;
	int rank;
	ncclComm_t comm;
	cudaStream_t stream;
	float *send, *recv;

	/* Call in progress, which is printed if the scene times out. */
	const char *volatile inside;
	char text[4000];
	volatile size_t length;
};

struct stage {
	int n;
	struct actor actors[MOST_ACTORS]; /* one per rank */
	struct actor main;
	ncclUniqueId id;
	atomic_bool is_aborted;
	sem_t have_left; /* posted when no rank is in a call */
	double leave_ms; /* time from the abort until no rank was in a call */
	double free_ms;  /* duration of the end of the aborting group */
};

struct scene {
	const char *name;
	int ranks; /* number of ranks that have a stream and buffers */
	int seconds;
	void (*run)(struct stage *stage);
};

/* All scenes. Each array ends with a scene without a name. */
extern const struct scene argument_scenes[], rank_scenes[], end_scenes[],
	graph_scenes[], random_scenes[];

#define SECONDS 60 /* time limit of a scene that must end */
#define HANGS 6    /* time limit of a scene that may hang */

/* Make a call as @a, and append its result to the text. */
#define CALL(a, call) (enter((a), #call), leave((a), (int)(call)))

void enter(struct actor *a, const char *call);
int leave(struct actor *a, int result);

/* Append a fact to the text. */
void note(struct actor *a, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Run @part as each rank, on its own thread and device. */
void each(struct stage *g, void (*part)(struct actor *a));

/*
 * Create a communicator of all ranks in one group on this thread, with all
 * connections that sends and collectives need. Records nothing.
 */
void connect_all(struct stage *g);

/* Sum over all ranks in one group, and record the results. */
void sum_all(struct stage *g);

/* Destroy or abort all ranks in one group. */
void destroy_all(struct stage *g);
void abort_all(struct stage *g);

/* Fill @a's send buffer with its own numbers, and wait for the stream. */
void fill(struct actor *a);

/* Record a digest of @a's receive buffer after the work on its stream is
 * done. */
void digest(struct actor *a);

/*
 * Wait until @a's thread blocks in a call, which is assumed if it has recorded
 * nothing for a tenth of a second.
 */
void await_blocked(struct actor *a);

/*
 * Run the random program of @seed on all ranks. play_to_abort() also aborts it
 * while it runs.
 */
void play(struct stage *g, unsigned seed);
void play_to_abort(struct stage *g, unsigned seed);

/* Run random programs for @seconds, and print which resources they leave
 * behind. */
int mix(struct stage *g, int seconds);

/* Exit with an error if something fails that must succeed. */
void must(bool holds, const char *what);

#endif
