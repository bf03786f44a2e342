/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_CHECK_CHECK_H
#define CLI_CHECK_CHECK_H

/*
 * cohort check: what would go wrong in a run, before it
 *
 * The process itself opens no platform: whatever may hang, or leave a device
 * unusable, is tried in a child of its own (trial.h).  One thread.
 */

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cohort/cohort.h>

/* From the best to the worst. */
enum check_result {
	CHECK_OK,
	CHECK_SKIPPED, /* it does not apply here, or could not be tried */
	CHECK_WARNING, /* a run may be slow, or may fail */
	CHECK_ERROR,   /* a run fails */
	CHECK_RESULTS,
};

/* What one check has found. */
struct finding {
	enum check_result result;
	const char *check; /* its name, which never changes */
	/* What it is about: a variable, devices; or NULL. */
	const char *subject;
	const char *what;   /* in sentences */
	const char *advice; /* what to do about it, or NULL */
};

/* What the platform says of itself. */
struct probed {
	struct cohort_platform_info info; /* its texts are not set */
	char nccl_file[PATH_MAX], runtime_file[PATH_MAX]; /* or "" */

	/* A library of NVIDIA's that is here although the host platform was
	 * chosen for want of a GPU, or "". */
	char unused_library[PATH_MAX];
};

/* A setting that NCCL takes from a file. */
struct nccl_setting {
	char name[1024], value[1024];
	int line;
	const char *file;
};

struct check {
	int platform;         /* as asked for */
	const int *devices;   /* as asked for, or NULL: all */
	int device_count;     /* of @devices */
	uint64_t deadline_ns; /* of each step of a trial */
	uint64_t limit_ns;    /* of all trials */
	const char *root; /* in front of the system's files; "" but in tests */
	/* Of the platform; status not OK: it cannot be used. */
	struct probed probed;
	bool is_probed;                /* else nothing is known of it */
	char files[2][PATH_MAX];       /* of NCCL's, or "" */
	struct nccl_setting *settings; /* from them; free() */
	size_t setting_count;
	unsigned counts[CHECK_RESULTS];

	void (*tell)(const struct finding *finding, void *user);
	void *user;
};

/* Count a finding, and tell it.  @subject and @advice may be NULL. */
void check_tell(struct check *c, enum check_result result, const char *check,
                const char *subject, const char *advice, const char *format,
                ...) __attribute__((format(printf, 6, 7)));

#define check_ok(c, check, ...)                                                \
	check_tell(c, CHECK_OK, check, NULL, NULL, __VA_ARGS__)
#define check_skip(c, check, ...)                                              \
	check_tell(c, CHECK_SKIPPED, check, NULL, NULL, __VA_ARGS__)
#define check_warn(c, ...) check_tell(c, CHECK_WARNING, __VA_ARGS__)
#define check_error(c, ...) check_tell(c, CHECK_ERROR, __VA_ARGS__)

/* True if @word is one of those in @list, which have a space between them;
 * @compare is strncmp() or strncasecmp(). */
bool check_has_word(const char *list, const char *word,
                    int (*compare)(const char *, const char *, size_t));

/* How many warnings and errors have been told. */
static inline unsigned check_troubles(const struct check *c)
{
	return c->counts[CHECK_WARNING] + c->counts[CHECK_ERROR];
}

/* True if the libraries are NVIDIA's, on real devices; and if NCCL is NVIDIA's,
 * there or on the simulator. */
bool check_is_real(const struct check *c);
bool check_is_nvidia(const struct check *c);

/* CHECK_ERROR for what only NVIDIA's NCCL and CUDA look at; CHECK_WARNING where
 * the simulator takes their place, and does not. */
enum check_result check_grave(const struct check *c);

/* False if the host platform was asked for, or simulated devices: whether there
 * are GPUs does not matter then. */
bool check_wants_gpus(const struct check *c);

/* How many devices a run has: those that were asked for, or all; at least 1. */
int check_devices(const struct check *c);

/* How many GPUs the driver says it has, or 0 if that is not known
 * (limits.c). */
int check_gpus(const struct check *c);

/* Why the driver does not matter, or is not loaded; NULL if neither is so
 * (limits.c). */
const char *check_no_driver(const struct check *c);

/* The first @size - 1 bytes of a file of the system's, under @c->root, up to
 * its last newline; -1: it cannot be read, see errno. */
int check_read(const struct check *c, const char *path, char *text,
               size_t size);

/* ---- the checks, in the order of their output ---------------------------- */

void check_platform(struct check *c);  /* platform.c; fills @c->probed */
void check_versions(struct check *c);  /* known_faults.c */
void check_libraries(struct check *c); /* libraries.c */
void check_variables(struct check *c); /* variables.c: COHORT_... */
void check_nccl(
	struct check *c); /* nccl_variables.c: NCCL_..., from files, too */
void check_cuda(struct check *c);         /* variables.c: CUDA_... */
void check_limits(struct check *c);       /* limits.c */
void check_devices_work(struct check *c); /* devices.c */

/* ---- parts that are tested by themselves --------------------------------- */

/* The version in the text of /proc/driver/nvidia/version, as DRIVER_VERSION(),
 * or 0 (known_faults.c). */
int driver_version(const char *text);

/* Tell of the version @is what is known of it (known_faults.c).  @library is an
 * enum known_library; true if anything is. */
bool versions_tell(struct check *c, int library, int is, const char *check,
                   const char *subject);

/* Read NCCL's files as NCCL of this version does, put what they say into the
 * environment and into @c->settings, and tell of lines that do not do what they
 * seem to (nccl_files.c). */
void nccl_files_read(struct check *c, int nccl_version);

/* Parse one line, as NCCL does: false if it sets nothing.  Cuts @line. */
bool nccl_files_parse(char *line, int nccl_version, struct nccl_setting *out);

/* True if a list as in NCCL_SOCKET_IFNAME matches the interface @name
 * (nccl_variables.c). */
bool nccl_list_matches(const char *list, const char *name);

/* What is wrong with a value of CUDA_VISIBLE_DEVICES on a machine with @devices
 * (0: not known), or NULL (variables.c). */
const char *visible_devices_fault(const char *value, int devices);

#endif
