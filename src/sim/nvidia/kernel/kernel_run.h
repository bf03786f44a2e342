/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_NVIDIA_KERNEL_KERNEL_RUN_H
#define SIM_NVIDIA_KERNEL_KERNEL_RUN_H

/*
 * Runs the kernels of NVIDIA's NCCL on CPUs
 *
 * NCCL's host code fills structures in memory with the work for its kernels.
 * The functions here do this work on the simulated devices, whose memory is
 * host memory: step by step, they move data from the buffers of one rank to the
 * buffers of the next, and synchronize through the counters of each connection.
 *
 * The structures differ between versions of NCCL: see kernel/layout.h.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Information about the kernels of a loaded NCCL.  Constant. */
struct nvidia_kernels;

/* Return the address of @symbol in the loaded library, or NULL.  The caller of
 * nvidia_kernels_open() passes @context. */
typedef const void *nvidia_lookup(void *context, const char *symbol);

/*
 * nvidia_kernels_open - read the tables of the loaded library
 * @version: from ncclGetVersion(), such as 22809
 *
 * Returns NULL if the version is unknown, if a table is missing, or if out of
 * memory.
 */
struct nvidia_kernels *nvidia_kernels_open(int version, nvidia_lookup *lookup,
                                           void *context);
void nvidia_kernels_close(struct nvidia_kernels *kernels);

/* Return true if a kernel may read [@p, @p + @bytes) or, if @write, write
 * it. */
typedef bool nvidia_may_use(const void *p, size_t bytes, bool write);

/*
 * A launch of a kernel whose name contains "ncclDevKernel_"
 *
 * The caller owns the launch.  A graph can run it repeatedly, so the caller
 * must keep it and its arguments until after its last run.
 */
struct nvidia_launch {
	const struct nvidia_kernels *kernels;
	const char *name; /* name of the kernel, for messages */
	/* The kernel's arguments, as CU_LAUNCH_PARAM_BUFFER_POINTER passes
	 * them. */
	const void *arguments;
	size_t bytes;            /* size of the arguments */
	int grid;                /* number of blocks */
	nvidia_may_use *may_use; /* NULL to allow all memory access */
};

/*
 * nvidia_kernel_check - check whether CPUs can run a kernel
 * @why: receives what is missing, if anything, such as "AllReduce by NVLS"
 *
 * Call this function during the launch, so that cuLaunchKernelEx(), and with it
 * NCCL's call, can fail.  This function does not read works, which might not be
 * written yet.
 */
bool nvidia_kernel_check(const struct nvidia_launch *launch, char *why,
                         size_t size);

/*
 * Result of running a kernel
 *
 * After NVIDIA_UNSUPPORTED, NVIDIA_NO_MEMORY or NVIDIA_ILLEGAL_ADDRESS, which
 * are reported on stderr, the kernel has done nothing.  The device must then
 * fail, as after a kernel error on a GPU: every later call on it returns an
 * error.  The kernels of other ranks wait until their communicator is aborted.
 */
enum nvidia_result {
	NVIDIA_DONE,
	NVIDIA_ABORTED,     /* the abort flag was set */
	NVIDIA_UNSUPPORTED, /* no CPU function can do the kernel's work */
	NVIDIA_NO_MEMORY,
	NVIDIA_ILLEGAL_ADDRESS, /* a user buffer cannot be accessed */
};

/*
 * nvidia_kernel_run - run a kernel
 *
 * Blocks, yielding the CPU, until the kernels of the other ranks have done
 * their part.  After an abort, a kernel that cannot make progress ends without
 * touching data.  May be called from any thread, but launches that wait for
 * each other must be on different threads.
 */
enum nvidia_result nvidia_kernel_run(const struct nvidia_launch *launch);

/* Return the ncclDataType_t of a kernel oneRankReduce<FuncPreMulSum<T>>, from
 * its mangled name, or -1 for any other kernel. */
int nvidia_one_rank_type(const char *name);

/*
 * Multiply each of @count elements by a scalar, as oneRankReduce() does.
 * @scalar contains the scalar in its low bytes or, if @is_pointer, the scalar's
 * address.
 */
void nvidia_one_rank_reduce(int type, void *dst, const void *src, size_t count,
                            uint64_t scalar, bool is_pointer);

#endif
