/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The variables of NCCL, those that its files set included
 */

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/environment.h"
#include "base/text.h"
#include "cli/check/check.h"
#include "core/config.h"

#define CHECK "nccl-variables"

/* ---- where a variable is from --------------------------------------------- */

/* "" or " (from FILE, line N)" */
static const char *origin(const struct check *c, const char *name)
{
	static char text[PATH_MAX + 64];
	size_t i;

	text[0] = '\0';
	for (i = 0; i < c->files.count; i++)
		if (c->files.settings[i].is_used &&
		    strcmp(c->files.settings[i].name, name) == 0)
			snprintf(text, sizeof(text), " (from %s, line %d)",
			         c->files.settings[i].file,
			         c->files.settings[i].line);
	return text;
}

/* ---- network interfaces ---------------------------------------------------- */

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

/* True if NCCL could use an interface of the list; @names gets those that are there. */
static bool has_interface(const char *list, char *names, size_t size)
{
	struct text t = { names, size };
	struct ifaddrs *all = NULL, *i;
	bool found = false;

	names[0] = '\0';
	if (getifaddrs(&all) != 0)
		return true; /* nothing is known */
	for (i = all; i; i = i->ifa_next) {
		if (!i->ifa_addr || (i->ifa_addr->sa_family != AF_INET &&
		                     i->ifa_addr->sa_family != AF_INET6))
			continue;
		found = found || nccl_list_matches(list, i->ifa_name);
		if (i->ifa_addr->sa_family == AF_INET)
			text_add(&t, "%s%s", names[0] ? ", " : "", i->ifa_name);
	}
	freeifaddrs(all);
	return found;
}

static void check_interface(struct check *c, const char *name,
                            const char *value)
{
	char names[512], advice[600];

	/* NCCL ignores a value of one byte. */
	if (strlen(value) < 2 || has_interface(value, names, sizeof(names)))
		return;
	snprintf(advice, sizeof(advice),
	         "Name an interface that has an address: %s.", names);
	check_tell(c, check_grave(c), CHECK, name, advice,
	           "No interface matches \"%.100s\"%s, so no communicator can "
	           "be made.",
	           value, origin(c, name));
}

/* ---- files ------------------------------------------------------------------ */

/* NCCL prints to standard output if it cannot make the file, and says so there alone. */
static void check_debug_file(struct check *c, const char *name,
                             const char *value)
{
	const char *level = getenv("NCCL_DEBUG"), *slash = strrchr(value, '/');
	char folder[PATH_MAX];

	snprintf(folder, sizeof(folder), "%.*s",
	         slash ? (int)(slash - value) : 1, slash ? value : ".");
	if (!folder[0])
		strcpy(folder, "/");
	if (!level || strcasecmp(level, "VERSION") == 0)
		check_tell(c, CHECK_WARNING, CHECK, name,
		           "Set NCCL_DEBUG to WARN or INFO, or unset this.",
		           "The file is not written without NCCL_DEBUG.");
	else if (value[0] == '~')
		check_tell(c, CHECK_WARNING, CHECK, name, "Write the path out.",
		           "NCCL takes the \"~\" in %.200s for the name of a "
		           "folder.",
		           value);
	/* The folder of a file that is there, as /dev/stderr, does not matter; and NCCL
	 * puts host and process in place of %h and %p. */
	else if (access(value, W_OK) != 0 && !strchr(folder, '%') &&
	         access(folder, W_OK | X_OK) != 0)
		check_tell(c, CHECK_WARNING, CHECK, name,
		           "Name a folder that is there and can be written "
		           "to.",
		           "%s: %s%s; NCCL prints to standard output instead.",
		           folder, strerror(errno), origin(c, name));
}

static void check_readable(struct check *c, const char *name, const char *value)
{
	if (access(value, R_OK) != 0)
		check_tell(c, CHECK_WARNING, CHECK, name,
		           "Correct the path, or unset it.",
		           "%.200s: %s%s; NCCL goes on without it.", value,
		           strerror(errno), origin(c, name));
}

/* A plugin's name that is no path is looked for by the loader. */
static void check_plugin(struct check *c, const char *name, const char *value)
{
	if (strchr(value, '/'))
		check_readable(c, name, value);
}

/* ---- values ----------------------------------------------------------------- */

