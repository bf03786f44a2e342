/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Compiles the public headers as strict C11, as an outside program would.
 * header.cc includes this file as C++17.
 *
 * The headers come first, so that they must include everything they need.
 */

#include <cohort/sim.h>

#include <stdio.h>
#include <string.h>

/* Expand the lists, as a caller may do. */
static const char *status_name(int status)
{
	switch (status) {
#define NAME(name, value, text)                                                \
	case name:                                                             \
		return #name;
		COHORT_STATUS_LIST(NAME)
#undef NAME
	}
	return "?";
}

static size_t listed_size(int type)
{
#define SIZE(name, value, bytes, text)                                         \
	if (type == name)                                                      \
		return bytes;
	COHORT_TYPE_LIST(SIZE)
#undef SIZE
	return 0;
}

static int listed_operations(void)
{
	int n = 0;

#define COUNT(name, value, text) n += name == value;
	COHORT_OP_LIST(COUNT)
#undef COUNT
	return n;
}

static int worker(struct cohort_comm *comm, void *user)
{
	(void)user;
	return cohort_comm_size(comm) > 0 ? 0 : 1;
}

static int failures;

static void check(int right, const char *what)
{
	if (right)
		return;
	printf("not so: %s\n", what);
	failures++;
}

static void check_versions(void)
{
	char version[32];

	snprintf(version, sizeof(version), "%d.%d.%d", COHORT_VERSION_MAJOR,
	         COHORT_VERSION_MINOR, COHORT_VERSION_PATCH);
	check(strcmp(version, cohort_version()) == 0,
	      "the library has the version of the header");
}

static void check_lists(void)
{
	check(strcmp(status_name(COHORT_OK), "COHORT_OK") == 0,
	      "every status has a name");
	check(listed_size(COHORT_F64) == sizeof(double), "a float64 is double");
	check(listed_size(COHORT_I8) == cohort_type_size(COHORT_I8),
	      "sizes are those of the list");
	check(listed_operations() == 5, "there are five operations");
}

static void check_run(void)
{
	struct cohort_group_options options;
	struct cohort_group *group = NULL;
	struct cohort_cause cause;
	int rc;

	cohort_group_options_init(&options);
	check(options.size == sizeof(options), "options know their size");
	options.platform = COHORT_PLATFORM_HOST;
	rc = cohort_group_open(NULL, 2, &options, &group);
	check(rc == COHORT_OK, "a group of two opens");
	if (rc != COHORT_OK) {
		printf("%s: %s\n", status_name(rc), cohort_last_error());
		return;
	}
	check(cohort_group_run(group, worker, NULL, &cause) == COHORT_OK,
	      "its workers run");
	check(cohort_group_close(group) == COHORT_OK, "it closes");
}

int main(void)
{
	check_versions();
	check_lists();
	check_run();
	return failures ? 1 : 0;
}
