/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Implements the settings and queries of devices: peers, flags, limits, PCI
 * addresses
 *
 * Every device can always access the memory of every other device, because the
 * memory of all devices is host memory.  Peer access is recorded only so that
 * the functions return the same results as CUDA's.
 */

#include <pthread.h>
#include <stdio.h>

#include "base/scoped_lock.h"
#include "sim/cuda/cuda_device.h"
#include "sim/cuda/memory_table.h"
#include "sim/cuda/stream_capture.h"
#include "sim/cuda/sync.h"
#include "sim/exec/stream_queue.h"
#include "sim/host.h"
#include "sim/strict/fault.h"

#define GREATEST_PRIORITY (-5)
#define LIMITS (cudaLimitPersistingL2CacheSize + 1)

struct settings {
	unsigned int flags;
	/* devices to which peer access is enabled */
	bool peers[COHORT_SIM_MAX_DEVICES];
	/* true once limits is initialized */
	bool limited;
	size_t limits[LIMITS];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* The settings of each device.  Guarded by lock. */
static struct settings settings[COHORT_SIM_MAX_DEVICES];

/* ---- peers ------------------------------------------------------------ */

cudaError_t host_cudaDeviceCanAccessPeer(int *can, int device, int peer)
{
	if (!can)
		return device_error(cudaErrorInvalidValue);
	if (!device_is_valid(device) || !device_is_valid(peer))
		return device_error(cudaErrorInvalidDevice);
	*can = device != peer;
	return cudaSuccess;
}

/* Record whether the current device may access @peer.  Return @error if
 * @enabled is already the recorded state. */
static cudaError_t set_peer(int peer, bool enabled, cudaError_t error)
{
	bool *is = &settings[device_current()].peers[peer];
	const cudaError_t sticky = fault_sticky(device_current());
	bool changes;

	if (sticky != cudaSuccess)
		return device_error(sticky);
	pthread_mutex_lock(&lock);
	changes = *is != enabled;
	*is = enabled;
	pthread_mutex_unlock(&lock);
	if (!changes)
		return device_error(error);
	sync_memory();
	return cudaSuccess;
}

cudaError_t host_cudaDeviceEnablePeerAccess(int peer, unsigned int flags)
{
	if (flags != cudaPeerAccessDefault)
		return device_error(cudaErrorInvalidValue);
	if (!device_is_valid(peer) || peer == device_current())
		return device_error(cudaErrorInvalidDevice);
	return set_peer(peer, true, cudaErrorPeerAccessAlreadyEnabled);
}

cudaError_t host_cudaDeviceDisablePeerAccess(int peer)
{
	if (!device_is_valid(peer))
		return device_error(cudaErrorInvalidDevice);
	return set_peer(peer, false, cudaErrorPeerAccessNotEnabled);
}

cudaError_t host_cudaDeviceGetP2PAttribute(int *value,
                                           enum cudaDeviceP2PAttr attribute,
                                           int from, int to)
{
	if (!value)
		return device_error(cudaErrorInvalidValue);
	if (!device_is_valid(from) || !device_is_valid(to) || from == to)
		return device_error(cudaErrorInvalidDevice);
	switch (attribute) {
	case cudaDevP2PAttrAccessSupported:
	case cudaDevP2PAttrNativeAtomicSupported:
		*value = 1;
		return cudaSuccess;
	case cudaDevP2PAttrPerformanceRank:
	case cudaDevP2PAttrCudaArrayAccessSupported:
	case cudaDevP2PAttrOnlyPartialNativeAtomicSupported:
		*value = 0;
		return cudaSuccess;
	}
	return device_error(cudaErrorInvalidValue);
}

/* ---- flags ------------------------------------------------------------ */

static bool flags_are_valid(unsigned int flags)
{
	const unsigned int known = cudaDeviceScheduleMask | cudaDeviceMapHost |
	                           cudaDeviceLmemResizeToMax |
	                           cudaDeviceSyncMemops;
	const unsigned int schedule = flags & cudaDeviceScheduleMask;

	return !(flags & ~known) && !(schedule & (schedule - 1));
}

static void set_flags(int device, unsigned int flags)
{
	SCOPED_LOCK(&lock);
	settings[device].flags = flags;
}

cudaError_t host_cudaSetDeviceFlags(unsigned int flags)
{
	if (!flags_are_valid(flags))
		return device_error(cudaErrorInvalidValue);
	set_flags(device_current(), flags);
	return cudaSuccess;
}

cudaError_t host_cudaGetDeviceFlags(unsigned int *flags)
{
	if (!flags)
		return device_error(cudaErrorInvalidValue);
	SCOPED_LOCK(&lock);
	*flags = settings[device_current()].flags | cudaDeviceMapHost;
	return cudaSuccess;
}

cudaError_t host_cudaInitDevice(int device, unsigned int device_flags,
                                unsigned int flags)
{
	if (!device_is_valid(device))
		return device_error(cudaErrorInvalidDevice);
	if ((flags & ~(unsigned int)cudaInitDeviceFlagsAreValid) ||
	    (flags && !flags_are_valid(device_flags)))
		return device_error(cudaErrorInvalidValue);
	if (flags)
		set_flags(device, device_flags);
	return cudaSuccess;
}

/* ---- limits ----------------------------------------------------------- */

static const size_t default_limits[LIMITS] = {
	[cudaLimitStackSize] = 1024,
	[cudaLimitPrintfFifoSize] = 1024 * 1024,
	[cudaLimitMallocHeapSize] = 8 * 1024 * 1024,
	[cudaLimitDevRuntimePendingLaunchCount] = 2048,
	[cudaLimitMaxL2FetchGranularity] = 64,
	[cudaLimitPersistingL2CacheSize] = 0,
};

static cudaError_t check_limit(enum cudaLimit limit)
{
	if ((int)limit < 0 || (int)limit >= LIMITS)
		return device_error(cudaErrorInvalidValue);
	/* CUDA supports this limit only before compute capability 9.0. */
	if (limit == cudaLimitDevRuntimeSyncDepth)
		return device_error(cudaErrorUnsupportedLimit);
	return cudaSuccess;
}

static size_t *limits_locked(int device)
{
	struct settings *s = &settings[device];
	int i;

	for (i = 0; !s->limited && i < LIMITS; i++)
		s->limits[i] = default_limits[i];
	s->limited = true;
	return s->limits;
}

cudaError_t host_cudaDeviceSetLimit(enum cudaLimit limit, size_t value)
{
	cudaError_t error = check_limit(limit);

	if (error != cudaSuccess)
		return error;
	if (limit == cudaLimitMaxL2FetchGranularity && value > 128)
		value = 128;
	if (limit == cudaLimitPersistingL2CacheSize)
		value = 0; /* the simulated devices have no such cache */
	SCOPED_LOCK(&lock);
	limits_locked(device_current())[limit] = value;
	return cudaSuccess;
}

cudaError_t host_cudaDeviceGetLimit(size_t *value, enum cudaLimit limit)
{
	cudaError_t error;

	if (!value)
		return device_error(cudaErrorInvalidValue);
	error = check_limit(limit);
	if (error != cudaSuccess)
		return error;
	SCOPED_LOCK(&lock);
	*value = limits_locked(device_current())[limit];
	return cudaSuccess;
}

cudaError_t host_cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
	if (least)
		*least = 0;
	if (greatest)
		*greatest = GREATEST_PRIORITY;
	return cudaSuccess;
}

