/* SPDX-License-Identifier: Apache-2.0 */

/* Reads the options of a group: applies defaults, handles callers built against
 * other versions, reads the environment, and checks the result */

#include "api/options.h"

#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/communicator.h"
#include "base/clock.h"
#include "base/environment.h"
#include "base/sized.h"
#include "base/status.h"
#include "base/text.h"
#include "dump/dump.h"
#include "watch/symbolizer.h"

#define DEFAULT_SLOTS 2048
#define MAX_FACTOR 1000
#define MIN_SLOTS 16
#define MAX_SLOTS 65536

_Static_assert(LOG_PATH >= DUMP_PATH, "path_check() is for both");

void cohort_group_options_init(struct cohort_group_options *options)
{
	*options = (struct cohort_group_options){
		.size = sizeof(*options),
		.name = "cohort",
		.platform = COHORT_PLATFORM_AUTO,
		.recorder_slots = DEFAULT_SLOTS,
		.deadlines = {
			.init_ns = 120 * NS_PER_S,
			.join_ns = 300 * NS_PER_S,
			.exec_ns = 300 * NS_PER_S,
			.close_ns = 60 * NS_PER_S,
			.abort_ns = 10 * NS_PER_S,
		},
		.policy = COHORT_POLICY_ABORT,
		.adaptive_floor_ns = 10 * NS_PER_S,
		.adaptive_warmup = 100,
	};
}

/* Merge the caller's options over the defaults.  A member that is 0, or that
 * the caller's version does not have, keeps its default. */
static int options_merge(const struct cohort_group_options *given,
                         struct cohort_group_options *o)
{
	int rc;

	cohort_group_options_init(o);
	if (!given)
		return COHORT_OK;
	rc = sized_check("options", given->size,
	                 offsetof(struct cohort_group_options, platform),
	                 "was cohort_group_options_init() called?");
	if (rc == COHORT_OK)
		rc = reserved_check("options->", given,
		                    offsetof(struct cohort_group_options,
		                             reserved),
		                    given->size);
	if (rc == COHORT_OK &&
	    given->size >= offsetof(struct cohort_group_options, policy))
		rc = reserved_check("options->deadlines.", &given->deadlines,
		                    offsetof(struct cohort_deadlines, reserved),
		                    sizeof(given->deadlines));
	if (rc != COHORT_OK)
		return rc;
#define READ(field)                                                            \
	if (given->size >= offsetof(struct cohort_group_options, field) +      \
	                           sizeof(o->field) &&                         \
	    given->field)                                                      \
		o->field = given->field;
	READ(name)
	READ(platform)
	READ(recorder_slots)
	READ(deadlines.init_ns)
	READ(deadlines.join_ns)
	READ(deadlines.exec_ns)
	READ(deadlines.close_ns)
	READ(deadlines.abort_ns)
	READ(policy)
	READ(on_verdict)
	READ(user)
	READ(nccl_config)
	READ(no_start_marks)
	READ(allow_capture)
	READ(dump_directory)
	READ(dump_fifo)
	READ(dump_signal)
	READ(stack_signal)
	READ(slow_ns)
	READ(many)
	READ(adaptive_factor)
	READ(adaptive_floor_ns)
	READ(adaptive_warmup)
	READ(launch)
	READ(connect)
	READ(bootstrap)
	READ(abort)
	READ(log)
#undef READ
	return COHORT_OK;
}

/* Return the reason why a signal cannot be used to request dumps, or NULL if it
 * can.  The signal of a fault would be raised again and again if its handler
 * returned. */
static const char *signal_refused(int number)
{
	switch (number) {
	case SIGSEGV:
	case SIGBUS:
	case SIGFPE:
	case SIGILL:
	case SIGTRAP:
	case SIGSYS:
		return "the signal of a fault, which must end the process";
	case SIGABRT:
		return "SIGABRT, which must end the process";
	case SIGCHLD:
		return "SIGCHLD, which is sent whenever a child process ends";
	case SIGKILL:
	case SIGSTOP:
		return "a signal that cannot be handled";
	}
	return NULL;
}

