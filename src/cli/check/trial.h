/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_CHECK_TRIAL_H
#define CLI_CHECK_TRIAL_H

/*
 * Trials: functions in a process of their own, each step of which has a
 * deadline
 *
 * A call of the driver's that hangs cannot be ended by its process, and a
 * device that has failed answers nothing else in the process that saw it fail.
 * So each trial is a child, which is killed when a step's time is up, or with
 * this process.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct check;

enum trial_end {
	TRIAL_RUNS,
	TRIAL_DONE,
	TRIAL_FAILED,  /* it says why */
	TRIAL_HUNG,    /* a step was not done in its time */
	TRIAL_DIED,    /* by a signal, or without a word */
	TRIAL_REFUSED, /* there is no process or no memory for it */
};

#define TRIAL_TEXT 1024

/* What the child tells. */
struct trial_shared {
	/* Atomic.  Release: what the child wrote before it. */
	_Atomic uint64_t until_ns; /* of the step, on clock_now() */
	/* Static; the same address in both processes. */
	const char *_Atomic step;
	uint64_t step_ns;
	_Atomic int end;       /* enum trial_end */
	char text[TRIAL_TEXT]; /* of a failure, or a result */
	_Alignas(16) char data[];
};

struct trial {
	const struct check *check;
	void (*run)(struct trial *trial); /* in the child */
	const char *name;                 /* of a variable, for @run */
	int a, b;                         /* devices, for @run */
	unsigned plan;                    /* for @run */
	size_t size;                      /* of @shared->data */

	struct trial_shared *shared; /* NULL: there is no trial */
	pid_t pid;
	enum trial_end end;
	const char *step;      /* the last one that began, */
	uint64_t step_ns;      /* and how long it might take */
	char text[TRIAL_TEXT]; /* why it has not succeeded, or a result */
	/* The child could not be ended: it is inside the driver. */
	bool is_left;
};

/* Start a trial, whose first members are set.  False, with @end and @text set,
 * if there is no process or no memory for it. */
bool trial_start(struct trial *trial);

/* The start of a child may take so many deadlines: CUDA has to start, which
 * takes seconds for each GPU where the driver does not stay loaded. */
#define TRIAL_STARTS 3

/* The most trials that are waited for at once. */
#define TRIALS 8

/* Wait until one of the @n trials at @trials that run has ended, and set its
 * end; NULL: none runs. */
struct trial *trial_wait(struct trial *trials, unsigned n);

/* Give back what a trial has that has ended. */
void trial_free(struct trial *trial);

/* Start a trial, and wait for it. */
void trial_run(struct trial *trial);

/* ---- in the child -------------------------------------------------------- */

/* Begin a step, a static text as in "the copy", which may take so long. */
void trial_step(struct trial *trial, const char *step, uint64_t ns);

/* End the process: the trial has failed.  @format says why. */
__attribute__((noreturn, format(printf, 2, 3))) void
trial_fail(struct trial *trial, const char *format, ...);

#endif
