/* SPDX-License-Identifier: Apache-2.0 */

/*
 * cohort demo: trains a perceptron on handwritten digits, one thread per rank
 *
 * This file has the options, opens and closes the group, and runs the training;
 * train.c is what the ranks do, report.c prints the results.
 */

#include "cli/demo/demo.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cohort/bootstrap.h>
#include <cohort/cohort.h>
#include <cohort/sim.h>

#include "cli/common/cli.h"
#include "cli/common/options.h"
#include "cli/common/processes.h"
#include "cli/common/symbols.h"
#include "cli/demo/digits.h"
#include "cli/demo/mlp.h"
#include "cli/demo/supervise.h"

#define NS_PER_MS UINT64_C(1000000)

/* How long the run waits for a rank that stalls, and for an abort, which takes NCCL
 * half a second. */
#define ABORT_DEADLINE_NS (2000 * NS_PER_MS)

/* The deadline of a call that all ranks have made: shorter than STEP_TIMEOUT_NS,
 * for which a rank waits for its step. */
#define EXEC_DEADLINE_NS (5000 * NS_PER_MS)

enum { DEFAULT_RANKS = 4, DEFAULT_HOST_DEVICES = 8, MAX_EPOCHS = 10000 };

/* ---- options ---------------------------------------------------------- */

static const struct demo_options defaults = {
	.processes = 1,
	.platform = COHORT_PLATFORM_AUTO,
	.epochs = 30,
	.batch = 64,
	.seed = 1,
	.lr = 0.1f,
	.momentum = 0.9f,
	.join_deadline_ns = 500 * NS_PER_MS,
};

static void print_help(void)
{
	/* clang-format off */
	printf("usage: cohort demo [OPTION]...\n"
	       "\n"
	       "Trains a perceptron (%d-%d-%d) on %d images of handwritten digits with one\n"
	       "thread per rank, and tests it on %d others.  Half-way one rank fails, and the\n"
	       "others go on without it.\n"
	       "\n",
	       MLP_INPUTS, MLP_HIDDEN, MLP_OUTPUTS, DIGITS_TRAIN,
	       DIGITS_HELD_OUT);
	printf("  --ranks N         number of ranks (default %d, or all devices if fewer)\n"
	       "  --epochs N        passes over the images (default %zu)\n"
	       "  --batch N         images per step, of all ranks together (default %zu)\n"
	       "  --lr X            learning rate (default %g)\n"
	       "  --seed N          seed of the weights and the order (default %llu)\n",
	       DEFAULT_RANKS, defaults.epochs, defaults.batch,
	       (double)defaults.lr, (unsigned long long)defaults.seed);
	puts("  --processes N     processes to spread the ranks over (default 1)\n"
	     "  --platform P      gpu or host (default: see cohort info)\n"
	     "  --stall R@S       rank R waits in the program at step S, from 0\n"
	     "                    (default: rank 2, or the last, half-way)\n"
	     "  --die R@S         the thread of rank R exits at step S\n"
	     "  --mismatch R@S    rank R makes another call than the others at step S\n"
	     "  --kill P@S        process P, from 1, is killed at step S\n"
	     "  --no-fault        no rank fails\n"
	     "  --join-deadline MS  how long the others wait for a rank (default 500)\n"
	     "  --verify          compare with a single run without the library\n"
	     "  --json            one JSON object instead of text\n"
	     "  --help            this text");
	/* clang-format on */
}

static int read_rate(const struct cli_option *option, const char *text)
{
	char *end;
	float lr = strtof(text, &end);

	if (end == text || *end || !isfinite(lr) || lr <= 0.0f) {
		cli_complain("demo", "--lr: '%s' is not a number above 0",
		             text);
		return CLI_USAGE;
	}
	*(float *)option->value = lr;
	return CLI_OK;
}

/* Read "RANK@STEP" or "PROCESS@STEP"; settle_fault() checks whether they exist. */
static int read_fault(const struct cli_option *option, const char *text,
                      enum demo_fault fault)
{
	struct demo_options *options = option->value;
	const char *at = strchr(text, '@');
	bool kill = fault == FAULT_KILL;
	char who[24];
	uint64_t number;

