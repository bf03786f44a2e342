/* SPDX-License-Identifier: Apache-2.0 */

#include "dump/sweep.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Entries of a directory are read into this much, without the heap's help. */
#define ENTRIES_BYTES 4096

/* A number at the end of the @n bytes at @text, behind @before; its first byte's place,
 * 0: there is none. */
static size_t number_at_end(const char *text, size_t n, char before)
{
	size_t at = n;

	while (at && text[at - 1] >= '0' && text[at - 1] <= '9')
		at--;
	return at < n && at && text[at - 1] == before ? at : 0;
}

/* The process of ".fr_..._HOST.PID.SERIAL_WHAT.json.PID-COUNT", 0: it is none such. */
static int process_of(const char *name, const char *host)
{
	char of[128];
	size_t n = strlen(name), at;
	int pid;

	if (strncmp(name, ".fr_", 4) != 0)
		return 0;
	at = number_at_end(name, n, '-');
	at = at ? number_at_end(name, at - 1, '.') : 0;
	if (!at)
		return 0;
	pid = atoi(name + at);
	snprintf(of, sizeof(of), "_%s.%d.", host, pid);
	return strstr(name, of) ? pid : 0;
}

static bool is_gone(int pid)
{
	return pid > 0 && kill(pid, 0) && errno == ESRCH;
}

/* Whoever writes it has it locked: also one that cannot be seen from here. */
static bool is_free(int dir, const char *name)
{
	int fd = openat(dir, name,
	                O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	bool is_it = fd >= 0 && !flock(fd, LOCK_EX | LOCK_NB);

	if (fd >= 0)
		close(fd);
	return is_it;
}

void sweep(int dir, const char *host)
{
	_Alignas(struct dirent64) char entries[ENTRIES_BYTES];
	int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	const struct dirent64 *entry;
	long n, at;

	while (fd >= 0 &&
	       (n = syscall(SYS_getdents64, fd, entries, sizeof(entries))) > 0)
		for (at = 0; at < n; at += entry->d_reclen) {
			entry = (const void *)(entries + at);
			if (is_gone(process_of(entry->d_name, host)) &&
			    is_free(dir, entry->d_name))
				unlinkat(dir, entry->d_name, 0);
		}
	if (fd >= 0)
		close(fd);
}
