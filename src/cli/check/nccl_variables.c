/* SPDX-License-Identifier: Apache-2.0 */

/* Checks of NCCL's variables, including those that its files set */

#include <ctype.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/environment.h"
#include "base/text.h"
#include "base/util.h"
#include "cli/check/check.h"
#include "cli/common/cli.h"
#include "core/config.h"

#define CHECK "nccl-variables"

/* Report what NCCL does with a value. If the value comes from a configuration
 * file, name the file. */
__attribute__((format(printf, 5, 6))) static void
report(struct check *c, enum check_result result, const char *name,
       const char *advice, const char *format, ...)
{
	char what[1024];
	struct text t = { what, sizeof(what) };
	const struct nccl_setting *s;
	va_list args;

	va_start(args, format);
	text_vadd(&t, format, args);
	va_end(args);
	for (size_t i = 0; i < c->setting_count; i++) {
		s = &c->settings[i];
		if (strcmp(s->name, name) == 0)
			text_add(&t, " (from %s, line %d)", s->file, s->line);
	}
	check_report(c, result, CHECK, name, advice, "%s.", what);
}

bool nccl_list_matches(const char *list, const char *name)
{
	const bool excludes = *list == '^';
	const char *at = list + excludes;
	const bool exact = *at == '=';
	size_t n, length;
	bool found = false;

	for (at += exact; *at; at += n + (at[n] == ',')) {
		n = strcspn(at, ",");
		length = strcspn(at, ",:"); /* a port can follow the name */
		if (length && strncmp(name, at, length) == 0 &&
		    (!exact || !name[length]))
			found = true;
	}
	return found != excludes;
}

static void check_interface(struct check *c, const char *name,
                            const char *value)
{
	char advice[600] = "Name an interface that has an address:";
	struct ifaddrs *all = NULL, *i;
	bool found = false;
	int family;

	/* NCCL ignores a value of one byte. */
	if (strlen(value) < 2 || getifaddrs(&all) != 0)
		return;
	for (i = all; i; i = i->ifa_next) {
		family = i->ifa_addr ? i->ifa_addr->sa_family : AF_UNSPEC;
		if (family == AF_INET || family == AF_INET6)
			found = found || nccl_list_matches(value, i->ifa_name);
		if (family == AF_INET)
			text_append(advice, sizeof(advice), " %s", i->ifa_name);
	}
	freeifaddrs(all);
	if (!found)
		report(c, check_severity(c), name, advice,
		       "No interface matches \"%.100s\", so no communicator "
		       "can "
		       "be created",
		       value);
}

#define CORRECT_PATH "Correct the path, or unset it."

static void check_graph_file(struct check *c, const char *name,
                             const char *value)
{
	if (access(value, R_OK) != 0)
		report(c, check_severity(c), name, CORRECT_PATH,
		       "\"%.200s\": %s, so no communicator can be created",
		       value, strerror(errno));
}

static void check_readable(struct check *c, const char *name, const char *value)
{
	if (access(value, R_OK) != 0)
		report(c, CHECK_WARNING, name, CORRECT_PATH,
		       "%.200s: %s; NCCL continues without it", value,
		       strerror(errno));
}

/* Check a plugin's file. Do not check a name without a slash, for which the
 * dynamic linker searches, or a list of names. */
static void check_plugin(struct check *c, const char *name, const char *value)
{
	if (strchr(value, '/') && !strchr(value, ','))
		check_readable(c, name, value);
}

/* Check a number, which NCCL parses with strtoll(). If it is too large, NCCL
 * uses the default. */
static long long check_number(struct check *c, const char *name,
                              const char *value)
{
	char *end;
	long long number;

	errno = 0;
	number = strtoll(value, &end, 0);
	if (errno)
		report(c, CHECK_WARNING, name, "Set it to a smaller number.",
		       "The value \"%.100s\" is too large, and NCCL uses its "
		       "default",
		       value);
	else if (end == value)
		report(c, CHECK_WARNING, name,
		       "Set it to a number: 1 for yes, 0 for no.",
		       "The value \"%.100s\" is not a number, and NCCL reads "
		       "it "
		       "as 0",
		       value);
	else if (end[strspn(end, " \t\r\n")])
		report(c, CHECK_WARNING, name,
		       "Write the number without a suffix.",
		       "NCCL reads the value \"%.100s\" as %lld, and ignores "
		       "the rest",
		       value, number);
	return number;
}

