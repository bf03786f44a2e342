/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_CONFIG_H
#define CORE_CONFIG_H

/*
 * What a program may ask of NCCL for its communicators, as a plain value: the
 * thread that connects may outlive the caller that asked
 */

/* Room for the structures of newer versions of NCCL. */
#define NCCL_CONFIG_MOST 256

#include <stdbool.h>

#include "platform/nccl_abi.h"

struct comm_config {
	/* As long as its size says; size 0: NCCL's defaults. */
	union {
		ncclConfig_t native;
		unsigned char bytes[NCCL_CONFIG_MOST];
	};

	/* Not NCCL's. */
	int connect; /* enum cohort_connect */
	int stream_priority;
};

/* Copy the ncclConfig_t at @from, NULL: there is none.  COHORT_INVALID, with a
 * text about options->nccl_config; COHORT_NO_MEMORY.  What the copy points to
 * is kept for ever: NCCL may keep a pointer as long as the communicator. */
int config_read(const void *from, struct comm_config *out);

/* True if @config asks NCCL for nothing. */
bool config_is_default(const struct comm_config *config);

/* The structure to pass to NCCL for a communicator of that name, which is never
 * freed. */
struct comm_config config_native(const struct comm_config *config,
                                 const char *name);

/* COHORT_INVALID if the environment would change what NCCL's calls mean to the
 * library.  NCCL's first call adds to the environment what its files of
 * settings say (NCCL_CONF_FILE or ~/.nccl.conf, /etc/nccl.conf). */
int environment_check(void);

/* Why the library refuses that @name is @value in the environment, or NULL. */
const char *environment_refuses(const char *name, const char *value);

#endif
