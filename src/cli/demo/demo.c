/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The options of cohort demo, its processes, and its group
 */

#include "cli/demo/demo.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cohort/bootstrap.h>
#include <cohort/sim.h>

#include "base/clock.h"
#include "base/util.h"
#include "cli/commands.h"
#include "cli/common/cli.h"
#include "cli/common/cli_options.h"
#include "cli/common/fork.h"
#include "cli/common/symbols.h"

#define NS_PER_MS (NS_PER_S / 1000)

/* How long the run waits for a rank that stalls, and for an abort, which takes
 * NCCL half a second. */
#define ABORT_DEADLINE_NS (2 * NS_PER_S)

/* The deadline of a call that all ranks have made: shorter than the time for
 * which a rank waits for its step. */
#define EXEC_DEADLINE_NS (5 * NS_PER_S)

enum { DEFAULT_RANKS = 4, MAX_EPOCHS = 10000 };

const char *const demo_faults[FAULTS] = {
	[FAULT_STALL] = "stall",
	[FAULT_DIE] = "die",
	[FAULT_MISMATCH] = "mismatch",
	[FAULT_KILL] = "kill",
};

/* ---- options ---------------------------------------------------------- */

static const struct demo_options defaults = {
	.processes = 1,
	.platform = COHORT_PLATFORM_AUTO,
	.epochs = 30,
	.batch = 64,
	.seed = 1,
	.lr = 0.1f,
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

/* Read "RANK@STEP" or "PROCESS@STEP"; settle_fault() checks whether they
 * exist. */
static int read_fault(const struct cli_option *option, const char *text)
{
	struct demo_options *options = option->value;
	bool kill = strcmp(option->name, demo_faults[FAULT_KILL]) == 0;
	char who[24];
	int n = (int)strcspn(text, "@");
	uint64_t number;

	if (!text[n] || n >= (int)sizeof(who)) {
		cli_complain("demo", "--%s: '%s' is not %s@STEP", option->name,
		             text, kill ? "PROCESS" : "RANK");
		return CLI_USAGE;
	}
	snprintf(who, sizeof(who), "%.*s", n, text);
	if (cli_number("demo", option->name, who, kill ? 1 : 0,
	               kill ? MAX_PROCESSES - 1 : COHORT_SIM_MAX_DEVICES - 1,
	               &number) != CLI_OK ||
	    cli_number("demo", option->name, text + n + 1, 0, UINT64_MAX,
	               &options->fault_step) != CLI_OK)
		return CLI_USAGE;
	options->fault = FAULT_STALL;
	while (strcmp(option->name, demo_faults[options->fault]) != 0)
		options->fault++;
	*(kill ? &options->fault_process : &options->fault_rank) = (int)number;
	return CLI_OK;
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
		{ "platform", 0, CLI_PLATFORM(&o->platform) },
		{ "stall", 0, CLI_READ, o, .read = read_fault },
		{ "die", 0, CLI_READ, o, .read = read_fault },
		{ "mismatch", 0, CLI_READ, o, .read = read_fault },
		{ "kill", 0, CLI_READ, o, .read = read_fault },
		{ "no-fault", 0, CLI_CALL, o, .read = read_no_fault },
		{ "join-deadline", 0, CLI_MS, &o->join_deadline_ns, .least = 1,
		  .most = 1000000 },
		{ "verify", 0, CLI_TRUE, .value = &o->verify },
		{ "json", 0, CLI_TRUE, .value = &o->json },
		{ .kind = CLI_END },
	};

	return cli_options("demo", argc, argv, options, print_help, help_out);
}

/*
 * Set the number of ranks, and of devices of the host platform.  The latter
 * must be set before the host platform is used, and has no effect on GPUs.
 * Devices are not probed if there are several processes: those that are forked
 * later could not use them.
 */
static int settle_ranks(struct demo_options *o)
{
	struct cohort_platform_info info = { .size = sizeof(info) };

	if (!o->ranks && o->processes > 1)
		o->ranks = o->processes > DEFAULT_RANKS ? o->processes
		                                        : DEFAULT_RANKS;
	if (cli_need_devices("demo", o->ranks) != CLI_OK)
		return CLI_FAILED;
	if (o->ranks && o->ranks < o->processes) {
		cli_complain("demo",
		             "--processes: %d are more than the ranks, %d",
		             o->processes, o->ranks);
		return CLI_USAGE;
	}
	if (o->ranks)
		return CLI_OK;
	if (cohort_platform_probe(o->platform, &info) != COHORT_OK) {
		cli_complain("demo", "%s", cohort_last_error());
		return CLI_FAILED;
	}
	/* Opening the group explains why a platform is unusable. */
	o->ranks = info.status == COHORT_OK && info.devices > 0 &&
	                           info.devices < DEFAULT_RANKS
	                   ? info.devices
	                   : DEFAULT_RANKS;
	return CLI_OK;
}

int demo_first_rank(const struct demo_options *options, int process)
{
	int n = options->processes;

	return (options->ranks * process + n - 1) / n;
}

