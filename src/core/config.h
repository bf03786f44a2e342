/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_CONFIG_H
#define CORE_CONFIG_H

/* NCCL options of a communicator, in a structure that is copied, because the
 * thread that connects may outlive the caller that passed them */

/* Maximum supported size of an ncclConfig_t, with room for newer versions of
 * NCCL. */
#define NCCL_CONFIG_MOST 256

#include <stdbool.h>

#include "platform/nccl_abi.h"

struct comm_config {
	/* NCCL's options.  The size member is the length of the options; if the
	 * size is 0, NCCL's defaults apply. */
	union {
		ncclConfig_t native;
		unsigned char bytes[NCCL_CONFIG_MOST];
	};

	/* Options of the library. */
	int connect; /* enum cohort_connect */
};

/*
 * Copy the ncclConfig_t at @from, or set the defaults if it is NULL.  Strings
 * in it are copied and never freed, because NCCL may keep a pointer as long as
 * the communicator.
 *
 * Returns:
 *   COHORT_OK         @out is set
 *   COHORT_INVALID    the error names the field of options->nccl_config
 *   COHORT_NO_MEMORY  a string could not be copied
 */
int config_read(const void *from, struct comm_config *out);

bool config_is_default(const struct comm_config *config);

/* Return the structure to pass to NCCL for a communicator named @name.  The
 * strings in it are never freed. */
struct comm_config config_native(const struct comm_config *config,
                                 const char *name);

/* Return COHORT_INVALID if an environment variable has a value that the library
 * does not allow (environment_refuses()).  Check again after the first call of
 * NCCL, which adds the settings of its configuration files to the environment
 * (NCCL_CONF_FILE or ~/.nccl.conf, /etc/nccl.conf). */
int environment_check(void);

/* Return the reason why the library does not allow the environment variable
 * @name to be @value, or NULL if it allows this. */
const char *environment_refuses(const char *name, const char *value);

#endif
