/* SPDX-License-Identifier: Apache-2.0 */

/* Keeps the table of allocations that have no address (see allocation.h) */

#include "sim/driver/allocation.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/list.h"
#include "base/scoped_lock.h"
#include "sim/cuda/cuda_device.h"
#include "sim/cuda/memory_table.h"
#include "sim/driver/driver.h"

/* Name of an allocation's file.  The number is the device of the memory, or
 * HOST_PLACE. */
#define FILE_NAME "cohort-memory-%d"
#define HOST_PLACE (-1)

pthread_mutex_t virtual_lock = PTHREAD_MUTEX_INITIALIZER;

/* List of all allocations.  Guarded by virtual_lock. */
static struct allocation *allocations;

/* ---- checking arguments ----------------------------------------------- */

bool virtual_location_is_host(const struct cudaMemLocation *l)
{
	return l->type == cudaMemLocationTypeHost ||
	       l->type == cudaMemLocationTypeHostNuma ||
	       l->type == cudaMemLocationTypeHostNumaCurrent;
}

bool virtual_location_is_valid(const struct cudaMemLocation *l)
{
	if (l->type == cudaMemLocationTypeDevice)
		return device_is_valid(l->id);
	/* The simulated host has only NUMA node 0. */
	return virtual_location_is_host(l) &&
	       (l->type != cudaMemLocationTypeHostNuma || l->id == 0);
}

static CUresult check_prop(const CUmemAllocationProp *p)
{
	const int handles = (int)p->requestedHandleTypes;

	if (p->type != cudaMemAllocationTypePinned)
		return CUDA_ERROR_INVALID_VALUE;
	if (!virtual_location_is_valid(&p->location))
		return p->location.type == cudaMemLocationTypeDevice
		               ? CUDA_ERROR_INVALID_DEVICE
		               : CUDA_ERROR_INVALID_VALUE;
	if (p->allocFlags.compressionType)
		return CUDA_ERROR_NOT_SUPPORTED;
	return handles & ~cudaMemHandleTypePosixFileDescriptor
	               ? CUDA_ERROR_NOT_SUPPORTED
	               : CUDA_SUCCESS;
}

CUresult
driver_cuMemGetAllocationGranularity(size_t *bytes,
                                     const CUmemAllocationProp *prop,
                                     CUmemAllocationGranularity_flags flags)
{
	CUresult result;

	if (!bytes || !prop ||
	    (unsigned int)flags > CU_MEM_ALLOC_GRANULARITY_RECOMMENDED)
		return CUDA_ERROR_INVALID_VALUE;
	result = check_prop(prop);
	if (result == CUDA_SUCCESS)
		*bytes = VIRTUAL_GRANULARITY;
	return result;
}

/* ---- allocations ------------------------------------------------------ */

CUmemGenericAllocationHandle allocation_handle(const struct allocation *a)
{
	return (CUmemGenericAllocationHandle)(uintptr_t)a;
}

struct allocation *allocation_find_locked(CUmemGenericAllocationHandle handle)
{
	struct allocation *a;

	list_find(a, allocations, next,
	          allocation_handle(a) == handle && a->handles);
	return a;
}

void allocation_settle_locked(struct allocation *a)
{
	if (a->handles || a->maps)
		return;
	list_remove(allocations, a, next);
	if (a->claimed)
		memory_unclaim(a->prop.location.id, a->claimed);
	close(a->file);
	free(a);
}

/* Add an allocation to the table and store a handle for the program.  The
 * allocation owns @file, and @claimed bytes of its device's memory. */
