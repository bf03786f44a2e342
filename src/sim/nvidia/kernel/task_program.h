/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_NVIDIA_KERNEL_TASK_PROGRAM_H
#define SIM_NVIDIA_KERNEL_TASK_PROGRAM_H

/*
 * Creates the tasks that carry out a work (one collective or message of a
 * launch), and their operations
 */

#include "sim/nvidia/kernel/task.h"

/* Maximum number of tasks per work: up and down a tree, or one message sent and
 * one received. */
#define TASKS_PER_WORK 2

/* Return the number of elements in one rank's part of a collective, on all
 * channels. */
static inline size_t coll_work_count(const struct coll_work *w)
{
	const int middle = w->channel_high - w->channel_low - 1;

	return w->count[0] + w->count[2] +
	       (middle > 0 ? (size_t)middle * w->count[1] : 0);
}

bool program_exists(const struct function *function);

/*
 * Create the tasks of a collective on @channel and return their number.
 * Everything that is passed by address must stay valid until the tasks are
 * done.
 */
int program_coll(struct task tasks[TASKS_PER_WORK], const struct layout *layout,
                 const struct function *function,
                 const struct kernel_comm *comm, const struct channel *channel,
                 const struct coll_work *work);

/* Create the tasks of messages on @channel, and return their number.
 * Everything that is passed by address must stay valid until the tasks are
 * done. */
int program_p2p(struct task tasks[TASKS_PER_WORK], const struct layout *layout,
                const struct kernel_comm *comm, const struct channel *channel,
                const struct p2p_work *work);

/* Create the task of several broadcasts on @channel, and return the number of
 * tasks.  Everything that is passed by address must stay valid until the task
 * is done. */
int program_broadcasts(struct task tasks[TASKS_PER_WORK],
                       const struct layout *layout,
                       const struct function *function,
                       const struct kernel_comm *comm,
                       const struct channel *channel,
                       const struct broadcast_work *works, int count);

#endif
