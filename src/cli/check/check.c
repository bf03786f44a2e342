/* SPDX-License-Identifier: Apache-2.0 */

#include "cli/check/check.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "cli/common/cli.h"
#include "cli/common/cli_options.h"

static const char *const names[CHECK_RESULTS] = {
	[CHECK_OK] = "ok",
	[CHECK_SKIPPED] = "skipped",
	[CHECK_WARNING] = "warning",
	[CHECK_ERROR] = "error",
};

enum { INDENT = 9 };

static void print_finding(const struct finding *f, void *user)
{
	char text[8192];

	(void)user;
	snprintf(text, sizeof(text), "%s%s%s: %s", f->check,
	         f->subject ? " " : "", f->subject ? f->subject : "", f->what);
	cli_sanitize(text);
	printf("%-*s", INDENT, names[f->result]);
	cli_print_wrapped(INDENT, text);
	if (f->advice) {
		printf("%*s", INDENT, "");
		snprintf(text, sizeof(text), "-> %s", f->advice);
		cli_sanitize(text);
		cli_print_wrapped(INDENT, text);
	}
	fflush(stdout);
}

static void write_finding(const struct finding *f, void *user)
{
	struct json *json = user;

	json_line(json);
	json_open(json, NULL, '{');
	json_string(json, "check", f->check);
	json_string(json, "result", names[f->result]);
	json_string(json, "subject", f->subject);
	json_string(json, "what", f->what);
	json_string(json, "advice", f->advice);
	json_close(json, '}');
	fflush(stdout);
}

static bool has_devices(const struct check *c)
{
	if (!c->is_probed || c->probed.info.status != COHORT_OK)
		return true;
	for (int i = 0; i < c->device_count; i++)
		if (c->devices[i] >= c->probed.info.devices) {
			cli_error("--devices: there is no device %d: devices "
			          "are 0 to %d",
			          c->devices[i], c->probed.info.devices - 1);
			return false;
		}
	return true;
}

static int run(struct check *c)
{
	check_platform(c);
	if (!has_devices(c))
		return CLI_USAGE;
	check_versions(c);
	check_libraries(c);
	check_variables(c);
	check_nccl(c);
	check_cuda(c);
	check_limits(c);
	check_devices_work(c);
	free(c->settings);
	return CLI_OK;
}

/* clang-format off */
static const char help[] =
	"usage: cohort check [OPTION]...\n"
	"\n"
	"Finds what would go wrong in a run before it starts: versions with known\n"
	"faults, variables, files of settings, /dev/shm, limits and containers.  Then\n"
	"it tries each device, and each pair of devices with copies and an all-reduce.\n"
	"Each trial runs in its own process with a deadline, so a hang is found and\n"
	"named.\n"
	"\n"
	"  --devices LIST      only these devices, such as 0,2,3 (default: all)\n"
	"  --deadline SECONDS  how long each step of a trial may take (default 20);\n"
	"                      CUDA may take three times that to initialize in a process\n"
	"  --limit SECONDS     start no more trials after this time (default 300)\n"
	"  --platform NAME     gpu or host (default: what a group would get)\n"
	"  --strict            warnings count as errors for the exit status\n"
	"  --json              one JSON object instead of text\n"
	"  -h, --help          this text\n"
	"\n"
	"Each line has ok, skipped, warning or error, the name of the check, its\n"
	"subject, and the finding; \"->\" marks what to do about it.  The last line\n"
	"counts them.\n"
	"\n"
	"Exit status: 0 if there is no error; 1 if there is one, or with --strict a\n"
	"warning; 2 for wrong usage.\n";
/* clang-format on */

static int read_devices(const struct cli_option *option, const char *word)
{
	static int devices[COHORT_MAX_RANKS];
	static bool is_named[COHORT_MAX_RANKS];
	struct check *c = option->value;
	uint64_t device;
	int status;

	if (!word) {
		memset(is_named, 0, sizeof(is_named));
		c->devices = devices;
		c->device_count = 0;
		return CLI_OK;
	}
	status = cli_number(option->name, word, 0, COHORT_MAX_RANKS - 1,
	                    &device);
	if (status == CLI_OK && is_named[device])
		return cli_misuse("--devices: \"%s\" names device %d twice",
		                  optarg, (int)device);
	if (status == CLI_OK) {
		is_named[device] = true;
		devices[c->device_count++] = (int)device;
	}
	return status;
}

int check_main(int argc, char **argv)
{
	bool json = false, strict = false;
	struct check c = {
		.platform = COHORT_PLATFORM_AUTO,
		.root = "",
		.report = print_finding,
	};
	uint64_t deadline = 20, limit = 300;
	const struct cli_option options[] = {
		{ "devices", 0, CLI_LIST, &c, .read = read_devices },
		{ "deadline", 0, CLI_UINT, .value = &deadline, 1, 3600 },
		{ "limit", 0, CLI_UINT, .value = &limit, 1, 86400 },
		{ "platform", 0, CLI_PLATFORM(&c.platform) },
		{ "strict", 0, CLI_TRUE, .value = &strict },
		{ "json", 0, CLI_TRUE, .value = &json },
		{ .kind = CLI_END },
	};
	struct json out = { .out = stdout };
	int status;

	if (!cli_options(argv[0], argc, argv, options, help, &status))
		return status;
	c.deadline_ns = deadline * NS_PER_S;
	c.limit_ns = limit * NS_PER_S;
	if (json) {
		c.report = write_finding;
		c.user = &out;
		json_open(&out, NULL, '{');
		json_string(&out, "version", cohort_version());
		json_open(&out, "checks", '[');
	}
	status = run(&c);
	if (json) {
		json_close(&out, ']');
		json_uint(&out, "errors", c.counts[CHECK_ERROR]);
		json_uint(&out, "warnings", c.counts[CHECK_WARNING]);
		json_uint(&out, "ok", c.counts[CHECK_OK]);
		json_uint(&out, "skipped", c.counts[CHECK_SKIPPED]);
		json_close(&out, '}');
		putchar('\n');
	} else if (status == CLI_OK) {
		printf("%u error%s, %u warning%s, %u ok, %u skipped\n",
		       c.counts[CHECK_ERROR],
		       c.counts[CHECK_ERROR] == 1 ? "" : "s",
		       c.counts[CHECK_WARNING],
		       c.counts[CHECK_WARNING] == 1 ? "" : "s",
		       c.counts[CHECK_OK], c.counts[CHECK_SKIPPED]);
	}
	if (status != CLI_OK)
		return status;
	return c.counts[CHECK_ERROR] || (strict && c.counts[CHECK_WARNING])
	               ? CLI_FAILED
	               : CLI_OK;
}
