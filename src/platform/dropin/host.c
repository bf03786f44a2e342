/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The one function that libcohort-host.so exports
 */

#include <pthread.h>
#include <stdio.h>

#include "platform/dropin/calls.h"
#include "platform/host/device.h"

/* Constant once set_up() has run. */
static struct host_calls calls = {
#define HOST_CALL(since, result, name, parameters, arguments)                  \
	.name = host_##name,
	NCCL_FUNCTIONS(HOST_CALL) CUDA_FUNCTIONS(HOST_CALL)
		HOST_CUDA_FUNCTIONS(HOST_CALL)
#undef HOST_CALL
			.fail = device_error,
	.fault_add = cohort_sim_fault_add,
	.faults_clear = cohort_sim_faults_clear,
};

static void set_up(void)
{
	const struct platform *table;
	int devices;

	if (host_platform_open(&table, &devices) == COHORT_OK)
		return;
	calls.refused = true;
	fprintf(stderr, "cohort: no host platform: %s\n", cohort_last_error());
}

const struct host_calls *cohort_host_calls(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, set_up);
	return &calls;
}
