/* SPDX-License-Identifier: Apache-2.0 */

/* The options of cohort demo, its processes and its group */

#include "cli/demo/demo.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cohort/bootstrap.h>
#include <cohort/sim.h>

#include "base/clock.h"
#include "base/util.h"
#include "cli/common/cli.h"
#include "cli/common/cli_options.h"
#include "cli/common/fork.h"
#include "cli/common/symbols.h"

#define NS_PER_MS (NS_PER_S / 1000)

/* Time limit for a stalled rank to return, and for an abort, which takes NCCL
 * half a second */
#define ABORT_DEADLINE_NS (2 * NS_PER_S)

/* Deadline of a call that all ranks have made. It must expire before a rank's
 * own timeout for a step. */
#define EXEC_DEADLINE_NS (5 * NS_PER_S)

enum { DEFAULT_RANKS = 4, MAX_EPOCHS = 10000 };

const char *const demo_faults[FAULTS] = {
	[FAULT_STALL] = "stall",
	[FAULT_DIE] = "die",
	[FAULT_MISMATCH] = "mismatch",
	[FAULT_KILL] = "kill",
};

/* clang-format off */
static const char help[] =
	"usage: cohort demo [OPTION]...\n"
	"\n"
	"Trains a perceptron (64-128-10) on 1438 images of handwritten digits with one\n"
	"thread per rank, and tests it on 359 others.  Half-way through, one rank fails,\n"
	"and the others continue without it.\n"
	"\n"
	"  --ranks N         number of ranks (default 4, or all devices if fewer)\n"
	"  --epochs N        passes over the images (default 30)\n"
	"  --processes N     processes to spread the ranks over (default 1)\n"
	"  --platform P      gpu or host (default: see cohort info)\n"
	"  --stall R@S       rank R waits in the program at step S, from 0\n"
	"                    (default: rank 2, or the last, half-way through)\n"
	"  --die R@S         the thread of rank R exits at step S\n"
	"  --mismatch R@S    rank R makes another call than the others at step S\n"
	"  --kill P@S        process P, from 1, is killed at step S\n"
	"  --no-fault        no rank fails\n"
	"  --join-deadline MS  how long the others wait for a rank (default 500)\n"
	"  --verify          compare with a single run without the library\n"
	"  --json            one JSON object instead of text\n"
	"  --help            this text\n";
/* clang-format on */

/* Parse "RANK@STEP" or "PROCESS@STEP"; NULL selects no fault. settle_fault()
 * checks that the rank or process and the step exist. */
static int read_fault(const struct cli_option *option, const char *text)
{
	struct demo_options *options = option->value;
	bool kill = strcmp(option->name, demo_faults[FAULT_KILL]) == 0;
	unsigned number;
	int end = 0;

	options->fault = FAULT_NONE;
	if (!text)
		return CLI_OK;
	/* sscanf() would accept signs and blanks. */
	if (sscanf(text, "%9u@%18" SCNu64 "%n", &number, &options->fault_step,
	           &end) != 2 ||
	    text[end] || text[strspn(text, "0123456789@")])
		return cli_misuse("--%s: \"%s\" is not %s@STEP, such as 2@30",
		                  option->name, text,
		                  kill ? "PROCESS" : "RANK");
	options->fault = FAULT_STALL;
	while (strcmp(option->name, demo_faults[options->fault]) != 0)
		options->fault++;
	*(kill ? &options->fault_process : &options->fault_rank) = (int)number;
	return CLI_OK;
}

static bool parse(int argc, char **argv, struct demo_options *o,
                  int *status_out)
{
	const struct cli_option options[] = {
		{ "ranks", 0, CLI_INT, &o->ranks, .least = 1,
		  .most = COHORT_SIM_MAX_DEVICES },
		{ "processes", 0, CLI_INT, &o->processes, .least = 1,
		  .most = MAX_PROCESSES },
		{ "epochs", 0, CLI_UINT, &o->epochs, .least = 1,
		  .most = MAX_EPOCHS },
		{ "platform", 0, CLI_PLATFORM(&o->platform) },
		{ "stall", 0, CLI_READ, o, .read = read_fault },
		{ "die", 0, CLI_READ, o, .read = read_fault },
		{ "mismatch", 0, CLI_READ, o, .read = read_fault },
		{ "kill", 0, CLI_READ, o, .read = read_fault },
		{ "no-fault", 0, CLI_CALL, o, .read = read_fault },
		{ "join-deadline", 0, CLI_MS, &o->join_deadline_ns, .least = 1,
		  .most = 1000000 },
		{ "verify", 0, CLI_TRUE, .value = &o->verify },
		{ "json", 0, CLI_TRUE, .value = &o->json },
		{ .kind = CLI_END },
	};

	*o = (struct demo_options){
		.processes = 1,
		.platform = COHORT_PLATFORM_AUTO,
		.epochs = 30,
		.join_deadline_ns = 500 * NS_PER_MS,
	};
	return cli_options("demo", argc, argv, options, help, status_out);
}

