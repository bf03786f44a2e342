/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Scripted faults: a list that every init, split, collective, send, receive and
 * copy checks
 *
 * While the list is empty, a check is one atomic load.
 */

#include "sim/strict/fault.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/atomics.h"
#include "base/backoff.h"
#include "base/clock.h"
#include "base/scoped_lock.h"
#include "base/status.h"
#include "base/util.h"

#define MAX_FAULTS 64

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* List of scripted faults.  Guarded by lock. */
static struct cohort_fault faults[MAX_FAULTS];
static bool environment_read;

/* Atomic; the length of the list.  Written under lock; read without the lock to
 * skip an empty list.  Relaxed, because a fault that is added during a call
 * need not strike that call. */
static atomic_int used;

/* Atomic; number of times that the script was cleared.  Written under lock with
 * release, paired with the acquire in fault_hold(): a thread that a fault has
 * held sees everything that was done before the script was cleared. */
static _Atomic uint64_t script;

/* Atomic; cudaError_t of each failed device, 0 for other devices.  Written
 * under lock.  Relaxed, because an error that is set during a call need not
 * affect that call. */
static atomic_int device_errors[COHORT_SIM_MAX_DEVICES];
/* Atomic; number of failed devices.  Written under lock.  Relaxed, because a
 * device that fails during a call need not affect that call. */
static atomic_int failed;

static bool has_code(const struct cohort_fault *f)
{
	return f->kind == COHORT_FAULT_ERROR || f->kind == COHORT_FAULT_ASYNC ||
	       f->kind == COHORT_FAULT_INIT_ERROR;
}

static bool is_of_init(const struct cohort_fault *f)
{
	return f->kind == COHORT_FAULT_INIT ||
	       f->kind == COHORT_FAULT_INIT_ERROR;
}

static bool is_of_path(const struct cohort_fault *f)
{
	return f->kind == COHORT_FAULT_PATH || f->kind == COHORT_FAULT_GARBLE;
}

static int check_path(const struct cohort_fault *f)
{
	if (f->rank < 0 || f->rank >= COHORT_SIM_MAX_DEVICES)
		return error_set(COHORT_INVALID,
		                 "fault->rank is %d, but this kind of fault "
		                 "needs the number of a device",
		                 f->rank);
	if (f->operation >= COHORT_SIM_MAX_DEVICES)
		return error_set(COHORT_INVALID,
		                 "fault->operation is %llu, not a device "
		                 "number",
		                 (unsigned long long)f->operation);
	if (f->value > 1000000)
		return error_set(COHORT_INVALID,
		                 "fault->value is %llu, not a cudaError_t",
		                 (unsigned long long)f->value);
	return COHORT_OK;
}

static int fault_check(const struct cohort_fault *f)
{
	if (f->rank < -1)
		return error_set(COHORT_INVALID,
		                 "fault->rank is %d, not a rank or -1",
		                 f->rank);
	if (f->kind < COHORT_FAULT_NEVER || f->kind > COHORT_FAULT_GARBLE)
		return error_set(COHORT_INVALID,
		                 "fault->kind is %d, not a value of enum "
		                 "cohort_fault_kind",
		                 f->kind);
	if (is_of_path(f))
		return check_path(f);
	if (is_of_init(f) && f->operation > FAULT_SPLIT)
		return error_set(COHORT_INVALID,
		                 "fault->operation is %llu, but must be 0 for "
		                 "an init or 1 for a split",
		                 (unsigned long long)f->operation);
	if (has_code(f) && (f->value < 1 || f->value > 1000000))
		return error_set(COHORT_INVALID,
		                 "fault->value is %llu, which is not an error "
		                 "of ncclResult_t",
		                 (unsigned long long)f->value);
	if (f->kind == COHORT_FAULT_DEVICE &&
	    (f->value < 1 || f->value > 1000000))
		return error_set(COHORT_INVALID,
		                 "fault->value is %llu, which is not an error "
		                 "of cudaError_t",
		                 (unsigned long long)f->value);
	return COHORT_OK;
}

static int add_locked(const struct cohort_fault *f)
{
	int n = load_relaxed(&used);

	if (n == MAX_FAULTS)
		return error_set(COHORT_NO_MEMORY,
		                 "%d faults are already pending", n);
	faults[n] = *f;
	store_relaxed(&used, n + 1);
	return COHORT_OK;
}

int fault_add(const struct cohort_fault *fault)
{
	int rc;

	if (!fault)
		return error_set(COHORT_INVALID, "fault is NULL");
	rc = fault_check(fault);
	if (rc != COHORT_OK)
		return rc;
	SCOPED_LOCK(&lock);
	return add_locked(fault);
}

void fault_fail_device(int device, int error)
{
	SCOPED_LOCK(&lock);
	if (!atomic_exchange(&device_errors[device], error))
		atomic_fetch_add(&failed, 1);
}