static int refuse_without_directory(const char *source)
{
	return error_set(COHORT_INVALID,
	                 "%s asks for dumps, but there is no directory: set "
	                 "options->dump_directory or COHORT_DUMP_DIR",
	                 source);
}

static bool is_text(const char *text)
{
	return text && *text;
}

/* Read dump options that the program has not set from the environment. */
static int dump_merge(struct cohort_group_options *o)
{
	const char *signal = getenv("COHORT_DUMP_SIGNAL");
	char *end;
	long number;

	if (!o->dump_directory)
		o->dump_directory = getenv("COHORT_DUMP_DIR");
	if (!o->dump_fifo)
		o->dump_fifo = getenv("COHORT_DUMP_FIFO");
	if (o->dump_signal || !signal || !*signal)
		return COHORT_OK;
	number = strtol(signal, &end, 10);
	o->dump_signal = number < INT_MAX ? (int)number : INT_MAX;
	if (*end || number < 1 || number > SIGRTMAX)
		return error_set(COHORT_INVALID,
		                 "COHORT_DUMP_SIGNAL is \"%s\" in the "
		                 "environment, not the number of a signal",
		                 signal);
	if (signal_refused(o->dump_signal))
		return error_set(COHORT_INVALID,
		                 "COHORT_DUMP_SIGNAL is \"%s\" in the "
		                 "environment: %s",
		                 signal, signal_refused(o->dump_signal));
	return is_text(o->dump_directory)
	               ? COHORT_OK
	               : refuse_without_directory("COHORT_DUMP_SIGNAL");
}

/* Let the environment override the program's policy and its call deadlines.
 * Overridden deadlines do not adapt. */
static int environment_merge(struct cohort_group_options *o)
{
	uint64_t ns = 0;
	int rc = environment_deadline(&ns);

	if (ns) {
		o->deadlines.join_ns = o->deadlines.exec_ns = ns;
		o->adaptive_factor = 0;
	}
	return rc == COHORT_OK ? environment_policy(&o->policy) : rc;
}

static bool deadlines_are_fixed(void)
{
	uint64_t ns = 0;

	return environment_deadline(&ns) == COHORT_OK && ns;
}

/* Return the name of the source of @value: the environment @variable, or the
 * program's @option. */
static const char *source_of(const char *value, const char *option,
                             const char *variable)
{
	return value && value == getenv(variable) ? variable : option;
}

/* Refuse a path that becomes too long when it is made absolute. */
static int path_check(const char *source, const char *path)
{
	char here[DUMP_PATH] = "";

	if (!is_text(path))
		return COHORT_OK;
	if (*path != '/' && !getcwd(here, sizeof(here)))
		return error_set(COHORT_SYSTEM,
		                 "%s is \"%s\", a relative path, but there is "
		                 "no current directory",
		                 source, path);
	if (strlen(here) + 1 + strlen(path) >= DUMP_PATH)
		return error_set(COHORT_INVALID,
		                 "%s is \"%s\", which is too long: an absolute "
		                 "path has at most %d bytes",
		                 source, path, DUMP_PATH - 1);
	return COHORT_OK;
}

/* Test whether the directory is writable now, while an error can still be
 * returned. */
static int directory_check(const char *source, const char *directory)
{
	int err = dump_try(directory);

	return err ? error_set(COHORT_INVALID, "%s is \"%s\": %s", source,
	                       directory, strerror(err))
	           : COHORT_OK;
}

/* Return the signal number in options->stack_signal, without its flag; 0 if no
 * stacks are wanted. */
static int stack_signal(const struct cohort_group_options *o)
{
	return o->stack_signal & ~COHORT_STACK_ALL;
}

