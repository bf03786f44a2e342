/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_CUDA_USER_OBJECT_H
#define SIM_CUDA_USER_OBJECT_H

/*
 * User objects: what the program gives a graph to keep, and wants to hear the
 * end of
 */

#include <stdbool.h>

struct user_object;

/* Uses of one object that a graph has. */
struct graph_use {
	struct user_object *object;
	unsigned int count;
	struct graph_use *next;
};

/* Let @to, which is empty, have the uses of @from, too: false without memory,
 * and then @to has some of them. */
bool user_objects_copy(struct graph_use **to, const struct graph_use *from);

/* Give back all uses.  An object ends with its last use: its function is
 * called. */
void user_objects_drop(struct graph_use *uses);

#endif
