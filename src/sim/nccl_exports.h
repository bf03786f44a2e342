/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_NCCL_EXPORTS_H
#define SIM_NCCL_EXPORTS_H

/*
 * Functions that NCCL exports: its API and its device API
 *
 * Each list calls X(since, result, name, parameters, arguments), with the same
 * arguments as the lists in platform/functions.h.  Functions that the simulator
 * lacks have no parameters here.
 */

#include "platform/functions.h"

typedef struct ncclTeam {
	int nRanks, rank, stride;
} ncclTeam_t;

#define NCCL_DEVICE_FUNCTIONS(X)                                               \
	X(22803, ncclResult_t, ncclDevCommCreate, , )                          \
	X(22803, ncclResult_t, ncclDevCommDestroy, , )                         \
	X(22807, ncclResult_t, ncclGinBarrierCreateRequirement, , )            \
	X(22803, int, ncclLLA2ACalcSlots, , )                                  \
	X(22803, ncclResult_t, ncclLLA2ACreateRequirement, , )                 \
	X(22803, ncclResult_t, ncclLsaBarrierCreateRequirement, , )            \
	X(22803, ncclTeam_t, ncclTeamLsa, , )                                  \
	X(22803, ncclTeam_t, ncclTeamRail, , )                                 \
	X(22803, int, ncclTeamRankToLsa, , )                                   \
	X(22803, int, ncclTeamRankToWorld, , )                                 \
	X(22803, ncclTeam_t, ncclTeamWorld, , )

/* Functions that are newer than the NCCL version that the simulator imitates.
 * @since is the first known version that has the function. */
#define NCCL_LATER_FUNCTIONS(X)                                                \
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
	X(23102, ncclTeam_t, ncclTeamCft, , )                                  \
	X(23102, ncclTeam_t, ncclTeamCftMultimem, , )                          \
	X(23203, ncclResult_t, ncclSetEncryption, , )

/* Functions that make NCCL read its debug variables again. */
#define NCCL_DEBUG_FUNCTIONS(X)                                                \
	X(0, void, ncclResetDebugInit, , )                                     \
	X(22809, void, ncclResetDebugInitInternal, , )

#define NCCL_EXPORTS(X)                                                        \
	NCCL_FUNCTIONS(X)                                                      \
	NCCL_DEVICE_FUNCTIONS(X) NCCL_LATER_FUNCTIONS(X) NCCL_DEBUG_FUNCTIONS(X)

#endif