static int dump_check(const struct cohort_group_options *o)
{
	const char *directory_source =
		source_of(o->dump_directory, "options->dump_directory",
	                  "COHORT_DUMP_DIR");
	const char *fifo_source = source_of(o->dump_fifo, "options->dump_fifo",
	                                    "COHORT_DUMP_FIFO");
	int rc = path_check(directory_source, o->dump_directory);

	if (rc == COHORT_OK)
		rc = path_check(fifo_source, o->dump_fifo);
	if (rc != COHORT_OK)
		return rc;
	if (signal_refused(o->dump_signal))
		return error_set(COHORT_INVALID,
		                 "options->dump_signal is %d: %s",
		                 o->dump_signal,
		                 signal_refused(o->dump_signal));
	if (o->dump_signal && o->dump_signal == stack_signal(o))
		return error_set(COHORT_INVALID,
		                 "options->dump_signal and "
		                 "options->stack_signal are both %d: use two "
		                 "signals",
		                 o->dump_signal);
	if (is_text(o->dump_directory))
		return directory_check(directory_source, o->dump_directory);
	if (o->dump_signal)
		return refuse_without_directory("options->dump_signal");
	if (is_text(o->dump_fifo))
		return refuse_without_directory(fifo_source);
	return COHORT_OK;
}

/* Refuse an abort handle that cannot end a group opened with it. */
static int abort_check(const struct cohort_abort *abort)
{
	if (!abort)
		return COHORT_OK;
	if (!abort->precedes_open)
		return error_set(COHORT_INVALID,
		                 "options->abort is the handle of a "
		                 "communicator: make one with "
		                 "cohort_abort_create()");
	if (atomic_load(&abort->target))
		return error_set(
			COHORT_STATE,
			"options->abort is already the abort handle of "
			"another group: create one for each group");
	return cause_error(cause_peek(abort));
}

static void log_merge(struct cohort_group_options *o)
{
	const char *text = getenv("COHORT_LOG");

	if (is_text(text))
		o->log = text;
}

static int log_check(const struct cohort_group_options *o)
{
	const char *source = source_of(o->log, "options->log", "COHORT_LOG");
	const struct log log = log_parse(o->log);
	int rc, err;

	if (log.form == LOG_INVALID)
		return error_set(COHORT_INVALID,
		                 "%s is \"%s\", not none, line, verdict or a "
		                 "path with a / (./%s for a file of that name)",
		                 source, o->log, o->log);
	rc = log.form == LOG_FILE ? path_check(source, o->log) : COHORT_OK;
	if (rc != COHORT_OK)
		return rc;
	err = log_check_file(&log);
	return err ? error_set(COHORT_INVALID, "%s is \"%s\": %s", source,
	                       o->log, strerror(err))
	           : COHORT_OK;
}

static int options_check(const struct cohort_group_options *o)
{
	struct comm_config config;
	int rc;

	if (o->recorder_slots < MIN_SLOTS || o->recorder_slots > MAX_SLOTS ||
	    (o->recorder_slots & (o->recorder_slots - 1)))
		return error_set(COHORT_INVALID,
		                 "options->recorder_slots is %u, not a power "
		                 "of two from %d to %d",
		                 o->recorder_slots, MIN_SLOTS, MAX_SLOTS);
	if (o->policy < COHORT_POLICY_ABORT || o->policy > COHORT_POLICY_ASK)
		return error_set(COHORT_INVALID,
		                 "options->policy is %d, not a value of enum "
		                 "cohort_policy",
		                 o->policy);
	if (o->policy == COHORT_POLICY_ASK && !o->on_verdict)
		return error_set(COHORT_INVALID,
		                 "options->on_verdict is NULL, but "
		                 "options->policy is COHORT_POLICY_ASK");
	if (o->many < COHORT_MANY_AUTO || o->many > COHORT_MANY_FLAT)
		return error_set(
			COHORT_INVALID,
			"options->many is %d, not a value of enum cohort_many",
			o->many);
	if (o->launch < COHORT_LAUNCH_DEFAULT ||
	    o->launch > COHORT_LAUNCH_AHEAD)
		return error_set(COHORT_INVALID,
		                 "options->launch is %d, not a value of enum "
		                 "cohort_launch",
		                 o->launch);
	if (o->connect < COHORT_CONNECT_DEFAULT ||
	    o->connect > COHORT_CONNECT_NONE)
		return error_set(COHORT_INVALID,
		                 "options->connect is %d, not a value of enum "
		                 "cohort_connect",
		                 o->connect);
	if (o->adaptive_factor == 1 || o->adaptive_factor > MAX_FACTOR)
		return error_set(COHORT_INVALID,
		                 "options->adaptive_factor is %u, not 2 to %d, "
		                 "or 0 for deadlines that do not adapt",
		                 o->adaptive_factor, MAX_FACTOR);
	if (o->stack_signal &&
	    (stack_signal(o) < SIGRTMIN || stack_signal(o) > SIGRTMAX))
		return error_set(COHORT_INVALID,
		                 "options->stack_signal is %d, not %d to %d "
		                 "(SIGRTMIN to SIGRTMAX), with or without "
		                 "COHORT_STACK_ALL",
		                 o->stack_signal, SIGRTMIN, SIGRTMAX);
	rc = deadlines_check("options->deadlines.", &o->deadlines);
	if (rc == COHORT_OK)
		rc = config_read(o->nccl_config, &config);
	if (rc == COHORT_OK)
		rc = dump_check(o);
	if (rc == COHORT_OK)
		rc = abort_check(o->abort);
	return rc == COHORT_OK ? log_check(o) : rc;
}

