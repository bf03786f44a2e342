/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_NVIDIA_NAMES_H
#define SIM_NVIDIA_NAMES_H

/*
 * What NCCL exports: the functions of its API, and those of its device API, whose
 * results matter here only where they are texts.  X(since, result, name, parameters,
 * arguments), as in platform/functions.h.
 */

#include "platform/functions.h"

#define NCCL_DEVICE_FUNCTIONS(X)                                               \
	X(22803, ncclResult_t, ncclDevCommCreate, , )                          \
	X(22803, ncclResult_t, ncclDevCommDestroy, , )                         \
	X(22807, ncclResult_t, ncclGinBarrierCreateRequirement, , )            \
	X(22803, ncclResult_t, ncclLLA2ACalcSlots, , )                         \
	X(22803, ncclResult_t, ncclLLA2ACreateRequirement, , )                 \
	X(22803, ncclResult_t, ncclLsaBarrierCreateRequirement, , )            \
	X(22803, ncclResult_t, ncclTeamLsa, , )                                \
	X(22803, ncclResult_t, ncclTeamRail, , )                               \
	X(22803, ncclResult_t, ncclTeamRankToLsa, , )                          \
	X(22803, ncclResult_t, ncclTeamRankToWorld, , )                        \
	X(22803, ncclResult_t, ncclTeamWorld, , )                              \
	X(0, ncclResult_t, ncclResetDebugInit, , )

#define NCCL_EXPORTS(X) NCCL_FUNCTIONS(X) NCCL_DEVICE_FUNCTIONS(X)

#endif
