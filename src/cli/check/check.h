/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_CHECK_CHECK_H
#define CLI_CHECK_CHECK_H

/*
 * cohort check: finds what would go wrong in a run before it starts
 *
 * The process itself opens no platform: everything that could hang, or make a
 * device unusable, is tried in a child process (trial.c). There is only one
 * thread.
 */

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <cohort/cohort.h>

/* The results, from the best to the worst */
enum check_result {
	CHECK_OK,
	/* the check does not apply here or could not be tried */
	CHECK_SKIPPED,
	CHECK_WARNING, /* a run may be slow, or may fail */
	CHECK_ERROR,   /* a run fails */
	CHECK_RESULTS,
};

struct finding {
	enum check_result result;
	const char *check; /* name of the check, which never changes */
	/* Subject of the finding, such as a variable or devices, or NULL */
	const char *subject;
	const char *what;   /* description of the finding */
	const char *advice; /* suggested fix, or NULL */
};

struct probed {
	struct cohort_platform_info info; /* facts about the platform */
	/* paths of the libraries, or "" if unknown */
	char nccl_file[PATH_MAX], runtime_file[PATH_MAX];

	/* Path of an NVIDIA library that is installed but not used, because no
	 * GPU was found, or "" */
	char unused_library[PATH_MAX];
};

/* A setting that NCCL reads from a file */
struct nccl_setting {
	char name[1024], value[1024];
	int line;
	const char *file;
};

struct check {
	int platform;         /* requested platform, an enum cohort_platform */
	const int *devices;   /* requested devices, or NULL for all */
	int device_count;     /* number of @devices */
	uint64_t deadline_ns; /* limit of each step of a trial */
	uint64_t limit_ns;    /* limit of all trials */
	/* prefix of the paths of system files; "" except in tests */
	const char *root;
	/* the platform; its status is not COHORT_OK if it cannot be used */
	struct probed probed;
	bool is_probed;
	char files[2][PATH_MAX]; /* paths of NCCL's files, or "" */
	/* settings from @files, which the caller frees */
	struct nccl_setting *settings;
	size_t setting_count;
	unsigned counts[CHECK_RESULTS];

	void (*report)(const struct finding *finding, void *user);
	void *user;
};

/* Count a finding and report it. @subject and @advice may be NULL. */
void check_report(struct check *c, enum check_result result, const char *check,
                  const char *subject, const char *advice, const char *format,
                  ...) __attribute__((format(printf, 6, 7)));

#define check_ok(c, check, ...)                                                \
	check_report(c, CHECK_OK, check, NULL, NULL, __VA_ARGS__)
#define check_skip(c, check, ...)                                              \
	check_report(c, CHECK_SKIPPED, check, NULL, NULL, __VA_ARGS__)
#define check_warn(c, ...) check_report(c, CHECK_WARNING, __VA_ARGS__)
#define check_error(c, ...) check_report(c, CHECK_ERROR, __VA_ARGS__)

/* Return whether @word is one of the words in @list, which are separated by
 * spaces. */
bool check_has_word(const char *list, const char *word);

static inline unsigned check_troubles(const struct check *c)
{
	return c->counts[CHECK_WARNING] + c->counts[CHECK_ERROR];
}

/* Return whether the libraries are NVIDIA's, on real devices. */
bool check_is_real(const struct check *c);

/* Return whether NCCL is NVIDIA's, on real or simulated devices. */
bool check_is_nvidia(const struct check *c);

/* Return CHECK_ERROR for a mistake that makes NVIDIA's NCCL or CUDA fail.
 * Return CHECK_WARNING if the simulator is used instead, because it ignores the
 * mistake. */
enum check_result check_severity(const struct check *c);

/* Return whether GPUs matter: false if the host platform or simulated devices
 * were requested. */
bool check_wants_gpus(const struct check *c);

/* Return the number of devices of a run: the requested devices, or all devices,
 * but at least 1. */
int check_devices(const struct check *c);

/* Return the number of GPUs that the driver reports, or 0 if it is not known
 * (limits.c). */
int check_gpus(const struct check *c);

/* Return a sentence that says why the driver does not matter or that it is not
 * loaded, or NULL if the driver is loaded and matters (limits.c). */
const char *check_no_driver(const struct check *c);

/* Read the first @size - 1 bytes of a system file under @c->root, and remove
 * newlines at the end. Return the number of bytes, or -1 with errno. */
int check_read(const struct check *c, const char *path, char *text,
               size_t size);

/* ---- the checks, in the order of their output ---------------------------- */

