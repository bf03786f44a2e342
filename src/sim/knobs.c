/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The functions of cohort/sim.h
 *
 * They control the simulator in this library.  If the gpu platform uses the
 * drop-in libraries, they also control the copy of the simulator in those
 * libraries.
 */

#include <pthread.h>

#include <cohort/sim.h>

#include "base/process.h"
#include "base/scoped_lock.h"
#include "base/status.h"
#include "platform/drop_in.h"
#include "platform/platform.h"
#include "sim/cuda/cuda_device.h"
#include "sim/strict/fault.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Functions of the copy of the simulator in the drop-in libraries, or NULL if
 * the gpu platform does not use these libraries.  Guarded by lock. */
static const struct host_knobs *drop_in;

/* Return true if a scripted fault must be added to the built-in simulator.
 * While only the drop-in libraries run, a fault in the built-in simulator's
 * script would stay pending until that simulator is used. */
static bool applies_to_built_in(void)
{
	return !drop_in || device_count();
}

int host_platform_join(const struct host_knobs *knobs)
{
	int rc;

	SCOPED_LOCK(&lock);
	if (!drop_in) {
		drop_in = knobs;
		if (device_requested_count())
			knobs->set_devices(device_requested_count());
		fault_call_each(knobs->fault_add);
		if (!applies_to_built_in())
			fault_clear_all();
	}
	rc = knobs->open();
	if (rc != COHORT_OK)
		error_set(rc, "%s", knobs->last_error());
	return rc;
}

int cohort_sim_set_devices(int n)
{
	int rc = process_check();

	if (rc != COHORT_OK)
		return rc;
	SCOPED_LOCK(&lock);
	rc = device_request_count(n);
	if (rc == COHORT_OK && drop_in && drop_in->set_devices(n) != COHORT_OK)
		rc = error_set(COHORT_STATE,
		               "n is %d, but the drop-in libraries are already "
		               "in use with another number of devices",
		               n);
	return rc;
}

int cohort_sim_fault_add(const struct cohort_fault *fault)
{
	int rc = process_check();

	if (rc != COHORT_OK)
		return rc;
	SCOPED_LOCK(&lock);
	if (applies_to_built_in())
		rc = fault_add(fault);
	if (rc == COHORT_OK && drop_in) {
		rc = drop_in->fault_add(fault);
		if (rc != COHORT_OK)
			error_set(rc, "%s", drop_in->last_error());
	}
	return rc;
}

void cohort_sim_faults_clear(void)
{
	SCOPED_LOCK(&lock);
	fault_clear_all();
	if (drop_in)
		drop_in->faults_clear();
}
