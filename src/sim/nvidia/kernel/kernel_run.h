/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_NVIDIA_KERNEL_KERNEL_RUN_H
#define SIM_NVIDIA_KERNEL_KERNEL_RUN_H

/*
 * The kernels of NVIDIA's NCCL, carried out by CPUs
 *
 * NCCL's host code fills structures in memory, and its kernels go by them.  The
 * functions here do as those kernels do, on the simulated devices, whose memory
 * is the host's: they move data from the buffers of one rank to those of the
 * next, step by step, and wait for each other at the counters of each
 * connection.
 *
 * What the structures look like depends on NCCL's version: see kernel/layout.h.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a version's kernels need to know of the loaded library.  Constant. */
struct nvidia_kernels;

/* Where @symbol of the loaded library is in memory, or NULL.  @context: the
 * caller's. */
typedef const void *nvidia_lookup(void *context, const char *symbol);

/*
 * Read the tables of the loaded library.  @version: as ncclGetVersion() says,
 * such as
 * 22809.  NULL if that version is not known, a table is missing, or memory is
 *         short.
 */
struct nvidia_kernels *nvidia_kernels_open(int version, nvidia_lookup *lookup,
                                           void *context);
void nvidia_kernels_close(struct nvidia_kernels *kernels);

/* Whether a kernel may read [@p, @p + @bytes), or write there. */
typedef bool nvidia_may_use(const void *p, size_t bytes, bool write);

/*
 * A launch of one of the kernels whose names have "ncclDevKernel_" in them.
 * The caller owns it, and keeps it and the arguments until it has run for the
 * last time: a graph runs it again and again.
 */
struct nvidia_launch {
	const struct nvidia_kernels *kernels;
	const char *name; /* the kernel's, for messages */
	/* One buffer, as for CU_LAUNCH_PARAM_BUFFER_POINTER. */
	const void *arguments;
	size_t bytes;            /* its size */
	int grid;                /* how many blocks */
	nvidia_may_use *may_use; /* NULL: all memory may be used */
};

/*
 * Whether the CPUs can carry out @launch: to be asked when it is launched, so
 * that cuLaunchKernelEx() fails, and with it NCCL's call.  If not, writes to
 * @why what is missing, by name ("AllReduce by NVLS").  It does not look at
 * works, which may not be written yet.
 */
bool nvidia_kernel_check(const struct nvidia_launch *launch, char *why,
                         size_t size);

/*
 * How a kernel ends.  After the last three, which are said on stderr, it has
 * done nothing: the device has failed then, as after an error of a kernel on a
 * GPU, and every later call on it says so.  The other ranks' kernels wait until
 * their communicator is aborted.
 */
enum nvidia_result {
	NVIDIA_DONE,
	NVIDIA_ABORTED,     /* the communicator's abort flag was set */
	NVIDIA_UNSUPPORTED, /* there is no CPU function for what is asked */
	NVIDIA_NO_MEMORY,
	NVIDIA_ILLEGAL_ADDRESS, /* a buffer of the program's must not be used */
};

/*
 * Carry out @launch.  Blocks until the other ranks' kernels have done their
 * part, and yields meanwhile.  Once the communicator's abort flag is set, a
 * kernel that finds nothing to do goes to its end without touching data.  Any
 * thread; each launch that another may wait for needs a thread of its own.
 */
enum nvidia_result nvidia_kernel_run(const struct nvidia_launch *launch);

/* The ncclDataType_t of a kernel oneRankReduce<FuncPreMulSum<T>>, by its name
 * as the compiler writes it; -1 if @name is not of such a kernel. */
int nvidia_one_rank_type(const char *name);

/*
 * What such a kernel does: multiply each of @count elements by a scalar.
 * @scalar holds it in its low bytes or, if @is_pointer, is its address.
 */
void nvidia_one_rank_reduce(int type, void *dst, const void *src, size_t count,
                            uint64_t scalar, bool is_pointer);

#endif
