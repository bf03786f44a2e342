/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Keeps the current context of each thread
 *
 * The top of a thread's stack of contexts is the context to which the thread is
 * bound (cuda_device.h), so cudaSetDevice() replaces the top.  This file keeps
 * the rest of the stack.
 */

#include <pthread.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/list.h"
#include "base/scoped_lock.h"
#include "sim/cuda/cuda_device.h"
#include "sim/driver/driver.h"
#include "sim/host.h"

#define API_VERSION 3020

struct CUctx_st {
	/* The following members are constant. */
	/* Unused in a primary context, whose device is its index in the array
	 * primaries. */
	int device;
	unsigned long long id;

	/* The following members are guarded by lock. */
	unsigned int flags;
	struct CUctx_st *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Primary contexts, indexed by device. */
static struct CUctx_st primaries[COHORT_SIM_MAX_DEVICES];

/* Number of references to each device's primary context.  Guarded by lock. */
static unsigned int retained[COHORT_SIM_MAX_DEVICES];
/* List of contexts that the program has created.  Guarded by lock. */
static struct CUctx_st *created;
/* Id of the newest context.  Guarded by lock. */
static unsigned long long last_id = COHORT_SIM_MAX_DEVICES;

/* The contexts below the current one on the thread's stack.  A NULL entry means
 * that no context was current.  Owned by the thread, and freed by the
 * destructor of the key when the thread ends. */
static _Thread_local CUcontext *below;
static _Thread_local size_t depth, room;
static pthread_key_t key;

/* ---- finding contexts ------------------------------------------------- */

static bool is_primary(CUcontext c)
{
	return (uintptr_t)c >= (uintptr_t)primaries &&
	       (uintptr_t)c < (uintptr_t)(primaries + device_count());
}

static int device_of_locked(CUcontext c)
{
	const struct CUctx_st *found;

	if (is_primary(c))
		return (int)(c - primaries);
	list_find(found, created, next, found == c);
	return found ? found->device : -1;
}

int driver_device_of(CUcontext c)
{
	SCOPED_LOCK(&lock);
	return device_of_locked(c);
}

/* ---- the thread's context --------------------------------------------- */

static CUcontext current(void)
{
	CUcontext made;
	const int device = device_bound(&made);

	if (device < 0)
		return NULL;
	return made ? made : &primaries[device];
}

static void make_current(CUcontext c)
{
	if (c)
		device_bind(driver_device_of(c), is_primary(c) ? NULL : c);
	else
		device_bind(-1, NULL);
}

static void pop(void)
{
	make_current(depth ? below[--depth] : NULL);
}

bool driver_has_context(void)
{
	return current();
}

bool driver_can_use(CUstream stream)
{
	return (stream && stream != cudaStreamLegacy &&
	        stream != cudaStreamPerThread) ||
	       driver_has_context();
}

CUcontext driver_context_of(int device)
{
	CUcontext c = current();

	return c && driver_device_of(c) == device ? c : &primaries[device];
}

/* Call @call with @device as the current device, and then restore the
 * context. */
static CUresult call_on(int device, cudaError_t (*call)(void))
{
	const cudaError_t last = *device_last_error();
	const CUcontext before = current();
	CUresult result;

	device_bind(device, NULL);
	result = driver_result(last, call());
	make_current(before);
	return result;
}

/* ---- primary contexts ------------------------------------------------- */

CUresult driver_cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
	if (!context)
		return CUDA_ERROR_INVALID_VALUE;
	if (!device_is_valid(device))
		return CUDA_ERROR_INVALID_DEVICE;
	*context = &primaries[device];
	SCOPED_LOCK(&lock);
	retained[device]++;
	return CUDA_SUCCESS;
}

CUresult driver_cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
	if (!device_is_valid(device))
		return CUDA_ERROR_INVALID_DEVICE;
	SCOPED_LOCK(&lock);
	if (!retained[device])
		return CUDA_ERROR_INVALID_CONTEXT;
	retained[device]--;
	return CUDA_SUCCESS;
}

static bool flags_are_valid(unsigned int flags)
{
	const unsigned int schedule = flags & CU_CTX_SCHED_MASK;

	return !(flags & ~CU_CTX_FLAGS_MASK) && !(schedule & (schedule - 1));
}

static CUresult set_flags(CUcontext c, unsigned int flags)
{
	if (!flags_are_valid(flags))
		return CUDA_ERROR_INVALID_VALUE;
	SCOPED_LOCK(&lock);
	if (device_of_locked(c) < 0)
		return CUDA_ERROR_INVALID_CONTEXT;
	c->flags = flags;
	return CUDA_SUCCESS;
}

CUresult driver_cuDevicePrimaryCtxSetFlags_v2(CUdevice device,
                                              unsigned int flags)
{
	if (!device_is_valid(device))
		return CUDA_ERROR_INVALID_DEVICE;
	return set_flags(&primaries[device], flags);
}

