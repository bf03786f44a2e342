/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WATCH_SYMBOLIZER_H
#define WATCH_SYMBOLIZER_H

/*
 * Names the frames of threads' stacks: functions, and places in files
 *
 * A background thread looks up the names, so that a lookup that blocks (on
 * memory, on a lock of the hung thread, on a disk) does not block the
 * watchdog. It works in stages: files, then functions, then lines.  A verdict
 * has the names that were found in time.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "base/crew.h"
#include "base/text.h"
#include "base/thread.h"
#include "watch/places.h"
#include "watch/stack.h"

/* Maximum number of ranks whose stacks are taken at a time. */
#define STACK_RANKS 8

/* Start of the text of a report without a stack. */
#define STACK_UNAVAILABLE "stack unavailable: "

#define STACK_TEXT 1000

/* The stack of one rank's thread. */
struct stack_report {
	int rank;
	int tid;
	/* The rank was bound to the thread when the stack was requested. */
	bool bound;
	int holds_python; /* as in struct stack */

	/* Frames, starting with the program's innermost one: "f (a.c:1) <
	 * g+0x2a < main+0x51".  If there is no stack, STACK_UNAVAILABLE and the
	 * reason. */
	char text[STACK_TEXT];

	/* The first frames of .text, with up to eight frames of the program.
	 * If they do not fit, the longest names are truncated. */
	char brief[STACK_TEXT];
};

static inline bool symbolizer_has_stack(const struct stack_report *r)
{
	return strncmp(r->text, STACK_UNAVAILABLE, strlen(STACK_UNAVAILABLE)) !=
	       0;
}

/* Return true if the thread waits for Python's interpreter lock, according to
 * the names of its functions. */
bool symbolizer_awaits_python(const struct stack_report *r);

/* A stack as a dump shows it. */
struct stack_trace {
	int rank; /* -1 if the stack was not taken for a rank */
	int tid;
	char thread[THREAD_NAME_SIZE];
	char state[THREAD_STATE_SIZE];
	int holds_python;
	char text[STACK_TEXT];
	/* Number of frames.  0 if there is no stack, or if the files of its
	 * frames were not found in time. */
	int count;
	struct {
		int module; /* -1 if the address is in no file */
		uint64_t offset;
	} frames[STACK_FRAMES];
};

/* All stacks that were taken at one time.  Stacks of ranks come first. */
struct stack_traces {
	int n, n_modules;
	/* Number of other threads whose stacks did not fit. */
	int left_out;
	struct stack_trace at[STACKS];
	struct place_module modules[PLACE_MODULES];
};

/* Stages of looking up the names of one set of stacks. */
enum symbolizer_stage {
	SYMBOLIZER_FILES,     /* "prog+0x1234" */
	SYMBOLIZER_FUNCTIONS, /* "f+0x2a" */
	SYMBOLIZER_LINES,     /* "f (a.c:12)", from symbol_more */
	SYMBOLIZER_STAGES,
};

/* Takes and names the stacks of one clique's threads. */
struct symbolizer {
	/* Constant after the start. */
	int signo; /* 0 if no stacks are taken */
	bool all;  /* also take the stacks of threads that belong to no rank */

	struct job naming;

	/* Atomic; number of stages of .names that are complete.  The release
	 * and acquire publish the contents of these stages, and the files in
	 * .places. */
	atomic_int found;

	/* Owned by the job, or by the caller while symbolizer_is_free(). */
	/* Number of stacks for the caller's reports; they come first. */
	int asked;
	int n; /* number of all stacks */
	struct stack stacks[STACKS];
	struct stack_report names[SYMBOLIZER_STAGES][STACKS];
	struct places places;

	/* Owned by the thread that takes the stacks. */
	struct stack_traces traces;
};

/* A hook that returns a better name for an address: "function (file.c:12)".  It
 * returns false if it knows no name.  It may allocate memory and take locks.
 * Set before any group is opened, otherwise NULL. */
extern bool (*symbol_more)(struct text *t, uintptr_t address);

/* Prepare to take stacks with signal @signo, which may include
 * COHORT_STACK_ALL.  If @signo is 0, no stacks are taken.  @s must be
 * zeroed. */
void symbolizer_start(struct symbolizer *s, int signo);

/* Return false while a job is still looking up names for the last stacks. */
bool symbolizer_is_free(struct symbolizer *s);

/* Maximum time that a verdict waits for names. */
#define NAME_NS (45 * UINT64_C(1000000))

/*
 * Take the stacks of the @n threads in @reports, at most STACK_RANKS.  Blocks
 * for at most 50 ms.  Call it only while symbolizer_is_free() is true, and from
 * one thread at a time.
 */
void symbolizer_take(struct symbolizer *s, const struct stack_report *reports,
                     int n);

/* Start the job that finds names.  It wakes the watchdog after each stage. */
void symbolizer_name_all(struct symbolizer *s);

/* Fill in @reports and s->traces with the names that were found so far.  The
 * ranks and threads in @reports are set by the caller. */
void symbolizer_collect(struct symbolizer *s, struct stack_report *reports);

/* Take the stacks of @n threads with signal @signo, and name only the files of
 * their frames.  The caller has set the ranks and thread IDs in @reports.
 * Needs no symbolizer and takes no lock.  Return false if there is no
 * memory. */
bool symbolizer_trace(int signo, struct stack_report *reports, int n,
                      struct stack_traces *out);

/* Return true if all names have been looked up. */
bool symbolizer_has_all(struct symbolizer *s);

/* Store in the report the reason why there is no stack. */
void symbolizer_refuse(struct stack_report *report, const char *why);

/* Find the file of each frame of all @n stacks. */
void symbolizer_map(struct places *places, const struct stack *stacks, int n);

/* Name the frames of @stack in @out.  Omit frames of the C library and of this
 * library that are called by the program's innermost frame, unless there are no
 * other frames. */
void symbolizer_name(const struct places *places, const struct stack *stack,
                     struct stack_report *out, enum symbolizer_stage stage);

/* Add @frames, or the reason why there are none, in at most @room bytes.  If
 * the frames do not fit, the longest names are cut and end in "...". */
void symbolizer_add(struct text *t, const char *frames, size_t room);

/* Stop the symbolizer.  Return false if a lookup of names has not ended by
 * @deadline_ns. */
bool symbolizer_stop(struct symbolizer *s, uint64_t deadline_ns);

#endif
