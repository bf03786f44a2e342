/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_LAUNCH_LIBRARY_H
#define CLI_LAUNCH_LIBRARY_H

/*
 * libpmix, and what it is told of the job
 *
 * What returns a status returns CLI_OK, or CLI_FAILED after a complaint.
 */

#include "cli/launch/pmix_server_abi.h"

/* There is one in a process: constant once it is loaded. */
extern struct library {
#define POINTER(name, result, arguments) result(*name) arguments;
	PMIX_ABI_SERVER_FUNCTIONS(POINTER)
#undef POINTER
} library;

int library_load(void);

/* Judge what @function has returned. */
int library_check(const char *function, int status);

/* An info of type PMIX_ABI_@kind with @x, whose pointers have to outlive it. */
#define PMIX_INFO(name, kind, member, x)                                       \
	((struct pmix_info){                                                   \
		.key = name,                                                   \
		.value = { .type = PMIX_ABI_##kind, .data = { .member = x } }, \
	})

int library_register_job(const char *job, int processes);

#endif
