/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PLACE_H
#define PLACE_H

/*
 * The choice of the platform for a test, and skips of tests that cannot run on
 * it
 *
 * A test runs on the host platform or, with COHORT_PLATFORM=gpu in the
 * environment, on the GPU platform. With TEST_DEVICES=real, it uses real
 * devices. Then faults and the number of devices cannot be scripted, and plain
 * memory is registered with CUDA when a test uses it as device memory. A test
 * that cannot run on the platform is skipped with a reason. So the same tests
 * run with and without GPUs.
 */

#include <stdbool.h>
#include <stdint.h>

#include "platform/platform.h"

/* Return the platform under test. */
int place_platform(void);

/* Set COHORT_PLATFORM to the platform under test. */
void place_choose(void);

/* Return whether the test uses real devices (TEST_DEVICES=real). */
bool place_is_real(void);

/*
 * Return whether NCCL is NVIDIA's (TEST_NCCL=nvidia), either on GPUs or under
 * cohort run --nccl. NVIDIA's NCCL has no scripted faults.
 */
bool place_is_nvidia(void);

/* Return the table of the platform under test. */
const struct platform *place_table(void);

/*
 * Return the table of the platform under test with @devices devices. Skip the
 * test if fewer real devices exist.
 */
const struct platform *place_open(int devices);

/* Set the chunk size of host-memory calls to @bytes, so that a small call has
 * many chunks. Applies to groups that are opened later. */
void place_set_chunk(size_t bytes);

int place_devices(void);

/* Skip the test if real devices are used and there are fewer than @devices. */
void place_need(int devices);

/*
 * Do what place_need() does, before a fork after which only the child may use
 * the library.
 */
void place_need_for_child(int devices);

/*
 * Skip the test unless a communicator can have @ranks ranks, even with some of
 * them in other processes.
 */
void place_need_world(int ranks);

/*
 * Skip the test if real devices are used. @what names the feature that only the
 * host platform has.
 */
void place_need_host(const char *what);

/*
 * Skip the test unless it runs on the built-in host platform. @what names the
 * feature that only this platform has.
 */
void place_need_built_in(const char *what);

/*
 * Skip the test if the simulator's communicators can span processes
 * (COHORT_HOST_SHARED=1), even if none does. @why is the reason.
 */
void place_skip_if_shared(const char *why);

/*
 * Skip the test unless it runs on the built-in host platform and communicators
 * cannot span processes. @what names the feature.
 */
void place_need_one_process(const char *what);

/*
 * Skip the test unless it runs on the simulator's own NCCL. @what names the
 * feature that only this NCCL has.
 */
void place_need_our_nccl(const char *what);

/* Skip the test on NVIDIA's NCCL. @why is the reason. */
void place_skip_on_nvidia(const char *why);

/* Skip the test on NVIDIA's NCCL @version or newer (23100 is 2.31.0). @why is
 * the reason. */
void place_skip_on_nvidia_from(int version, const char *why);

/*
 * Skip the test if the first send or receive between two ranks returns only
 * after both ranks have called, as with NVIDIA's NCCL without
 * COHORT_CONNECT=all. Use this in tests in which one thread makes the calls of
 * several ranks in turn, or in which only some ranks call.
 */
void place_need_order(void);

/*
 * Return @ns, but at least 5 seconds with NVIDIA's NCCL or in QEMU, where an
 * init or an abort can take a second. Use this for deadlines that must not
 * expire, and for limits on how long something may take.
 */
uint64_t place_patience_ns(uint64_t ns);

/* Return @times, or a tenth of it with NVIDIA's NCCL or in QEMU, where opening
 * and ending a group is slow. */
int place_times(int times);

/* Skip the test. A plain program exits with status 77. */
void place_skip(const char *why);

/* Skip the test in QEMU (scripts/emulate.sh). @why is what QEMU lacks. */
void place_skip_in_qemu(const char *why);

/*
 * Return whether memory functions wait for all launched work, as they do on
 * GPUs and with COHORT_HOST_SYNC.
 */
bool place_has_sync(void);

/* Skip the test if place_has_sync() is true. @why is the reason. */
void place_need_no_sync(const char *why);

#endif
