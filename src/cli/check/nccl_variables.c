/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The variables of NCCL, those that its files set included
 */

#include <ctype.h>
#include <errno.h>
#include <ifaddrs.h>
#include <libgen.h>
#include <net/if.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/environment.h"
#include "base/text.h"
#include "base/util.h"
#include "cli/check/check.h"
#include "cli/common/cli.h"
#include "core/config.h"

#define CHECK "nccl-variables"

/* Tell what NCCL does with a value, and which file of NCCL's it is from, if
 * one. */
__attribute__((format(printf, 5, 6))) static void
tell(struct check *c, enum check_result result, const char *name,
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
	check_tell(c, result, CHECK, name, advice, "%s.", what);
}

/* ---- network interfaces -------------------------------------------------- */

bool nccl_list_matches(const char *list, const char *name)
{
	const bool excludes = *list == '^';
	const char *at = list + excludes;
	const bool exact = *at == '=';
	size_t n, length;
	bool found = false;

	for (at += exact; *at; at += n + (at[n] == ',')) {
		n = strcspn(at, ",");
		length = strcspn(at, ",:"); /* a port may follow */
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
		tell(c, check_grave(c), name, advice,
		     "No interface matches \"%.100s\", so no communicator can "
		     "be made",
		     value);
}

/* ---- files --------------------------------------------------------------- */

/* NCCL prints to standard output if it cannot make the file, and says so there
 * alone. */
static void check_debug_file(struct check *c, const char *name,
                             const char *value)
{
	const char *level = getenv("NCCL_DEBUG"), *folder;
	char copy[PATH_MAX];

	snprintf(copy, sizeof(copy), "%s", value);
	folder = dirname(copy);
	if (!level || strcasecmp(level, "VERSION") == 0)
		tell(c, CHECK_WARNING, name,
		     "Set NCCL_DEBUG to WARN or INFO, or unset this.",
		     "The file is not written without NCCL_DEBUG");
	else if (value[0] == '~')
		tell(c, CHECK_WARNING, name, "Write the path out.",
		     "NCCL takes the \"~\" in %.200s for the name of a folder",
		     value);
	/* The folder of a file that is there, as /dev/stderr, does not matter;
	 * and NCCL puts host and process in place of %h and %p. */
	else if (access(value, W_OK) != 0 && !strchr(folder, '%') &&
	         access(folder, W_OK | X_OK) != 0)
		tell(c, CHECK_WARNING, name,
		     "Name a folder that is there and can be written to.",
		     "%.200s: %s; NCCL prints to standard output instead",
		     folder, strerror(errno));
}

#define CORRECT_PATH "Correct the path, or unset it."

static void check_graph_file(struct check *c, const char *name,
                             const char *value)
{
	if (access(value, R_OK) != 0)
		tell(c, check_grave(c), name, CORRECT_PATH,
		     "\"%.200s\": %s, so no communicator can be made", value,
		     strerror(errno));
}

static void check_readable(struct check *c, const char *name, const char *value)
{
	if (access(value, R_OK) != 0)
		tell(c, CHECK_WARNING, name, CORRECT_PATH,
		     "%.200s: %s; NCCL goes on without it", value,
		     strerror(errno));
}

/* The loader looks for a plugin whose name is no path; and there may be
 * several. */
static void check_plugin(struct check *c, const char *name, const char *value)
{
	if (strchr(value, '/') && !strchr(value, ','))
		check_readable(c, name, value);
}

/* ---- values -------------------------------------------------------------- */

static void check_debug(struct check *c, const char *name, const char *value)
{
	if (!check_has_word("VERSION WARN INFO ABORT TRACE", value,
	                    strncasecmp))
		tell(c, CHECK_WARNING, name, "Set it to WARN, INFO or TRACE.",
		     "NCCL does not know the value \"%.100s\", and prints "
		     "nothing",
		     value);
}

/* NCCL takes what strtoll() does, and the default if that is too large. */
static long long check_number(struct check *c, const char *name,
                              const char *value)
{
	char *end;
	long long number;

	errno = 0;
	number = strtoll(value, &end, 0);
	if (errno)
		tell(c, CHECK_WARNING, name, "Set it to a smaller number.",
		     "The value \"%.100s\" is too large, and NCCL takes its "
		     "default",
		     value);
	else if (end == value)
		tell(c, CHECK_WARNING, name,
		     "Set it to a number; for yes and no these are 1 and 0.",
		     "The value \"%.100s\" is no number, and NCCL takes it for "
		     "0",
		     value);
	else if (end[strspn(end, " \t\r\n")])
		tell(c, CHECK_WARNING, name, "Write the number out.",
		     "NCCL takes the value \"%.100s\" for %lld, and ignores "
		     "the rest",
		     value, number);
	return number;
}

/* The threads of a block: NCCL takes another number in place of one that does
 * not suit. */
static void check_threads(struct check *c, const char *name, const char *value)
{
	const int is_ll128 = strstr(name, "LL128") != NULL,
		  least = is_ll128 ? 160 : 64, most = is_ll128 ? 640 : 512;
	const int number = (int)check_number(c, name, value);

	if (number > 0 && (number % 32 || number < least || number > most))
		tell(c, CHECK_WARNING, name,
		     "Set it to a multiple of 32 in that range, or unset it.",
		     "NCCL takes %d in place of %d: the number must be a "
		     "multiple of 32 from %d to %d",
		     number % 32 || number > most ? most : least, number, least,
		     most);
}

static void check_level(struct check *c, const char *name, const char *value)
{
	const bool is_number = isdigit((unsigned char)value[0]);

	if (is_number ? strtol(value, NULL, 0) == 0 : strcmp(value, "LOC") == 0)
		tell(c, CHECK_WARNING, name,
		     "Unset it, unless a direct path is dead.",
		     "The value %.100s keeps NCCL off the direct paths between "
		     "GPUs",
		     value);
	else if (!is_number &&
	         !check_has_word("LOC NVL NVB C2C PIX PXB P2C PXN PHB SYS",
	                         value, strncmp))
		tell(c, CHECK_WARNING, name,
		     "Set it to LOC, NVL, PIX, PXB, PHB or SYS.",
		     "NCCL does not know the level \"%.100s\", and ignores it",
		     value);
}

static void check_common_id(struct check *c, const char *name,
                            const char *value)
{
	tell(c, CHECK_WARNING, name, "Unset it.",
	     "All communicators get the one id %.100s: a second one cannot be "
	     "made beside the first",
	     value);
}

static const struct {
	const char *name;
	void (*check)(struct check *c, const char *name, const char *value);
} settings[] = {
	{ "NCCL_COMM_ID", check_common_id },
	{ "NCCL_DEBUG", check_debug },
	{ "NCCL_DEBUG_FILE", check_debug_file },
	{ "NCCL_ENV_PLUGIN", check_plugin },
	{ "NCCL_GRAPH_FILE", check_graph_file },
	{ "NCCL_LL128_NTHREADS", check_threads },
	{ "NCCL_NET_PLUGIN", check_plugin },
	{ "NCCL_NTHREADS", check_threads },
	{ "NCCL_P2P_LEVEL", check_level },
	{ "NCCL_PROFILER_PLUGIN", check_plugin },
	{ "NCCL_SOCKET_IFNAME", check_interface },
	{ "NCCL_TOPO_FILE", check_readable },
	{ "NCCL_TUNER_PLUGIN", check_plugin },
};

/* Variables that are a number, and what the number 1 does if it may do harm. */
static const struct {
	const char *name, *effect, *advice;
} numbers[] = {
	{ "CHECK_POINTERS",
	  "NCCL asks CUDA about every buffer in every call, which takes time",
	  "Unset it, except for debugging." },
	{ "MULTI_RANK_GPU_ENABLE",
	  "Several ranks on one GPU are an experiment of NCCL's: they may wait "
	  "for each other for want of room",
	  "See docs/gpu.md." },
	{ "P2P_DISABLE",
	  "NCCL keeps off the direct paths between GPUs: data goes through the "
	  "host's memory",
	  "Unset it, unless a direct path is dead." },
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

/* Returns true if the value is one that can be checked. */
static bool check_setting(struct check *c, const char *name, const char *value)
{
	const char *refused = environment_refuses(name, value);
	size_t i;

	if (refused) {
		tell(c, CHECK_ERROR, name, "Unset it.",
		     "Groups do not open while it is %s: %s", value, refused);
		return true;
	}
	for (i = 0; i < ARRAY_SIZE(settings); i++)
		if (strcmp(name, settings[i].name) == 0) {
			settings[i].check(c, name, value);
			return true;
		}
	for (i = 0; i < ARRAY_SIZE(numbers); i++)
		if (check_has_word(numbers[i].name, name + strlen("NCCL_"),
		                   strncmp)) {
			if (check_number(c, name, value) == 1 &&
			    numbers[i].effect)
				tell(c, CHECK_WARNING, name, numbers[i].advice,
				     "It is 1: %s", numbers[i].effect);
			return true;
		}
	return false;
}

/* ---- names that NCCL does not know --------------------------------------- */

/* The library's file: it has the name of each variable that it reads. */
struct image {
	const char *bytes;
	size_t size;
};

/* The length of a variable's name at @at, with a zero behind it; else 0. */
static size_t name_length(const struct image *image, const char *at)
{
	const char *end = image->bytes + image->size, *p = at;

	while (p < end && (isupper((unsigned char)*p) || *p == '_' ||
	                   isdigit((unsigned char)*p)))
		p++;
	return p < end && !*p ? (size_t)(p - at) : 0;
}

/* True if the library has @name; else @meant is the nearest name that it has,
 * or "". */
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

/* What images of containers and modules set: for people, and for builds. */
static const char of_builds[] = "NCCL_DIR NCCL_HOME NCCL_INCLUDE_DIR "
				"NCCL_LIBRARY NCCL_LIB_DIR NCCL_PATH NCCL_ROOT "
				"NCCL_VERSION";

static void check_name(struct check *c, const struct image *image,
                       const char *name)
{
	char meant[ENVIRONMENT_NAME_SIZE], advice[256];

	if (!image->bytes || strlen(name) >= ENVIRONMENT_NAME_SIZE ||
	    check_has_word(of_builds, name, strncmp) ||
	    library_knows(image, name, meant))
		return;
	snprintf(advice, sizeof(advice),
	         "%s%s%sCorrect the name, or unset it; a plugin may read it, "
	         "too.",
	         meant[0] ? "Did you mean " : "", meant, meant[0] ? "? " : "");
	tell(c, CHECK_WARNING, name, advice, "%s does not know the variable",
	     c->probed.nccl_file);
}

/* ---- all ----------------------------------------------------------------- */

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
		/* An empty NCCL_GRAPH_FILE is a file that is missing. */
		if (value[1] || strcmp(name, "NCCL_GRAPH_FILE") == 0)
			checked += check_setting(c, name, value + 1);
	}
	if (check_troubles(c) == before)
		check_ok(c, CHECK,
		         n ? "%u set; nothing is wrong with the %u that are "
		             "checked"
		           : "none is set",
		         n, checked);
}
