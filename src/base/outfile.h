/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_OUTFILE_H
#define BASE_OUTFILE_H

/*
 * Files that are there as a whole or not at all: written under another name in
 * the same directory, flushed to the disk, then renamed
 *
 * Takes no lock, and no memory but a buffer of the caller's.
 *
 *  A. Whatever happens, even to the machine, the file has either its old
 *     contents or everything that was written.
 */

#include <stddef.h>

struct outfile {
	int dir;
	int fd;
	int err; /* the first errno, 0: none */
	char *buffer;
	size_t size, used;
	char name[256];
	char temporary[280]; /* begins with a dot; names the process, which has
	                        it locked */
};

/* Begin the file @name in the directory @dir; outfile_end() returns errors. */
void outfile_begin(struct outfile *file, int dir, const char *name,
                   char *buffer, size_t size);

void outfile_put(struct outfile *file, const char *bytes, size_t n);

/* Room for the next @n bytes, for outfile_did_put(); NULL: the buffer is too
 * small. */
char *outfile_room(struct outfile *file, size_t n);

static inline void outfile_did_put(struct outfile *file, size_t n)
{
	file->used += n;
}

/* Have all that was put written from now on.  The buffer is the caller's again,
 * and may be used for another file.  Many files of which each was sent are
 * flushed together, which takes little longer than for one. */
void outfile_send(struct outfile *file);

/* Drop the file instead of ending it: nothing has changed.  0, or the errno of
 * what went wrong. */
int outfile_drop(struct outfile *file);

/* End the file: 0, or the errno of what went wrong first, and nothing has
 * changed.  The caller flushes the directory, by fsync(@dir), after any number
 * of files. */
int outfile_end(struct outfile *file);

#endif
