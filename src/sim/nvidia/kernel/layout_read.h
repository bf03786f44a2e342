/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_NVIDIA_KERNEL_LAYOUT_READ_H
#define SIM_NVIDIA_KERNEL_LAYOUT_READ_H

/* Reads NCCL's structures, using the table of a version's layouts */

#include "sim/nvidia/kernel/nccl_version.h"

int read_row_count(const struct layout *l);

struct function read_row(const struct layout *l, int row);

/* Read the arguments of a launch, except for the member end, which the caller
 * sets. */
struct arguments read_arguments(const struct layout *l, const void *from);

struct kernel_comm read_comm(const struct layout *l, const void *comm);
struct channel read_channel(const struct layout *l, const void *comm, int id);

/* Read a connection for sending to, or receiving from, a peer of a channel.
 * @index is 0 for collectives, and 1 for sends and receives. */
struct connection read_connection(const struct layout *l, void *peer,
                                  bool sends, int index);

struct batch read_batch(const struct layout *l, const void *from);
struct coll_work read_coll(const struct layout *l, const void *from);
struct p2p_work read_p2p(const struct layout *l, const void *from);
struct broadcast_work read_broadcast(const struct layout *l, const void *from);

/* Return true if the host's profiler has requested events for the work. */
bool read_profiled(const struct layout *l, enum work_type type,
                   const void *from);

/* Record the current time in @events (the member started or completed of struct
 * kernel_comm) for work number @count of a channel. */
void write_profile(void *events, int channel, uint64_t count);

#endif
