/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OBSERVE_H
#define OBSERVE_H

/*
 * A platform table that reports every native call to the test before making it
 */

struct platform;

/* Put the table in front of @real, which is from place_open() or place_table().
 * For groups that are opened later, it calls @see with the name of each NCCL
 * and CUDA function, on the thread that makes the call. */
void observe_install(const struct platform *real,
                     void (*see)(const char *function));

#endif
