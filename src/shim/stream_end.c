/* SPDX-License-Identifier: Apache-2.0 */

#include "shim/stream_end.h"

#include <dlfcn.h>
#include <pthread.h>

#include "base/scoped_lock.h"

/* The driver's functions.  CUcontext is void *, CUstream is cudaStream_t, and
 * CUdeviceptr is uintptr_t, which have the same sizes. */
#define FUNCTIONS(X)                                                           \
	X(cuDevicePrimaryCtxRetain, (void **context, int device))              \
	X(cuDevicePrimaryCtxRelease_v2, (int device))                          \
	X(cuCtxGetCurrent, (void **context))                                   \
	X(cuCtxPushCurrent_v2, (void *context))                                \
	X(cuCtxPopCurrent_v2, (void **context))                                \
	X(cuMemHostRegister_v2, (void *memory, size_t n, unsigned int flags))  \
	X(cuStreamIsCapturing, (cudaStream_t stream, int *status))             \
	X(cuStreamWriteValue32_v2, (cudaStream_t stream, uintptr_t address,    \
	                            uint32_t value, unsigned int flags))

#define POINTER(name, parameters) int(*name) parameters;

static struct {
	FUNCTIONS(POINTER)
} driver;

/* True if all driver functions were found.  Constant after find_driver(). */
static bool has_driver;

#define REGISTER_FLAGS 3 /* portable to all contexts, and mapped to devices */

static void find_driver(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);

#define FIND(name, parameters)                                                 \
	*(void **)&driver.name = dlsym(library, #name);                        \
	has_driver &= driver.name != NULL;
	has_driver = library;
	if (library) {
		FUNCTIONS(FIND)
	}
}

/* Make @context current.  Return whether leave() must undo it. */
static bool enter(void *context)
{
	void *current = NULL;

	return (driver.cuCtxGetCurrent(&current) || current != context) &&
	       !driver.cuCtxPushCurrent_v2(context);
}

static void leave(bool has_pushed)
{
	void *context;

	if (has_pushed)
		driver.cuCtxPopCurrent_v2(&context);
}

/* Give all devices access to the marks, and return whether they have it.  The
 * context of any device must be current.  Try this only once, because after
 * NCCL's first launch the driver might wait for a collective. */
static bool add_to_devices(struct shared_calls *all)
{
	/* Guarded by the lock. */
	static bool was_tried, has_access;
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

	SCOPED_LOCK(&lock);
	if (!was_tried)
		has_access = !driver.cuMemHostRegister_v2(
			all->done, sizeof(all->done), REGISTER_FLAGS);
	was_tried = true;
	return has_access;
}

void *stream_end_open(int device, struct shared_calls *all)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	bool has_pushed, has_access;
	void *context = NULL;

	pthread_once(&once, find_driver);
	if (!has_driver ||
	    (device < 0 ? driver.cuCtxGetCurrent(&context)
	                : driver.cuDevicePrimaryCtxRetain(&context, device)) ||
	    !context)
		return NULL;
	/* Release only this reference: the communicator keeps the context
	 * active. */
	if (device >= 0)
		driver.cuDevicePrimaryCtxRelease_v2(device);
	has_pushed = enter(context);
	has_access = add_to_devices(all);
	leave(has_pushed);
	return has_access && device >= 0 ? context : NULL;
}

enum stream_mark stream_end_mark(void *context, cudaStream_t stream,
                                 const _Atomic uint32_t *word, uint32_t value)
{
	const bool has_pushed = enter(context);
	enum stream_mark mark;
	int capturing = 0;

	if (driver.cuStreamIsCapturing(stream, &capturing))
		mark = STREAM_UNMARKED;
	else if (capturing)
		mark = STREAM_CAPTURED;
	else if (driver.cuStreamWriteValue32_v2(stream, (uintptr_t)word, value,
	                                        0))
		mark = STREAM_UNMARKED;
	else
		mark = STREAM_MARKED;
	leave(has_pushed);
	return mark;
}
