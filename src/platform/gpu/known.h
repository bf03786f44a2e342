/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PLATFORM_GPU_KNOWN_H
#define PLATFORM_GPU_KNOWN_H

/*
 * Known problems of versions of NCCL, CUDA and the driver
 *
 * The platform's notes include the problems marked is_noted; `cohort check`
 * reports all.
 */

#include <stdbool.h>
#include <stddef.h>

/* Oldest NCCL that is supported; see the first entry of known_versions. */
#define OLDEST_NCCL 22602

/* Oldest CUDA runtime that is supported: the first in which the driver's stream
 * memory operations need no opt-in. */
#define OLDEST_CUDA 12000

/* Version of the driver's kernel module, such as 525.60.13, as one number. */
#define DRIVER_VERSION(major, minor, patch)                                    \
	((major)*1000000 + (minor)*1000 + (patch))

enum known_library {
	KNOWN_NCCL,   /* versions as from ncclGetVersion() */
	KNOWN_CUDA,   /* the runtime's, as from cudaRuntimeGetVersion() */
	KNOWN_DRIVER, /* the kernel module's, as DRIVER_VERSION() */
};

/* Last version of a problem that is not fixed yet: higher than any version that
 * exists. */
#define KNOWN_TODAY 29999

struct known_version {
	enum known_library of;
	int first, last;  /* first and last affected version */
	bool is_unusable; /* cannot be used; otherwise may be slow or hang */
	bool is_noted;    /* also reported in the platform's notes */
	const char *what; /* description, one sentence */
	/* Advice, one sentence; NULL if only a newer version helps. */
	const char *advice;
	const char *source; /* source of the information */
};

extern const struct known_version known_versions[];
extern const size_t known_version_count;

#endif