cudaError_t fault_of_device(int device)
{
	return load_relaxed(&failed)
	               ? (cudaError_t)load_relaxed(&device_errors[device])
	               : cudaSuccess;
}

cudaError_t fault_sticky(int device)
{
	const cudaError_t error = fault_of_device(device);

	return cuda_error_is_sticky(error) ? error : cudaSuccess;
}

void fault_clear_all(void)
{
	int i;

	SCOPED_LOCK(&lock);
	for (i = 0; atomic_load(&failed) && i < COHORT_SIM_MAX_DEVICES; i++)
		atomic_store(&device_errors[i], 0);
	atomic_store(&failed, 0);
	store_relaxed(&used, 0);
	atomic_fetch_add_explicit(&script, 1, memory_order_release);
}

void fault_call_each(int (*add)(const struct cohort_fault *fault))
{
	struct cohort_fault waiting[MAX_FAULTS];
	int i, n;

	pthread_mutex_lock(&lock);
	n = load_relaxed(&used);
	memcpy(waiting, faults, sizeof(waiting));
	pthread_mutex_unlock(&lock);
	for (i = 0; i < n; i++)
		add(&waiting[i]);
}

/* Read the digits at the start of @text.  Return the text after the digits, or
 * NULL if there are none or the number is larger than @max. */
static const char *parse_number(const char *text, uint64_t max, uint64_t *n)
{
	char *end;

	if (*text < '0' || *text > '9')
		return NULL;
	errno = 0;
	*n = strtoull(text, &end, 10);
	return errno || *n > max ? NULL : end;
}

/* Convert a time such as "5ms" to nanoseconds.  Return false if it is
 * invalid. */
static bool parse_time(const char *text, uint64_t *ns)
{
	static const struct {
		const char *unit;
		uint64_t ns;
	} units[] = {
		{ "ns", 1 },
		{ "us", 1000 },
		{ "ms", 1000000 },
		{ "s", 1000000000 },
	};
	uint64_t n;
	const char *unit = parse_number(text, UINT64_MAX, &n);
	size_t i;

	for (i = 0; unit && i < ARRAY_SIZE(units); i++)
		if (strcmp(unit, units[i].unit) == 0) {
			*ns = n * units[i].ns;
			return n <= UINT64_MAX / units[i].ns;
		}
	return false;
}

enum parameter {
	NOTHING, /* the kind has no parameter */
	A_TIME,
	A_CODE,
};

static bool parse_parameter(const char *text, enum parameter parameter,
                            uint64_t *value)
{
	switch (parameter) {
	case NOTHING:
		return !*text;
	case A_TIME:
		return parse_time(text, value);
	case A_CODE:
		text = parse_number(text, UINT64_MAX, value);
		return text && !*text;
	}
	return false;
}

static const struct {
	const char *name;
	int kind;
	enum parameter parameter;
} kinds[] = {
	{ "never", COHORT_FAULT_NEVER, NOTHING },
	{ "delay=", COHORT_FAULT_DELAY, A_TIME },
	{ "error=", COHORT_FAULT_ERROR, A_CODE },
	{ "stuck", COHORT_FAULT_STUCK, NOTHING },
	{ "die", COHORT_FAULT_DIE, NOTHING },
	{ "async=", COHORT_FAULT_ASYNC, A_CODE },
	{ "hung", COHORT_FAULT_HUNG, NOTHING },
	{ "init=", COHORT_FAULT_INIT, A_TIME },
	{ "init-error=", COHORT_FAULT_INIT_ERROR, A_CODE },
	{ "init", COHORT_FAULT_INIT, NOTHING },
	{ "memory", COHORT_FAULT_MEMORY, NOTHING },
	{ "argument", COHORT_FAULT_ARGUMENT, NOTHING },
	{ "device=", COHORT_FAULT_DEVICE, A_CODE },
	{ "path=", COHORT_FAULT_PATH, A_CODE },
	{ "path", COHORT_FAULT_PATH, NOTHING },
	{ "garble", COHORT_FAULT_GARBLE, NOTHING },
};

static bool parse_kind(const char *text, struct cohort_fault *f)
{
	size_t i, length;

	for (i = 0; i < ARRAY_SIZE(kinds); i++) {
		length = strlen(kinds[i].name);
		if (strncmp(text, kinds[i].name, length) != 0)
			continue;
		f->kind = kinds[i].kind;
		return parse_parameter(text + length, kinds[i].parameter,
		                       &f->value);
	}
	return false;
}

/* Parse "RANK@OPERATION:", where * means any rank.  Return the text after the
 * colon, or NULL if @text does not have this form. */
