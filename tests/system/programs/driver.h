/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DRIVER_H
#define DRIVER_H

/*
 * Helpers of the driver's programs: calls that must succeed, and functions by
 * name
 *
 * A program opens the driver itself and finds everything else by
 * cuGetProcAddress(), as NCCL and the CUDA runtime do.
 */

#include <cuda.h>
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *driver_library;

/* cuGetProcAddress() with its signature since CUDA 12 */
static CUresult (*get_address)(const char *name, void **out, int version,
                               uint64_t flags,
                               CUdriverProcAddressQueryResult *status);

static inline void failed(const char *file, int line, const char *what,
                          int result)
{
	fprintf(stderr, "%s:%d: %s: %d\n", file, line, what, result);
	exit(1);
}

#define GIVES(wanted, call)                                                    \
	do {                                                                   \
		CUresult result_ = (call);                                     \
                                                                               \
		if (result_ != (wanted))                                       \
			failed(__FILE__, __LINE__, #call, (int)result_);       \
	} while (0)
#define CU(call) GIVES(CUDA_SUCCESS, p_##call)
#define CHECK(condition)                                                       \
	do {                                                                   \
		if (!(condition))                                              \
			failed(__FILE__, __LINE__, #condition, 0);             \
	} while (0)

/* For a list of functions X(name): declare p_name, and find all of them. */
#define POINTER(name) static __typeof__(name) *p_##name;
#define FIND(name) find(#name, CUDA_VERSION, 0, &p_##name);

/* Store in @out the function that has this name in @version of CUDA. */
static inline void find(const char *name, int version, uint64_t flags,
                        void *out)
{
	CUdriverProcAddressQueryResult status;
	void *address = NULL;

	if (get_address(name, &address, version, flags, &status) ||
	    status != CU_GET_PROC_ADDRESS_SUCCESS || !address) {
		fprintf(stderr, "there is no %s\n", name);
		exit(1);
	}
	memcpy(out, &address, sizeof(address));
}

static inline void open_driver(void)
{
	driver_library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	CHECK(driver_library);
	*(void **)&get_address = dlsym(driver_library, "cuGetProcAddress_v2");
	CHECK(get_address);
}

#endif
