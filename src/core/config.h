/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_CONFIG_H
#define CORE_CONFIG_H

/*
 * What a program may ask of NCCL for its communicators, as a plain value: the
 * thread that connects may outlive the caller that asked
 */

#include <stdbool.h>

#include "platform/nccl_abi.h"

struct comm_config {
	/* 0 or empty: NCCL's default. */
	int min_ctas;
	int max_ctas;
	int cga_cluster_size;
	int traffic_class;
	char net_name[64];

	int connect; /* enum cohort_connect; not NCCL's */
};

/* True if @config asks NCCL for nothing. */
bool config_is_default(const struct comm_config *config);

/* @config in NCCL's form, for a communicator of that name.  What it points to
 * is kept for ever: NCCL may keep a pointer as long as the communicator. */
ncclConfig_t config_native(const struct comm_config *config, const char *name);

/* COHORT_INVALID if the environment would change what NCCL's calls mean to the
 * library.  NCCL's first call adds to the environment what its files of
 * settings say (NCCL_CONF_FILE or ~/.nccl.conf, /etc/nccl.conf). */
int environment_check(void);

/* Why the library refuses that @name is @value in the environment, or NULL. */
const char *environment_refuses(const char *name, const char *value);

#endif
