/* SPDX-License-Identifier: Apache-2.0 */
#ifndef API_JOIN_H
#define API_JOIN_H

#include "platform/platform.h"

/* NCCL's own id in @id, for a rank that joins without this library; and the
 * platform that the id belongs to. */
ncclUniqueId join_native_id(const struct cohort_unique_id *id,
                            const struct platform **platform);

#endif
