/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

/*
 * The log: the only place where the library prints, by default one line on
 * stderr for each group that a cause ends and for each misspelt variable
 *
 * Nothing here takes a lock, allocates memory, or uses stdio.
 */

#include <stdbool.h>

#include <cohort/watch.h>

#define LOG_PATH 512

enum log_form {
	LOG_LINE,    /* "line", or nothing is set: one line on stderr */
	LOG_NONE,    /* "none" */
	LOG_VERDICT, /* "verdict": whole verdicts on stderr */
	LOG_FILE, /* a path with a '/': whole verdicts appended to that file */
	LOG_INVALID, /* any other text */
};

struct log {
	enum log_form form;
	char path[LOG_PATH]; /* for LOG_FILE */
};

/* Return the log that the value of COHORT_LOG or of options->log asks for.
 * NULL and "" ask for LOG_LINE. */
struct log log_of(const char *text);

/* Open and close the log's file, which is created if it is missing.  Returns 0
 * or an errno; 0 if the log has no file. */
int log_try(const struct log *log);

/* True if the log wants verdicts (log_verdict()) rather than lines
 * (log_line()). */
bool log_wants_verdicts(const struct log *log);

/*
 * log_line - write one line of at most 500 bytes, which begins with "cohort: "
 *
 * Control characters become spaces.  On stderr the line is a single write(2).
 * If stderr is a full pipe, the line is dropped; the next line says how many
 * were.
 */
void log_line(const struct log *log, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/*
 * log_verdict - write a verdict with the reports on its ranks, as several lines
 *
 * Does nothing unless the log wants verdicts.  May block as long as a disk
 * hangs, or a second if stderr is a full pipe: not for the watchdog's own
 * thread.
 */
void log_verdict(const struct log *log, const struct cohort_verdict *verdict);

#endif
