/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WATCH_STACKER_H
#define WATCH_STACKER_H

/*
 * Stacks of ranks' threads, with names: a thread that looks names up, as that may need
 * what a thread that hangs has, the dynamic linker's lock or memory
 *
 * It finds simple names first and better ones then; whoever asks takes what there is
 * when the time is over.
 */

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/text.h"
#include "watch/stack.h"

/* Of so many ranks at a time. */
#define STACK_RANKS STACKS

/* What the text begins with if there is none. */
#define STACK_UNAVAILABLE "stack unavailable: "

/* What is told of one. */
struct stack_report {
	int rank;
	int tid;         /* its thread's */
	bool bound;      /* it was bound to that thread when this was asked */
	char text[1000]; /* frames from the program's innermost on:
	                     "f (a.c:1) < g < main"; or STACK_UNAVAILABLE and
	                     why */
	char brief
		[1000]; /* the first of them, eight of the program's among them;
	                     of names that are too long together the longest are
	                     cut */
};

struct stacker {
	/* Constant after the start. */
	int signo; /* 0: there is none */
	pthread_t thread;

	sem_t asked;
	atomic_bool stop;

	/* Atomic; numbers of questions: that was asked last, and that simple, and
	 * the best, names have been found of.  Release and acquire: those. */
	atomic_uint question, simple, best;
	atomic_bool has_ended;

	/* Of whoever asks while the last two are not behind, else the thread's. */
	int n;
	struct stack stacks[STACK_RANKS];
	struct stack_report names[2][STACK_RANKS];
};

/* Start, if @signo is not 0.  COHORT_OK, or COHORT_SYSTEM. */
int stacker_start(struct stacker *s, int signo, const char *group);

/* The stacks of @n threads, at most STACK_RANKS, into reports of which only the rank
 * and the thread are set.  Blocks for at most a tenth of a second.  One thread at a time. */
void stacker_report(struct stacker *s, struct stack_report *reports, int n);

/* Put the names of @stack's frames into @out, with what symbol_more tells if @more.
 * Frames of the C library and of this one before the first of the program are left
 * out, unless there are no others. */
void stacker_name(const struct stack *stack, struct stack_report *out,
                  bool more);

/* Add frames, or why there are none, in @room bytes: the longest names are cut until all
 * fit.  What is cut ends in "...". */
void stacker_add(struct text *t, const char *frames, size_t room);

/* Stop; false if it hangs in names until then. */
bool stacker_stop(struct stacker *s, uint64_t deadline_ns);

#endif
