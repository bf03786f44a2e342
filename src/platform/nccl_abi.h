/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PLATFORM_NCCL_ABI_H
#define PLATFORM_NCCL_ABI_H

/*
 * The part of NCCL's stable C ABI that the library uses, so that building it
 * does not need NCCL.  Names and values are NCCL's; tests/system/abi compares
 * them with the real header if one is installed.
 */

#include <limits.h>
#include <stddef.h>

typedef struct ncclComm *ncclComm_t;
typedef struct ncclWindow_vidmem *ncclWindow_t;

#define NCCL_UNIQUE_ID_BYTES 128

typedef struct {
	char internal[NCCL_UNIQUE_ID_BYTES];
} ncclUniqueId;

typedef enum {
	ncclSuccess = 0,
	ncclUnhandledCudaError = 1,
	ncclSystemError = 2,
	ncclInternalError = 3,
	ncclInvalidArgument = 4,
	ncclInvalidUsage = 5,
	ncclRemoteError = 6,
	ncclInProgress = 7,
} ncclResult_t;

typedef enum {
	ncclInt8 = 0,
	ncclUint8 = 1,
	ncclInt32 = 2,
	ncclUint32 = 3,
	ncclInt64 = 4,
	ncclUint64 = 5,
	ncclFloat16 = 6,
	ncclFloat32 = 7,
	ncclFloat64 = 8,
	ncclBfloat16 = 9,
	ncclFloat8e4m3 = 10,
	ncclFloat8e5m2 = 11,
	ncclNumTypes = 12,
} ncclDataType_t;

typedef enum {
	ncclSum = 0,
	ncclProd = 1,
	ncclMax = 2,
	ncclMin = 3,
	ncclAvg = 4,
	ncclNumOps = 5,
	ncclMaxRedOp = 0x7fffffff,
} ncclRedOp_t;

typedef enum {
	ncclScalarDevice = 0,
	ncclScalarHostImmediate = 1,
} ncclScalarResidence_t;

#define NCCL_CONFIG_UNDEF_INT INT_MIN
#define NCCL_CONFIG_UNDEF_PTR NULL
#define NCCL_UNDEF_FLOAT (-1.0f)
#define NCCL_SPLIT_NOCOLOR (-1)

/* The layout of NCCL 2.28.  A newer NCCL accepts an older layout, which it
 * recognizes by its size and version. */
typedef struct {
	size_t size;
	unsigned int magic;
	unsigned int version;
	int blocking;
	int cgaClusterSize;
	int minCTAs;
	int maxCTAs;
	const char *netName;
	int splitShare;
	int trafficClass;
	const char *commName;
	int collnetEnable;
	int CTAPolicy;
	int shrinkShare;
	int nvlsCTAs;
	int nChannelsPerNetPeer;
	int nvlinkCentricSched;
} ncclConfig_t;

#define NCCL_CONFIG_MAGIC 0xcafebeef
#define NCCL_CONFIG_VERSION 22809

/* Same as NCCL_CONFIG_INITIALIZER in the real header. */
#define NCCL_CONFIG_INITIALIZER                                                \
	{                                                                      \
		sizeof(ncclConfig_t),          /* size */                      \
			NCCL_CONFIG_MAGIC,     /* magic */                     \
			NCCL_CONFIG_VERSION,   /* version */                   \
			NCCL_CONFIG_UNDEF_INT, /* blocking */                  \
			NCCL_CONFIG_UNDEF_INT, /* cgaClusterSize */            \
			NCCL_CONFIG_UNDEF_INT, /* minCTAs */                   \
			NCCL_CONFIG_UNDEF_INT, /* maxCTAs */                   \
			NULL,                  /* netName */                   \
			NCCL_CONFIG_UNDEF_INT, /* splitShare */                \
			NCCL_CONFIG_UNDEF_INT, /* trafficClass */              \
			NULL,                  /* commName */                  \
			NCCL_CONFIG_UNDEF_INT, /* collnetEnable */             \
			NCCL_CONFIG_UNDEF_INT, /* CTAPolicy */                 \
			NCCL_CONFIG_UNDEF_INT, /* shrinkShare */               \
			NCCL_CONFIG_UNDEF_INT, /* nvlsCTAs */                  \
			NCCL_CONFIG_UNDEF_INT, /* nChannelsPerNetPeer */       \
			NCCL_CONFIG_UNDEF_INT, /* nvlinkCentricSched */        \
	}

typedef struct {
	size_t size;
	unsigned int magic;
	unsigned int version;
	float estimatedTime;
} ncclSimInfo_t;

#define NCCL_SIM_INFO_MAGIC 0x74685283

#define NCCL_WIN_DEFAULT 0x00
#define NCCL_WIN_COLL_SYMMETRIC 0x01
#define NCCL_WIN_REQUIRED_ALIGNMENT 4096

#define NCCL_CTA_POLICY_DEFAULT 0x00
#define NCCL_CTA_POLICY_EFFICIENCY 0x01
#define NCCL_CTA_POLICY_ZERO 0x02

#define NCCL_SHRINK_DEFAULT 0x00
#define NCCL_SHRINK_ABORT 0x01
#define NCCL_REVOKE_DEFAULT 0x00

#endif
