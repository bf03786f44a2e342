/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

/*
 * The log: the only place where the library prints
 *
 * By default it prints one line on stderr for each group that ends abnormally,
 * and for each misspelled environment variable.  Nothing here takes a lock,
 * allocates memory, or uses stdio.
 */

#include <stdbool.h>

#include <cohort/watch.h>

#define LOG_PATH 512

enum log_form {
	LOG_LINE,    /* "line", or not set: one line on stderr */
	LOG_NONE,    /* "none": nothing */
	LOG_VERDICT, /* "verdict": whole verdicts on stderr */
	LOG_FILE,    /* a path with '/': verdicts appended to the file */
	LOG_INVALID, /* any other text */
};

struct log {
	enum log_form form;
	char path[LOG_PATH]; /* for LOG_FILE */
};

/* Return the log that a value of COHORT_LOG or options->log selects.  NULL and
 * "" select LOG_LINE. */
struct log log_parse(const char *text);

/* Try to open the log's file, which is created if it is missing.  Return 0 if
 * that worked or the log has no file, otherwise an errno value. */
int log_check_file(const struct log *log);

/* Return true if the log takes verdicts rather than lines. */
bool log_wants_verdicts(const struct log *log);

/*
 * log_line - write one line of at most 500 bytes, starting with "cohort: "
 *
 * Control characters become spaces.  On stderr the line is a single write(2).
 * If stderr is a full pipe, the line is dropped, and the next line says how
 * many were dropped.
 */
void log_line(const struct log *log, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/*
 * log_verdict - write a verdict with its reports on ranks, as several lines
 *
 * Does nothing unless log_wants_verdicts() returns true.  May block while a
 * disk hangs, or for a second if stderr is a full pipe, so the watchdog's own
 * thread must not call it.
 */
void log_verdict(const struct log *log, const struct cohort_verdict *verdict);

#endif
