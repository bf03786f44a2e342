/* SPDX-License-Identifier: Apache-2.0 */

#include "base/environment.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/status.h"
#include "base/util.h"

#define PREFIX "COHORT_"

/* All variables that the library reads; scripts/lint.sh checks that the list is
 * complete. */
/* clang-format off */
static const char *const known[] = {
	"COHORT_CONNECT",
	"COHORT_DEADLINE",
	"COHORT_DUMP_DIR",
	"COHORT_DUMP_FIFO",
	"COHORT_DUMP_SIGNAL",
	"COHORT_FAULTS",
	"COHORT_GPU_LIBRARIES",
	"COHORT_HOST_CONNECT",
	"COHORT_HOST_DEVICES",
	"COHORT_HOST_NCCL",
	"COHORT_HOST_SHARED",
	"COHORT_HOST_STRICT",
	"COHORT_HOST_SYNC",
	"COHORT_JOB",
	"COHORT_LAUNCH",
	"COHORT_LIB_DIR", /* read by the build of bindings/rust */
	"COHORT_LOCAL_PROCESS",
	"COHORT_LOCAL_PROCESSES",
	"COHORT_LOG",
	"COHORT_PLATFORM",
	"COHORT_POLICY",
	"COHORT_PROCESS",
	"COHORT_PROCESSES",
	"COHORT_WATCH",
};
/* clang-format on */

size_t environment_distance(const char *a, size_t n, const char *b)
{
	size_t row[ENVIRONMENT_NAME_SIZE], i, k, above, left;

	for (i = 0; i <= n; i++)
		row[i] = i;
	for (k = 0; b[k]; k++) {
		above = row[0];
		row[0] = k + 1;
		for (i = 1; i <= n; i++) {
			left = MIN(row[i - 1], row[i]) + 1;
			left = MIN(left, above + (a[i - 1] != b[k]));
			above = row[i];
			row[i] = left;
		}
	}
	return row[n];
}

/* A known name is close if its distance from @name is at most a third of the
 * known name's length. */
const char *environment_closest(const char *name, size_t n)
{
	const char *best = NULL;
	size_t i, d, least_d = ENVIRONMENT_NAME_SIZE;

	for (i = 0; n < ENVIRONMENT_NAME_SIZE && i < ARRAY_SIZE(known); i++) {
		d = environment_distance(name, n, known[i]);
		if (d < least_d && 3 * d <= strlen(known[i])) {
			best = known[i];
			least_d = d;
		}
	}
	return best;
}

bool environment_is_known(const char *name, size_t n)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(known); i++)
		if (strlen(known[i]) == n && memcmp(name, known[i], n) == 0)
			return true;
	return false;
}

static void add(struct text *t, const char *name, size_t n, const char *end)
{
	const char *meant = environment_closest(name, n);

	if (environment_is_known(name, n))
		return;
	text_add(t,
	         "%.*s is set in the environment, but Cohort has no such "
	         "variable",
	         (int)n, name);
	if (meant)
		text_add(t, "; did you mean %s?%s", meant, end);
	else
		text_add(t, ".%s", end);
}

/* Search the @n + 1 entries of @names for @text, the value of @variable, and
 * store the index.  Do nothing if @text is NULL or empty.
 * @all: the names, for the error */
static int choose(const char *variable, const char *text,
                  const char *const *names, int n, const char *all, int *out)
{
	int i;

	if (!text || !*text)
		return COHORT_OK;
	for (i = 0; i <= n; i++)
		if (names[i] && strcmp(text, names[i]) == 0) {
			*out = i;
			return COHORT_OK;
		}
	return error_set(COHORT_INVALID,
	                 "%s is \"%s\" in the environment, not %s", variable,
	                 text, all);
}

int environment_launch(int *launch)
{
	static const char *const names[] = {
		[COHORT_LAUNCH_TOGETHER] = "together",
		[COHORT_LAUNCH_AHEAD] = "ahead",
	};

	return choose("COHORT_LAUNCH", getenv("COHORT_LAUNCH"), names,
	              COHORT_LAUNCH_AHEAD, "together or ahead", launch);
}

