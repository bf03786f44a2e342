/* SPDX-License-Identifier: Apache-2.0 */

/* Passes kernel launches to a launcher (kernel_launcher.h) */

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/cuda/cuda_device.h"
#include "sim/cuda/stream_capture.h"
#include "sim/cuda/stream_handle.h"
#include "sim/driver/driver.h"
#include "sim/host.h"
#include "sim/strict/fault.h"

/* Atomic; the launcher, or NULL.  Stored with release, and loaded with acquire
 * by launches, so that a launch sees the data that the launcher uses. */
static _Atomic host_launcher launcher;

void driver_set_launcher(host_launcher wanted)
{
	store_release(&launcher, wanted);
}

static host_launcher get_launcher(void)
{
	return load_acquire(&launcher);
}

/* Return the error that kernel functions return if no launcher is set.  The
 * first call also prints a message. */
static CUresult refuse(const char *function)
{
	static atomic_flag said = ATOMIC_FLAG_INIT;

	if (!atomic_flag_test_and_set(&said))
		fprintf(stderr,
		        "cohort: %s: the host platform cannot run kernels\n",
		        function);
	return CUDA_ERROR_NOT_SUPPORTED;
}

/* ---- kernels ---------------------------------------------------------- */

/* The function that the launcher returned for one launch.  Used by work on a
 * stream, and by each graph node of that launch. */
struct kernel {
	/* Atomic; reference count.  Additions are relaxed.  The thread that
	 * drops the last reference acquires the writes of the other users. */
	atomic_uint uses;
	struct host_kernel what;
};

static void kernel_drop(struct kernel *k)
{
	if (atomic_fetch_sub_explicit(&k->uses, 1, memory_order_acq_rel) != 1)
		return;
	if (k->what.drop)
		k->what.drop(k->what.user);
	free(k);
}

static void work_keep(struct work *w)
{
	struct kernel *k = w->host.user;

	add_relaxed(&k->uses, 1);
}

static void work_drop(struct work *w)
{
	kernel_drop(w->host.user);
}

static enum step kernel_step(struct stream *s, struct work *w,
                             const struct drive *d)
{
	struct kernel *k = w->host.user;
	CUresult error;

	if (d->effort != EFFORT_OWN)
		return STEP_LATER;
	/* Do the cheap work of other streams first, because the kernel can take
	 * a long time. */
	stream_settle();
	device_forbid_calls(true);
	error = k->what.run(k->what.user);
	kernel_drop(k);
	device_forbid_calls(false);
	if (error != CUDA_SUCCESS)
		fault_fail_device(s->device, (int)error);
	return STEP_DONE;
}

static const struct graph_kind kernel_kind = {
	.type = cudaGraphNodeTypeKernel,
	.keep = work_keep,
	.drop = work_drop,
};

/* ---- launches --------------------------------------------------------- */

/* Record the events that the launch attributes name: the events that follow the
 * kernel if @behind, otherwise the events that precede it.  A programmatic
 * event that is not triggered at the start of a block follows the kernel,
 * because the block may trigger it as late as at its end. */
static cudaError_t record_events(const struct host_launch *l, bool behind)
{
	cudaError_t error = cudaSuccess;
	unsigned int i;

	for (i = 0; error == cudaSuccess && i < l->attribute_count; i++) {
		const CUlaunchAttribute *a = &l->attributes[i];

		if (a->id == CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT &&
		    !behind)
			error = host_cudaEventRecordWithFlags(
				a->value.launchCompletionEvent.event, l->stream,
				(unsigned int)
					a->value.launchCompletionEvent.flags);
		else if (a->id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT &&
		         behind == !a->value.programmaticEvent
		                            .triggerAtBlockStart)
			error = host_cudaEventRecordWithFlags(
				a->value.programmaticEvent.event, l->stream,
				(unsigned int)a->value.programmaticEvent.flags);
	}
	return error;
}

static cudaError_t queue(const struct host_launch *l, struct stream *s,
                         struct kernel *k)
{
	const struct work w = { .step = kernel_step, .host = { .user = k } };
	cudaError_t error = stream_permits_calls();

	if (error == cudaSuccess)
		error = record_events(l, false);
	if (error == cudaSuccess)
		error = stream_submit(s, &w, &kernel_kind, NULL);
	return error == cudaSuccess ? record_events(l, true) : error;
}

static CUresult check(const struct host_launch *l, const struct stream *s)
{
	if (!s || !l->function)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!l->grid[0] || !l->grid[1] || !l->grid[2] || !l->block[0] ||
	    !l->block[1] || !l->block[2])
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