/*
 * Set the number of ranks and the number of the host platform's devices, which
 * must be set before that platform is used and does not affect GPUs. If there
 * are several processes, do not probe devices, because processes that are
 * forked after a probe cannot use them.
 */
static int settle_ranks(struct demo_options *o)
{
	struct cohort_platform_info info = { .size = sizeof(info) };

	if (!o->ranks && o->processes > 1)
		o->ranks = o->processes > DEFAULT_RANKS ? o->processes
		                                        : DEFAULT_RANKS;
	if (cli_need_devices(o->ranks) != CLI_OK)
		return CLI_FAILED;
	if (o->ranks && o->ranks < o->processes)
		return cli_misuse(
			"--processes: %d processes need as many ranks, "
			"but there are %d",
			o->processes, o->ranks);
	if (o->ranks)
		return CLI_OK;
	if (cohort_platform_probe(o->platform, &info) != COHORT_OK)
		return cli_fail("%s", cohort_last_error());
	/* If the platform is unusable, opening the group reports why. */
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

/* Choose which rank fails at which of @steps steps, or check the user's
 * choice. */
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
	if (o->fault == FAULT_KILL && o->processes == 1)
		return cli_misuse("--kill: there is one process, number 0: "
		                  "add --processes 2");
	if (o->fault == FAULT_KILL &&
	    (o->fault_process == 0 || o->fault_process >= o->processes))
		return cli_misuse("--kill: %d is not a process from 1 to %d",
		                  o->fault_process, o->processes - 1);
	if (o->fault == FAULT_KILL)
		o->fault_rank = demo_first_rank(o, o->fault_process);
	if (o->fault_rank >= o->ranks || o->fault_step >= steps)
		return cli_misuse(
			"--%s: there is no rank %d at step %llu: ranks "
			"are 0 to %d, steps 0 to %llu",
			demo_faults[o->fault], o->fault_rank,
			(unsigned long long)o->fault_step, o->ranks - 1,
			(unsigned long long)steps - 1);
	if (!o->fault_rank && demo_first_rank(o, 1) == 1)
		return cli_misuse(
			"--%s: rank 0 must not fail: it is the only rank "
			"of process 0, which prints the results",
			demo_faults[o->fault]);
	return CLI_OK;
}

/* Defined in digits_data.S. Each row has 64 pixels from 0 to 16 and a class
 * from 0 to 9, separated by commas, and ends with a newline. */
extern const char digits_csv[] __attribute__((visibility("hidden")));

static int read_number(const char **text)
{
	char *end;
	long number = strtol(*text, &end, 10);

	*text = end + 1;
	return (int)number;
}

static const struct digits *load_digits(void)
{
	static struct digits digits;
	struct mlp_sample *train = digits.train, *held_out = digits.held_out;
	struct mlp_sample *sample;
	const char *text = digits_csv;

	for (int row = 0; row < DIGITS_ROWS; row++) {
		sample = row % 5 == 4 ? held_out++ : train++;
		for (int i = 0; i < MLP_INPUTS; i++)
			sample->inputs[i] = (float)read_number(&text) / 16.0f;
		sample->label = read_number(&text);
	}
	return &digits;
}

/* Open the group. Rank r runs on device r, in any process. */
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
	return cli_fail("%s", cohort_last_error());
}

/* Run a process. Process 0 also waits for the others and prints the results. */
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
	return status == CLI_OK && *complaint ? cli_fail("%s", complaint)
	                                      : status;
}

static int run(struct demo *d)
{
	struct processes processes = {
		.first = 1,
		.n = d->options.processes,
	};
	const size_t n = (size_t)d->options.ranks;
	int status;

	/* The forked processes will share this memory. */
	d->shared =
		mmap(NULL, sizeof(*d->shared) + n * sizeof(struct rank),
	             PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	cli_need(d->shared == MAP_FAILED ? NULL : d->shared);
	for (size_t r = 0; r < n; r++)
		mlp_init(&d->shared->ranks[r].model.weights);
	d->digits = load_digits();
	sem_init(&d->release, 0, 0);
	sem_init(&d->released, 0, 0);
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
	int status;

	if (!parse(argc, argv, o, &status))
		return status;
	status = settle_ranks(o);
	d.steps = DEMO_EPOCH_STEPS * o->epochs;
	if (status == CLI_OK)
		status = settle_fault(o, d.steps);
	return status == CLI_OK ? run(&d) : status;
}
