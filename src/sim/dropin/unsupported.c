/* SPDX-License-Identifier: Apache-2.0 */

/* Saying once what the host platform does not have (see unsupported.h) */

#include "sim/dropin/unsupported.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "base/scoped_lock.h"

/* A kernel by its host function, or a function by its name.  Never freed: it is
 * there to say something once in the life of the process. */
struct subject {
	const void *key;
	bool said;
	struct subject *next;
	char name[];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Guarded by lock; the newest first. */
static struct subject *subjects;

static struct subject *find_locked(const void *key)
{
	struct subject *subject;

	list_find(subject, subjects, next, subject->key == key);
	return subject;
}

/* NULL if there is no memory. */
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

/* @name: what to call it if it is not known. */
static cudaError_t refuse(const void *key, const char *name, const char *why)
{
	struct subject *subject;

	pthread_mutex_lock(&lock);
	subject = find_locked(key);
	if (!subject)
		subject = add_locked(key, name);
	if (subject && !subject->said && !host_is_quiet())
		fprintf(stderr, "cohort: %s: %s\n", subject->name, why);
	if (subject)
		subject->said = true;
	pthread_mutex_unlock(&lock);
	return cohort_host_calls()->fail(cudaErrorNotSupported);
}

void unsupported_name(const void *host, const char *name)
{
	SCOPED_LOCK(&lock);
	/* One that is loaded where another was has another name. */
	add_locked(host, name);
}

cudaError_t unsupported_kernel(const void *host)
{
	return refuse(host, "a kernel", "the host platform runs no kernels");
}

cudaError_t unsupported_function(const char *name)
{
	return refuse(name, name, "the host platform has no such function");
}
