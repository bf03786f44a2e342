/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_NCCL_NCCL_ERROR_H
#define SIM_NCCL_NCCL_ERROR_H

#include "platform/nccl_abi.h"

/* Remember @text for ncclGetLastError() and return @result.  @text lives for
 * ever. */
ncclResult_t comm_error(ncclResult_t result, const char *text);

/* The text that was remembered last. */
const char *comm_last_error(void);

#endif