static void check_debug(struct check *c, const char *name, const char *value)
{
	static const char *const levels[] = { "VERSION", "WARN", "INFO",
		                              "ABORT", "TRACE" };
	size_t i;

	for (i = 0; i < sizeof(levels) / sizeof(levels[0]); i++)
		if (strcasecmp(value, levels[i]) == 0)
			return;
	check_tell(c, CHECK_WARNING, CHECK, name,
	           "Set it to WARN, INFO or TRACE.",
	           "NCCL does not know the value \"%.100s\"%s, and prints "
	           "nothing.",
	           value, origin(c, name));
}

static void check_number(struct check *c, const char *name, const char *value)
{
	char *end;

	strtoll(value, &end, 0);
	if (end == value)
		check_tell(
			c, CHECK_WARNING, CHECK, name,
			"Set it to a number; for yes and no these are 1 and "
			"0.",
			"The value \"%.100s\"%s is no number, and NCCL takes "
			"it for 0.",
			value, origin(c, name));
}

static void check_level(struct check *c, const char *name, const char *value)
{
	if (strcasecmp(value, "LOC") == 0 || strcmp(value, "0") == 0)
		check_tell(c, CHECK_WARNING, CHECK, name,
		           "Unset it, unless a direct path is dead.",
		           "The value %s%s keeps NCCL off the direct paths "
		           "between GPUs.",
		           value, origin(c, name));
}

/* What the value 1 does, for variables that are a number. */
struct effect {
	const char *name, *what, *advice;
};

static const struct effect effects[] = {
	{ "NCCL_P2P_DISABLE",
	  "NCCL keeps off the direct paths between GPUs: data goes through "
	  "the host's memory.",
	  "Unset it, unless a direct path is dead." },
	{ "NCCL_SHM_DISABLE",
	  "Ranks without a direct path between them exchange data through "
	  "sockets.",
	  "Unset it." },
	{ "NCCL_CHECK_POINTERS",
	  "NCCL asks CUDA about every buffer in every call, which takes time.",
	  "Unset it, except for debugging." },
	{ "NCCL_MULTI_RANK_GPU_ENABLE",
	  "Several ranks on one GPU are an experiment of NCCL's: they may wait "
	  "for each other for want of room.",
	  "See docs/gpu.md." },
};

static void check_effect(struct check *c, const char *name, const char *value)
{
	size_t i;

	check_number(c, name, value);
	if (strtoll(value, NULL, 0) != 1)
		return;
	for (i = 0; i < sizeof(effects) / sizeof(effects[0]); i++)
		if (strcmp(name, effects[i].name) == 0)
			check_tell(c, CHECK_WARNING, CHECK, name,
			           effects[i].advice, "It is 1%s: %s",
			           origin(c, name), effects[i].what);
}

static void check_common_id(struct check *c, const char *name,
                            const char *value)
{
	check_tell(c, CHECK_WARNING, CHECK, name, "Unset it.",
	           "All communicators get the one id %.100s%s: a second one "
	           "cannot be made beside the first.",
	           value, origin(c, name));
}

static const struct {
	const char *name;
	void (*check)(struct check *c, const char *name, const char *value);
} settings[] = {
	{ "NCCL_BUFFSIZE", check_number },
	{ "NCCL_CHECK_POINTERS", check_effect },
	{ "NCCL_COMM_BLOCKING", check_number },
	{ "NCCL_COMM_ID", check_common_id },
	{ "NCCL_COMM_SPLIT_SHARE_RESOURCES", check_number },
	{ "NCCL_CUMEM_ENABLE", check_number },
	{ "NCCL_CUMEM_HOST_ENABLE", check_number },
	{ "NCCL_DEBUG", check_debug },
	{ "NCCL_DEBUG_FILE", check_debug_file },
	{ "NCCL_ENV_PLUGIN", check_plugin },
	{ "NCCL_GRAPH_FILE", check_readable },
	{ "NCCL_IB_DISABLE", check_number },
	{ "NCCL_LAUNCH_ORDER_IMPLICIT", check_number },
	{ "NCCL_MAX_CTAS", check_number },
	{ "NCCL_MAX_NCHANNELS", check_number },
	{ "NCCL_MIN_CTAS", check_number },
	{ "NCCL_MIN_NCHANNELS", check_number },
	{ "NCCL_MNNVL_ENABLE", check_number },
	{ "NCCL_MULTI_RANK_GPU_ENABLE", check_effect },
	{ "NCCL_NET_PLUGIN", check_plugin },
	{ "NCCL_NVLS_ENABLE", check_number },
	{ "NCCL_P2P_DISABLE", check_effect },
	{ "NCCL_P2P_LEVEL", check_level },
	{ "NCCL_PROFILER_PLUGIN", check_plugin },
	{ "NCCL_RAS_ENABLE", check_number },
	{ "NCCL_RUNTIME_CONNECT", check_number },
	{ "NCCL_SHM_DISABLE", check_effect },
	{ "NCCL_SOCKET_IFNAME", check_interface },
	{ "NCCL_TOPO_FILE", check_readable },
	{ "NCCL_TUNER_PLUGIN", check_plugin },
	{ "NCCL_WIN_ENABLE", check_number },
};

