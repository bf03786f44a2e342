/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WATCH_SYMBOLIZER_H
#define WATCH_SYMBOLIZER_H

/*
 * Stacks of threads as text, and as places in files
 *
 * A thread of its own looks up the names of functions, because that may need what a
 * hung thread has: memory, a lock, or a disk.  It looks up more and more: files, then
 * functions, then lines.  The watchdog takes what is known when its time is over.
 */

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/text.h"
#include "base/thread.h"
#include "watch/places.h"
#include "watch/stack.h"

/* Ranks that are asked for their stacks at a time; and other threads. */
#define STACK_RANKS 8
#define STACK_OTHERS (STACKS - STACK_RANKS)

/* What the text begins with if there is no stack. */
#define STACK_UNAVAILABLE "stack unavailable: "

#define STACK_TEXT 1000

/* The stack of one rank's thread. */
struct stack_report {
	int rank;
	int tid;
	bool bound; /* the rank was bound to the thread when it was asked */
	int holds_python; /* as in struct stack */

	/* Frames from the program's innermost one on: "f (a.c:1) < g+0x2a < main+0x51";
	 * or STACK_UNAVAILABLE and why. */
	char text[STACK_TEXT];

	/* The first of these frames, up to eight of the program's.  If their names are
	 * too long together, the longest ones are cut. */
	char brief[STACK_TEXT];
};

/* A stack as a dump has it. */
struct stack_trace {
	int rank; /* -1 for a thread that is not asked as a rank's */
	int tid;
	char thread[THREAD_NAME_SIZE];
	char state[THREAD_STATE_SIZE];
	int holds_python;
	char text[STACK_TEXT];
	int count; /* 0 if there is no stack, or its files were not found in time */
	struct {
		int module; /* -1 if the address is in no file */
		uint64_t offset;
	} frames[STACK_FRAMES];
};

/* All stacks that were taken at a time, of the ranks first. */
struct stack_traces {
	int n, n_modules;
	int left_out; /* other threads that were not asked, as there were too many */
	struct stack_trace at[STACKS];
	struct place_module modules[PLACE_MODULES];
};

/* How far the names of a question are. */
enum symbolizer_stage {
	SYMBOLIZER_FILES,     /* "prog+0x1234" */
	SYMBOLIZER_FUNCTIONS, /* "f+0x2a" */
	SYMBOLIZER_LINES,     /* "f (a.c:12)", by symbol_more */
	SYMBOLIZER_STAGES,
};

struct symbolizer {
	/* Constant after the start. */
	int signo; /* 0: there is no thread, and no stacks are taken */
	bool all;  /* also ask other threads */
	pthread_t thread;

	sem_t asked;
	atomic_bool stop;

	/* Atomic; numbers of questions: the last one asked, and the last one that has
	 * reached each stage.  The release and acquire of the latter publish the names
	 * of the stage, and the files in .places. */
	atomic_uint question;
	atomic_uint reached[SYMBOLIZER_STAGES];
	atomic_bool has_ended;

	/* Owned by the thread that asks while the last question has reached the last
	 * stage, and otherwise by the symbolizer's thread. */
	int n;
	struct stack stacks[STACKS];
	struct stack_report names[SYMBOLIZER_STAGES][STACKS];
	struct places places;

	/* Owned by the thread that asks. */
	struct stack_traces traces;
};

/* A better way to name an address: "function (file.c:12)"; false if nothing is known.
 * It may take memory and locks.  Set before any group is opened, else NULL. */
extern bool (*symbol_more)(struct text *t, uintptr_t address);

/* Start the thread if @signo is not 0; it may have COHORT_STACK_ALL.  @s is zeroed.
 * COHORT_OK, or COHORT_SYSTEM. */
int symbolizer_start(struct symbolizer *s, int signo, const char *group);

/* Fill in @n reports, at most STACK_RANKS, in which only the rank and the thread are
 * set; and .traces.  Blocks for a tenth of a second at most.  One thread at a time. */
void symbolizer_report(struct symbolizer *s, struct stack_report *reports,
                       int n);

/* Find the places of the @n stacks' frames. */
void symbolizer_map(struct places *places, const struct stack *stacks, int n);

/* Name the frames of @stack in @out.  Frames of the C library and of this library in
 * front of the program's first one are left out, unless there are no others. */
void symbolizer_name(const struct places *places, const struct stack *stack,
                     struct stack_report *out, enum symbolizer_stage stage);

/* Add @frames, or the reason why there are none, in @room bytes: the longest names are
 * cut, and end in "...", until all fit. */
void symbolizer_add(struct text *t, const char *frames, size_t room);

/* Stop the thread; false if a lookup of names hangs until @deadline_ns. */
bool symbolizer_stop(struct symbolizer *s, uint64_t deadline_ns);

#endif