int device_priority(int priority)
{
	if (priority > 0)
		return 0;
	return priority < GREATEST_PRIORITY ? GREATEST_PRIORITY : priority;
}

/* ---- PCI addresses ---------------------------------------------------- */

#define PCI_ID_BYTES 13

cudaError_t host_cudaDeviceGetPCIBusId(char *id, int length, int device)
{
	char text[PCI_ID_BYTES];

	if (!id)
		return device_error(cudaErrorInvalidValue);
	if (!device_is_valid(device))
		return device_error(cudaErrorInvalidDevice);
	if (length < PCI_ID_BYTES)
		return device_error(cudaErrorInvalidValue);
	snprintf(text, sizeof(text), "%04x:%02x:%02x.0", 0,
	         (unsigned char)DEVICE_PCI_BUS(device), 0);
	snprintf(id, (size_t)length, "%s", text);
	return cudaSuccess;
}

/* Parse domain:bus:device.function, domain:bus:device or
 * bus:device.function. */
static bool parse_pci(const char *id, unsigned int *bus)
{
	unsigned int domain = 0, device, function = 0;
	char more;
	int n;

	n = sscanf(id, "%x:%x:%x.%x%c", &domain, bus, &device, &function,
	           &more);
	if (n == 3 || n == 4)
		return !domain && !device && !function;
	n = sscanf(id, "%x:%x.%x%c", bus, &device, &function, &more);
	return n == 3 && !device && !function;
}

cudaError_t host_cudaDeviceGetByPCIBusId(int *device, const char *id)
{
	unsigned int bus;
	int i;

	if (!device || !id)
		return device_error(cudaErrorInvalidValue);
	for (i = 0; parse_pci(id, &bus) && i < device_count(); i++)
		if (bus == (unsigned int)DEVICE_PCI_BUS(i)) {
			*device = i;
			return cudaSuccess;
		}
	return device_error(cudaErrorInvalidDevice);
}

/* ---- reset ------------------------------------------------------------ */

cudaError_t host_cudaDeviceReset(void)
{
	const int device = device_current();
	cudaError_t error = capture_permits_device_wait(device);

	if (error != cudaSuccess)
		return device_error(error);
	sync_memory();
	stream_wait_device(device, false);
	memory_reset(device);
	device_end_context(device);
	sync_unload(device);
	SCOPED_LOCK(&lock);
	settings[device] = (struct settings){ .flags = 0 };
	return cudaSuccess;
}
