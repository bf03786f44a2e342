/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DUMP_DUMP_H
#define DUMP_DUMP_H

/*
 * A flight as files
 *
 *  fr_NAME_gGENERATION_OF_rank_RANK.json  one rank, with the keys and types of
 *                                         PyTorch's flight recorder, 2.10, and
 *                                         our own
 *  fr_NAME_gGENERATION_OF_merged.json     the verdict, and the last operations
 *                                         of all ranks in one file
 *  fr_NAME_gGENERATION_OF_chrome.json     the last operations as Chrome trace
 *                                         events
 *
 * OF is HOST.PID.SERIAL, because groups may have equal names, within a process
 * and across processes that write to one directory.  OF is followed by "_vN"
 * for a clique's N-th verdict, from the second on, and by "_asked" if there is
 * no verdict: a dump that was asked for never replaces one with a verdict.
 *
 * A file is there as a whole, or as it was before: see base/outfile.h.  Each
 * entry is one line, so that a file that is damaged later can be read around
 * the damage.
 */

#include "dump/flight.h"

/* Room for what follows OF. */
#define DUMP_MARK 16

/* What follows OF: "", "_v2" and so on, or "_asked" for 0. */
const char *dump_mark(unsigned verdict_number, char mark[DUMP_MARK]);

/* Entries in a merged or a chrome file, of all ranks together, at most. */
#define DUMP_MERGED 16384

/* Make @directory and its parents if they are missing, and try to make a file
 * in it.  Returns 0 or an errno. */
int dump_try(const char *directory);

/* Write @flight into @directory, which is made as dump_try() does.  Returns 0,
 * or the first errno, with the name of its file or directory in @what; all
 * other files are written as far as possible. */
int dump_write(const struct flight *flight, const char *directory, char *what,
               size_t size);

/* The name of a file; @what is "rank_RANK", "merged" or "chrome". */
void dump_name(const struct flight *flight, const char *what, char *name,
               size_t size);

#endif
