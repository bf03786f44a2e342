/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests of the properties that the host platform's devices report, and of the
 * settings that the devices store
 */

#include <criterion/criterion.h>
#include <string.h>

#include "sim/host.h"
#include "support/expect.h"
#include "support/native.h"

static const struct platform *p;

static void open_three(void)
{
	p = native_open_host(3);
}

TestSuite(properties, .init = open_three, .timeout = 10);

Test(properties, device_properties_are_filled_in)
{
	struct cudaDeviceProp q;

	memset(&q, 0xff, sizeof(q));
	cr_assert_eq(host_cudaGetDeviceProperties(&q, 2), cudaSuccess);
	expect_text(q.name, "host");
	cr_assert_eq(q.major, 9);
	cr_assert_eq(q.warpSize, 32);
	cr_assert_gt(q.totalGlobalMem, 0);
	cr_assert_eq(q.pciBusID, 3);
	cr_assert_eq(q.reserved[55], 0);
	cr_assert_eq(q.hostNumaId, -1);
}

Test(properties, cuda_12_and_13_device_properties_are_equal)
{
	struct cudaDeviceProp12 old;
	struct cudaDeviceProp q;

	memset(&old, 0xff, sizeof(old));
	native_must(host_cudaGetDeviceProperties(&q, 1), "properties");
	cr_assert_eq(host12_cudaGetDeviceProperties_v2(&old, 1), cudaSuccess);
	cr_assert_str_eq(old.name, q.name);
	cr_assert_eq(old.totalConstMem, q.totalConstMem);
	cr_assert_eq(old.memoryPoolsSupported, q.memoryPoolsSupported);
	cr_assert_gt(old.clockRate, 0);
	cr_assert_eq(old.reserved[62], 0);
}

/* CUDA 11 has only the first of these properties. */
Test(properties, cuda_11_has_fewer_device_properties)
{
	struct cudaDeviceProp12 old;

	memset(&old, 0x55, sizeof(old));
	cr_assert_eq(host12_cudaGetDeviceProperties(&old, 1), cudaSuccess);
	cr_assert_eq(old.reservedSharedMemPerBlock, 1024);
	cr_assert_eq(old.hostRegisterSupported, 0x55555555);
}

Test(properties, device_properties_differ_between_devices)
{
	struct cudaDeviceProp a, b;

	native_must(host_cudaGetDeviceProperties(&a, 0), "properties");
	native_must(host_cudaGetDeviceProperties(&b, 1), "properties");
	cr_assert_neq(memcmp(&a.uuid, &b.uuid, sizeof(a.uuid)), 0);
	cr_assert_neq(a.pciBusID, b.pciBusID);
}

Test(properties, device_property_queries_check_their_arguments)
{
	struct cudaDeviceProp q;
	int value;

	cr_assert_eq(host_cudaGetDeviceProperties(NULL, 0),
	             cudaErrorInvalidValue);
	cr_assert_eq(host_cudaGetDeviceProperties(&q, 3),
	             cudaErrorInvalidDevice);
	cr_assert_eq(host_cudaDeviceGetAttribute(&value, cudaDevAttrWarpSize,
	                                         -1),
	             cudaErrorInvalidDevice);
	cr_assert_eq(host_cudaDeviceGetAttribute(NULL, cudaDevAttrWarpSize, 0),
	             cudaErrorInvalidValue);
	cr_assert_eq(host_cudaDeviceGetAttribute(&value,
	                                         (enum cudaDeviceAttr)9999, 0),
	             cudaErrorInvalidValue);
}

Test(properties, device_properties_are_available_as_attributes)
{
	int value = 0;

	cr_assert_eq(host_cudaDeviceGetAttribute(&value, cudaDevAttrWarpSize,
	                                         0),
	             cudaSuccess);
	cr_assert_eq(value, 32);
	cr_assert_eq(host_cudaDeviceGetAttribute(
			     &value, cudaDevAttrComputeCapabilityMajor, 0),
	             cudaSuccess);
	cr_assert_eq(value, 9);
	cr_assert_eq(host_cudaDeviceGetAttribute(&value, cudaDevAttrClockRate,
	                                         0),
	             cudaSuccess);
	cr_assert_gt(value, 0);
	cr_assert_eq(host_cudaDeviceGetAttribute(&value, cudaDevAttrHostNumaId,
	                                         0),
	             cudaSuccess);
	cr_assert_eq(value, -1);
}

