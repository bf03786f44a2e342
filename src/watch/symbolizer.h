/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WATCH_SYMBOLIZER_H
#define WATCH_SYMBOLIZER_H

/*
 * Stacks of ranks' threads as text
 *
 * A thread, one for each question, looks up the names of functions, because that may need
 * what a hung thread has: the dynamic linker's lock, or memory.  It finds simple names
 * first and better ones after that.  The verdict has the names that are found in time.
 */

#include <stdatomic.h>
#include <stdbool.h>

#include "base/crew.h"
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
	int signo; /* 0: no stacks are taken */

	struct job naming;

	/* Atomic; how many of .names are complete.  Release and acquire: what is in
	 * them. */
	atomic_int found;

	/* Owned by the caller while symbolizer_is_free(), else by the job. */
	int n;
	struct stack stacks[STACK_RANKS];
	struct stack_report names[2][STACK_RANKS];
};

/* A better way to name an address: "function (file.c:12)"; false: the name is not
 * known.  It may take memory and locks.  Set before any group is opened, else NULL. */
extern bool (*symbol_more)(struct text *t, uintptr_t address);

/* Prepare to take stacks by @signo; 0 if none are to be taken. */
void symbolizer_start(struct symbolizer *s, int signo);

/* False while the names of the last question are still being looked up. */
bool symbolizer_is_free(struct symbolizer *s);

/* How long to wait for names. */
#define NAME_NS (45 * UINT64_C(1000000))

/*
 * Take the stacks of @n threads, at most STACK_RANKS: blocks for 50 ms at most, and must be
 * free.  Then have the crew find names for them, and wake the watchdog.  Then fill in the
 * reports, in which only the rank and the thread are set, with what has been found.  One
 * thread at a time.
 */
void symbolizer_take(struct symbolizer *s, const struct stack_report *reports,
                     int n);
void symbolizer_name_all(struct symbolizer *s);
void symbolizer_collect(struct symbolizer *s, struct stack_report *reports);

/* True if all names have been looked up. */
bool symbolizer_has_all(struct symbolizer *s);

/* Say in the report why there is no stack. */
void symbolizer_refuse(struct stack_report *report, const char *why);

/* Name the frames of @stack in @out, by symbol_more if @more.  Frames of the C library
 * and of this library in front of the program's first one are left out, unless there
 * are no others. */
void symbolizer_name(const struct stack *stack, struct stack_report *out,
                     bool more);

/* Add @frames, or the reason why there are none, in @room bytes: the longest names are
 * cut, and end in "...", until all fit. */
void symbolizer_add(struct text *t, const char *frames, size_t room);

/* Stop; false if a lookup of names hangs until @deadline_ns. */
bool symbolizer_stop(struct symbolizer *s, uint64_t deadline_ns);

#endif