static CUresult add_allocation(CUmemGenericAllocationHandle *handle, int file,
                               size_t bytes, size_t claimed,
                               const CUmemAllocationProp *prop)
{
	struct allocation *a = malloc(sizeof(*a));

	if (!a) {
		close(file);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*a = (struct allocation){
		.file = file,
		.bytes = bytes,
		.prop = *prop,
		.claimed = claimed,
		.handles = 1,
	};
	*handle = allocation_handle(a);
	SCOPED_LOCK(&virtual_lock);
	list_add(allocations, a, next);
	return CUDA_SUCCESS;
}

static int create_file(size_t bytes, const struct cudaMemLocation *l)
{
	char name[sizeof(FILE_NAME) + 16];
	int file;

	snprintf(name, sizeof(name), FILE_NAME,
	         virtual_location_is_host(l) ? HOST_PLACE : l->id);
	file = memfd_create(name, MFD_CLOEXEC);
	if (file >= 0 && ftruncate(file, (off_t)bytes)) {
		close(file);
		return -1;
	}
	return file;
}

static CUresult create(CUmemGenericAllocationHandle *handle, size_t bytes,
                       size_t claim, const CUmemAllocationProp *prop)
{
	const int device = prop->location.id;
	CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
	int file;

	if (claim && !memory_claim(device, claim))
		return result;
	file = create_file(bytes, &prop->location);
	if (file >= 0)
		result = add_allocation(handle, file, bytes, claim, prop);
	if (result != CUDA_SUCCESS && claim)
		memory_unclaim(device, claim);
	return result;
}

CUresult driver_cuMemCreate(CUmemGenericAllocationHandle *handle, size_t bytes,
                            const CUmemAllocationProp *prop,
                            unsigned long long flags)
{
	CUresult result;

	if (!handle || !prop || flags || !virtual_size_is_valid(bytes))
		return CUDA_ERROR_INVALID_VALUE;
	result = check_prop(prop);
	if (result != CUDA_SUCCESS)
		return result;
	if (!virtual_location_is_host(&prop->location))
		return create(handle, bytes, bytes, prop);
	/* Host memory is not claimed from a device.  An allocation can be as
	 * large as the memory of all devices together, which is the size of the
	 * host's memory. */
	return bytes / (size_t)device_count() > device_memory_bytes()
	               ? CUDA_ERROR_OUT_OF_MEMORY
	               : create(handle, bytes, 0, prop);
}

CUresult driver_cuMemRelease(CUmemGenericAllocationHandle handle)
{
	struct allocation *a;

	SCOPED_LOCK(&virtual_lock);
	a = allocation_find_locked(handle);
	if (!a)
		return CUDA_ERROR_INVALID_VALUE;
	a->handles--;
	allocation_settle_locked(a);
	return CUDA_SUCCESS;
}

CUresult driver_cuMemGetAllocationPropertiesFromHandle(
	CUmemAllocationProp *prop, CUmemGenericAllocationHandle handle)
{
	const struct allocation *a;

	if (!prop)
		return CUDA_ERROR_INVALID_VALUE;
	SCOPED_LOCK(&virtual_lock);
	a = allocation_find_locked(handle);
	if (!a)
		return CUDA_ERROR_INVALID_VALUE;
	*prop = a->prop;
	return CUDA_SUCCESS;
}

/* ---- sharing with other processes ------------------------------------- */

CUresult driver_cuMemExportToShareableHandle(
	void *shareable, CUmemGenericAllocationHandle handle,
	enum cudaMemAllocationHandleType type, unsigned long long flags)
{
	const struct allocation *a;
	int file;

	if (!shareable || flags)
		return CUDA_ERROR_INVALID_VALUE;
	if (type != cudaMemHandleTypePosixFileDescriptor)
		return CUDA_ERROR_NOT_SUPPORTED;
	SCOPED_LOCK(&virtual_lock);
	a = allocation_find_locked(handle);
	if (!a || a->prop.requestedHandleTypes != type)
		return CUDA_ERROR_INVALID_VALUE;
	file = fcntl(a->file, F_DUPFD_CLOEXEC, 0);
	if (file < 0)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(shareable, &file, sizeof(file));
	return CUDA_SUCCESS;
}

/* Store the size of the memory in a file, and the device or host to which the
 * memory belongs.  Return false if the file is not an allocation. */
static bool read_memory_file(int file, int *place, size_t *bytes)
{
	char path[64], name[64];
	struct stat st;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
	n = readlink(path, name, sizeof(name) - 1);
	if (n < 0 || fstat(file, &st))
		return false;
	name[n] = '\0';
	*bytes = (size_t)st.st_size;
	return sscanf(name, "/memfd:" FILE_NAME, place) == 1 &&
	       virtual_size_is_valid(*bytes);
}

CUresult
driver_cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle,
                                      void *shareable,
                                      enum cudaMemAllocationHandleType type)
{
	CUmemAllocationProp prop = {
		.type = cudaMemAllocationTypePinned,
		.requestedHandleTypes = cudaMemHandleTypePosixFileDescriptor,
		.location = { .type = cudaMemLocationTypeHost },
	};
	int file, place;
	size_t bytes;

	if (!handle)
		return CUDA_ERROR_INVALID_VALUE;
	if (type != cudaMemHandleTypePosixFileDescriptor)
		return CUDA_ERROR_NOT_SUPPORTED;
	file = fcntl((int)(intptr_t)shareable, F_DUPFD_CLOEXEC, 0);
	if (file < 0)
		return CUDA_ERROR_INVALID_VALUE;
	if (!read_memory_file(file, &place, &bytes) ||
	    (place != HOST_PLACE && !device_is_valid(place))) {
		close(file);
		return CUDA_ERROR_INVALID_VALUE;
	}
	if (place != HOST_PLACE)
		prop.location = (struct cudaMemLocation){
			.type = cudaMemLocationTypeDevice,
			.id = place,
		};
	return add_allocation(handle, file, bytes, 0, &prop);
}
