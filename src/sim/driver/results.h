/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_DRIVER_RESULTS_H
#define SIM_DRIVER_RESULTS_H

/*
 * The error codes of the CUDA driver: X(the runtime's name, value, name, text).
 * No types are declared here.
 */

#include "platform/cuda_errors.h"

#define CU_NO_RESULT(name, value, text)
#define CU_RESULTS(X)                                                          \
	CUDA_ERRORS(X, CU_NO_RESULT)                                           \
	X(none, 202, CUDA_ERROR_CONTEXT_ALREADY_CURRENT, "")

#endif