static const char *parse_place(const char *text, struct cohort_fault *f)
{
	uint64_t rank;

	*f = (struct cohort_fault){ .rank = -1 };
	if (*text == '*') {
		text++;
	} else {
		text = parse_number(text, INT_MAX, &rank);
		if (!text)
			return NULL;
		f->rank = (int)rank;
	}
	if (*text++ != '@')
		return NULL;
	text = parse_number(text, UINT64_MAX, &f->operation);
	return text && *text == ':' ? text + 1 : NULL;
}

/* List all kinds of faults: "never, delay=TIME, ...". */
static void list_kinds(char *text, size_t size)
{
	static const char *const parameters[] = {
		[NOTHING] = "",
		[A_TIME] = "TIME",
		[A_CODE] = "CODE",
	};
	size_t i, n = 0;

	for (i = 0; i < ARRAY_SIZE(kinds) && n < size; i++)
		n += (size_t)snprintf(text + n, size - n, "%s%s%s",
		                      i ? ", " : "", kinds[i].name,
		                      parameters[kinds[i].parameter]);
}

static int parse_fault(const char *text, struct cohort_fault *f)
{
	const char *kind = parse_place(text, f);
	char all[256];

	if (!kind)
		return error_set(COHORT_INVALID,
		                 "COHORT_FAULTS: \"%s\" is not "
		                 "RANK@OPERATION:KIND, such as 2@5:delay=50ms",
		                 text);
	if (parse_kind(kind, f))
		return fault_check(f);
	list_kinds(all, sizeof(all));
	return error_set(COHORT_INVALID,
	                 "COHORT_FAULTS: \"%s\" is not a fault (use %s)", kind,
	                 all);
}

static int parse_list_locked(char *list)
{
	struct cohort_fault f;
	char *part, *rest = NULL;
	int rc;

	for (part = strtok_r(list, ",", &rest); part;
	     part = strtok_r(NULL, ",", &rest)) {
		rc = parse_fault(part, &f);
		if (rc == COHORT_OK)
			rc = add_locked(&f);
		if (rc != COHORT_OK)
			return rc;
	}
	return COHORT_OK;
}

/* Add all faults in the list, or none if one of them is invalid. */
static int read_environment_locked(const char *text)
{
	int before = load_relaxed(&used);
	char *copy = strdup(text);
	int rc = copy ? parse_list_locked(copy)
	              : error_set(COHORT_NO_MEMORY, "out of memory");

	free(copy);
	if (rc != COHORT_OK)
		store_relaxed(&used, before);
	return rc;
}

int fault_init(void)
{
	const char *text = getenv("COHORT_FAULTS");
	int rc = COHORT_OK;

	SCOPED_LOCK(&lock);
	if (!environment_read && text)
		rc = read_environment_locked(text);
	environment_read = rc == COHORT_OK;
	return rc;
}

static bool strikes_call(const struct cohort_fault *f, int rank, bool init,
                         uint64_t operation)
{
	return !is_of_path(f) && is_of_init(f) == init &&
	       f->operation == operation && (f->rank == rank || f->rank == -1);
}

struct cohort_fault fault_of_path(int device, int *after, int *other)
{
	struct cohort_fault f = { .kind = 0 };
	int i;

	if (!load_relaxed(&used))
		return f;
	SCOPED_LOCK(&lock);
	for (i = *after; i < load_relaxed(&used); i++) {
		if (!is_of_path(&faults[i]) ||
		    (faults[i].rank != device &&
		     (int)faults[i].operation != device))
			continue;
		f = faults[i];
		*other = f.rank == device ? (int)f.operation : f.rank;
		*after = i + 1;
		break;
	}
	return f;
}

struct cohort_fault fault_between(int a, int b)
{
	struct cohort_fault f;
	int after = 0, other;

	do
		f = fault_of_path(a, &after, &other);
	while (f.kind && other != b);
	return f;
}

struct cohort_fault fault_take(int rank, bool init, uint64_t operation,
                               uint64_t *script_out)
{
	struct cohort_fault f = { .kind = 0 };
	int i = 0, n;

	if (!load_relaxed(&used))
		return f;
	SCOPED_LOCK(&lock);
	n = load_relaxed(&used);
	while (i < n && !strikes_call(&faults[i], rank, init, operation))
		i++;
	if (i == n)
		return f;
	f = faults[i];
	memmove(&faults[i], &faults[i + 1],
	        (size_t)(n - i - 1) * sizeof(*faults));
	store_relaxed(&used, n - 1);
	*script_out = load_relaxed(&script);
	return f;
}

bool fault_is_scripted(void)
{
	return load_relaxed(&used);
}

void fault_hold(uint64_t of, uint64_t until_ns)
{
	struct backoff b = BACKOFF;

	while (load_acquire(&script) == of && clock_now() < until_ns)
		backoff_wait(&b, until_ns);
}
