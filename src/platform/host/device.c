/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Devices, versions and errors of the host platform's CUDA part
 *
 * A device is a number: memory and streams remember which they belong to, and
 * each thread has a current one.  How many there are is settled when the
 * platform is first used and stays so for the life of the process.
 */

#include "platform/host/device.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/status.h"
#include "platform/host/host.h"

#define DEFAULT_DEVICES 8
#define CUDA_VERSION 13000

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Guarded by lock; 0: not set. */
static int wanted;

/* Atomic; written once by device_init() under lock, read by anyone; 0: the
 * platform has not been used.  Relaxed: a number that never changes again. */
static atomic_int devices;

static _Thread_local int current;
static _Thread_local cudaError_t last_error;

int device_count(void)
{
	return atomic_load_explicit(&devices, memory_order_relaxed);
}

static int check_number(const char *what, long n)
{
	if (n >= 1 && n <= COHORT_SIM_MAX_DEVICES)
		return COHORT_OK;
	return error_set(COHORT_INVALID, "%s is %ld, not 1 to %d", what, n,
	                 COHORT_SIM_MAX_DEVICES);
}

int device_want(int n)
{
	int rc = check_number("n", n);

	if (rc != COHORT_OK)
		return rc;
	pthread_mutex_lock(&lock);
	if (!device_count())
		wanted = n;
	else if (device_count() != n)
		rc = error_set(COHORT_STATE,
		               "n is %d, but the host platform is in use with "
		               "%d devices",
		               n, device_count());
	pthread_mutex_unlock(&lock);
	return rc;
}

int device_wanted(void)
{
	int n;

	pthread_mutex_lock(&lock);
	n = wanted;
	pthread_mutex_unlock(&lock);
	return n;
}

/* Called with lock held. */
static int number_wanted(int *out)
{
	const char *text = getenv("COHORT_HOST_DEVICES");
	char *end;
	long n;

	if (wanted) {
		*out = wanted;
		return COHORT_OK;
	}
	if (!text || !*text) {
		*out = DEFAULT_DEVICES;
		return COHORT_OK;
	}
	n = strtol(text, &end, 10);
	if (*end)
		return error_set(COHORT_INVALID,
		                 "COHORT_HOST_DEVICES is \"%s\", not a number",
		                 text);
	*out = (int)n;
	return check_number("COHORT_HOST_DEVICES", n);
}

int device_init(void)
{
	int n = 0, rc = COHORT_OK;

	pthread_mutex_lock(&lock);
	if (!device_count()) {
		rc = number_wanted(&n);
		if (rc == COHORT_OK)
			atomic_store_explicit(&devices, n,
			                      memory_order_relaxed);
	}
	pthread_mutex_unlock(&lock);
	return rc;
}

int device_current(void)
{
	return current;
}

cudaError_t device_error(cudaError_t error)
{
	if (error != cudaSuccess)
		last_error = error;
	return error;
}

cudaError_t host_cudaRuntimeGetVersion(int *version)
{
	if (!version)
		return device_error(cudaErrorInvalidValue);
	*version = CUDA_VERSION;
	return cudaSuccess;
}

cudaError_t host_cudaDriverGetVersion(int *version)
{
	return host_cudaRuntimeGetVersion(version);
}

cudaError_t host_cudaGetDeviceCount(int *count)
{
	if (!count)
		return device_error(cudaErrorInvalidValue);
	*count = device_count();
	return cudaSuccess;
}

cudaError_t host_cudaGetDevice(int *device)
{
	if (!device)
		return device_error(cudaErrorInvalidValue);
	*device = current;
	return cudaSuccess;
}

cudaError_t host_cudaSetDevice(int device)
{
	if (device < 0 || device >= device_count())
		return device_error(cudaErrorInvalidDevice);
	current = device;
	return cudaSuccess;
}

cudaError_t host_cudaGetLastError(void)
{
	cudaError_t error = last_error;

	last_error = cudaSuccess;
	return error;
}

cudaError_t host_cudaPeekAtLastError(void)
{
	return last_error;
}

static const struct {
	cudaError_t error;
	const char *name;
	const char *text;
} errors[] = {
	{ cudaSuccess, "cudaSuccess", "no error" },
	{ cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument" },
	{ cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation",
	  "out of memory" },
	{ cudaErrorInitializationError, "cudaErrorInitializationError",
	  "initialization error" },
	{ cudaErrorNoDevice, "cudaErrorNoDevice",
	  "no CUDA-capable device is detected" },
	{ cudaErrorInvalidDevice, "cudaErrorInvalidDevice",
	  "invalid device ordinal" },
	{ cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle",
	  "invalid resource handle" },
	{ cudaErrorNotReady, "cudaErrorNotReady", "device not ready" },
	{ cudaErrorLaunchFailure, "cudaErrorLaunchFailure",
	  "unspecified launch failure" },
	{ cudaErrorNotSupported, "cudaErrorNotSupported",
	  "operation not supported" },
	{ cudaErrorUnknown, "cudaErrorUnknown", "unknown error" },
};

static size_t find_error(cudaError_t error)
{
	size_t i, n = sizeof(errors) / sizeof(errors[0]);

	for (i = 0; i < n && errors[i].error != error; i++)
		;
	return i;
}

const char *host_cudaGetErrorName(cudaError_t error)
{
	size_t i = find_error(error);

	return i < sizeof(errors) / sizeof(errors[0])
	               ? errors[i].name
	               : "unrecognized error code";
}

const char *host_cudaGetErrorString(cudaError_t error)
{
	size_t i = find_error(error);

	return i < sizeof(errors) / sizeof(errors[0])
	               ? errors[i].text
	               : "unrecognized error code";
}
