/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DEMO_H
#define DEMO_H

/*
 * The demo's options and results, and how they are shown (report.c): a
 * progress bar while it trains, a report or a JSON object at the end
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct demo_options {
	int ranks;    /* 0: not given */
	int platform; /* enum cohort_platform */
	size_t epochs;
	size_t batch; /* images per step, of all ranks together */
	uint64_t seed;
	float lr;
	float momentum;
	bool verify;
	bool json;
};

struct demo_result {
	int platform;
	int *devices;    /* of each rank */
	double *curve;   /* mean training loss of each epoch */
	double accuracy; /* on the held-out images */
	uint64_t steps;
	double seconds;         /* from the start of the workers to their end */
	double compute_seconds; /* mean over ranks */
	double comm_seconds;    /* likewise: copies, reduction and waiting */
	double difference;      /* with verify: from a single run */
};

/* A bar on stderr if that is a terminal, else nothing.  One thread at a time
 * may use it. */
struct progress {
	bool shown;
	int width;
	double drawn; /* when, in seconds */
};

void progress_start(struct progress *progress);
void progress_draw(struct progress *progress, size_t done, size_t total,
                   double loss, double accuracy);
void progress_erase(struct progress *progress);

/* Seconds of a clock that only goes forward. */
double demo_seconds(void);

/* On stdout. */
void report_print(const struct demo_options *options,
                  const struct demo_result *result);
void report_json(const struct demo_options *options,
                 const struct demo_result *result);

#endif