Test(properties, cudaMemGetInfo_returns_free_and_total_memory)
{
	size_t unused = 0, total = 0;

	cr_assert_eq(host_cudaMemGetInfo(&unused, &total), cudaSuccess);
	cr_assert_gt(unused, 0);
	cr_assert_geq(total, unused);
	cr_assert_eq(host_cudaMemGetInfo(NULL, &total), cudaErrorInvalidValue);
}

/* ---- PCI --------------------------------------------------------------- */

Test(properties, device_can_be_found_by_its_pci_address)
{
	char id[16];
	int device = -1;

	cr_assert_eq(host_cudaDeviceGetPCIBusId(id, sizeof(id), 1),
	             cudaSuccess);
	cr_assert_str_eq(id, "0000:02:00.0");
	cr_assert_eq(host_cudaDeviceGetByPCIBusId(&device, id), cudaSuccess);
	cr_assert_eq(device, 1);
	cr_assert_eq(host_cudaDeviceGetByPCIBusId(&device, "0:3:0"),
	             cudaSuccess);
	cr_assert_eq(device, 2);
	cr_assert_eq(host_cudaDeviceGetByPCIBusId(&device, "01:00.0"),
	             cudaSuccess);
	cr_assert_eq(device, 0);
}

Test(properties, wrong_pci_address_finds_no_device)
{
	char id[16];
	int device = 7;

	cr_assert_eq(host_cudaDeviceGetByPCIBusId(&device, "0000:04:00.0"),
	             cudaErrorInvalidDevice);
	cr_assert_eq(host_cudaDeviceGetByPCIBusId(&device, "nonsense"),
	             cudaErrorInvalidDevice);
	cr_assert_eq(device, 7);
	cr_assert_eq(host_cudaDeviceGetByPCIBusId(NULL, id),
	             cudaErrorInvalidValue);
	cr_assert_eq(host_cudaDeviceGetPCIBusId(id, 12, 0),
	             cudaErrorInvalidValue);
	cr_assert_eq(host_cudaDeviceGetPCIBusId(id, 16, 3),
	             cudaErrorInvalidDevice);
}

/* ---- peers ------------------------------------------------------------- */

Test(properties, every_device_can_access_every_other_device)
{
	int can = -1;

	cr_assert_eq(host_cudaDeviceCanAccessPeer(&can, 0, 1), cudaSuccess);
	cr_assert_eq(can, 1);
	cr_assert_eq(host_cudaDeviceCanAccessPeer(&can, 1, 1), cudaSuccess);
	cr_assert_eq(can, 0);
	cr_assert_eq(host_cudaDeviceCanAccessPeer(&can, 1, 3),
	             cudaErrorInvalidDevice);
	cr_assert_eq(host_cudaDeviceGetP2PAttribute(
			     &can, cudaDevP2PAttrAccessSupported, 0, 1),
	             cudaSuccess);
	cr_assert_eq(can, 1);
	cr_assert_eq(host_cudaDeviceGetP2PAttribute(
			     &can, cudaDevP2PAttrAccessSupported, 1, 1),
	             cudaErrorInvalidDevice);
}

Test(properties, peer_access_can_be_enabled_only_once)
{
	cr_assert_eq(host_cudaDeviceDisablePeerAccess(1),
	             cudaErrorPeerAccessNotEnabled);
	cr_assert_eq(host_cudaDeviceEnablePeerAccess(1, 1),
	             cudaErrorInvalidValue);
	cr_assert_eq(host_cudaDeviceEnablePeerAccess(0, 0),
	             cudaErrorInvalidDevice, "a device is not its own peer");
	cr_assert_eq(host_cudaDeviceEnablePeerAccess(1, 0), cudaSuccess);
	cr_assert_eq(host_cudaDeviceEnablePeerAccess(1, 0),
	             cudaErrorPeerAccessAlreadyEnabled);
	cr_assert_eq(host_cudaDeviceDisablePeerAccess(1), cudaSuccess);
	cr_assert_eq(host_cudaDeviceEnablePeerAccess(1, 0), cudaSuccess);
	cr_assert_eq(host_cudaDeviceReset(), cudaSuccess);
	cr_assert_eq(host_cudaDeviceEnablePeerAccess(1, 0), cudaSuccess,
	             "forgotten by the reset");
}