CUresult driver_cuDevicePrimaryCtxGetState(CUdevice device, unsigned int *flags,
                                           int *active)
{
	const int error = device_context_state(device, flags, active);

	if (error)
		return (CUresult)error;
	SCOPED_LOCK(&lock);
	*flags = primaries[device].flags;
	*active = *active || retained[device];
	return CUDA_SUCCESS;
}

CUresult driver_cuDevicePrimaryCtxReset_v2(CUdevice device)
{
	if (!device_is_valid(device))
		return CUDA_ERROR_INVALID_DEVICE;
	set_flags(&primaries[device], 0);
	return call_on(device, host_cudaDeviceReset);
}

/* ---- contexts that a program creates ---------------------------------- */

static void stack_end(void *stack)
{
	free(stack);
	below = NULL;
	depth = room = 0;
}

static void make_key(void)
{
	pthread_key_create(&key, stack_end);
}

static bool stack_grow(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, make_key);
	if (!array_grow(&below, NULL, depth, &room, sizeof(CUcontext)))
		return false;
	pthread_setspecific(key, below);
	return true;
}

static CUresult push(CUcontext c)
{
	if (!stack_grow())
		return CUDA_ERROR_OUT_OF_MEMORY;
	below[depth++] = current();
	make_current(c);
	return CUDA_SUCCESS;
}

CUresult driver_cuCtxCreate_v2(CUcontext *context, unsigned int flags,
                               CUdevice device)
{
	struct CUctx_st *c;

	if (!context || !flags_are_valid(flags))
		return CUDA_ERROR_INVALID_VALUE;
	if (!device_is_valid(device))
		return CUDA_ERROR_INVALID_DEVICE;
	c = stack_grow() ? malloc(sizeof(*c)) : NULL;
	if (!c)
		return CUDA_ERROR_OUT_OF_MEMORY;
	c->device = device;
	c->flags = flags;
	pthread_mutex_lock(&lock);
	c->id = ++last_id;
	list_add(created, c, next);
	pthread_mutex_unlock(&lock);
	*context = c;
	return push(c);
}

/* Create a context.  The simulator does not implement execution affinity, so
 * @params must be empty. */
CUresult driver_cuCtxCreate_v3(CUcontext *context, CUexecAffinityParam *params,
                               int count, unsigned int flags, CUdevice device)
{
	if (params || count)
		return CUDA_ERROR_NOT_SUPPORTED;
	return driver_cuCtxCreate_v2(context, flags, device);
}

CUresult driver_cuCtxCreate_v4(CUcontext *context, CUctxCreateParams *params,
                               unsigned int flags, CUdevice device)
{
	if (!params)
		return driver_cuCtxCreate_v2(context, flags, device);
	if (params->cigParams)
		return CUDA_ERROR_NOT_SUPPORTED;
	return driver_cuCtxCreate_v3(context, params->execAffinityParams,
	                             params->numExecAffinityParams, flags,
	                             device);
}

CUresult driver_cuCtxDestroy_v2(CUcontext context)
{
	if (!context || is_primary(context))
		return CUDA_ERROR_INVALID_VALUE;
	if (current() == context)
		pop();
	SCOPED_LOCK(&lock);
	if (device_of_locked(context) < 0)
		return CUDA_ERROR_INVALID_CONTEXT;
	list_remove(created, context, next);
	free(context);
	return CUDA_SUCCESS;
}

/* ---- changing the current context ------------------------------------- */

CUresult driver_cuCtxPushCurrent_v2(CUcontext context)
{
	if (driver_device_of(context) < 0)
		return CUDA_ERROR_INVALID_CONTEXT;
	return push(context);
}

CUresult driver_cuCtxPopCurrent_v2(CUcontext *context)
{
	const CUcontext c = current();

	if (!c)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (context)
		*context = c;
	pop();
	return CUDA_SUCCESS;
}

CUresult driver_cuCtxSetCurrent(CUcontext context)
{
	if (!context) {
		pop();
		return CUDA_SUCCESS;
	}
	if (driver_device_of(context) < 0)
		return CUDA_ERROR_INVALID_CONTEXT;
	make_current(context);
	return CUDA_SUCCESS;
}

CUresult driver_cuCtxGetCurrent(CUcontext *context)
{
	if (!context)
		return CUDA_ERROR_INVALID_VALUE;
	*context = current();
	return CUDA_SUCCESS;
}

CUresult driver_cuCtxGetDevice(CUdevice *device)
{
	if (!driver_has_context())
		return CUDA_ERROR_INVALID_CONTEXT;
	return driver_cuCtxGetDevice_v2(device, NULL);
}

/* ---- properties of contexts ------------------------------------------- */