	if (!at || (size_t)(at - text) >= sizeof(who)) {
		cli_complain("demo", "--%s: '%s' is not %s@STEP", option->name,
		             text, kill ? "PROCESS" : "RANK");
		return CLI_USAGE;
	}
	snprintf(who, sizeof(who), "%.*s", (int)(at - text), text);
	if (cli_number("demo", option->name, who, kill ? 1 : 0,
	               kill ? MAX_PROCESSES - 1 : COHORT_SIM_MAX_DEVICES - 1,
	               &number) != CLI_OK ||
	    cli_number("demo", option->name, at + 1, 0, UINT64_MAX,
	               &options->fault_step) != CLI_OK)
		return CLI_USAGE;
	options->fault = fault;
	*(kill ? &options->fault_process : &options->fault_rank) = (int)number;
	return CLI_OK;
}

static int read_stall(const struct cli_option *option, const char *text)
{
	return read_fault(option, text, FAULT_STALL);
}

static int read_die(const struct cli_option *option, const char *text)
{
	return read_fault(option, text, FAULT_DIE);
}

static int read_mismatch(const struct cli_option *option, const char *text)
{
	return read_fault(option, text, FAULT_MISMATCH);
}

static int read_kill(const struct cli_option *option, const char *text)
{
	return read_fault(option, text, FAULT_KILL);
}

static int read_no_fault(const struct cli_option *option, const char *text)
{
	struct demo_options *options = option->value;

	(void)text;
	options->fault = FAULT_NONE;
	return CLI_OK;
}

static int parse(int argc, char **argv, struct demo_options *o, bool *help_out)
{
	const struct cli_option options[] = {
		{ "ranks", 0, CLI_INT, &o->ranks, .least = 1,
		  .most = COHORT_SIM_MAX_DEVICES },
		{ "processes", 0, CLI_INT, &o->processes, .least = 1,
		  .most = MAX_PROCESSES },
		{ "epochs", 0, CLI_UINT, &o->epochs, .least = 1,
		  .most = MAX_EPOCHS },
		{ "batch", 0, CLI_UINT, &o->batch, .least = 1,
		  .most = DIGITS_TRAIN },
		{ "lr", 0, CLI_READ, &o->lr, .read = read_rate },
		{ "seed", 0, CLI_UINT, &o->seed, .least = 0,
		  .most = UINT64_MAX },
		{ "platform", 0, CLI_PLATFORM, .value = &o->platform },
		{ "stall", 0, CLI_READ, o, .read = read_stall },
		{ "die", 0, CLI_READ, o, .read = read_die },
		{ "mismatch", 0, CLI_READ, o, .read = read_mismatch },
		{ "kill", 0, CLI_READ, o, .read = read_kill },
		{ "no-fault", 0, CLI_CALL, o, .read = read_no_fault },
		{ "join-deadline", 0, CLI_MS, &o->join_deadline_ns, .least = 1,
		  .most = 1000000 },
		{ "verify", 0, CLI_TRUE, .value = &o->verify },
		{ "json", 0, CLI_TRUE, .value = &o->json },
		{ .kind = CLI_END },
	};

	return cli_options("demo", argc, argv, options, print_help, help_out);
}

/* The number of ranks that nobody has asked for: DEFAULT_RANKS, or the number of devices if
 * that is less. */
static int choose_ranks(struct demo_options *options)
{
	struct cohort_platform_info info = { .size = sizeof(info) };

	if (cohort_platform_probe(options->platform, &info) != COHORT_OK) {
		cli_complain("demo", "%s", cohort_last_error());
		return CLI_FAILED;
	}
	/* Opening the group explains why a platform is unusable. */
	options->ranks = DEFAULT_RANKS;
	if (info.status == COHORT_OK && info.devices > 0 &&
	    info.devices < DEFAULT_RANKS)
		options->ranks = info.devices;
	return CLI_OK;
}