/* ---- settings ---------------------------------------------------------- */

Test(properties, device_flags_are_stored_per_device)
{
	unsigned int flags = 0;

	cr_assert_eq(host_cudaSetDeviceFlags(cudaDeviceScheduleBlockingSync),
	             cudaSuccess);
	cr_assert_eq(host_cudaGetDeviceFlags(&flags), cudaSuccess);
	cr_assert_eq(flags, cudaDeviceScheduleBlockingSync | cudaDeviceMapHost);
	p->cudaSetDevice(1);
	cr_assert_eq(host_cudaGetDeviceFlags(&flags), cudaSuccess);
	cr_assert_eq(flags, cudaDeviceMapHost);
	cr_assert_eq(host_cudaSetDeviceFlags(3), cudaErrorInvalidValue);
	cr_assert_eq(host_cudaSetDeviceFlags(0x1000), cudaErrorInvalidValue);
	cr_assert_eq(host_cudaInitDevice(2, cudaDeviceScheduleSpin,
	                                 cudaInitDeviceFlagsAreValid),
	             cudaSuccess);
	cr_assert_eq(host_cudaInitDevice(3, 0, 0), cudaErrorInvalidDevice);
	cr_assert_eq(host_cudaInitDevice(0, 0, 2), cudaErrorInvalidValue);
	p->cudaSetDevice(2);
	cr_assert_eq(host_cudaGetDeviceFlags(&flags), cudaSuccess);
	cr_assert_eq(flags, cudaDeviceScheduleSpin | cudaDeviceMapHost);
}

Test(properties, device_limits_are_stored)
{
	size_t value = 0;

	cr_assert_eq(host_cudaDeviceGetLimit(&value, cudaLimitStackSize),
	             cudaSuccess);
	cr_assert_eq(value, 1024);
	cr_assert_eq(host_cudaDeviceSetLimit(cudaLimitStackSize, 4096),
	             cudaSuccess);
	cr_assert_eq(host_cudaDeviceGetLimit(&value, cudaLimitStackSize),
	             cudaSuccess);
	cr_assert_eq(value, 4096);
	cr_assert_eq(host_cudaDeviceSetLimit(cudaLimitDevRuntimeSyncDepth, 1),
	             cudaErrorUnsupportedLimit);
	cr_assert_eq(host_cudaDeviceGetLimit(&value, (enum cudaLimit)7),
	             cudaErrorInvalidValue);
}

static int device_of_thread(void)
{
	int device = -1;

	native_must(p->cudaGetDevice(&device), "cudaGetDevice");
	return device;
}

Test(properties, cudaSetValidDevices_makes_its_first_device_current)
{
	int list[] = { 2, 1 }, wrong[] = { 0, 3 };

	cr_assert_eq(host_cudaSetValidDevices(wrong, 2),
	             cudaErrorInvalidDevice);
	cr_assert_eq(host_cudaSetValidDevices(NULL, 1), cudaErrorInvalidValue);
	cr_assert_eq(host_cudaSetValidDevices(list, 4), cudaErrorInvalidValue);
	cr_assert_eq(host_cudaSetValidDevices(list, 2), cudaSuccess);
	cr_assert_eq(device_of_thread(), 2);
	p->cudaSetDevice(0);
	cr_assert_eq(device_of_thread(), 0);
}

Test(properties, stream_priorities_have_a_range)
{
	int least = 1, greatest = 1;

	cr_assert_eq(host_cudaDeviceGetStreamPriorityRange(&least, &greatest),
	             cudaSuccess);
	cr_assert_eq(least, 0);
	cr_assert_lt(greatest, 0);
	cr_assert_eq(host_cudaDeviceGetStreamPriorityRange(NULL, NULL),
	             cudaSuccess);
}

Test(properties, device_reset_frees_the_memory_of_the_device)
{
	void *mine, *other;

	native_must(p->cudaMalloc(&mine, 8), "cudaMalloc");
	p->cudaSetDevice(1);
	native_must(p->cudaMalloc(&other, 8), "cudaMalloc");
	p->cudaSetDevice(0);
	cr_assert_eq(host_cudaDeviceReset(), cudaSuccess);
	cr_assert_eq(p->cudaFree(mine), cudaErrorInvalidValue);
	cr_assert_eq(p->cudaFree(other), cudaSuccess);
}