int environment_connect(int *connect)
{
	static const char *const names[] = {
		[COHORT_CONNECT_COLLECTIVES] = "collectives",
		[COHORT_CONNECT_ALL] = "all",
		[COHORT_CONNECT_NONE] = "none",
	};

	return choose("COHORT_CONNECT", getenv("COHORT_CONNECT"), names,
	              COHORT_CONNECT_NONE, "collectives, all or none", connect);
}

bool environment_read_time(const char *text, uint64_t *ns)
{
	static const struct {
		const char *name;
		uint64_t ns;
	} units[] = {
		{ "ms", NS_PER_S / 1000 },
		{ "s", NS_PER_S },
		{ "m", 60 * NS_PER_S },
		{ "h", 3600 * NS_PER_S },
	};
	const size_t digits = strspn(text, "0123456789");
	const unsigned long long number = strtoull(text, NULL, 10);
	size_t i;

	for (i = 0; i < ARRAY_SIZE(units); i++)
		if (digits && strcmp(text + digits, units[i].name) == 0 &&
		    number && number < UINT64_MAX / units[i].ns) {
			*ns = number * units[i].ns;
			return true;
		}
	return false;
}

int environment_deadline(uint64_t *ns)
{
	const char *text = getenv("COHORT_DEADLINE");

	if (!text || !*text || environment_read_time(text, ns))
		return COHORT_OK;
	if (strcmp(text, "off") != 0)
		return error_set(
			COHORT_INVALID,
			"COHORT_DEADLINE is \"%s\" in the environment: "
			"set it to off, or to a time such as 500ms, "
			"30s, 5m or 1h",
			text);
	*ns = COHORT_FOREVER;
	return COHORT_OK;
}

int environment_policy(int *policy)
{
	static const char *const names[] = {
		[COHORT_POLICY_ABORT] = "end",
		[COHORT_POLICY_REPORT] = "report",
	};

	return choose("COHORT_POLICY", getenv("COHORT_POLICY"), names,
	              COHORT_POLICY_REPORT, "end or report", policy);
}

void environment_add_overrides(struct text *t)
{
	/* Keep each name on the same line as its getenv(), because
	 * scripts/lint.sh ignores lines with getenv when it reads the list of
	 * known names. */
	const struct {
		const char *name, *value, *options;
	} all[] = {
		{ "COHORT_DEADLINE", getenv("COHORT_DEADLINE"),
		  "join_ns and exec_ns" },
		{ "COHORT_POLICY", getenv("COHORT_POLICY"), "policy" },
	};
	const char *gap = "";
	size_t i;

	for (i = 0; i < ARRAY_SIZE(all); i++) {
		if (!all[i].value || !*all[i].value)
			continue;
		text_add(t, "%s%s=%s sets %s", gap, all[i].name, all[i].value,
		         all[i].options);
		gap = "; ";
	}
}

void environment_add_unknown(struct text *t, const char *end)
{
	char **at;

	for (at = environ; at && *at; at++)
		if (strncmp(*at, PREFIX, sizeof(PREFIX) - 1) == 0)
			add(t, *at, strcspn(*at, "=\n"), end);
}

static void log_lines(const struct log *log, char *lines)
{
	char *line;

	while ((line = strsep(&lines, "\n")))
		if (*line)
			log_line(log, "%s", line);
}

void environment_report_unknown(const struct log *log)
{
	static atomic_flag is_done = ATOMIC_FLAG_INIT;
	char unknown[4096] = "";

	if (atomic_flag_test_and_set(&is_done))
		return;
	environment_add_unknown(&(struct text){ unknown, sizeof(unknown) },
	                        "\n");
	log_lines(log, unknown);
}

void environment_report(const struct log *log)
{
	static atomic_flag is_done = ATOMIC_FLAG_INIT;
	char overrides[256] = "";

	if (!atomic_flag_test_and_set(&is_done)) {
		environment_add_overrides(
			&(struct text){ overrides, sizeof(overrides) });
		log_lines(log, overrides);
	}
	environment_report_unknown(log);
}