/*
 * Set the number of ranks, and of devices of the host platform.  The latter must be set
 * before the host platform is used, and has no effect on GPUs.  Devices that have been
 * looked at cannot be used in processes that are forked then.
 */
static int settle_ranks(struct demo_options *options)
{
	int ranks = options->ranks, n = options->processes;
	char devices[16];

	if (!ranks && n > 1)
		ranks = n > DEFAULT_RANKS ? n : DEFAULT_RANKS;
	snprintf(devices, sizeof(devices), "%d",
	         ranks > DEFAULT_HOST_DEVICES ? ranks : DEFAULT_HOST_DEVICES);
	if (setenv("COHORT_HOST_DEVICES", devices, 0)) {
		cli_complain("demo", "out of memory");
		return CLI_FAILED;
	}
	options->ranks = ranks;
	if (!ranks)
		return choose_ranks(options);
	if (ranks >= n)
		return CLI_OK;
	cli_complain("demo", "--processes: %d are more than the ranks, %d", n,
	             ranks);
	return CLI_USAGE;
}

/* Choose the rank that is made to fail, or the first of those with which its process is
 * killed. */
static int settle_fault_rank(struct demo_options *options)
{
	if (options->fault == FAULT_KILL) {
		if (options->fault_process >= options->processes) {
			cli_complain("demo",
			             "--kill: there is no process %d, only %d",
			             options->fault_process,
			             options->processes);
			return CLI_USAGE;
		}
		options->fault_rank =
			train_first_rank(options, options->fault_process);
	}
	if (options->fault_rank || options->processes == 1 ||
	    train_first_rank(options, 1) > 1)
		return CLI_OK;
	cli_complain("demo", "process 0 reports, and has no rank but rank 0");
	return CLI_USAGE;
}

/* Choose which rank fails at which step, now that both numbers are known. */
static int settle_fault(struct demo_options *options)
{
	uint64_t steps = train_steps(options);

	if (options->fault == FAULT_UNSAID && options->ranks == 1)
		options->fault = FAULT_NONE;
	if (options->fault == FAULT_UNSAID) {
		options->fault = FAULT_STALL;
		options->fault_rank = options->ranks > 2 ? 2 : 1;
		options->fault_step = steps / 2;
	}
	if (options->fault == FAULT_NONE)
		return CLI_OK;
	if (settle_fault_rank(options) != CLI_OK)
		return CLI_USAGE;
	if (options->ranks == 1) {
		cli_complain(
			"demo",
			"a single rank cannot fail: no other rank could go on");
		return CLI_USAGE;
	}
	if (options->fault_rank >= options->ranks ||
	    options->fault_step >= steps) {
		cli_complain("demo",
		             "%d@%llu: there are ranks 0 to %d and steps 0 to "
		             "%llu",
		             options->fault_rank,
		             (unsigned long long)options->fault_step,
		             options->ranks - 1, (unsigned long long)steps - 1);
		return CLI_USAGE;
	}
	return CLI_OK;
}

/* ---- run: open, train, close ------------------------------------------ */

static int run_group(struct plan *plan, struct demo_result *result)
{
	int status;

	result->platform = cohort_group_platform(plan->group);
	if (plan->process == 0)
		progress_start(&plan->progress);
	result->start_ns = demo_ns();
	status = supervise(plan, result);
	result->end_ns = demo_ns();
	progress_erase(&plan->progress);
	supervise_release(plan);
	return status;
}

/* Each process drives the devices whose numbers are those of its ranks. */
static int open_group(struct plan *plan, const int *devices)
{
	const struct cohort_bootstrap bootstrap = {
		.size = sizeof(bootstrap),
		.kind = COHORT_BOOTSTRAP_ENV,
	};
	struct cohort_group_options options;

	cohort_group_options_init(&options);
	options.log = "none";
	if (plan->options->processes > 1)
		options.bootstrap = &bootstrap;
	options.name = "demo";
	options.platform = plan->options->platform;
	options.deadlines.join_ns = plan->options->join_deadline_ns;
	options.deadlines.exec_ns = EXEC_DEADLINE_NS;
	options.deadlines.abort_ns = ABORT_DEADLINE_NS;
	options.stack_signal = CLI_STACK_SIGNAL;
	symbols_use();
	if (cohort_group_open(devices + plan->first_rank, plan->own_ranks,
	                      &options, &plan->group) == COHORT_OK)
		return CLI_OK;
	cli_complain("demo", "%s", cohort_last_error());
	return CLI_FAILED;
}

