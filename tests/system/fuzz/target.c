/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The libFuzzer target: NCCL and the CUDA runtime of the host platform
 */

#include "support/reference.h"
#include "system/fuzz/fuzz.h"
#include "system/fuzz/program.h"

static void open_platform(void)
{
	const struct platform *table;
	static bool opened;
	int devices;

	if (opened)
		return;
	opened = true;
	cohort_sim_set_devices(DEVICES);
	if (host_platform_open(&table, &devices) != COHORT_OK ||
	    devices != DEVICES)
		fuzz_fail("no host platform with %d devices", DEVICES);
	reference_begin();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	open_platform();
	fuzz_run(data, size);
	return 0;
}
