/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DUMP_DUMP_H
#define DUMP_DUMP_H

/*
 * Write a copy of the flight recorders (flight.h) to files
 *
 * fr_NAME_gGENERATION_PROCESS_rank_RANK.json  one rank, with the keys and types
 *                                             of PyTorch 2.10's flight recorder
 *                                             and with Cohort's own keys
 * fr_NAME_gGENERATION_PROCESS_merged.json     the verdict, and the last
 *                                             operations of all ranks
 * fr_NAME_gGENERATION_PROCESS_chrome.json     the last operations as Chrome
 *                                             trace events
 *
 * PROCESS is HOST.PID.SERIAL, where SERIAL is the number of the clique in its
 * process.  This distinguishes groups of the same name, in one process or in
 * several that write to one directory.  From a clique's second verdict on,
 * PROCESS is followed by "_v2" and so on.  If there is no verdict, it is
 * followed by "_asked", so that a requested dump never replaces one with a
 * verdict.
 *
 * A file has either its new contents or its old ones, never a part: see
 * base/outfile.h.  Each entry is one line, so that if a file is damaged later,
 * the other lines can still be read.
 */

#include "dump/flight.h"

#define DUMP_MARK 16

/* Return the suffix of a file name after SERIAL: "", "_v2" and so on, or
 * "_asked" if @verdict_number is 0. */
const char *dump_mark(unsigned verdict_number, char mark[DUMP_MARK]);

/* Maximum number of entries in a merged or chrome file, over all ranks. */
#define DUMP_MERGED 16384

/* Create @directory and its parents if they are missing, and try to create a
 * file in it.  Return 0 or an errno value. */
int dump_try(const char *directory);

/* Write @flight to @directory, which is created as in dump_try().  If one file
 * cannot be written, the others are still written.  Return 0, or the first
 * errno value, with the name of its file or directory in @what. */
int dump_write(const struct flight *flight, const char *directory, char *what,
               size_t size);

#endif
