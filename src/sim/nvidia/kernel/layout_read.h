/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_NVIDIA_KERNEL_LAYOUT_READ_H
#define SIM_NVIDIA_KERNEL_LAYOUT_READ_H

/*
 * Reading NCCL's structures, as the table of a version has them
 */

#include "sim/nvidia/kernel/nccl_version.h"

/* The number of rows of FUNCTION_TABLE, and what the function of a row does. */
int read_row_count(const struct layout *l);
struct function read_row(const struct layout *l, int row);

/* All but their end. */
struct arguments read_arguments(const struct layout *l, const void *from);

struct kernel_comm read_comm(const struct layout *l, const void *comm);
struct channel read_channel(const struct layout *l, const void *comm, int id);

/* @peer: one of a channel's.  @index: 0 for collectives, 1 for send and
 *        receive. */
struct connection read_send(const struct layout *l, void *peer, int index);
struct connection read_recv(const struct layout *l, void *peer, int index);

struct batch read_batch(const struct layout *l, const void *from);
struct coll_work read_coll(const struct layout *l, const void *from);
struct p2p_work read_p2p(const struct layout *l, const void *from);
struct broadcast_work read_broadcast(const struct layout *l, const void *from);

/* Whether the host's profiler wants to know of the work. */
bool read_profiled(const struct layout *l, enum work_type type,
                   const void *from);

/* Write the time of @events, kernel_comm's started or completed, of a channel's
 * work number @count. */
void write_profile(void *events, int channel, uint64_t count);

#endif
