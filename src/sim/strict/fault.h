/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_STRICT_FAULT_H
#define SIM_STRICT_FAULT_H

#include <stdbool.h>
#include <stdint.h>

#include <cohort/sim.h>

#include "platform/cuda_abi.h"

/* Add a fault to the script of this copy of the simulator.  A process can
 * contain a second copy, in the drop-in libraries (knobs.c). */
int fault_add(const struct cohort_fault *fault);

/* Clear the script of this copy of the simulator, and repair all devices. */
void fault_clear_all(void);

void fault_call_each(int (*add)(const struct cohort_fault *fault));

/* Read COHORT_FAULTS, once.  If it is invalid, return COHORT_INVALID and set a
 * message that names the invalid part. */
int fault_init(void);

/* Operation numbers of faults that strike an init or a split. */
enum { FAULT_INIT = 0, FAULT_SPLIT = 1 };

/* Remove and return the fault for operation @operation of @rank or, if @init,
 * for an init or a split.  The kind of the result is 0 if there is no such
 * fault.  Stores the number of the script in *@script_out, for fault_hold(). */
struct cohort_fault fault_take(int rank, bool init, uint64_t operation,
                               uint64_t *script_out);

/* Return the first PATH or GARBLE fault, starting at index *@after, whose path
 * has @device at one end.  The kind of the result is 0 if there is no such
 * fault.  Stores the device at the other end in *@other, and the index for the
 * next call in *@after. */
struct cohort_fault fault_of_path(int device, int *after, int *other);

struct cohort_fault fault_between(int a, int b);

bool fault_is_scripted(void);

/* Make all later calls on @device return @error, until fault_clear_all(). */
void fault_fail_device(int device, int error);

/* Return the error of @device, or cudaSuccess if it has not failed. */
cudaError_t fault_of_device(int device);

/* Return the error of @device if it is sticky, which means that CUDA returns it
 * from every later call; otherwise cudaSuccess. */
cudaError_t fault_sticky(int device);

/* Wait until the script with number @script is cleared, or until @until_ns. */
void fault_hold(uint64_t script, uint64_t until_ns);

#endif