static int train(struct plan *plan, struct demo_result *result)
{
	int closed, status;

	for (int r = 0; r < plan->options->ranks; r++)
		result->devices[r] = r;
	status = open_group(plan, result->devices);
	if (status != CLI_OK)
		return status;
	status = run_group(plan, result);
	closed = cohort_group_close(plan->group);
	if (closed != COHORT_OK)
		snprintf(result->complaint, sizeof(result->complaint), "%s",
		         cohort_last_error());
	for (int r = 0; closed == COHORT_WEDGED && r < plan->own_ranks; r++)
		plan->ranks[plan->first_rank + r].wedged = true;
	return status;
}

/* ---- report ----------------------------------------------------------- */

/* Once all processes are done. */
static int report(const struct plan *plan, struct demo_result *result)
{
	const struct demo_options *options = plan->options;
	int status = CLI_OK;

	train_collect(plan, result);
	if (options->verify)
		status = train_compare(plan, &result->difference);
	if (status != CLI_OK)
		return status;
	if (options->json)
		report_json(options, result);
	else
		report_print(options, result);
	return CLI_OK;
}

/* What each process does; process 0 also waits for the others, and reports. */
static int run_process(struct plan *plan, struct processes *processes,
                       struct demo_result *result)
{
	const struct demo_options *options = plan->options;
	int status = train(plan, result);

	if (plan->process == 0 && status == CLI_OK)
		status = processes_wait(processes,
		                        options->fault == FAULT_KILL
		                                ? options->fault_process
		                                : 0);
	if (plan->process == 0 && status == CLI_OK)
		status = report(plan, result);
	if (status == CLI_OK && *result->complaint) {
		cli_complain("demo", "%s", result->complaint);
		status = CLI_FAILED;
	}
	return status;
}

static int run_plan(struct plan *plan)
{
	const struct demo_options *options = plan->options;
	struct demo_result result = {
		.devices = calloc((size_t)options->ranks, sizeof(int)),
		.curve = calloc(options->epochs, sizeof(double)),
		.abandoned = calloc((size_t)options->ranks, sizeof(int)),
	};
	struct processes processes = {
		.command = "demo",
		.first = 1,
		.n = options->processes,
	};
	int status = CLI_FAILED;

	if (!result.devices || !result.curve || !result.abandoned) {
		cli_complain("demo", "out of memory");
		goto out;
	}
	status = processes_fork(&processes, &plan->process);
	if (status != CLI_OK)
		goto out;
	plan->first_rank = train_first_rank(options, plan->process);
	plan->own_ranks =
		train_first_rank(options, plan->process + 1) - plan->first_rank;
	status = run_process(plan, &processes, &result);
	if (plan->process == 0)
		processes_end(&processes);
out:
	free(result.abandoned);
	free(result.curve);
	free(result.devices);
	return status;
}

static int demo(const struct demo_options *options)
{
	const char *error = "";
	struct digits *digits = digits_load(&error);
	struct plan plan;
	int status;

	if (!digits) {
		cli_complain("demo", "%s", error);
		return CLI_FAILED;
	}
	status = plan_init(&plan, options, digits);
	if (status == CLI_OK) {
		status = run_plan(&plan);
		plan_fini(&plan);
	}
	free(digits);
	return status;
}

int demo_main(int argc, char **argv)
{
	struct demo_options options = defaults;
	bool help;
	int status = parse(argc, argv, &options, &help);

	if (status != CLI_OK || help)
		return status;
	status = settle_ranks(&options);
	if (status == CLI_OK)
		status = settle_fault(&options);
	return status == CLI_OK ? demo(&options) : status;
}
