/* SPDX-License-Identifier: Apache-2.0 */

#include "base/outfile.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/thread.h"

/* Number of temporary names to try if some of them are taken. */
#define TRIES 1000

static void fail(struct outfile *f)
{
	if (!f->err)
		f->err = errno ? errno : EIO;
}

/* Create a temporary file.  The name may be taken: another machine or container
 * may have a process with the same pid. */
static int open_temporary(struct outfile *f)
{
	/* Atomic; number of files of this process.  Relaxed order is enough,
	 * because no other data depends on it. */
	static atomic_uint count;
	int fd, tries = TRIES;

	do {
		snprintf(f->temporary, sizeof(f->temporary), ".%s.%d-%u",
		         f->name, (int)getpid(),
		         atomic_fetch_add_explicit(&count, 1,
		                                   memory_order_relaxed));
		fd = openat(f->dir, f->temporary,
		            O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW |
		                    O_CLOEXEC,
		            0644);
	} while (fd < 0 && errno == EEXIST && --tries);
	/* The lock shows other processes that the file is being written. */
	if (fd >= 0)
		flock(fd, LOCK_EX | LOCK_NB);
	return fd;
}

void outfile_begin(struct outfile *f, int dir, const char *name, char *buffer,
                   size_t size)
{
	f->dir = dir;
	f->err = 0;
	f->buffer = buffer;
	f->size = size;
	f->used = 0;
	snprintf(f->name, sizeof(f->name), "%s", name);
	f->fd = open_temporary(f);
	if (f->fd < 0)
		fail(f);
}

static void write_all(struct outfile *f, const char *bytes, size_t n)
{
	ssize_t written;

	while (n && !f->err) {
		/* The process may have a limit on the size of files. */
		written = write_quietly(f->fd, bytes, n, SIGXFSZ, EFBIG);
		if (written > 0) {
			bytes += written;
			n -= (size_t)written;
		} else if (written == 0 || errno != EINTR) {
			fail(f);
		}
	}
}

static void flush(struct outfile *f)
{
	write_all(f, f->buffer, f->used);
	f->used = 0;
}

void outfile_put(struct outfile *f, const char *bytes, size_t n)
{
	if (n > f->size - f->used)
		flush(f);
	if (n > f->size) {
		write_all(f, bytes, n);
		return;
	}
	memcpy(f->buffer + f->used, bytes, n);
	f->used += n;
}

void outfile_send(struct outfile *f)
{
	flush(f);
	/* If this fails, outfile_end() still writes everything to disk. */
	if (!f->err)
		sync_file_range(f->fd, 0, 0, SYNC_FILE_RANGE_WRITE);
}

int outfile_end(struct outfile *f)
{
	flush(f);
	if (!f->err && fsync(f->fd))
		fail(f);
	if (f->fd >= 0 && close(f->fd))
		fail(f);
	if (!f->err && renameat(f->dir, f->temporary, f->dir, f->name))
		fail(f);
	if (f->err && f->fd >= 0)
		unlinkat(f->dir, f->temporary, 0);
	return f->err;
}

int outfile_discard(struct outfile *f)
{
	if (f->fd >= 0 && close(f->fd))
		fail(f);
	if (f->fd >= 0 && unlinkat(f->dir, f->temporary, 0))
		fail(f);
	return f->err;
}
