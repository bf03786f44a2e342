/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_TRACE_HTML_H
#define CLI_TRACE_HTML_H

/*
 * The page of cohort trace --html, and its parts
 *
 *	html.c       the template, filled in: the verdict and the tables of ranks
 *	html_data.c  what the page's script draws and sorts
 *	page/        the template page.html, its style, and the parts of its script
 *
 * All text of a dump is untrusted: in markup html.c escapes it, and in the data no
 * '<' ends the script element that they stand in.
 */

#include "cli/trace/trace.h"

/* The times of a rank's operations, one after the other. */
struct html_walk {
	const struct flight *flight;
	uint64_t now_ns; /* until when an operation lasts that is not done */
	uint64_t busy_until_ns;
};

struct html_walk html_walk(const struct flight *flight);

/* The times of the next operation of the rank.  One that failed, or whose end is not
 * known, takes no time. */
struct flight_span html_next(struct html_walk *walk,
                             const struct flight_op *op);

/* Write the data, as JSON without '<'.  False with errno if there is no memory. */
bool html_data(FILE *out, const struct trace *trace,
               const struct trace_figures *figures);

#endif
