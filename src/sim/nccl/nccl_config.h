/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_NCCL_NCCL_CONFIG_H
#define SIM_NCCL_NCCL_CONFIG_H

/*
 * ncclConfig_t: what a communicator is asked to be like
 */

#include "platform/nccl_abi.h"

/*
 * Check @from, which may be of an older or newer NCCL, and fill @out with a
 * value for every field.  Returns NULL, or the text of an ncclInvalidArgument.
 */
const char *config_parse(const ncclConfig_t *from, ncclConfig_t *out);

/* NCCL_COMM_BLOCKING, which has the last word on every communicator. */
void config_override(ncclConfig_t *config);

#endif
