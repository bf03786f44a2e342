/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_STRICT_FAULT_H
#define SIM_STRICT_FAULT_H

#include <stdbool.h>
#include <stdint.h>

#include <cohort/sim.h>

#include "platform/cuda_abi.h"

/* What cohort_sim_fault_add() and cohort_sim_faults_clear() do, on this platform
 * alone. */
int fault_add(const struct cohort_fault *fault);
void fault_clear_all(void);

/* Call @add with each fault that is waiting. */
void fault_tell(int (*add)(const struct cohort_fault *fault));

/* Read COHORT_FAULTS, once.  COHORT_INVALID names the part it cannot read. */
int fault_init(void);

/* Take the fault scripted for operation @operation of @rank, if any; its kind is
 * 0 if there is none.  @script_out is for fault_hold(), and untouched if there is
 * none. */
struct cohort_fault fault_take(int rank, uint64_t operation,
                               uint64_t *script_out);

/* True if any is. */
bool fault_is_scripted(void);

/* The operations of faults that are of an init. */
enum { FAULT_INIT = 0, FAULT_SPLIT = 1 };

/* The same for an init, or a split, of @rank. */
struct cohort_fault fault_take_init(int rank, uint64_t operation,
                                    uint64_t *script_out);

/* Have what asks of @device answer @error from now on, until all faults are cleared;
 * and what that is, cudaSuccess: nothing is wrong. */
void fault_fail_device(int device, int error);
cudaError_t fault_of_device(int device);

/* That error if it is one with which CUDA answers every later call, else cudaSuccess. */
cudaError_t fault_sticky(int device);

/* Wait until the script that a fault was taken from is cleared, or the clock
 * shows @until_ns. */
void fault_hold(uint64_t script, uint64_t until_ns);

#endif
