/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A wrapper of libcudart.so.13 that shows each GPU as several devices (see
 * shared.h). It wraps the functions that take or return a device.
 *
 * The wrapper records the current device of each thread, and the device of each
 * stream when it is created. Memory belongs to whatever device is current when
 * it is used.
 */

#include <pthread.h>
#include <string.h>

#include "shared.h"

#define MOST_STREAMS 65536

static __thread int current;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Device of each stream, guarded by lock. The stream of a free entry is
 * NULL. */
static struct {
	cudaStream_t stream;
	int device;
} streams[MOST_STREAMS];
static int stream_count;

static int gpu_of(int device)
{
	return device < 0 ? device : device / shared_ranks();
}

/* Return the current device if it is on @gpu, otherwise the first device of
 * @gpu. */
static int device_on(int gpu)
{
	return gpu_of(current) == gpu ? current : gpu * shared_ranks();
}

/* ---- devices ---------------------------------------------------------- */

cudaError_t cudaGetDeviceCount(int *count)
{
	SHARED_REAL(cudaGetDeviceCount);
	cudaError_t error = real_cudaGetDeviceCount(count);

	if (error == cudaSuccess)
		*count *= shared_ranks();
	return error;
}

cudaError_t cudaSetDevice(int device)
{
	SHARED_REAL(cudaSetDevice);
	cudaError_t error = real_cudaSetDevice(gpu_of(device));

	if (error == cudaSuccess)
		current = device;
	return error;
}

cudaError_t cudaGetDevice(int *device)
{
	SHARED_REAL(cudaGetDevice);
	cudaError_t error = real_cudaGetDevice(device);

	if (error == cudaSuccess)
		*device = device_on(*device);
	return error;
}

/* Define a function that only translates device numbers to GPU numbers. */
#define TOLD(name, parameters, ...)                                            \
	EXPORT cudaError_t name parameters;                                    \
	cudaError_t name parameters                                            \
	{                                                                      \
		SHARED_REAL(name);                                             \
		return real_##name(__VA_ARGS__);                               \
	}
TOLD(cudaDeviceGetPCIBusId, (char *text, int size, int device), text, size,
     gpu_of(device))

/* Functions that PyTorch or cohort check calls, and the library does not */
TOLD(cudaGetDeviceProperties, (void *properties, int device), properties,
     gpu_of(device))
TOLD(cudaDeviceGetAttribute, (int *value, int which, int device), value, which,
     gpu_of(device))
TOLD(cudaDeviceGetDefaultMemPool, (void **pool, int device), pool,
     gpu_of(device))
TOLD(cudaMemcpyPeerAsync,
     (void *to, int at, const void *from, int of, size_t bytes,
      cudaStream_t stream),
     to, gpu_of(at), from, gpu_of(of), bytes, stream)

/* In CUDA, a GPU is not its own peer. Here, two devices on one GPU are
 * peers. */
cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer)
{
	SHARED_REAL(cudaDeviceCanAccessPeer);

	*can = device != peer;
	return gpu_of(device) == gpu_of(peer)
	               ? cudaSuccess
	               : real_cudaDeviceCanAccessPeer(can, gpu_of(device),
	                                              gpu_of(peer));
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned int flags)
{
	SHARED_REAL(cudaDeviceEnablePeerAccess);

	return gpu_of(peer) == gpu_of(current)
	               ? cudaSuccess
	               : real_cudaDeviceEnablePeerAccess(gpu_of(peer), flags);
}

/* A driver function that PyTorch finds by dlsym() */
static int (*real_primary_state)(int device, unsigned int *flags, int *active);

static int primary_state(int device, unsigned int *flags, int *active)
{
	return real_primary_state(gpu_of(device), flags, active);
}

#ifdef __x86_64__
#define DLSYM_VERSION "GLIBC_2.2.5"
#else
#define DLSYM_VERSION "GLIBC_2.17"
#endif

EXPORT void *dlsym(void *handle, const char *name);

/*
 * Replaces the loader's dlsym() if this library is preloaded. For every caller,
 * RTLD_NEXT then means the library after this one, so NCCL must also be
 * preloaded.
 */
void *dlsym(void *handle, const char *name)
{
	static void *(*real)(void *handle, const char *name);
	void *found;

	if (!real)
		*(void **)&real = dlvsym(RTLD_NEXT, "dlsym", DLSYM_VERSION);
	found = real(handle, name);
	if (!found || strcmp(name, "cuDevicePrimaryCtxGetState") != 0)
		return found;
	*(void **)&real_primary_state = found;
	return (void *)(uintptr_t)primary_state;
}

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *a,
                                     const void *memory)
{
	SHARED_REAL(cudaPointerGetAttributes);
	cudaError_t error = real_cudaPointerGetAttributes(a, memory);

	if (error == cudaSuccess && a->device >= 0)
		a->device = device_on(a->device);
	return error;
}

/* ---- streams ---------------------------------------------------------- */

/* Return the index of @stream, or of a free entry if @stream is NULL, or
 * stream_count if there is none. */
static int find_locked(cudaStream_t stream)
{
	int i = 0;

	while (i < stream_count && streams[i].stream != stream)
		i++;
	return i;
}

static cudaError_t note(cudaStream_t stream)
{
	int device, i;

	cudaGetDevice(&device);
	pthread_mutex_lock(&lock);
	i = find_locked(NULL);
	if (i < MOST_STREAMS) {
		streams[i].stream = stream;
		streams[i].device = device;
		stream_count += i == stream_count;
	}
	pthread_mutex_unlock(&lock);
	return cudaSuccess;
}

cudaError_t cudaStreamCreate(cudaStream_t *stream)
{
	SHARED_REAL(cudaStreamCreate);
	cudaError_t error = real_cudaStreamCreate(stream);

	return error == cudaSuccess ? note(*stream) : error;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned int flags)
{
	SHARED_REAL(cudaStreamCreateWithFlags);
	cudaError_t error = real_cudaStreamCreateWithFlags(stream, flags);

	return error == cudaSuccess ? note(*stream) : error;
}

EXPORT cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream,
                                                unsigned int flags,
                                                int priority);

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream,
                                         unsigned int flags, int priority)
{
	SHARED_REAL(cudaStreamCreateWithPriority);
	cudaError_t error =
		real_cudaStreamCreateWithPriority(stream, flags, priority);

	return error == cudaSuccess ? note(*stream) : error;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
	SHARED_REAL(cudaStreamDestroy);
	int i;

	pthread_mutex_lock(&lock);
	i = find_locked(stream);
	if (stream && i < stream_count)
		streams[i].stream = NULL;
	pthread_mutex_unlock(&lock);
	return real_cudaStreamDestroy(stream);
}

cudaError_t cudaStreamGetDevice(cudaStream_t stream, int *device)
{
	SHARED_REAL(cudaStreamGetDevice);
	cudaError_t error = real_cudaStreamGetDevice(stream, device);
	int i;

	if (error != cudaSuccess)
		return error;
	*device = device_on(*device);
	pthread_mutex_lock(&lock);
	i = find_locked(stream);
	if (stream && i < stream_count)
		*device = streams[i].device;
	pthread_mutex_unlock(&lock);
	return cudaSuccess;
}
