/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DIFFER_H
#define DIFFER_H

/*
 * Small scenes of NCCL and CUDA whose every answer is written down, so that two
 * libraries can be compared (differ.py)
 *
 * A scene has one actor for each rank, and one for the thread that sets the
 * scene.  An actor's calls are written into its own text as NAME=RESULT, one
 * after the other, so that texts do not depend on which thread is faster.  A
 * scene that does not end within its time shows what each actor was in.
 */

#include <cuda_runtime.h>
#include <nccl.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#define MOST_ACTORS 5
#define FLOATS 1024 /* in each buffer */

struct actor {
	struct stage *stage;
	int rank;
	ncclComm_t comm;
	cudaStream_t stream;
	float *send, *recv;

	/* Written by the actor, read when the time is over. */
	const char *volatile inside;
	char text[4000];
	volatile size_t length;
};

struct stage {
	int n;
	struct actor actors[MOST_ACTORS]; /* ranks */
	struct actor main;
	ncclUniqueId id;
	atomic_bool is_aborted;
	sem_t have_left; /* posted when no rank is in a call any more */
	/* How long that took from the abort on, and then the end of its group. */
	double leave_ms, free_ms;
};

struct scene {
	const char *name;
	int ranks; /* that have a stream and buffers */
	int seconds;
	void (*run)(struct stage *stage);
};

/* Scenes end with one that has no name. */
extern const struct scene argument_scenes[], rank_scenes[], end_scenes[],
	graph_scenes[], random_scenes[];

#define SECONDS 60 /* of a scene that ends */
#define HANGS 6    /* of one that may not */

/* Make a call as @a, and write down what it answers. */
#define CALL(a, call) (enter((a), #call), leave((a), (int)(call)))

void enter(struct actor *a, const char *call);
int leave(struct actor *a, int result);

/* Write down a fact. */
void note(struct actor *a, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Have each rank do something in a thread of its own, on its own device. */
void each(struct stage *g, void (*part)(struct actor *a));

/* A communicator of all ranks, made in one group by this thread, with all
 * connections that sends and collectives need.  Not written down. */
void connect_all(struct stage *g);

/* A sum of all ranks, in one group; its results are written down. */
void sum_all(struct stage *g);

/* Destroy or abort all ranks in one group. */
void destroy_all(struct stage *g);
void abort_all(struct stage *g);

/* Give @a's send buffer its own numbers, and wait for the stream. */
void fill(struct actor *a);

/* Write down a digest of what @a's stream has put into the other buffer. */
void digest(struct actor *a);

/* Wait until @a's thread is inside a call, and asleep or spinning there: no
 * text has been written for a tenth of a second. */
void await_blocked(struct actor *a);

/* Random programs of all ranks, made of @seed; the second is aborted while it
 * runs. */
void play(struct stage *g, unsigned seed);
void play_to_abort(struct stage *g, unsigned seed);

/* Play such programs for so many seconds, and show what they leave behind. */
int mix(struct stage *g, int seconds);

/* End the process: something that must work does not. */
void must(bool holds, const char *what);

#endif
