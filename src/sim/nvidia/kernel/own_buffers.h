/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_NVIDIA_KERNEL_OWN_BUFFERS_H
#define SIM_NVIDIA_KERNEL_OWN_BUFFERS_H

/*
 * Which of the program's buffers a work reads and writes, and whether it may
 */

#include "sim/nvidia/kernel.h"
#include "sim/nvidia/kernel/layout.h"

/* A buffer that must not be used. */
struct bad_buffer {
	const void *start;
	size_t bytes;
};

/* False: stores the first buffer that @may_use refuses. */
bool own_buffers_of_coll(const struct function *function,
                         const struct kernel_comm *comm,
                         const struct coll_work *work, nvidia_may_use *may_use,
                         struct bad_buffer *bad);
bool own_buffers_of_p2p(const struct p2p_work *work, nvidia_may_use *may_use,
                        struct bad_buffer *bad);
bool own_buffers_of_broadcast(const struct broadcast_work *w,
                              nvidia_may_use *may_use, struct bad_buffer *bad);

#endif
