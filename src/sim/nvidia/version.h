/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_NVIDIA_VERSION_H
#define SIM_NVIDIA_VERSION_H

/*
 * The versions of NCCL whose kernels a CPU can carry out.  What NCCL hands to its
 * kernels is its own affair, and changes: each version has a file of its facts.
 */

#include "sim/nvidia/image.h"

struct nccl_version {
	int number; /* as ncclGetVersion() gives it */
	const char *text;

	/* The CUDA runtime that is linked in: the drop-in library with its
	 * functions. */
	const char *runtime;

	/* Data of the library, with sizes that another build would not have;
	 * a name of NULL is the end. */
	struct {
		const char *name;
		size_t bytes;
	} tables[8];
};

/* NULL: no facts are known of it. */
const struct nccl_version *version_find(int number);

/* The versions that are known, for a text: "2.28.9". */
const char *version_list(void);

/* False if a table of @version is missing in @image, or has another size: stores its
 * name. */
bool version_fits(const struct nccl_version *version, const struct image *image,
                  const char **table);

extern const struct nccl_version version_2_28_9;

#endif
