/* SPDX-License-Identifier: Apache-2.0 */
#ifndef API_JOIN_H
#define API_JOIN_H

#include "platform/platform.h"

/* Return NCCL's own ID from @id, and store its platform in @platform.  The
 * caller can then join by plain NCCL calls. */
ncclUniqueId join_native_id(const struct cohort_unique_id *id,
                            const struct platform **platform);

#endif
