/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_NVIDIA_KERNEL_TASK_PROGRAM_H
#define SIM_NVIDIA_KERNEL_TASK_PROGRAM_H

/*
 * Which tasks carry out a work, and which operations a task has
 */

#include "sim/nvidia/kernel/task.h"

/* What a work has most: a tree's way up and its way down; a message that is
 * sent, and one that is received. */
#define TASKS_PER_WORK 2

/* How many elements one rank's part of a collective has, on all channels. */
static inline size_t coll_work_count(const struct coll_work *w)
{
	const int middle = w->channel_high - w->channel_low - 1;

	return w->count[0] + w->count[2] +
	       (middle > 0 ? (size_t)middle * w->count[1] : 0);
}

/* Whether there is a program for it. */
bool program_exists(const struct function *function);

/*
 * Make the tasks of @work on @channel: returns how many.  What is passed by
 * address stays until the tasks have ended.
 */
int program_coll(struct task tasks[TASKS_PER_WORK], const struct layout *layout,
                 const struct function *function,
                 const struct kernel_comm *comm, const struct channel *channel,
                 const struct coll_work *work);
int program_p2p(struct task tasks[TASKS_PER_WORK], const struct layout *layout,
                const struct kernel_comm *comm, const struct channel *channel,
                const struct p2p_work *work);

int program_broadcasts(struct task tasks[TASKS_PER_WORK],
                       const struct layout *layout,
                       const struct function *function,
                       const struct kernel_comm *comm,
                       const struct channel *channel,
                       const struct broadcast_work *works, int count);

#endif
