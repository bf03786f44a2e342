/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_NCCL_SIMULATE_H
#define SIM_NCCL_SIMULATE_H

/*
 * What ncclGroupSimulateEnd() answers in place of running a group
 */

#include "sim/exec/launch.h"

/* As NCCL: ncclInvalidArgument unless there is a magic number, in as much of @info
 * as its size says. */
ncclResult_t simulate_check(const ncclSimInfo_t *info);

/*
 * Store how long the launches, a list, would take: a time for each launch, and
 * the time for the bytes that its rank sends and receives at one rate, all
 * ranks at once.  The number is for comparisons and stands for no machine.
 * Nothing is stored if there are no launches.
 */
void simulate_launches(const struct launch *first, ncclSimInfo_t *info);

#endif
