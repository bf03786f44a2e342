/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SUPPORT_NCCL_WRITE_H
#define TESTS_SUPPORT_NCCL_WRITE_H

/*
 * Functions that write the structures that NCCL's host code passes to its
 * kernels
 *
 * They support the layouts of all versions of NCCL. The functions that read the
 * structures are in sim/nvidia/kernel/layout_read.h.
 */

#include "sim/nvidia/kernel/nccl_version.h"

void nccl_write_arguments(const struct layout *l, void *to,
                          const struct arguments *a, bool in_arguments);
void nccl_write_comm(const struct layout *l, void *to,
                     const struct kernel_comm *c, void *channels);
void nccl_write_channel(const struct layout *l, void *to,
                        const struct channel *c);
void nccl_write_connection(const struct layout *l, void *to,
                           const struct connection *c);
void nccl_write_batch(const struct layout *l, void *to, const struct batch *b);
void nccl_write_coll(const struct layout *l, void *to,
                     const struct coll_work *w);
void nccl_write_broadcast(const struct layout *l, void *to,
                          const struct broadcast_work *w);

/* Write a point-to-point work item. Its chunk sizes must be powers of two. */
void nccl_write_p2p(const struct layout *l, void *to, const struct p2p_work *w);

#endif