static void check_setting(struct check *c, const char *name, const char *value)
{
	const char *refused = environment_refuses(name, value);
	size_t i;

	if (refused) {
		check_tell(c, CHECK_ERROR, CHECK, name, "Unset it.",
		           "Groups do not open while it is %s%s: %s.", value,
		           origin(c, name), refused);
		return;
	}
	for (i = 0; i < sizeof(settings) / sizeof(settings[0]); i++)
		if (strcmp(name, settings[i].name) == 0)
			settings[i].check(c, name, value);
}

/* ---- names that NCCL does not know ------------------------------------------- */

/* The library's file: it has the name of each variable that it reads. */
struct image {
	const char *bytes;
	size_t size;
};

static struct image map_library(const char *file)
{
	const int fd = open(file, O_RDONLY | O_CLOEXEC);
	struct image image = { NULL, 0 };
	struct stat status;
	void *bytes;

	if (fd < 0)
		return image;
	if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode) &&
	    status.st_size > 0) {
		bytes = mmap(NULL, (size_t)status.st_size, PROT_READ,
		             MAP_PRIVATE, fd, 0);
		if (bytes != MAP_FAILED)
			image = (struct image){ bytes, (size_t)status.st_size };
	}
	close(fd);
	return image;
}

/* The length of a variable's name at @at, with a zero behind it; else 0. */
static size_t name_length(const struct image *image, const char *at)
{
	const char *end = image->bytes + image->size, *p = at;

	while (p < end && (isupper((unsigned char)*p) || *p == '_' ||
	                   isdigit((unsigned char)*p)))
		p++;
	return p < end && !*p ? (size_t)(p - at) : 0;
}

/* True if the library has @name; else @meant is the nearest name that it has, or "". */
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
static const char *const of_builds[] = {
	"NCCL_DIR",     "NCCL_HOME", "NCCL_INCLUDE_DIR", "NCCL_LIBRARY",
	"NCCL_LIB_DIR", "NCCL_PATH", "NCCL_ROOT",        "NCCL_VERSION",
};

static void check_name(struct check *c, const struct image *image,
                       const char *name)
{
	char meant[ENVIRONMENT_NAME_SIZE];
	size_t i;

	for (i = 0; i < sizeof(of_builds) / sizeof(of_builds[0]); i++)
		if (strcmp(name, of_builds[i]) == 0)
			return;
	if (!image->size || strlen(name) >= ENVIRONMENT_NAME_SIZE ||
	    library_knows(image, name, meant))
		return;
	check_tell(c, CHECK_WARNING, CHECK, name,
	           "Correct the name, or unset it; a plugin may read it, too.",
	           "%s does not know the variable%s%s%s%s", c->probed.nccl_file,
	           origin(c, name), meant[0] ? "; did you mean " : "", meant,
	           meant[0] ? "?" : "");
}

/* ---- all --------------------------------------------------------------------- */

void check_nccl(struct check *c)
{
	const int version = c->is_probed && c->probed.info.nccl_version
	                            ? c->probed.info.nccl_version
	                            : INT_MAX;
	unsigned before, n = 0;
	struct image image = { NULL, 0 };
	char **at, name[256];

	if (!nccl_files_read(c, &c->files, version))
		check_tell(c, CHECK_SKIPPED, "nccl-files", NULL, NULL,
		           "out of memory");
	else
		nccl_files_tell(c, &c->files);
	before = check_troubles(c);
	if (check_is_nvidia(c))
		image = map_library(c->probed.nccl_file);
	for (at = environ; at && *at; at++) {
		const size_t length = strcspn(*at, "=");

		if (strncmp(*at, "NCCL_", 5) != 0 || !(*at)[length])
			continue;
		n++;
		snprintf(name, sizeof(name), "%.*s", (int)length, *at);
		check_name(c, &image, name);
		if ((*at)[length + 1])
			check_setting(c, name, *at + length + 1);
	}
	if (image.size)
		munmap((void *)(uintptr_t)image.bytes, image.size);
	if (check_troubles(c) == before)
		check_tell(c, CHECK_OK, CHECK, NULL, NULL,
		           n ? "%u set, none of which is known to do harm"
		             : "none is set",
		           n);
}
