/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PLATFORM_GPU_KNOWN_H
#define PLATFORM_GPU_KNOWN_H

/*
 * What is known of versions of NCCL, of CUDA and of the driver: the library's
 * notes tell some of it, `cohort check` all
 */

#include <stdbool.h>
#include <stddef.h>

/* See the first of the known versions. */
#define OLDEST_NCCL 22602

/* The first version in which the driver's stream memory operations need no
 * opt-in. */
#define OLDEST_CUDA 12000

/* The version of the driver's kernel module, such as 525.60.13, as one
 * number. */
#define DRIVER_VERSION(major, minor, patch)                                    \
	((major)*1000000 + (minor)*1000 + (patch))

enum known_library {
	KNOWN_NCCL,   /* versions as ncclGetVersion() gives them */
	KNOWN_CUDA,   /* the runtime's, as cudaRuntimeGetVersion() gives them */
	KNOWN_DRIVER, /* the kernel module's, as DRIVER_VERSION() */
};

/* A version that is not out yet, as the last one: what is so to this day. */
#define KNOWN_TODAY 29999

struct known_version {
	enum known_library of;
	int first, last;  /* versions */
	bool is_unusable; /* else it may be slow, or not end in time */
	bool is_noted;    /* also in the platform's notes */
	const char *what; /* a sentence */
	/* A sentence, or NULL: a newer version is all there is. */
	const char *advice;
	const char *source; /* where that is known from */
};

/* All of them. */
extern const struct known_version known_versions[];
extern const size_t known_version_count;

#endif