/* Return the device of @c or, if @c is NULL, of the current context.  Return -1
 * if there is none. */
static int device_or_current(CUcontext c)
{
	return driver_device_of(c ? c : current());
}

CUresult driver_cuCtxGetDevice_v2(CUdevice *device, CUcontext context)
{
	const int found = device_or_current(context);

	if (!device)
		return CUDA_ERROR_INVALID_VALUE;
	if (found < 0)
		return CUDA_ERROR_INVALID_CONTEXT;
	*device = found;
	return CUDA_SUCCESS;
}

CUresult driver_cuCtxSynchronize_v2(CUcontext context)
{
	const int device = device_or_current(context);

	if (device < 0)
		return CUDA_ERROR_INVALID_CONTEXT;
	return call_on(device, host_cudaDeviceSynchronize);
}

CUresult driver_cuCtxGetFlags(unsigned int *flags)
{
	const CUcontext c = current();

	if (!flags)
		return CUDA_ERROR_INVALID_VALUE;
	SCOPED_LOCK(&lock);
	if (device_of_locked(c) < 0)
		return CUDA_ERROR_INVALID_CONTEXT;
	*flags = c->flags | CU_CTX_MAP_HOST;
	return CUDA_SUCCESS;
}

CUresult driver_cuCtxSetFlags(unsigned int flags)
{
	return set_flags(current(), flags);
}

CUresult driver_cuCtxGetId(CUcontext context, unsigned long long *id)
{
	const CUcontext c = context ? context : current();
	int device;

	if (!id)
		return CUDA_ERROR_INVALID_VALUE;
	SCOPED_LOCK(&lock);
	device = device_of_locked(c);
	if (device < 0)
		return CUDA_ERROR_INVALID_CONTEXT;
	*id = is_primary(c) ? (unsigned long long)device + 1 : c->id;
	return CUDA_SUCCESS;
}

CUresult driver_cuCtxGetApiVersion(CUcontext context, unsigned int *version)
{
	if (!version)
		return CUDA_ERROR_INVALID_VALUE;
	if (device_or_current(context) < 0)
		return CUDA_ERROR_INVALID_CONTEXT;
	*version = API_VERSION;
	return CUDA_SUCCESS;
}

CUresult driver_cuCtxGetCacheConfig(CUfunc_cache *config)
{
	if (!config)
		return CUDA_ERROR_INVALID_VALUE;
	if (!driver_has_context())
		return CUDA_ERROR_INVALID_CONTEXT;
	*config = CU_FUNC_CACHE_PREFER_NONE;
	return CUDA_SUCCESS;
}

/* Accept every valid setting, but ignore it: the simulator has no cache to
 * configure. */
CUresult driver_cuCtxSetCacheConfig(CUfunc_cache config)
{
	if ((unsigned int)config > CU_FUNC_CACHE_PREFER_EQUAL)
		return CUDA_ERROR_INVALID_VALUE;
	return driver_has_context() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

/* ---- peer access, and contexts of streams ------------------------------ */

static CUresult check_peer(CUcontext peer)
{
	const int device = driver_device_of(peer);
	const CUcontext now = current();

	if (!now || device < 0 || now == peer)
		return CUDA_ERROR_INVALID_CONTEXT;
	return driver_device_of(now) == device
	               ? CUDA_ERROR_PEER_ACCESS_UNSUPPORTED
	               : CUDA_SUCCESS;
}

CUresult driver_cuCtxEnablePeerAccess(CUcontext peer, unsigned int flags)
{
	const cudaError_t last = *device_last_error();
	const CUresult result = check_peer(peer);

	return result ? result
	              : driver_result(last,
	                              host_cudaDeviceEnablePeerAccess(
					      driver_device_of(peer), flags));
}

CUresult driver_cuCtxDisablePeerAccess(CUcontext peer)
{
	const cudaError_t last = *device_last_error();
	const CUresult result = check_peer(peer);

	return result ? result
	              : driver_result(last, host_cudaDeviceDisablePeerAccess(
						    driver_device_of(peer)));
}

CUresult driver_cuStreamGetCtx(CUstream stream, CUcontext *context)
{
	const cudaError_t last = *device_last_error();
	CUresult result;
	int device = 0;

	if (!driver_can_use(stream))
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!context)
		return CUDA_ERROR_INVALID_VALUE;
	result = driver_result(last, host_cudaStreamGetDevice(stream, &device));
	if (result == CUDA_SUCCESS)
		*context = driver_context_of(device);
	return result;
}

CUresult driver_cuStreamGetCtx_v2(CUstream stream, CUcontext *context,
                                  CUgreenCtx *green)
{
	const CUresult result = driver_cuStreamGetCtx(stream, context);

	if (result == CUDA_SUCCESS && green)
		*green = NULL;
	return result;
}
