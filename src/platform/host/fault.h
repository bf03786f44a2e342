/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOST_FAULT_H
#define HOST_FAULT_H

#include <cohort/sim.h>

/* Read COHORT_FAULTS, once.  COHORT_INVALID names the part it cannot read. */
int fault_init(void);

/* Take the fault scripted for operation @operation of @rank, if any; its kind
 * is 0 if there is none. */
struct cohort_fault fault_take(int rank, uint64_t operation);

#endif