CUresult driver_launch(const struct host_launch *launch)
{
	const cudaError_t last = *device_last_error();
	const host_launcher ask = get_launcher();
	struct stream *s = stream_find(launch->stream);
	struct host_launch l = *launch;
	struct kernel *k;
	CUresult result;

	if (!ask)
		return CUDA_ERROR_NOT_SUPPORTED;
	result = check(&l, s);
	if (result != CUDA_SUCCESS)
		return result;
	k = calloc(1, sizeof(*k));
	if (!k)
		return CUDA_ERROR_OUT_OF_MEMORY;
	l.device = s->device;
	atomic_init(&k->uses, 1);
	result = ask(&l, &k->what);
	if (result != CUDA_SUCCESS) {
		free(k);
		return result;
	}
	result = driver_result(last, queue(&l, s, k));
	if (result != CUDA_SUCCESS)
		kernel_drop(k);
	return result;
}

/* ---- the driver's launch functions ------------------------------------ */

/* Find the packed arguments of @l in @extra.  Return false if @extra is
 * invalid. */
static bool unpack(void **extra, struct host_launch *l)
{
	for (; extra && *extra != CU_LAUNCH_PARAM_END; extra += 2) {
		if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER)
			l->arguments = extra[1];
		else if (*extra == CU_LAUNCH_PARAM_BUFFER_SIZE)
			l->bytes = *(const size_t *)extra[1];
		else
			return false;
	}
	return !l->arguments || !l->pointers;
}

static CUresult launch(const char *function, struct host_launch *l,
                       void **extra)
{
	if (!get_launcher())
		return refuse(function);
	if (!driver_can_use(l->stream))
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!unpack(extra, l))
		return CUDA_ERROR_INVALID_VALUE;
	return driver_launch(l);
}

CUresult driver_cuLaunchKernel(CUfunction function, unsigned int grid_x,
                               unsigned int grid_y, unsigned int grid_z,
                               unsigned int block_x, unsigned int block_y,
                               unsigned int block_z, unsigned int shared,
                               CUstream stream, void **pointers, void **extra)
{
	struct host_launch l = {
		.function = function,
		.grid = { grid_x, grid_y, grid_z },
		.block = { block_x, block_y, block_z },
		.shared = shared,
		.stream = stream,
		.pointers = pointers,
	};

	return launch("cuLaunchKernel", &l, extra);
}

CUresult
driver_cuLaunchCooperativeKernel(CUfunction function, unsigned int grid_x,
                                 unsigned int grid_y, unsigned int grid_z,
                                 unsigned int block_x, unsigned int block_y,
                                 unsigned int block_z, unsigned int shared,
                                 CUstream stream, void **pointers)
{
	if (!get_launcher())
		return refuse("cuLaunchCooperativeKernel");
	return driver_cuLaunchKernel(function, grid_x, grid_y, grid_z, block_x,
	                             block_y, block_z, shared, stream, pointers,
	                             NULL);
}

CUresult driver_cuLaunchKernelEx(const CUlaunchConfig *c, CUfunction function,
                                 void **pointers, void **extra)
{
	struct host_launch l = { .function = function, .pointers = pointers };

	if (!c)
		return CUDA_ERROR_INVALID_VALUE;
	l.grid[0] = c->gridDimX;
	l.grid[1] = c->gridDimY;
	l.grid[2] = c->gridDimZ;
	l.block[0] = c->blockDimX;
	l.block[1] = c->blockDimY;
	l.block[2] = c->blockDimZ;
	l.shared = c->sharedMemBytes;
	l.stream = c->hStream;
	l.attributes = c->attrs;
	l.attribute_count = c->attrs ? c->numAttrs : 0;
	return launch("cuLaunchKernelEx", &l, extra);
}

/* ---- functions -------------------------------------------------------- */

/* Report the same attributes for every kernel, with values that a device of
 * compute capability 9.0 can have. */
CUresult driver_cuFuncGetAttribute(int *value, CUfunction_attribute attribute,
                                   CUfunction function)
{
	static const int values[CU_FUNC_ATTRIBUTE_MAX] = {
		[CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK] = 1024,
		[CU_FUNC_ATTRIBUTE_NUM_REGS] = 32,
		[CU_FUNC_ATTRIBUTE_PTX_VERSION] = 90,
		[CU_FUNC_ATTRIBUTE_BINARY_VERSION] = 90,
		[CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES] = 227 * 1024,
	};

	if (!get_launcher())
		return refuse("cuFuncGetAttribute");
	if (!value || !function ||
	    (unsigned int)attribute >= CU_FUNC_ATTRIBUTE_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	*value = values[attribute];
	return CUDA_SUCCESS;
}

CUresult driver_cuFuncSetAttribute(CUfunction function,
                                   CUfunction_attribute attribute, int value)
{
	(void)value;
	if (!get_launcher())
		return refuse("cuFuncSetAttribute");
	return function && (unsigned int)attribute < CU_FUNC_ATTRIBUTE_MAX
	               ? CUDA_SUCCESS
	               : CUDA_ERROR_INVALID_VALUE;
}

CUresult driver_cuFuncSetCacheConfig(CUfunction function, CUfunc_cache config)
{
	(void)config;
	if (!get_launcher())
		return refuse("cuFuncSetCacheConfig");
	return function ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}
