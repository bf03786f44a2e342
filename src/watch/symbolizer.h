/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WATCH_SYMBOLIZER_H
#define WATCH_SYMBOLIZER_H

/*
 * Stacks of ranks' threads as text
 *
 * A thread of its own looks up the names of functions, because that may need what a
 * hung thread has: the dynamic linker's lock, or memory.  It finds simple names first
 * and better ones after that.  The watchdog takes the names that are there when its
 * time is over.
 */

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/text.h"
#include "watch/stack.h"

/* Ranks that are asked for their stacks at a time. */
#define STACK_RANKS STACKS

/* What the text begins with if there is no stack. */
#define STACK_UNAVAILABLE "stack unavailable: "

/* The stack of one rank's thread. */
struct stack_report {
	int rank;
	int tid;
	bool bound; /* the rank was bound to the thread when it was asked */
	char text[1000];  /* frames from the program's innermost one on:
	                     "f (a.c:1) < g < main"; or STACK_UNAVAILABLE and
	                     why */
	char brief[1000]; /* the first of these frames, up to eight of the
	                     program's; if their names are too long together,
	                     the longest ones are cut */
};

struct symbolizer {
	/* Constant after the start. */
	int signo; /* 0: there is no thread, and no stacks are taken */
	pthread_t thread;

	sem_t asked;
	atomic_bool stop;

	/* Atomic; numbers of questions: the last one asked, the last one with
	 * simple names found, and with the best names found.  The release and
	 * acquire of the latter two publish .names. */
	atomic_uint question, simple, best;
	atomic_bool has_ended;

	/* Owned by who asks while .best equals .question, else by the thread. */
	int n;
	struct stack stacks[STACK_RANKS];
	struct stack_report names[2][STACK_RANKS];
};

/* A better way to name an address: "function (file.c:12)"; false: the name is not
 * known.  It may take memory and locks.  Set before any group is opened, else NULL. */
extern bool (*symbol_more)(struct text *t, uintptr_t address);

/* Start the thread if @signo is not 0.  COHORT_OK, or COHORT_SYSTEM. */
int symbolizer_start(struct symbolizer *s, int signo, const char *group);

/* Fill in @n reports, at most STACK_RANKS, in which only the rank and the thread are
 * set.  Blocks for a tenth of a second at most.  One thread at a time. */
void symbolizer_report(struct symbolizer *s, struct stack_report *reports,
                       int n);

/* Name the frames of @stack in @out, by symbol_more if @more.  Frames of the C library
 * and of this library in front of the program's first one are left out, unless there
 * are no others. */
void symbolizer_name(const struct stack *stack, struct stack_report *out,
                     bool more);

/* Add @frames, or the reason why there are none, in @room bytes: the longest names are
 * cut, and end in "...", until all fit. */
void symbolizer_add(struct text *t, const char *frames, size_t room);

/* Stop the thread; false if a lookup of names hangs until @deadline_ns. */
bool symbolizer_stop(struct symbolizer *s, uint64_t deadline_ns);

#endif
