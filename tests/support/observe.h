/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OBSERVE_H
#define OBSERVE_H

/*
 * A platform table that reports every native call to the test before making it
 */

struct platform;

/* Make groups that are opened later call @see with the name of each NCCL and
 * CUDA function before they call the function itself, on the same thread.
 * @real: the table of these functions, from place_open() or place_table() */
void observe_install(const struct platform *real,
                     void (*see)(const char *function));

#endif
