/* SPDX-License-Identifier: Apache-2.0 */

#include "base/thread.h"

#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

int thread_start(pthread_t *thread, void *(*fn)(void *), void *arg,
                 const char *format, ...)
{
	char name[THREAD_NAME_SIZE];
	sigset_t all, old;
	va_list args;
	int err;

	va_start(args, format);
	vsnprintf(name, sizeof(name), format, args);
	va_end(args);

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	err = pthread_create(thread, NULL, fn, arg);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (!err)
		pthread_setname_np(*thread, name);
	return err;
}

int thread_id(void)
{
	static _Thread_local int id; /* 0: not asked for yet */

	if (!id)
		id = (int)syscall(SYS_gettid);
	return id;
}

static void read_name(int tid, char name[THREAD_NAME_SIZE])
{
	char path[64];
	ssize_t n;
	int fd;

	/* Without the heap, which a thread that hangs may hold. */
	snprintf(path, sizeof(path), "/proc/self/task/%d/comm", tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	n = read(fd, name, THREAD_NAME_SIZE - 1);
	name[n > 0 ? n : 0] = '\0';
	name[strcspn(name, "\n")] = '\0';
	close(fd);
}

bool thread_lives(int tid, char name[THREAD_NAME_SIZE])
{
	name[0] = '\0';
	/* Asked of the system itself: files may have run out. */
	if (syscall(SYS_tgkill, getpid(), tid, 0))
		return false;
	read_name(tid, name);
	return true;
}

void lock_init(pthread_mutex_t *lock)
{
	pthread_mutexattr_t attr;

	pthread_mutexattr_init(&attr);
	pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_ADAPTIVE_NP);
	pthread_mutex_init(lock, &attr);
	pthread_mutexattr_destroy(&attr);
}
