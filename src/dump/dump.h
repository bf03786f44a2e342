/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DUMP_DUMP_H
#define DUMP_DUMP_H

/*
 * A flight as files
 *
 *	fr_NAME_gGENERATION_OF_rank_RANK.json  a rank, with the keys and types of
 *	                                       PyTorch's flight recorder, 2.10, and
 *	                                       ours
 *	fr_NAME_gGENERATION_OF_merged.json     the verdict, and the last operations
 *	                                       of all ranks in one
 *	fr_NAME_gGENERATION_OF_chrome.json     those as Chrome trace events
 *
 * OF is HOST.PID.SERIAL: names are the program's, and need not differ, neither in a
 * process nor where several write to one directory.  It has "_vN" behind it for a
 * clique's N-th verdict from the second on, and "_asked" if there is no verdict: what
 * is asked for never replaces what was written with a verdict.
 *
 * Each is there as a whole or as it was before, see base/outfile.h.  An entry is a
 * line, so that a file that was damaged later can be read around the damage.
 */

#include "dump/flight.h"

/* Room for what stands behind OF. */
#define DUMP_MARK 16

/* "", "_v2" and so on, or "_asked" for 0. */
const char *dump_mark(unsigned verdict_number, char mark[DUMP_MARK]);

/* Entries of the last two kinds, of all ranks together. */
#define DUMP_MERGED 16384

/* Make @directory with its parents if it is missing, and see whether files can be
 * made in it.  0, or an errno. */
int dump_try(const char *directory);

/* Write @flight into @directory, which is made likewise.  0; or the first errno and in
 * @what which file or directory it is about: what else could be written was. */
int dump_write(const struct flight *flight, const char *directory, char *what,
               size_t size);

/* The name of a file: of @rank, or "merged" and so on. */
void dump_name(const struct flight *flight, const char *what, char *name,
               size_t size);

#endif
