/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_STRICT_FAULT_H
#define SIM_STRICT_FAULT_H

#include <stdbool.h>
#include <stdint.h>

#include <cohort/sim.h>

#include "platform/cuda_abi.h"

/* What cohort_sim_fault_add() and cohort_sim_faults_clear() do in this
 * process's simulator alone (knobs.c). */
int fault_add(const struct cohort_fault *fault);
void fault_clear_all(void);

/* Call @add with each fault that is waiting. */
void fault_tell(int (*add)(const struct cohort_fault *fault));

/* Read COHORT_FAULTS, once.  COHORT_INVALID: the message names what it cannot
 * read. */
int fault_init(void);

/* Take the fault scripted for operation @operation of @rank; its kind is 0 if
 * there is none.  Stores the number of the script, for fault_hold(), if there
 * is a fault. */
struct cohort_fault fault_take(int rank, uint64_t operation,
                               uint64_t *script_out);

/* The first fault of the kind PATH or GARBLE, from @after on, that is of a path
 * to @device; its kind is 0 if there is none.  Stores the device at the other
 * end of the path, and where to look for the next one. */
struct cohort_fault fault_of_path(int device, int *after, int *other);

/* The fault of the path between two devices; its kind is 0 if there is none. */
struct cohort_fault fault_between(int a, int b);

/* True if any fault is waiting. */
bool fault_is_scripted(void);

/* The operations of faults that strike an init. */
enum { FAULT_INIT = 0, FAULT_SPLIT = 1 };

/* As fault_take(), for an init or a split of @rank. */
struct cohort_fault fault_take_init(int rank, uint64_t operation,
                                    uint64_t *script_out);

/* Make every question about @device answer @error from now on, until all faults
 * are cleared; and that error, cudaSuccess if the device has not failed. */
void fault_fail_device(int device, int error);
cudaError_t fault_of_device(int device);

/* The error of @device if CUDA answers every later call with it, else
 * cudaSuccess. */
cudaError_t fault_sticky(int device);

/* Wait until the script that a fault was taken from is cleared, or the clock
 * shows @until_ns. */
void fault_hold(uint64_t script, uint64_t until_ns);

#endif
