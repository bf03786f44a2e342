/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Implements the simulator's devices, and CUDA's functions for versions and
 * errors
 *
 * A device is a number.  Memory and streams belong to a device, and each thread
 * has a current device.  The number of devices is fixed when the simulator is
 * first used.
 */

#include "sim/cuda/cuda_device.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/atomics.h"
#include "base/scoped_lock.h"
#include "base/status.h"
#include "base/util.h"
#include "sim/host.h"
#include "sim/strict/fault.h"

#define DEFAULT_DEVICES 8
#define CUDA_VERSION 13000

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Number set by device_request_count(), or 0.  Guarded by lock. */
static int wanted;

/* Atomic; the number of devices, or 0 before device_init() has set it.
 * Relaxed, because it never changes afterwards. */
static atomic_int devices;

/* Atomic; the current device of threads that have not set a device.  Relaxed,
 * because it guards no other data. */
static atomic_int first_device;

/* the thread's current device, or -1 if it has not set one */
static _Thread_local int current = -1;

/* The driver API's current context, or NULL for the device's primary
 * context. */
static _Thread_local struct CUctx_st *current_context;
/* True if the thread has used the first device without setting a device. */
static _Thread_local bool uses_first;

int device_count(void)
{
	return load_relaxed(&devices);
}

static int check_number(const char *what, long n)
{
	if (n >= 1 && n <= COHORT_SIM_MAX_DEVICES)
		return COHORT_OK;
	return error_set(COHORT_INVALID, "%s is %ld, not 1 to %d", what, n,
	                 COHORT_SIM_MAX_DEVICES);
}

int device_request_count(int n)
{
	int rc = check_number("n", n);

	if (rc != COHORT_OK)
		return rc;
	SCOPED_LOCK(&lock);
	if (!device_count())
		wanted = n;
	else if (device_count() != n)
		rc = error_set(COHORT_STATE,
		               "n is %d, but the host platform is already in "
		               "use with %d devices",
		               n, device_count());
	return rc;
}

int device_requested_count(void)
{
	SCOPED_LOCK(&lock);
	return wanted;
}

/* Store the number of devices to use.  The caller holds lock. */
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

	SCOPED_LOCK(&lock);
	if (!device_count()) {
		rc = number_wanted(&n);
		if (rc == COHORT_OK)
			store_relaxed(&devices, n);
	}
	return rc;
}

bool device_is_valid(int device)
{
	return device >= 0 && device < device_count();
}

/* Atomic; true if the primary context of the device is active.  Relaxed,
 * because it guards no other data. */
static atomic_bool has_context[COHORT_SIM_MAX_DEVICES];

static void make_context(int device)
{
	if (!load_relaxed(&has_context[device]))
		store_relaxed(&has_context[device], true);
}

void device_end_context(int device)
{
	store_relaxed(&has_context[device], false);
}

int device_context_state(int device, unsigned int *flags, int *active)
{
	if (!flags || !active)
		return cudaErrorInvalidValue;
	if (!device_is_valid(device))
		return cudaErrorInvalidDevice;
	*flags = 0;
	*active = load_relaxed(&has_context[device]);
	return cudaSuccess;
}

static int first(void)
{
	return load_relaxed(&first_device);
}

int device_current(void)
{
	if (current >= 0)
		return current;
	uses_first = true;
	make_context(first());
	return first();
}

int device_bound(struct CUctx_st **context)
{
	*context = current_context;
	return current < 0 && uses_first ? first() : current;
}

void device_bind(int device, struct CUctx_st *context)
{
	current = device;
	current_context = context;
	uses_first = false;
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
	*device = current >= 0 ? current : first();
	return cudaSuccess;
}

cudaError_t host_cudaSetDevice(int device)
{
	if (!device_is_valid(device))
		return device_error(cudaErrorInvalidDevice);
	device_bind(device, NULL);
	make_context(device);
	return cudaSuccess;
}

cudaError_t host_cudaSetValidDevices(int *list, int n)
{
	int i;

	if (n < 0 || n > device_count() || (n && !list))
		return device_error(cudaErrorInvalidValue);
	for (i = 0; i < n; i++)
		if (!device_is_valid(list[i]))
			return device_error(cudaErrorInvalidDevice);
	store_relaxed(&first_device, n ? list[0] : 0);
	return cudaSuccess;
}

/* ---- the runtime's state of each thread ------------------------------- */

static _Thread_local cudaError_t last_error;

static _Thread_local bool in_host_function;

cudaError_t device_error(cudaError_t error)
{
	if (error != cudaSuccess)
		last_error = error;
	return error;
}

cudaError_t *device_last_error(void)
{
	return &last_error;
}

void device_forbid_calls(bool forbidden)
{
	in_host_function = forbidden;
}

cudaError_t stream_permits_calls(void)
{
	return in_host_function ? cudaErrorNotPermitted : cudaSuccess;
}

/* ---- errors ------------------------------------------------------------ */

cudaError_t host_cudaPeekAtLastError(void)
{
	const cudaError_t sticky = fault_sticky(device_current());

	return sticky != cudaSuccess ? sticky : *device_last_error();
}

cudaError_t host_cudaGetLastError(void)
{
	const cudaError_t error = host_cudaPeekAtLastError();

	*device_last_error() = cudaSuccess;
	return error;
}

#define ENTRY(name, value, driver, text) { name, #name, text },
#define ENTRY_OF_RUNTIME(name, value, text) { name, #name, text },
static const struct text {
	cudaError_t error;
	const char *name;
	const char *text;
} texts[] = { CUDA_ERRORS(ENTRY, ENTRY_OF_RUNTIME) };

static const struct text *find(cudaError_t error)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(texts); i++)
		if (texts[i].error == error)
			return &texts[i];
	return NULL;
}

#define UNKNOWN "unrecognized error code"

const char *host_cudaGetErrorName(cudaError_t error)
{
	const struct text *t = find(error);

	return t ? t->name : UNKNOWN;
}

const char *host_cudaGetErrorString(cudaError_t error)
{
	const struct text *t = find(error);

	return t ? t->text : UNKNOWN;
}
