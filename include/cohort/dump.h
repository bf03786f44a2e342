/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COHORT_DUMP_H
#define COHORT_DUMP_H

/*
 * Dumps of the flight recorder: files with the last operations of each rank
 *
 * If options.dump_directory is set, the library also writes dumps with each
 * verdict and, if options.dump_signal is set, whenever that signal arrives.
 */

#include <cohort/status.h>

#ifdef __cplusplus
extern "C" {
#endif

struct cohort_group;

/*
 * cohort_dump - write the last operations of each rank to files
 * @group:     an open group, even if it hangs or has ended
 * @directory: where to write, created if it is missing; NULL for
 *             options.dump_directory
 *
 * Writes these files about the group's latest generation, for `cohort trace`
 * and other tools:
 *
 *  - fr_NAME_gGENERATION_PROCESS_rank_RANK.json for each rank: its last
 *    operations, in the format of PyTorch's flight recorder 2.10
 *  - fr_NAME_gGENERATION_PROCESS_merged.json: the operations of all ranks, with
 *    the verdict or the cause
 *  - fr_NAME_gGENERATION_PROCESS_chrome.json: these operations as trace events
 *
 * A later dump replaces each file atomically, but never a file that a verdict
 * wrote.  Up to 256 communicators that were split from the group have their own
 * files.  Ranks that have joined with an id are dumped only with a verdict or
 * for a signal.  See docs/dumps.md for the contents and the names, and for
 * temporary files.
 *
 * Other ranks need not do anything.  May be called from any thread; takes no
 * lock that a hung thread may hold, makes no native call, and blocks only on
 * the file system.
 *
 * Returns:
 *   COHORT_OK         all files are written
 *   COHORT_INVALID    @group is NULL, or neither @directory nor the options
 *                     name a directory
 *   COHORT_NO_MEMORY  out of memory
 *   COHORT_SYSTEM     a file could not be written and is unchanged; the error
 *                     text names it.  Other files may have been written
 */
COHORT_API int cohort_dump(struct cohort_group *group, const char *directory);

#ifdef __cplusplus
}
#endif

#endif