/* Choose which rank fails at which of @steps, or check the choice. */
static int settle_fault(struct demo_options *o, uint64_t steps)
{
	if (o->fault == FAULT_UNSAID && o->ranks == 1)
		o->fault = FAULT_NONE;
	if (o->fault == FAULT_UNSAID) {
		o->fault = FAULT_STALL;
		o->fault_rank = o->ranks > 2 ? 2 : 1;
		o->fault_step = steps / 2;
	}
	if (o->fault == FAULT_NONE)
		return CLI_OK;
	if (o->fault == FAULT_KILL && o->fault_process >= o->processes) {
		cli_complain("demo", "--kill: there is no process %d, only %d",
		             o->fault_process, o->processes);
		return CLI_USAGE;
	}
	if (o->fault == FAULT_KILL)
		o->fault_rank = demo_first_rank(o, o->fault_process);
	if (o->fault_rank >= o->ranks || o->fault_step >= steps) {
		cli_complain("demo",
		             "%d@%llu: there are ranks 0 to %d and steps 0 to "
		             "%llu",
		             o->fault_rank, (unsigned long long)o->fault_step,
		             o->ranks - 1, (unsigned long long)steps - 1);
		return CLI_USAGE;
	}
	if (!o->fault_rank && demo_first_rank(o, 1) == 1) {
		cli_complain("demo",
		             "process 0 reports, and has no rank but rank 0");
		return CLI_USAGE;
	}
	return CLI_OK;
}

/* ---- images ----------------------------------------------------------- */

/* Defined in digits_data.S: each row has 64 pixels 0..16 and a class 0..9,
 * separated by commas, and ends with a newline. */
extern const char digits_csv[] __attribute__((visibility("hidden")));

/* Read a number, and move @text to the next one. */
static int read_number(const char **text)
{
	char *end;
	long number = strtol(*text, &end, 10);

	*text = end + 1;
	return (int)number;
}

static void read_sample(const char **text, struct mlp_sample *sample)
{
	for (int i = 0; i < MLP_INPUTS; i++)
		sample->inputs[i] = (float)read_number(text) / 16.0f;
	sample->label = read_number(text);
}

/* Read the embedded table.  Called once. */
static const struct digits *load_digits(void)
{
	static struct digits digits;
	struct mlp_sample *train = digits.train, *held_out = digits.held_out;
	const char *text = digits_csv;

	for (int row = 0; row < DIGITS_ROWS; row++)
		read_sample(&text, row % 5 == 4 ? held_out++ : train++);
	return &digits;
}

/* ---- run: open, train, close ------------------------------------------ */

/* Each process drives the devices whose numbers are those of its ranks. */
static int open_group(struct demo *d)
{
	const struct cohort_bootstrap bootstrap = {
		.size = sizeof(bootstrap),
		.kind = COHORT_BOOTSTRAP_ENV,
	};
	int first = demo_first_rank(&d->options, d->process);
	int n = demo_first_rank(&d->options, d->process + 1) - first;
	struct cohort_group_options options;
	int devices[COHORT_SIM_MAX_DEVICES];

	for (int i = 0; i < n; i++)
		devices[i] = first + i;
	cohort_group_options_init(&options);
	options.log = "none";
	if (d->options.processes > 1)
		options.bootstrap = &bootstrap;
	options.name = "demo";
	options.platform = d->options.platform;
	options.deadlines.join_ns = d->options.join_deadline_ns;
	options.deadlines.exec_ns = EXEC_DEADLINE_NS;
	options.deadlines.abort_ns = ABORT_DEADLINE_NS;
	options.stack_signal = CLI_STACK_SIGNAL;
	symbols_use();
	if (cohort_group_open(devices, n, &options, &d->group) == COHORT_OK)
		return CLI_OK;
	cli_complain("demo", "%s", cohort_last_error());
	return CLI_FAILED;
}

/* Run one process; process 0 also waits for the others, and reports. */
static int run_process(struct demo *d, struct processes *processes)
{
	char complaint[1024] = "";
	int status = open_group(d);

	if (status != CLI_OK)
		return status;
	d->platform = cohort_group_platform(d->group);
	d->start_ns = clock_now();
	status = train(d);
	d->end_ns = clock_now();
	train_release(d);
	if (cohort_group_close(d->group) != COHORT_OK)
		snprintf(complaint, sizeof(complaint), "%s",
		         cohort_last_error());
	if (d->process == 0 && status == CLI_OK)
		status = processes_wait(processes,
		                        d->options.fault == FAULT_KILL
		                                ? d->options.fault_process
		                                : 0);
	if (d->process == 0 && status == CLI_OK)
		report(d);
	if (status == CLI_OK && *complaint) {
		cli_complain("demo", "%s", complaint);
		status = CLI_FAILED;
	}
	return status;
}

/* Map memory for the ranks that processes share once they are forked. */
static int create_ranks(struct demo *d)
{
	size_t n = (size_t)d->options.ranks;

	d->shared =
		mmap(NULL, sizeof(*d->shared) + n * sizeof(struct rank),
	             PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (d->shared == MAP_FAILED) {
		cli_complain("demo", "out of memory");
		return CLI_FAILED;
	}
	for (size_t r = 0; r < n; r++)
		mlp_init(&d->shared->ranks[r].model.weights, d->options.seed);
	return CLI_OK;
}

static int run(struct demo *d)
{
	struct processes processes = {
		.command = "demo",
		.first = 1,
		.n = d->options.processes,
	};
	int status = create_ranks(d);

	d->digits = load_digits();
	sem_init(&d->release, 0, 0);
	sem_init(&d->released, 0, 0);
	if (status == CLI_OK)
		status = processes_fork(&processes, &d->process);
	if (status != CLI_OK)
		return status;
	status = run_process(d, &processes);
	if (d->process == 0)
		processes_end(&processes);
	return status;
}

int demo_main(int argc, char **argv)
{
	static struct demo d;
	struct demo_options *o = &d.options;
	bool help;
	int status;

	*o = defaults;
	status = parse(argc, argv, o, &help);
	if (status != CLI_OK || help)
		return status;
	status = settle_ranks(o);
	d.epoch_steps = (DIGITS_TRAIN + o->batch - 1) / o->batch;
	d.steps = d.epoch_steps * o->epochs;
	if (status == CLI_OK)
		status = settle_fault(o, d.steps);
	return status == CLI_OK ? run(&d) : status;
}
