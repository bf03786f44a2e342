/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PLATFORM_PLATFORM_H
#define PLATFORM_PLATFORM_H

/*
 * The seam: NCCL and the CUDA runtime as one table of C functions with their
 * real names and signatures, and six functions of ours.  The core is written
 * against this table and does not know whether the real libraries
 * (platform/gpu/) or the simulator (sim/) filled it.  No entry is ever NULL.
 * platform/select.c chooses one of them.
 */

#include <stdbool.h>
#include <stdint.h>

#include <cohort/cohort.h>

#include "platform/cuda_abi.h"
#include "platform/functions.h"
#include "platform/nccl_abi.h"

/* Each function of NCCL and CUDA has a number. */
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

/* The bounds of a list's groups and packed buffers; see list_launch.h. */
struct list_limits {
	size_t group_most; /* tensors in one native group */
	size_t flat_below; /* smaller tensors, in bytes, are packed, */
	size_t flat_from;  /* if there are so many of them */
	size_t flat_most;  /* bytes of a packed buffer; a larger tensor that
	                      must be packed has one of its own */
};

struct platform {
	int kind;         /* COHORT_PLATFORM_GPU or _HOST */
	const char *name; /* "gpu" or "host" */
	/* cudaSetDevice() changes nothing for a device that is current
	 * already. */
	bool has_no_contexts;
	/* A collective that waits for its peers does not hold up memory
	 * operations. */
	bool launches_ahead;
	bool has_captures; /* the program may capture its streams into
	                           graphs */
	/* A device's memory is the host's: what works with one works with the
	 * other. */
	bool memory_is_host;
	/* An id joins ranks of the process that made it, and any memory of that
	 * process may be used by them. */
	bool is_one_process;
	struct list_limits lists;
	/* The environment variable that sets how many devices there are; NULL:
	 * none does. */
	const char *devices_variable;
	/* By number: the function is missing, and its entry answers an error;
	 * NULL: none is missing. */
	const bool *lacks;

#define PLATFORM_ENTRY(since, result, name, parameters, arguments)             \
	result(*name) parameters;
	NCCL_FUNCTIONS(PLATFORM_ENTRY)
	CUDA_FUNCTIONS(PLATFORM_ENTRY)
#undef PLATFORM_ENTRY
	/* A function of the driver's, which the runtime hands out: whether
	 * @device has a context.  Makes none.  Where the function is missing,
	 * the entry answers an error. */
	int (*cuDevicePrimaryCtxGetState)(int device, unsigned int *flags,
	                                  int *active);

	/*
	 * In stream order, store @value into @word, which is memory from
	 * cudaHostAlloc().  The host reads it with acquire and then sees all
	 * that the stream did before.
	 */
	cudaError_t (*mark)(cudaStream_t stream, uint32_t *word,
	                    uint32_t value);
	/*
	 * Make @stream wait until (int32_t)(*@word - @value) >= 0, for a @word
	 * that a mark queued earlier will set.
	 */
	cudaError_t (*await_mark)(cudaStream_t stream, uint32_t *word,
	                          uint32_t value);
	/*
	 * For a thread that waits, until (int32_t)(*@word - @value) >= 0 or the
	 * clock (clock_now()) shows @until_ns: run what can be run of @stream,
	 * or of the default stream of @device, on the calling thread, and watch
	 * for a few microseconds for what the stream waits for.  With 0 for
	 * @until_ns only what is cheap is run.
	 * Does nothing on a GPU.  @stream may have been destroyed meanwhile.
	 */
	void (*progress)(int device, cudaStream_t stream, const uint32_t *word,
	                 uint32_t value, uint64_t until_ns);
	/*
	 * For a thread that has queued much on @stream, or on the default
	 * stream of @device, and does not wait for it: have what is queued by
	 * now go on by itself, on the platform's threads, as soon as possible:
	 * a collective when its last rank has come, although no thread waits.
	 * May make a system call, which queueing never does.  Does nothing on a
	 * GPU.  @stream may have been destroyed meanwhile.
	 */
	void (*flush)(int device, cudaStream_t stream);
	/*
	 * True if the first collective of a kind, and the first message with a
	 * peer, connect the ranks, and wait for them inside the call.
	 */
	bool (*connects_late)(void);
	/*
	 * From here on, or no longer: the NCCL calls of this thread are the
	 * library's own, which no scripted fault counts or strikes.  Does
	 * nothing on a GPU.
	 */
	void (*uncounted)(bool begins);
};

/* True if @function is there. */
static inline bool platform_has(const struct platform *p,
                                enum platform_function function)
{
	return !p->lacks || !p->lacks[function];
}

/* Room for a version's text. */
#define VERSION_TEXT_SIZE 32

/* "2.28.9" and "13.0", of what ncclGetVersion() and cudaRuntimeGetVersion()
 * give; returns @text. */
const char *nccl_version_text(int version, char text[VERSION_TEXT_SIZE]);
const char *cuda_version_text(int version, char text[VERSION_TEXT_SIZE]);

/*
 * Open a platform, for the life of the process, and store its table.
 * @kind: enum cohort_platform; _AUTO makes the choice.  COHORT_INVALID for
 * another value or a bad COHORT_PLATFORM, else why it cannot be had.  May block
 * on the driver's start.  Any thread.
 */
int platform_open(int kind, const struct platform **out);

/* Have platform_open() store @table for its kind from now on, or the real table
 * again if @table is NULL: for functions in front of the real ones. */
void platform_override(const struct platform *table);

struct host_knobs;

/*
 * What each platform provides: open its libraries if it has any, store the
 * table and the number of devices.  Any thread, any number of times.
 *
 * @join: called with the functions of the drop-in libraries (drop_in.h) when
 * these are what the gpu platform opens, before their first use; its error is
 * the answer
 */
int gpu_platform_open(const struct platform **out, int *devices_out,
                      int (*join)(const struct host_knobs *knobs));
int host_platform_open(const struct platform **out, int *devices_out);

/* Repeat to @knobs all that cohort/sim.h has been told, and from now on all
 * that it is told; and have these libraries read the environment: their error
 * if they cannot be used. */
int host_platform_join(const struct host_knobs *knobs);

/* Describe the gpu platform's libraries, as far as they could be opened. */
void gpu_platform_describe(struct cohort_platform_info *info);

/* True if the machine has an NVIDIA GPU, as far as its device files tell. */
bool gpu_platform_present(void);

/* Open a library of NVIDIA's.  Returns its file; NULL: there is none. */
const char *gpu_platform_library(void);

#endif
