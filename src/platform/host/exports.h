/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOST_EXPORTS_H
#define HOST_EXPORTS_H

/*
 * What the host platform has of the CUDA runtime beyond what the platform's
 * table needs: for the programs of others, through the drop-in libraries.
 * X(since, result, name, parameters, arguments), as in platform/functions.h.
 */

/* clang-format off */
#define HOST_CUDA_FUNCTIONS(X)
/* clang-format on */

#endif