void check_platform(struct check *c);  /* in platform.c; fills @c->probed */
void check_versions(struct check *c);  /* in known_faults.c */
void check_libraries(struct check *c); /* in libraries.c */
void check_variables(struct check *c); /* in variables.c; COHORT_... */
void check_nccl(
	struct check *c); /* in nccl_variables.c; NCCL_..., also from files */
void check_cuda(struct check *c);         /* in variables.c; CUDA_... */
void check_limits(struct check *c);       /* in limits.c */
void check_devices_work(struct check *c); /* in devices.c */

/* ---- parts that are tested by themselves --------------------------------- */

/* Return the driver's version, encoded by DRIVER_VERSION(), from the text of
 * /proc/driver/nvidia/version. Return 0 if there is none (known_faults.c). */
int driver_version(const char *text);

/* Report the known faults of version @is of the library @library, an enum
 * known_library. Return whether it has any (known_faults.c). */
bool report_known_faults(struct check *c, int library, int is,
                         const char *check, const char *subject);

/* Read NCCL's configuration files as version @nccl_version of NCCL does. Store
 * the settings in the environment and in @c->settings. Report lines that do not
 * have the effect that they seem to have (nccl_files.c). */
void nccl_files_read(struct check *c, int nccl_version);

/* Parse a line, which is modified, as NCCL does. Return false if it sets
 * nothing (nccl_files.c). */
bool nccl_files_parse(char *line, int nccl_version, struct nccl_setting *out);

/* Return whether a list in the syntax of NCCL_SOCKET_IFNAME matches the
 * interface @name (nccl_variables.c). */
bool nccl_list_matches(const char *list, const char *name);

/* Return what is wrong with a value of CUDA_VISIBLE_DEVICES, or NULL. @devices
 * is the number of GPUs, or 0 if it is not known (variables.c). */
const char *visible_devices_fault(const char *value, int devices);

/* ---- trials (trial.c) ---------------------------------------------------- */

/*
 * A trial is a function that runs in a child process, with a deadline for each
 * step
 *
 * A process cannot end its own call of the driver if the call hangs. After a
 * device has failed, all further calls of the process on it fail. So the child
 * is killed if a step exceeds its deadline, or when this process ends.
 */

enum trial_end {
	TRIAL_RUNS,
	TRIAL_DONE,
	TRIAL_FAILED, /* the trial has reported why */
	TRIAL_HUNG,   /* a step has exceeded its deadline */
	/* a signal ended the child, or it ended without a report */
	TRIAL_DIED,
	TRIAL_REFUSED, /* the process or its memory could not be created */
};

#define TRIAL_TEXT 1024

/* Report of the child, in memory that both processes share */
struct trial_shared {
	/* Deadline of the step, by clock_now(). Atomic; storing it releases
	 * everything that the child wrote before. */
	_Atomic uint64_t until_ns;
	/* name of the step: a static string, which has the same address in both
	 * processes */
	const char *_Atomic step;
	uint64_t step_ns;
	_Atomic int end;       /* enum trial_end */
	char text[TRIAL_TEXT]; /* reason for a failure, or a result */
	_Alignas(16) char data[];
};

struct trial {
	const struct check *check;
	void (*run)(struct trial *trial); /* function that runs in the child */
	const char *name; /* argument of @run: a variable's name */
	int a, b;         /* arguments of @run: two devices */
	unsigned plan;    /* argument of @run: bits of a plan */
	size_t size;      /* size of @shared->data */

	struct trial_shared *shared; /* NULL if there is no trial */
	pid_t pid;
	enum trial_end end;
	const char *step;      /* the last step that started */
	uint64_t step_ns;      /* deadline of that step */
	char text[TRIAL_TEXT]; /* reason for a failure, or a result */
	/* the child is inside the driver and could not be killed */
	bool is_left;
};

/* Start a trial. The caller must have set the members before @shared. Return
 * false if the process or its memory could not be created, with @end and @text
 * set. */
bool trial_start(struct trial *trial);

/* Factor by which the deadline for the start of a child is multiplied. CUDA
 * takes seconds per GPU to start if the driver does not stay loaded. */
#define TRIAL_STARTS 3

/* Largest number of trials that run at the same time */
#define TRIALS 8

/* Wait until one of the running trials among the @n in @trials has ended.
 * Return it with @end set, or return NULL if none is running. */
struct trial *trial_wait(struct trial *const *trials, unsigned n);
void trial_free(struct trial *trial);
void trial_run(struct trial *trial);

/* ---- in the child -------------------------------------------------------- */

/* Start a step that may take @ns. @step is a static string, such as "the
 * copy". */
void trial_step(struct trial *trial, const char *step, uint64_t ns);

/* End the child because the trial has failed. @format describes the failure. */
__attribute__((noreturn, format(printf, 2, 3))) void
trial_fail(struct trial *trial, const char *format, ...);

#endif
