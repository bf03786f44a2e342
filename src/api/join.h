/* SPDX-License-Identifier: Apache-2.0 */
#ifndef API_JOIN_H
#define API_JOIN_H

#include "platform/platform.h"

/* What NCCL calls the communicator that ranks join by @id: for a rank that is none of
 * this library's.  The platform is that of the id. */
ncclUniqueId join_native_id(const struct cohort_unique_id *id,
                            const struct platform **platform);

#endif
