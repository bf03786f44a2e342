/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The functions of cohort/sim.h: for the simulator that is built in, and for
 * the one in the drop-in libraries once the gpu platform stands on these
 */

#include <pthread.h>

#include <cohort/sim.h>

#include "base/process.h"
#include "base/scoped_lock.h"
#include "base/status.h"
#include "platform/drop_in.h"
#include "platform/platform.h"
#include "sim/cuda/cuda_device.h"
#include "sim/cuda/sync.h"
#include "sim/strict/fault.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Guarded by lock; NULL: the gpu platform does not stand on drop-in
 * libraries. */
static const struct host_knobs *drop_in;

/* True if faults are for the built-in simulator, too.  Beside the other one
 * only if the built-in one is in use: else nothing would use its faults up. */
static bool is_meant(void)
{
	return !drop_in || device_count();
}

int host_platform_join(const struct host_knobs *knobs)
{
	int rc;

	SCOPED_LOCK(&lock);
	if (!drop_in) {
		drop_in = knobs;
		if (device_wanted())
			knobs->set_devices(device_wanted());
		if (sync_wanted())
			knobs->set_sync(sync_wanted());
		fault_tell(knobs->fault_add);
		if (!is_meant())
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
	rc = device_want(n);
	if (rc == COHORT_OK && drop_in && drop_in->set_devices(n) != COHORT_OK)
		rc = error_set(COHORT_STATE,
		               "n is %d, but the drop-in libraries are in use "
		               "with another number of devices",
		               n);
	return rc;
}

int cohort_sim_set_sync(int sync)
{
	int rc = process_check();

	if (rc != COHORT_OK)
		return rc;
	SCOPED_LOCK(&lock);
	rc = sync_want(sync);
	if (rc == COHORT_OK && drop_in && drop_in->set_sync(sync) != COHORT_OK)
		rc = error_set(COHORT_STATE,
		               "sync is %d, but the drop-in libraries are in "
		               "use with another value",
		               sync);
	return rc;
}

int cohort_sim_fault_add(const struct cohort_fault *fault)
{
	int rc = process_check();

	if (rc != COHORT_OK)
		return rc;
	SCOPED_LOCK(&lock);
	if (is_meant())
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
