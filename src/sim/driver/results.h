/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_DRIVER_RESULTS_H
#define SIM_DRIVER_RESULTS_H

/*
 * The error codes of the CUDA driver, as a list: X(the runtime's name, value,
 * name, text)
 *
 * This file declares no types.
 */

#include "platform/cuda_errors.h"

#define CU_NO_RESULT(name, value, text)
#define CU_RESULTS(X)                                                          \
	CUDA_ERRORS(X, CU_NO_RESULT)                                           \
	X(none, 202, CUDA_ERROR_CONTEXT_ALREADY_CURRENT, "")

#endif
