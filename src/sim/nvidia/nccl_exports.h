/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_NVIDIA_NCCL_EXPORTS_H
#define SIM_NVIDIA_NCCL_EXPORTS_H

/*
 * What NCCL exports: the functions of its API, and those of its device API,
 * whose results matter here only where they are texts.  X(since, result, name,
 * parameters, arguments), as in platform/functions.h.
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

/* What came after the NCCL that the simulator's own has; since: the first known
 * version that has it. */
#define NCCL_LATER_FUNCTIONS(X)                                                \
	X(22809, ncclResult_t, ncclResetDebugInitInternal, , )                 \
	X(23102, ncclResult_t, ncclCommGetUniqueId, , )                        \
	X(23102, ncclResult_t, ncclCommGrow, , )                               \
	X(23102, ncclResult_t, ncclCommMemStats, , )                           \
	X(23102, ncclResult_t, ncclCommQueryProperties, , )                    \
	X(23102, ncclResult_t, ncclCommResume, , )                             \
	X(23102, ncclResult_t, ncclCommSuspend, , )                            \
	X(23102, ncclResult_t, ncclGetLsaDevicePointer, , )                    \
	X(23102, ncclResult_t, ncclGetLsaMultimemDevicePointer, , )            \
	X(23102, ncclResult_t, ncclGetMultimemDevicePointer, , )               \
	X(23102, ncclResult_t, ncclGetPeerDevicePointer, , )                   \
	X(23102, ncclResult_t, ncclGinInboxA2ACreateRequirement, , )           \
	X(23102, ncclResult_t, ncclGinOutboxCreateRequirement, , )             \
	X(23102, ncclResult_t, ncclPutSignal, , )                              \
	X(23102, ncclResult_t, ncclSignal, , )                                 \
	X(23102, ncclResult_t, ncclWaitSignal, , )                             \
	X(23102, ncclResult_t, ncclWinGetUserPtr, , )                          \
	X(23102, ncclResult_t, ncclParamBind, , )                              \
	X(23102, ncclResult_t, ncclParamDumpAll, , )                           \
	X(23102, ncclResult_t, ncclParamGet, , )                               \
	X(23102, ncclResult_t, ncclParamGetAllParameterKeys, , )               \
	X(23102, ncclResult_t, ncclParamGetI16, , )                            \
	X(23102, ncclResult_t, ncclParamGetI32, , )                            \
	X(23102, ncclResult_t, ncclParamGetI64, , )                            \
	X(23102, ncclResult_t, ncclParamGetI8, , )                             \
	X(23102, ncclResult_t, ncclParamGetParameter, , )                      \
	X(23102, ncclResult_t, ncclParamGetStr, , )                            \
	X(23102, ncclResult_t, ncclParamGetU16, , )                            \
	X(23102, ncclResult_t, ncclParamGetU32, , )                            \
	X(23102, ncclResult_t, ncclParamGetU64, , )                            \
	X(23102, ncclResult_t, ncclParamGetU8, , )                             \
	X(23102, ncclResult_t, ncclAllGatherConfig, , )                        \
	X(23102, ncclResult_t, ncclAllReduceConfig, , )                        \
	X(23102, ncclResult_t, ncclAlltoAllConfig, , )                         \
	X(23102, ncclResult_t, ncclBroadcastConfig, , )                        \
	X(23102, ncclResult_t, ncclGatherConfig, , )                           \
	X(23102, ncclResult_t, ncclGetCftDeviceLeInfo, , )                     \
	X(23102, ncclResult_t, ncclGetMultimemDeviceLeInfo, , )                \
	X(23102, ncclResult_t, ncclGetPeerDeviceLeInfo, , )                    \
	X(23102, ncclResult_t, ncclReduceConfig, , )                           \
	X(23102, ncclResult_t, ncclReduceScatterConfig, , )                    \
	X(23102, ncclResult_t, ncclScatterConfig, , )                          \
	X(23102, ncclResult_t, ncclTeamCft, , )                                \
	X(23102, ncclResult_t, ncclTeamCftMultimem, , )                        \
	X(23203, ncclResult_t, ncclSetEncryption, , )

#define NCCL_EXPORTS(X)                                                        \
	NCCL_FUNCTIONS(X) NCCL_DEVICE_FUNCTIONS(X) NCCL_LATER_FUNCTIONS(X)

#endif
