/* SPDX-License-Identifier: Apache-2.0 */

#include "base/thread.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>

#define NAME_SIZE 16 /* the kernel's, with the zero */

int thread_start(pthread_t *thread, void *(*fn)(void *), void *arg,
                 const char *format, ...)
{
	char name[NAME_SIZE];
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

void lock_init(pthread_mutex_t *lock)
{
	pthread_mutexattr_t attr;

	pthread_mutexattr_init(&attr);
	pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_ADAPTIVE_NP);
	pthread_mutex_init(lock, &attr);
	pthread_mutexattr_destroy(&attr);
}
