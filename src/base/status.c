/* SPDX-License-Identifier: Apache-2.0 */

#include "base/status.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/text.h"
#include "base/type.h"

#define TEXT_SIZE 1024

static _Thread_local char last_error[TEXT_SIZE];
static _Thread_local int last_status;
static _Thread_local uint64_t last_ns;

int error_set(int status, const char *format, ...)
{
	char text[TEXT_SIZE]; /* the arguments may point into last_error */
	va_list args;

	va_start(args, format);
	text_vadd(&(struct text){ text, sizeof(text) }, format, args);
	va_end(args);
	snprintf(last_error, sizeof(last_error), "%s", text);
	last_status = status;
	last_ns = clock_now();
	return status;
}

int error_status(uint64_t *time_ns)
{
	*time_ns = last_ns;
	return last_status;
}

void error_forget(void)
{
	last_error[0] = '\0';
	last_status = COHORT_OK;
}

const char *cohort_last_error(void)
{
	return last_error;
}

static const char unknown[] =
	"a status that this version of cohort does not know";

const char *cohort_status_name(int status)
{
	switch (status) {
#define STATUS_NAME(name, value, text)                                         \
	case value:                                                            \
		return #name;
		COHORT_STATUS_LIST(STATUS_NAME)
#undef STATUS_NAME
	}
	return unknown;
}

int status_sanitize(int status)
{
	return status <= COHORT_OK && cohort_status_name(status) != unknown
	               ? status
	               : COHORT_SYSTEM;
}

const char *cohort_status_text(int status)
{
	switch (status) {
#define STATUS_CASE(name, value, text)                                         \
	case value:                                                            \
		return text;
		COHORT_STATUS_LIST(STATUS_CASE)
#undef STATUS_CASE
	}
	return unknown;
}

const char *cohort_verdict_text(int kind)
{
	switch (kind) {
#define VERDICT_CASE(name, value, text)                                        \
	case value:                                                            \
		return text;
		COHORT_VERDICT_LIST(VERDICT_CASE)
#undef VERDICT_CASE
	}
	return "a verdict that this version of cohort does not know";
}

#define STRING(x) #x
#define VERSION(major, minor, patch)                                           \
	STRING(major) "." STRING(minor) "." STRING(patch)

const char *cohort_version(void)
{
	return VERSION(COHORT_VERSION_MAJOR, COHORT_VERSION_MINOR,
	               COHORT_VERSION_PATCH);
}

size_t cohort_type_size(int type)
{
	return type_size(type);
}
