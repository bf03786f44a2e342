/* SPDX-License-Identifier: Apache-2.0 */

#include "platform/gpu/known.h"

#include "base/util.h"

#define NOTES(version) "NCCL " version " release notes"

const struct known_version known_versions[] = {
	{ KNOWN_NCCL, 1000, OLDEST_NCCL - 1, .is_unusable = true,
	  .what = "Aborts are slow and may hang, and with several ranks in "
	          "a process NCCL may write to memory that is not "
	          "registered.",
	  .advice = "Install NCCL 2.26.2 or newer.",
	  .source = NOTES("2.26.2") ", pytorch/pytorch#149351" },
	{ KNOWN_NCCL, OLDEST_NCCL, KNOWN_TODAY, .is_noted = true,
	  .what = "The first message with a peer, and the first "
	          "all-to-all, gather or scatter, connects ranks, which "
	          "allocates memory: with several active groups, set "
	          "COHORT_CONNECT=all, which connects them when a group is "
	          "opened.",
	  .source = "NCCL's source, src/group.cc" },
	{ KNOWN_NCCL, OLDEST_NCCL, 22602,
	  .what = "NCCL needs NUMA support to allocate host memory, which "
	          "Docker disables by default: the creation of a communicator "
	          "may fail in a container (fixed in 2.26.3).",
	  .advice = "Start the container with --cap-add SYS_NICE, or set "
	            "NCCL_CUMEM_HOST_ENABLE=0.",
	  .source = NOTES("2.26.3") },
	{ KNOWN_NCCL, 22602, 22602,
	  .what = "With two RTX PRO 6000 Blackwell GPUs, a collective of "
	          "512 KiB or more accesses an illegal address (not in "
	          "2.31.2).",
	  .source = "NVIDIA/nccl#2418" },
	{ KNOWN_NCCL, OLDEST_NCCL, 22705, .is_noted = true,
	  .what = "ncclCommDestroy and ncclCommAbort leave another device "
	          "current, in programs that call them directly (fixed in "
	          "2.27.6).",
	  .source = NOTES("2.27.6") },
	{ KNOWN_NCCL, 22803, 22803,
	  .what = "NCCL leaves a CUDA error pending, which a later CUDA "
	          "call of the program may return (fixed in 2.28.7).",
	  .source = NOTES("2.28.7") ", NVIDIA/nccl#1864" },
	{ KNOWN_NCCL, 22703, KNOWN_TODAY, .is_noted = true,
	  .what = "Collectives on copy engines (symmetric windows with a "
	          "zero-CTA policy) cannot be aborted.",
	  .source = "NCCL's source, src/ce_coll.cc" },
	{ KNOWN_NCCL, 22703, 22906, .is_noted = true,
	  .what = "Kernels on symmetric windows cannot be aborted (fixed in "
	          "2.29.7).",
	  .source = "NCCL's source, src/include/nccl_device" },
	{ KNOWN_NCCL, OLDEST_NCCL, 22808,
	  .what = "Jobs with many ranks may hang, because a proxy thread "
	          "may see operations out of order (fixed in 2.28.9).",
	  .source = NOTES("2.28.9") },
	{ KNOWN_NCCL, OLDEST_NCCL, 22901, .is_noted = true,
	  .what = "After a sticky CUDA error, a call may spin forever in "
	          "NCCL's work queue (fixed in 2.29.2).",
	  .source = "NCCL's source, src/enqueue.cc" },
	{ KNOWN_NCCL, 22902, 22902,
	  .what = "A regression may cause hangs (fixed in 2.29.3).",
	  .source = "pytorch/pytorch#174338" },
#ifdef __aarch64__
	{ KNOWN_NCCL, OLDEST_NCCL, 22902,
	  .what = "On AArch64 proxy threads leak operation slots, and a "
	          "long job hangs when none are left (fixed in 2.29.3).",
	  .source = NOTES("2.29.3") ", marin-community/marin#7344" },
#endif
	{ KNOWN_NCCL, 23102, KNOWN_TODAY, .is_noted = true,
	  .what = "Destroying a rank waits until the other ranks are "
	          "destroyed: a program that does this directly must "
	          "destroy all ranks in one group, or on a thread per "
	          "rank.",
	  .source = "tests with NCCL 2.30.7, 2.31.2 and 2.32.3" },
	{ KNOWN_CUDA, 1, OLDEST_CUDA - 1, .is_unusable = true,
	  .what = "The driver's stream memory operations need an opt-in.",
	  .advice = "Install the CUDA runtime 12.0 or newer.",
	  .source = "CUDA 12.0 release notes" },
	{ KNOWN_DRIVER, 1, DRIVER_VERSION(525, 60, 12), .is_unusable = true,
	  .what = "The driver is too old for CUDA 12.0.",
	  .advice = "Install the driver 525.60.13 or newer.",
	  .source = "CUDA 12.0 release notes" },
	{ KNOWN_DRIVER, DRIVER_VERSION(560, 0, 0),
	  DRIVER_VERSION(560, 999, 999),
	  .what = "NCCL may hang on direct paths between GPUs (not in "
	          "570).",
	  .advice = "Install a newer driver, or set NCCL_P2P_DISABLE=1.",
	  .source = "dmlc/xgboost#11242" },
};

const size_t known_version_count = ARRAY_SIZE(known_versions);
