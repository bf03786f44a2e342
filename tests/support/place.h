/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PLACE_H
#define PLACE_H

/*
 * Where a test runs, and what that forbids
 *
 * A test runs on the host platform or, with COHORT_PLATFORM=gpu in the
 * environment, on the gpu platform.  With TEST_DEVICES=real, devices are taken
 * as they are: no test scripts faults or chooses how many devices there are,
 * and plain memory of tests is made known to CUDA when a test uses it as a
 * device's.  What cannot be tested there is skipped, with the reason.  So one
 * set of tests serves GPUs, and can be tried without them.
 */

#include <stdbool.h>
#include <stdint.h>

#include "platform/platform.h"

/* The platform that is tested, which the environment then names, too. */
int place_platform(void);
void place_choose(void);

/* True if devices are taken as they are; and if NCCL is NVIDIA's own (on GPUs, or
 * with cohort run --nccl; TEST_NCCL=nvidia says so), where no faults of NCCL can
 * be scripted. */
bool place_is_real(void);
bool place_is_nvidia(void);

/* The platform's table. */
const struct platform *place_table(void);

/*
 * The platform's table with @devices devices, where the number can be chosen.
 */
const struct platform *place_open(int devices);

/* How many devices there are. */
int place_devices(void);

/*
 * Skip the test unless there are @devices devices; the same before a fork, after
 * which only the child may use the library; unless a communicator may have
 * @ranks ranks, some of them in other processes; or if the test is about
 * something, which @what names, that only the host platform has.
 */
void place_need(int devices);
void place_need_for_child(int devices);
void place_need_world(int ranks);
void place_need_host(const char *what);

/*
 * Skip the test unless it runs on the built-in host platform, which alone has
 * @what.
 */
void place_need_built_in(const char *what);

/*
 * Skip the test where communicators of the simulator may span processes, even if they
 * do not (COHORT_HOST_SHARED=1): @why in a word; or as place_need_built_in(), too.
 */
void place_skip_if_shared(const char *why);
void place_need_one_process(const char *what);

/*
 * Skip the test unless it runs on the simulator's own NCCL, which alone has
 * @what; or, for what NVIDIA's NCCL does otherwise, @why in a word.
 */
void place_need_our_nccl(const char *what);
void place_skip_on_nvidia(const char *why);

/* Skip the test on NVIDIA's NCCL of @version (23100 is 2.31.0) or a later one. */
void place_skip_on_nvidia_from(int version, const char *why);

/*
 * Skip the test where the first send or receive of two ranks does not return
 * before both have called (without COHORT_CONNECT=all): the test's thread calls
 * for several ranks in turn, or for some of them alone.
 */
void place_need_order(void);

/*
 * @ns, or more where an init or an abort takes NVIDIA's NCCL up to a second:
 * for deadlines that must not pass, and limits to how long something takes.
 */
uint64_t place_patience_ns(uint64_t ns);

/* @times, or a tenth of it where groups take that long to open and to end. */
int place_times(int times);

/* Skip the test.  A plain program ends here, with exit status 77. */
void place_skip(const char *why);

/*
 * place_has_sync() is true where memory functions wait for all that was
 * launched (COHORT_HOST_SYNC); place_need_no_sync() skips the test there.
 */
bool place_has_sync(void);
void place_need_no_sync(const char *why);

#endif
