/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_CHECK_TRY_H
#define CLI_CHECK_TRY_H

/*
 * What the trials of devices and of pairs do, each in its process
 */

#include <stdbool.h>

#include "cli/check/trial.h"

/* What is copied: enough for copy engines, and for each protocol of NCCL's. */
#define TRY_BYTES ((size_t)4 << 20)

/* For a struct trial's run: the device @a by itself. */
void try_device(struct trial *trial);

/* The devices @a and @b: copies each way, and an all-reduce.  The trial has a plan, and
 * its data are the facts. */
void try_pair(struct trial *trial);

/* What is tried, as bits of a trial's plan. */
enum {
	TRY_COPIES = 1,
	TRY_SUMS = 2,
	TRY_AVOIDS = 4, /* with NCCL_P2P_DISABLE=1 */
};

struct pair_facts {
	bool is_direct;  /* CUDA says that both reach each other's memory */
	bool has_copied; /* the copies are done, and right */
	/* The library refuses settings, or has no threads: no fault of the devices'. */
	bool is_refused;
};

/* The steps of the copies: from @a to @b, and back. */
extern const char try_there[], try_back[];

#endif
