/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WATCH_SYMBOLIZER_H
#define WATCH_SYMBOLIZER_H

/*
 * Stacks of threads as text, and as places in files
 *
 * A job looks up the names of functions, because that may need what a hung
 * thread has: memory, a lock, or a disk.  It looks up more and more: files,
 * then functions, then lines.  The verdict has the names that are found in
 * time.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "base/crew.h"
#include "base/text.h"
#include "base/thread.h"
#include "watch/places.h"
#include "watch/stack.h"

/* Ranks that are asked for their stacks at a time. */
#define STACK_RANKS 8

/* What the text begins with if there is no stack. */
#define STACK_UNAVAILABLE "stack unavailable: "

#define STACK_TEXT 1000

/* The stack of one rank's thread. */
struct stack_report {
	int rank;
	int tid;
	bool bound; /* the rank was bound to the thread when it was asked */
	int holds_python; /* as in struct stack */

	/* Frames from the program's innermost one on: "f (a.c:1) < g+0x2a <
	 * main+0x51"; or STACK_UNAVAILABLE and why. */
	char text[STACK_TEXT];

	/* The first of these frames, up to eight of the program's.  If their
	 * names are too long together, the longest ones are cut. */
	char brief[STACK_TEXT];
};

static inline bool symbolizer_has_stack(const struct stack_report *r)
{
	return strncmp(r->text, STACK_UNAVAILABLE, strlen(STACK_UNAVAILABLE)) !=
	       0;
}

/* A stack as a dump has it. */
struct stack_trace {
	int rank; /* -1 for a thread that is not asked as a rank's */
	int tid;
	char thread[THREAD_NAME_SIZE];
	char state[THREAD_STATE_SIZE];
	int holds_python;
	char text[STACK_TEXT];
	/* 0 if there is no stack, or its files were not found in time. */
	int count;
	struct {
		int module; /* -1 if the address is in no file */
		uint64_t offset;
	} frames[STACK_FRAMES];
};

/* All stacks that were taken at a time, of the ranks first. */
struct stack_traces {
	int n, n_modules;
	/* Other threads that were not asked, as there were too many. */
	int left_out;
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
	int signo; /* 0 if no stacks are taken */
	bool all;  /* also ask other threads */

	struct job naming;

	/* Atomic; how many stages of .names are complete.  Release and acquire:
	 * what is in them, and the files in .places. */
	atomic_int found;

	/* Owned by the caller while symbolizer_is_free(), else by the job; how
	 * many of the stacks are of the caller's reports. */
	int asked;
	int n;
	struct stack stacks[STACKS];
	struct stack_report names[SYMBOLIZER_STAGES][STACKS];
	struct places places;

	/* Owned by the thread that asks. */
	struct stack_traces traces;
};

/* A better way to name an address: "function (file.c:12)"; false if nothing is
 * known.  It may take memory and locks.  Set before any group is opened, else
 * NULL. */
extern bool (*symbol_more)(struct text *t, uintptr_t address);

/* Prepare to take stacks by @signo, which may have COHORT_STACK_ALL; 0 if none
 * are to be taken.  @s is zeroed. */
void symbolizer_start(struct symbolizer *s, int signo);

/* False while the names of the last question are still being looked up. */
bool symbolizer_is_free(struct symbolizer *s);

/* How long to wait for names. */
#define NAME_NS (45 * UINT64_C(1000000))

/*
 * Take the stacks of @n threads, at most STACK_RANKS: blocks for 50 ms at most,
 * and must be free.  Then have the crew find names for them, and wake the
 * watchdog.  Then fill in the reports, in which only the rank and the thread
 * are set, with what has been found.  One thread at a time.
 */
void symbolizer_take(struct symbolizer *s, const struct stack_report *reports,
                     int n);
void symbolizer_name_all(struct symbolizer *s);
void symbolizer_collect(struct symbolizer *s, struct stack_report *reports);

/* True if all names have been looked up. */
bool symbolizer_has_all(struct symbolizer *s);

/* Say in the report why there is no stack. */
void symbolizer_refuse(struct stack_report *report, const char *why);

/* Find the places of the @n stacks' frames. */
void symbolizer_map(struct places *places, const struct stack *stacks, int n);

/* Name the frames of @stack in @out.  Frames of the C library and of this
 * library in front of the program's first one are left out, unless there are no
 * others. */
void symbolizer_name(const struct places *places, const struct stack *stack,
                     struct stack_report *out, enum symbolizer_stage stage);

/* Add @frames, or the reason why there are none, in @room bytes: the longest
 * names are cut, and end in "...", until all fit. */
void symbolizer_add(struct text *t, const char *frames, size_t room);

/* Stop; false if a lookup of names hangs until @deadline_ns. */
bool symbolizer_stop(struct symbolizer *s, uint64_t deadline_ns);

#endif