int options_read(const struct cohort_group_options *given,
                 struct cohort_group_options *o)
{
	int rc = options_merge(given, o);

	if (rc == COHORT_OK)
		rc = dump_merge(o);
	if (rc == COHORT_OK && !o->launch)
		rc = environment_launch(&o->launch);
	if (rc == COHORT_OK && !o->connect)
		rc = environment_connect(&o->connect);
	log_merge(o);
	if (rc == COHORT_OK)
		rc = environment_merge(o);
	return rc == COHORT_OK ? options_check(o) : rc;
}

/* Make a path absolute.  path_check() has ensured that the result fits. */
static const char *own_path(char to[DUMP_PATH], const char *path)
{
	struct text t = { to, DUMP_PATH };
	char here[DUMP_PATH];

	if (!is_text(path))
		return NULL;
	if (*path != '/' && getcwd(here, sizeof(here)))
		text_add(&t, "%s/", here);
	text_add(&t, "%s", path);
	return to;
}

void options_own(struct cohort_group_options *o, struct option_texts *t)
{
	text_copy(t->name, sizeof(t->name), o->name);
	o->name = t->name;
	/* This cannot fail, because the configuration was checked before. */
	config_read(o->nccl_config, &t->config);
	if (o->nccl_config)
		o->nccl_config = &t->config.native;
	o->dump_directory = own_path(t->dump_directory, o->dump_directory);
	o->dump_fifo = own_path(t->dump_fifo, o->dump_fifo);
	if (log_parse(o->log).form == LOG_FILE)
		o->log = own_path(t->log, o->log);
	else if (o->log)
		o->log = strcpy(t->log, o->log);
}

struct clique_options options_of_clique(const struct cohort_group_options *o)
{
	struct clique_options options = {
		.name = o->name,
		.slots = o->recorder_slots,
		.allow_capture = o->allow_capture,
		.no_start_marks = o->no_start_marks,
		.launch = o->launch,
		.deadlines = o->deadlines,
		.abort = o->abort,
		.deadlines_are_fixed = deadlines_are_fixed(),
		.generation = 1,
		.config = {
			.connect = o->connect,
		},
		.list_way = o->many,
	};

	config_read(o->nccl_config, &options.config); /* checked before */
	return options;
}

struct watch_options options_of_watch(const struct cohort_group_options *o)
{
	struct watch_options options = {
		.policy = o->policy,
		.stack_signal = o->stack_signal,
		.on_verdict = o->on_verdict,
		.slow_ns = o->slow_ns,
		.adaptive = {
			.factor = o->adaptive_factor,
			.warmup = o->adaptive_warmup,
			.floor_ns = o->adaptive_floor_ns,
		},
		.user = o->user,
		.dump = {
			.signal = o->dump_signal,
			.stack_signal = stack_signal(o),
			.take_stacks = symbolizer_trace,
		},
		.log = log_parse(o->log),
	};

	if (o->dump_directory)
		snprintf(options.dump.directory, sizeof(options.dump.directory),
		         "%s", o->dump_directory);
	if (o->dump_fifo)
		snprintf(options.dump.fifo, sizeof(options.dump.fifo), "%s",
		         o->dump_fifo);
	return options;
}
