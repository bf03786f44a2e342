/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_OUTFILE_H
#define BASE_OUTFILE_H

/*
 * Files that are replaced as a whole or not at all: written under another name
 * in the same directory, flushed to disk, then renamed
 *
 * Takes no lock and uses no memory except the caller's buffer.
 *
 *  A. At any time, even after a crash of the machine, the file has either its
 *     old contents or everything that was written.
 */

#include <stddef.h>

struct outfile {
	int dir;
	int fd;
	int err; /* first errno, or 0 */
	char *buffer;
	size_t size, used;
	char name[256];
	char temporary[280]; /* starts with a dot; includes the pid; locked */
};

/* Start to write the file @name in the directory @dir.  Errors are reported by
 * outfile_end(). */
void outfile_begin(struct outfile *file, int dir, const char *name,
                   char *buffer, size_t size);

void outfile_put(struct outfile *file, const char *bytes, size_t n);

/* Start to flush the file to disk, without waiting.  The caller may then reuse
 * the buffer for another file.  To flush many files, call this for all of them
 * before ending any: the disk then writes them together. */
void outfile_send(struct outfile *file);

/* Discard the new contents (call this instead of outfile_end()); an existing
 * file of that name keeps its old contents.  Return 0 or the first errno. */
int outfile_discard(struct outfile *file);

/* Finish the file.  Return 0, or the first errno, in which case the old
 * contents remain.  After the last file, the caller must flush the directory by
 * fsync(@dir). */
int outfile_end(struct outfile *file);

#endif
