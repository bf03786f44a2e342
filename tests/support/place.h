/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PLACE_H
#define PLACE_H

/*
 * Where a test runs: on the host platform, or with COHORT_PLATFORM=gpu in the
 * environment on the gpu platform; and what that forbids
 *
 * With TEST_DEVICES=real, devices are taken as they are: nobody scripts faults,
 * nobody chooses how many there are, and plain memory of tests is made known to
 * CUDA when it is used as a device's.  What cannot be tested there is skipped, with
 * the reason.  So the same tests are for GPUs, and can be tried without.
 */

#include <stdbool.h>

#include "platform/platform.h"

/* The platform that is tested; and have the environment say so. */
int place_platform(void);
void place_choose(void);

/* True if devices are taken as they are. */
bool place_is_real(void);

/* The platform's table. */
const struct platform *place_table(void);

/* The same, for as many devices as @devices, which decides how many
 * there are where anybody does. */
const struct platform *place_open(int devices);

/* How many devices there are. */
int place_devices(void);

/* Skip the test unless there are @devices; or unless a communicator may be of
 * @ranks, those of other processes among them; or if it is about what only the host
 * platform has, and @what says what that is. */
void place_need(int devices);
void place_need_world(int ranks);
void place_need_host(const char *what);

/* The same, of the host platform that is built in. */
void place_need_built_in(const char *what);

/* Skip the test.  Of a plain program this is the end, with exit status 77. */
void place_skip(const char *why);

/* True where memory functions wait for all that was launched (COHORT_HOST_SYNC); and
 * skip the test there. */
bool place_has_sync(void);
void place_need_no_sync(const char *why);

#endif
