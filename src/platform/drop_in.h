/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PLATFORM_DROP_IN_H
#define PLATFORM_DROP_IN_H

/*
 * What the gpu platform finds in the drop-in libraries and not in NVIDIA's: a
 * table of functions, behind the symbol cohort_host_knobs; and in the library
 * that runs NVIDIA's NCCL on the simulator (sim/nvidia) the name of NVIDIA's
 * file, which cohort_nccl_file() returns
 */

#include <stdbool.h>
#include <stdint.h>

#include <cohort/sim.h>

#include "platform/cuda_abi.h"

struct host_knobs {
	/* The entries of these names in struct platform, see platform.h. */
	void (*progress)(int device, cudaStream_t stream, const uint32_t *word,
	                 uint32_t value, uint64_t until_ns);
	void (*flush)(int device, cudaStream_t stream);
	bool (*connects_late)(void);
	void (*uncounted)(bool begins);

	/* Read the environment: COHORT_OK, or what is wrong with it.  Before
	 * the first use of the libraries, as the rest is. */
	int (*open)(void);

	/* The functions of cohort/sim.h, for the simulator in these
	 * libraries. */
	int (*set_devices)(int n);
	int (*set_sync)(int sync);
	int (*fault_add)(const struct cohort_fault *fault);
	void (*faults_clear)(void);

	/* The text of the calling thread's last error in these libraries. */
	const char *(*last_error)(void);
};

#endif