static void check_level(struct check *c, const char *name, const char *value)
{
	const bool is_number = isdigit((unsigned char)value[0]);

	if (is_number ? strtol(value, NULL, 0) == 0 : strcmp(value, "LOC") == 0)
		report(c, CHECK_WARNING, name,
		       "Unset it, unless a direct path is broken.",
		       "The value %.100s makes NCCL avoid the direct paths "
		       "between GPUs",
		       value);
	else if (!is_number &&
	         !check_has_word("LOC NVL NVB C2C PIX PXB P2C PXN PHB SYS",
	                         value))
		report(c, CHECK_WARNING, name,
		       "Set it to LOC, NVL, PIX, PXB, PHB or SYS.",
		       "NCCL does not know the level \"%.100s\", and ignores "
		       "it",
		       value);
}

static void check_common_id(struct check *c, const char *name,
                            const char *value)
{
	report(c, CHECK_WARNING, name, "Unset it.",
	       "All communicators get the same id, %.100s, so a second one "
	       "cannot be created while the first exists",
	       value);
}

static const struct {
	const char *name;
	void (*check)(struct check *c, const char *name, const char *value);
} settings[] = {
	{ "NCCL_COMM_ID", check_common_id },
	{ "NCCL_ENV_PLUGIN", check_plugin },
	{ "NCCL_GRAPH_FILE", check_graph_file },
	{ "NCCL_NET_PLUGIN", check_plugin },
	{ "NCCL_P2P_LEVEL", check_level },
	{ "NCCL_PROFILER_PLUGIN", check_plugin },
	{ "NCCL_SOCKET_IFNAME", check_interface },
	{ "NCCL_TOPO_FILE", check_readable },
	{ "NCCL_TUNER_PLUGIN", check_plugin },
};

/* Variables that are numbers, and the effect of the value 1 if it may do
 * harm */
static const struct {
	const char *name, *effect, *advice;
} numbers[] = {
	{ "CHECK_POINTERS",
	  "NCCL asks CUDA about each buffer in each call, which takes time",
	  "Unset it, except for debugging." },
	{ "MULTI_RANK_GPU_ENABLE",
	  "Several ranks on one GPU are experimental in NCCL: if their kernels "
	  "do not fit at the same time, they wait for each other forever",
	  "See docs/gpu.md." },
	{ "P2P_DISABLE",
	  "NCCL avoids the direct paths between GPUs: data goes through the "
	  "host's memory",
	  "Unset it, unless a direct path is broken." },
	{ "SHM_DISABLE",
	  "Ranks without a direct path between them exchange data through "
	  "sockets",
	  "Unset it." },
	{ "BUFFSIZE COMM_BLOCKING COMM_SPLIT_SHARE_RESOURCES CUMEM_ENABLE "
	  "CUMEM_HOST_ENABLE IB_DISABLE LAUNCH_ORDER_IMPLICIT LL128_BUFFSIZE "
	  "LL_BUFFSIZE MAX_CTAS MAX_NCHANNELS MIN_CTAS MIN_NCHANNELS "
	  "MNNVL_ENABLE NVLS_ENABLE RAS_ENABLE RUNTIME_CONNECT WIN_ENABLE",
	  NULL, NULL },
};

