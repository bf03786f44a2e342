/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PLATFORM_PLATFORM_H
#define PLATFORM_PLATFORM_H

/*
 * The platform: NCCL and the CUDA runtime as one table of C functions with
 * their real names and signatures, and six functions of our own
 *
 * The core calls NCCL and CUDA only through this table.  Its entries are those
 * of the real libraries (platform/gpu/) or of the simulator (sim/), and never
 * NULL.  platform/select.c chooses the platform.
 */

#include <stdbool.h>
#include <stdint.h>

#include <cohort/cohort.h>

#include "platform/cuda_abi.h"
#include "platform/functions.h"
#include "platform/nccl_abi.h"

/* Indexes of the functions of NCCL and CUDA. */
/* clang-format off */
enum platform_function {
#define PLATFORM_NUMBER(since, result, name, parameters, arguments)            \
	FUNCTION_##name,
	NCCL_FUNCTIONS(PLATFORM_NUMBER)
	CUDA_FUNCTIONS(PLATFORM_NUMBER)
#undef PLATFORM_NUMBER
	FUNCTIONS,
};
/* clang-format on */

/* Limits for native groups and packed buffers of a list of tensors; see
 * list_launch.h. */
struct list_limits {
	size_t group_most; /* maximum number of tensors in a native group */
	size_t flat_below; /* tensors of fewer bytes are small */
	size_t flat_from;  /* at least this many small tensors are packed */

	/* Maximum number of bytes to pack together.  A larger tensor that must
	 * be packed is packed alone. */
	size_t flat_most;
};

struct platform {
	int kind;         /* COHORT_PLATFORM_GPU or _HOST */
	const char *name; /* "gpu" or "host" */
	/* True if a collective that waits for its peers does not block memory
	 * operations.  A rank can then launch before the other ranks have
	 * called. */
	bool launches_ahead;
	bool has_captures; /* the program may capture streams into graphs */
	/* Device memory is host memory: each can be used in place of the
	 * other. */
	bool memory_is_host;
	/* An ncclUniqueId connects only ranks of the process that created it,
	 * and these ranks can use any memory of the process. */
	bool is_one_process;
	struct list_limits lists;
	/* Size in bytes of the chunks in which a call on host memory is staged
	 * on the device; see staging.h. */
	size_t chunk_bytes;
	/* Environment variable that sets the number of devices, or NULL if
	 * there is none. */
	const char *devices_variable;
	/* For each function index, true if the function is missing, so that its
	 * entry returns an error.  NULL if no function is missing. */
	const bool *lacks;

#define PLATFORM_ENTRY(since, result, name, parameters, arguments)             \
	result(*name) parameters;
	NCCL_FUNCTIONS(PLATFORM_ENTRY)
	CUDA_FUNCTIONS(PLATFORM_ENTRY)
#undef PLATFORM_ENTRY
	/* The driver's function that reports whether @device has a context.
	 * Does not create one.  If the driver lacks it, the entry returns an
	 * error. */
	int (*cuDevicePrimaryCtxGetState)(int device, unsigned int *flags,
	                                  int *active);

	/*
	 * In stream order, store @value into @word, which is memory from
	 * cudaHostAlloc().  A host thread that loads it with acquire also sees
	 * everything that the stream did before.
	 */
	cudaError_t (*mark)(cudaStream_t stream, uint32_t *word,
	                    uint32_t value);
	/* Make @stream wait until (int32_t)(*@word - @value) >= 0.  The mark
	 * that sets @word must already be queued. */
	cudaError_t (*await_mark)(cudaStream_t stream, uint32_t *word,
	                          uint32_t value);
	/*
	 * Run the ready work of @stream on the calling thread.  If the stream
	 * is waiting, poll for a few microseconds.  A default stream belongs to
	 * @device.  @word, @value and @until_ns describe what the caller is
	 * waiting for: (int32_t)(*@word - @value) >= 0, or the time @until_ns.
	 * If @until_ns is 0, run only cheap work.  Does nothing on a GPU.
	 * @stream may be destroyed at the same time.
	 */
	void (*progress)(int device, cudaStream_t stream, const uint32_t *word,
	                 uint32_t value, uint64_t until_ns);
	/*
	 * Make the platform's threads run the work queued so far on @stream as
	 * soon as possible, including collectives as soon as their last rank
	 * has arrived.  A default stream belongs to @device.  Called by a
	 * thread that has queued a lot of work and does not wait for it.  May
	 * make a system call, which queueing never does.  Does nothing on a
	 * GPU.  @stream may be destroyed at the same time.
	 */
	void (*flush)(int device, cudaStream_t stream);
	/*
	 * Return true if the first collective of each kind, and the first
	 * message with a peer, connect the ranks and wait for them inside the
	 * call.
	 */
	bool (*connects_late)(void);
	/*
	 * Start or end a section in which the NCCL calls of this thread are the
	 * library's own.  The simulator's scripted faults neither count nor
	 * affect these calls.  Does nothing on a GPU.
	 */
	void (*uncounted)(bool begins);
};

static inline bool platform_has(const struct platform *p,
                                enum platform_function function)
{
	return !p->lacks || !p->lacks[function];
}

#define VERSION_TEXT_SIZE 32

/* Store a version from ncclGetVersion() as text, as in "2.28.9".  Return
 * @text. */
const char *nccl_version_text(int version, char text[VERSION_TEXT_SIZE]);

/* Store a version from cudaRuntimeGetVersion() as text, as in "13.0".  Return
 * @text. */
const char *cuda_version_text(int version, char text[VERSION_TEXT_SIZE]);

/*
 * Open a platform for the lifetime of the process and store its table.  May
 * block while the driver starts.  May be called from any thread.
 * @kind: enum cohort_platform; for COHORT_PLATFORM_AUTO see select.c
 *
 * Returns:
 *   COHORT_OK
 *   COHORT_INVALID  @kind or COHORT_PLATFORM is not valid
 *   otherwise       the reason why the platform is not available
 */
int platform_open(int kind, const struct platform **out);

/* Make platform_open() store @table instead of the table of the same kind, or
 * the real tables again if @table is NULL.  Used to intercept functions. */
void platform_override(const struct platform *table);

struct host_knobs;

/* Open NCCL and the CUDA runtime, and store the table and the number of
 * devices.  May be called from any thread, any number of times. */
int gpu_platform_open(const struct platform **out, int *devices_out);

/* Like gpu_platform_open(), for the simulator. */
int host_platform_open(const struct platform **out, int *devices_out);

/* Connect the functions of cohort/sim.h to the simulator in the drop-in
 * libraries: apply all earlier settings now, and later settings as they are
 * made.  Also make these libraries read the environment.  Return their error if
 * they cannot be used. */
int host_platform_join(const struct host_knobs *knobs);

/* Describe the gpu platform's libraries that could be opened. */
void gpu_platform_describe(struct cohort_platform_info *info);

/* Return true if the machine has a device file of an NVIDIA GPU, or WSL's
 * driver. */
bool gpu_platform_present(void);

/* Return the path of libcuda.so.1.  If that library cannot be opened, return
 * the path of libnccl, provided that libcudart can also be opened and neither
 * is a drop-in library.  Return NULL otherwise. */
const char *gpu_platform_library(void);

#endif
