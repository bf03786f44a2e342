/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_NVIDIA_KERNEL_NCCL_2_28_9_H
#define SIM_NVIDIA_KERNEL_NCCL_2_28_9_H

/*
 * The structures of NCCL 2.28.9 that its kernels read
 *
 * Structures and fields have the names that NCCL gives them.  What no kernel here reads
 * has its place all the same.
 */

#include "sim/nvidia/kernel/layout.h"

struct ncclConnInfo {
	char *buffs[PROTOCOLS];
	void *mhandles[PROTOCOLS];
	uint64_t *tail, *head;
	int flags, shared, stepSize;
	void **ptrExchange;
	uint64_t *redOpArgExchange;
	struct fifo_slot *connFifo;
	uint64_t step, llLastCleaning;
	char netDeviceHandle[32];
};

struct ncclDevChannelPeer {
	struct ncclConnInfo send[2], recv[2];
};

struct ncclDevChannel {
	struct ncclDevChannelPeer **peers;
	struct {
		int prev, next;
		const int *userRanks;
		int index;
	} ring;
	struct {
		int depth, up, down[MAX_CHILDREN];
	} tree, collnetChain;
	int collnetDirect[27], nvls[40];
	uint32_t *workFifoDone;
	uint64_t workCounter;
} __attribute__((aligned(16)));

struct ncclKernelComm {
	int rank, nRanks, node, nNodes;
	int buffSizes[PROTOCOLS];
	int p2pChunkSize, isAllNvlink;
	int *collNetDenseToUserRank;
	const uint32_t *abortFlag;
	struct ncclDevChannel *channels;
	const int *rankToLocalRank;
	struct ncclDevProfiler *workStarted, *workCompleted;
};

#define PROFILER_EVENTS 64

struct ncclDevProfiler {
	struct {
		uint64_t counter, timestamp;
	} data[PROFILER_EVENTS];
};

struct ncclDevWorkP2p {
	char *sendAddr, *recvAddr;
	size_t sendBytes, recvBytes;
	int sendRank, recvRank;
	uint8_t nP2pChannels, channelBase, nSendChannels, nRecvChannels;
	uint8_t sendChunkSize_u32fp8, recvChunkSize_u32fp8;
	uint8_t sendProtoLL : 1, recvProtoLL : 1;
	uint8_t sendNetReg : 1, recvNetReg : 1;
	uint8_t sendIpcReg : 1, recvIpcReg : 1;
	uint8_t profilerEnabled : 1;
} __attribute__((aligned(16)));

struct ncclDevWorkColl {
	uint32_t channelLo : 8, channelHi : 8, nWarps : 8;
	uint32_t redOpArgIsPtr : 1, regUsed : 1, netRegUsed : 1, oneNode : 1;
	uint32_t direct : 2, isOneRPN : 1, profilerEnabled : 1;
	uint32_t root;
	char *recvbuff, *sendbuff;
	uintptr_t sendbuffOffset, recvbuffOffset;
	uintptr_t *sendbuffRmtAddrs, *recvbuffRmtAddrs;
	size_t countLo, countMid, countHi;
	uint64_t chunkGrainsLo : 21, chunkGrainsMid : 21, chunkGrainsHi : 21;
	uint64_t redOpArg;
} __attribute__((aligned(16)));

struct ncclDevWorkCollReg {
	struct ncclDevWorkColl coll;
	void *unused[24];
};

struct ncclDevWorkBatch {
	uint32_t nextJump : 14, nextExtends : 1, workType : 2, funcId : 15;
	uint32_t offsetBase;
	uint64_t offsetBitset;
} __attribute__((aligned(16)));

struct ncclDevKernelArgs {
	const struct ncclKernelComm *comm;
	uint64_t channelMask;
	uint8_t workStorageType;
	uint32_t workMask;
	char *workBuf;
} __attribute__((aligned(16)));

#define STORAGE_IN_ARGUMENTS 0

#endif