/* Check a variable. Return whether its values can be checked. */
static bool check_setting(struct check *c, const char *name, const char *value)
{
	const char *refused = environment_refuses(name, value);

	if (refused) {
		report(c, CHECK_ERROR, name, "Unset it.",
		       "Groups cannot be opened while it is %s: %s", value,
		       refused);
		return true;
	}
	for (size_t i = 0; i < ARRAY_SIZE(settings); i++)
		if (strcmp(name, settings[i].name) == 0) {
			settings[i].check(c, name, value);
			return true;
		}
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
		if (check_has_word(numbers[i].name, name + strlen("NCCL_"))) {
			if (check_number(c, name, value) == 1 &&
			    numbers[i].effect)
				report(c, CHECK_WARNING, name,
				       numbers[i].advice, "It is 1: %s",
				       numbers[i].effect);
			return true;
		}
	return false;
}

/* The library's file, which contains the names of all variables that the
 * library reads */
struct image {
	const char *bytes;
	size_t size;
};

/* Return the length of the variable name at @at if a zero byte follows it, and
 * 0 otherwise. */
static size_t name_length(const struct image *image, const char *at)
{
	const char *end = image->bytes + image->size, *p = at;

	while (p < end && (isupper((unsigned char)*p) || *p == '_' ||
	                   isdigit((unsigned char)*p)))
		p++;
	return p < end && !*p ? (size_t)(p - at) : 0;
}

/* Return whether the library contains @name. If not, set @meant to the most
 * similar name in the library, or to "". */
static bool library_knows(const struct image *image, const char *name,
                          char meant[ENVIRONMENT_NAME_SIZE])
{
	const char *at = image->bytes, *end = at + image->size;
	size_t n, d, best = ENVIRONMENT_NAME_SIZE;

	meant[0] = '\0';
	for (; (at = memmem(at, (size_t)(end - at), "NCCL_", 5)); at += 5) {
		n = name_length(image, at);
		if (!n || n >= ENVIRONMENT_NAME_SIZE)
			continue;
		if (strcmp(at, name) == 0)
			return true;
		d = environment_distance(at, n, name);
		if (d < best && 4 * d <= n) {
			best = d;
			memcpy(meant, at, n + 1);
		}
	}
	return false;
}

/* Variables that container images and modules set for users and for builds */
static const char of_builds[] = "NCCL_DIR NCCL_HOME NCCL_INCLUDE_DIR "
				"NCCL_LIBRARY NCCL_LIB_DIR NCCL_PATH NCCL_ROOT "
				"NCCL_VERSION";

static void check_name(struct check *c, const struct image *image,
                       const char *name)
{
	char meant[ENVIRONMENT_NAME_SIZE], advice[256];

	if (!image->bytes || strlen(name) >= ENVIRONMENT_NAME_SIZE ||
	    check_has_word(of_builds, name) ||
	    library_knows(image, name, meant))
		return;
	snprintf(advice, sizeof(advice),
	         "%s%s%sCorrect the name or unset it, unless a plugin reads "
	         "it.",
	         meant[0] ? "Did you mean " : "", meant, meant[0] ? "? " : "");
	report(c, CHECK_WARNING, name, advice, "%s does not know the variable",
	       c->probed.nccl_file);
}

void check_nccl(struct check *c)
{
	const int version = c->is_probed && c->probed.info.nccl_version
	                            ? c->probed.info.nccl_version
	                            : INT_MAX;
	unsigned before, n = 0, checked = 0;
	struct image image = { NULL, 0 };
	char **at, name[256];
	const char *value;

	nccl_files_read(c, version);
	before = check_troubles(c);
	if (check_is_nvidia(c))
		image.bytes = cli_map_file(c->probed.nccl_file, &image.size);
	for (at = environ; at && *at; at++) {
		value = strchr(*at, '=');
		if (strncmp(*at, "NCCL_", 5) != 0 || !value)
			continue;
		n++;
		snprintf(name, sizeof(name), "%.*s", (int)(value - *at), *at);
		check_name(c, &image, name);
		/* NCCL treats an empty NCCL_GRAPH_FILE as the name of a
		 * file. */
		if (value[1] || strcmp(name, "NCCL_GRAPH_FILE") == 0)
			checked += check_setting(c, name, value + 1);
	}
	if (check_troubles(c) == before)
		check_ok(c, CHECK,
		         n ? "%u set; %u checked, no error found"
		           : "none is set",
		         n, checked);
}
