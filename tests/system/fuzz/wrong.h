/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WRONG_H
#define WRONG_H

/*
 * Calls with invalid arguments, each with the codes that it may return
 */

#include "system/fuzz/program.h"

/*
 * The kind of family whose communicator the call gets; with NEEDS_NOTHING it
 * gets NULL
 */
enum wrong_needs {
	NEEDS_NOTHING,
	NEEDS_RANK,
	NEEDS_REVOKED,
};

struct wrong {
	const char *name;
	bool poisons; /* the call makes an open group fail */
	enum wrong_needs needs;
	int result, or_result;
	int (*call)(ncclComm_t comm, const struct step *step);
};

extern const struct wrong wrong_nccl[], wrong_cuda[];
extern const unsigned wrong_nccl_count, wrong_cuda_count;

#endif
