/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COHORT_DUMP_H
#define COHORT_DUMP_H

/*
 * Dumps of the flight recorder: files that say what the ranks have done last
 *
 * The options (cohort/options.h) have the library write them by itself: with
 * each verdict, for a signal, or for a write to a FIFO.
 */

#include <cohort/status.h>

#ifdef __cplusplus
extern "C" {
#endif

struct cohort_group;

/*
 * cohort_dump - write down what the ranks have done last
 * @group:     an open group, also one that hangs or has ended
 * @directory: where to, made if it is missing; NULL: options.dump_directory
 *
 * Writes these files, about the group's latest generation:
 *
 *  - fr_NAME_gGENERATION_OF_rank_RANK.json for each rank: its last operations,
 *    as many as options.recorder_slots, with the keys and types of PyTorch's
 *    flight recorder 2.10 and more;
 *  - fr_NAME_gGENERATION_OF_merged.json: the last operations of all ranks, with
 *    the verdict or the cause;
 *  - fr_NAME_gGENERATION_OF_chrome.json: those operations as trace events.
 *
 * OF is HOST.PID.SERIAL, where the serial number tells groups, generations and
 * splits of a process apart.  `cohort trace` reads the files.
 *
 * What is written with the first verdict on a generation
 * (options.dump_directory) has these names.  With the second verdict OF ends in
 * "_v2", and so on up to "_v16", which all later ones share; if a stall is told
 * again, its files are replaced.  dump_directory says when a verdict's files are
 * sure to be there.  Without a verdict, by this call, a signal or
 * the FIFO, OF ends in "_asked": such a dump replaces the last one that was
 * asked for, and never a verdict's.  Each file is replaced as a whole or not at
 * all.
 *
 * The time at which an operation started or finished is that at which it was
 * first seen: by the rank's next call, by a wait, or by a thread of the library
 * that looks every 25 ms.
 *
 * What was split from the group's communicators, up to 256 of them, has files
 * of its own, unless it has ended and given back what it had.  Ranks that have
 * joined by id write theirs when there is a verdict, a signal, or a write to
 * the FIFO: see the options.
 *
 * Temporary files, whose names begin with a dot, are removed if the process of
 * this machine that wrote them is gone.
 *
 * Any thread; takes no lock and makes no native call that a hang could hold,
 * and blocks on the file system only.
 *
 * COHORT_OK; COHORT_INVALID, also if neither @directory nor the options name
 * one; COHORT_NO_MEMORY; COHORT_SYSTEM, with the file's name: that one is as it
 * was before, others may have been written.
 */
COHORT_API int cohort_dump(struct cohort_group *group, const char *directory);

#ifdef __cplusplus
}
#endif

#endif
