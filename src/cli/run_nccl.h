/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_RUN_NCCL_H
#define CLI_RUN_NCCL_H

/*
 * cohort run --nccl: NVIDIA's NCCL on the simulator's devices
 */

#include <limits.h>

/*
 * Prepare the environment for @which, a path or "auto".  @own is the folder of the
 * command, @drop_ins that of the drop-in libraries.  Stores the folder that shall come
 * before that one for the loader.  CLI_OK, or another exit status after a complaint.
 */
int run_nccl(const char *which, const char *own, const char *drop_ins,
             char folder[PATH_MAX]);

#endif
