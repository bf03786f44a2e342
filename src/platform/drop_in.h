/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PLATFORM_DROP_IN_H
#define PLATFORM_DROP_IN_H

/*
 * Functions that the gpu platform finds in the simulator's drop-in libraries
 * but not in NVIDIA's
 *
 * The libraries' function cohort_host_knobs() returns struct host_knobs.  In
 * the library that runs NVIDIA's NCCL on the simulator (sim/nvidia),
 * cohort_nccl_file() returns the name of NVIDIA's file.
 */

#include <stdbool.h>
#include <stdint.h>

#include <cohort/sim.h>

#include "platform/cuda_abi.h"

struct host_knobs {
	/* As in struct platform, see platform.h. */
	void (*progress)(int device, cudaStream_t stream, const uint32_t *word,
	                 uint32_t value, uint64_t until_ns);
	void (*flush)(int device, cudaStream_t stream);
	bool (*connects_late)(void);
	void (*uncounted)(bool begins);

	/* Read the environment.  Return COHORT_OK, or an error if a variable is
	 * not valid.  Called before the first use of the libraries, as are the
	 * functions below. */
	int (*open)(void);

	/* The functions of cohort/sim.h, applied to the simulator in the
	 * drop-in libraries. */
	int (*set_devices)(int n);
	int (*fault_add)(const struct cohort_fault *fault);
	void (*faults_clear)(void);

	/* Return the text of the calling thread's last error in the drop-in
	 * libraries. */
	const char *(*last_error)(void);
};

#endif
