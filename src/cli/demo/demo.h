/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_DEMO_DEMO_H
#define CLI_DEMO_DEMO_H

/*
 * The demo's options and results, which report.c prints as text or as a JSON object
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cohort/cohort.h>

enum demo_fault {
	FAULT_UNSAID, /* not given: a stall, if there is more than one rank */
	FAULT_NONE,
	FAULT_STALL,    /* the rank waits in the program */
	FAULT_DIE,      /* its thread exits */
	FAULT_MISMATCH, /* it makes another call than the others */
	FAULT_KILL,     /* its process is killed */
};

struct demo_options {
	int ranks;     /* 0: not given */
	int processes; /* over which the ranks are spread */
	int platform;  /* enum cohort_platform */
	size_t epochs;
	size_t batch; /* images per step, of all ranks together */
	uint64_t seed;
	float lr;
	float momentum;
	enum demo_fault fault;
	int fault_rank;    /* with FAULT_KILL the first of the process */
	int fault_process; /* with FAULT_KILL */
	uint64_t fault_step;
	uint64_t join_deadline_ns;
	bool verify;
	bool json;
};

struct demo_result {
	int platform;
	int *devices;    /* of each rank */
	double *curve;   /* mean training loss of each epoch */
	double accuracy; /* on the held-out images */
	uint64_t steps;
	double compute_seconds; /* mean over ranks */
	double comm_seconds; /* mean over ranks: copies, reduction and waiting */
	double difference;   /* with --verify: from a single run */

	/* The generations: how many there were, the last one, the second one. */
	int generation_count;
	int final_ranks;
	int resumed_ranks;
	uint64_t resumed_step;

	/* What ended the first generation; status COHORT_OK if nothing did.  Times
	 * are of CLOCK_MONOTONIC, or 0 for what did not happen. */
	struct cohort_cause cause;
	uint64_t start_ns;
	uint64_t fault_ns;     /* the rank began to fail */
	uint64_t unblocked_ns; /* the last rank inside had its answer */
	uint64_t returned_ns;  /* the run was over */
	uint64_t respawned_ns; /* the next generation was open */
	uint64_t end_ns;
	int *abandoned;       /* ranks that were left behind */
	char complaint[1024]; /* about the close, or "" */
	int abandoned_count;
};

/* The time of CLOCK_MONOTONIC. */
uint64_t demo_ns(void);
double demo_seconds(void);

/* Print the results on stdout. */
void report_print(const struct demo_options *options,
                  const struct demo_result *result);
void report_json(const struct demo_options *options,
                 const struct demo_result *result);

/* The command: @argv[0] is its name, an enum cli_exit is returned. */
int demo_main(int argc, char **argv);

#endif
