/* SPDX-License-Identifier: Apache-2.0 */

/* Reports unsupported functions and kernels, once each (see unsupported.h) */

#include "sim/dropin/unsupported.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "base/scoped_lock.h"

/* A kernel, identified by its host function, or a function, identified by its
 * name.  Never freed, so that each is reported only once per process. */
struct subject {
	const void *key;
	bool said;
	struct subject *next;
	char name[];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* List of all subjects, newest first.  Guarded by lock. */
static struct subject *subjects;

static struct subject *find_locked(const void *key)
{
	struct subject *subject;

	list_find(subject, subjects, next, subject->key == key);
	return subject;
}

static struct subject *add_locked(const void *key, const char *name)
{
	size_t bytes = strlen(name) + 1;
	struct subject *subject = malloc(sizeof(*subject) + bytes);

	if (!subject)
		return NULL;
	subject->key = key;
	subject->said = false;
	memcpy(subject->name, name, bytes);
	list_add(subjects, subject, next);
	return subject;
}

/* Report a subject, unless it was reported before.  A subject that is not in
 * the list gets the name @name. */
static void report(const void *key, const char *name, const char *why)
{
	struct subject *subject;

	SCOPED_LOCK(&lock);
	subject = find_locked(key);
	if (!subject)
		subject = add_locked(key, name);
	if (subject && !subject->said)
		fprintf(stderr, "cohort: %s: %s\n", subject->name, why);
	if (subject)
		subject->said = true;
}

void unsupported_name(const void *host, const char *name)
{
	SCOPED_LOCK(&lock);
	/* Add the kernel even if @host is known, because another library with
	 * another kernel might have been loaded at the same address. */
	add_locked(host, name);
}

static cudaError_t fail(void)
{
	return cohort_host_calls()->fail(cudaErrorNotSupported);
}

cudaError_t unsupported_kernel(const void *host)
{
	report(host, "a kernel", "the host platform cannot run kernels");
	return fail();
}

void unsupported_report(const char *function)
{
	report(function, function, "the host platform has no such function");
}

cudaError_t unsupported_function(const char *name)
{
	unsupported_report(name);
	return fail();
}
