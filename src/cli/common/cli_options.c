/* SPDX-License-Identifier: Apache-2.0 */

#include "cli/common/cli_options.h"

#include <assert.h>
#include <getopt.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NS_PER_MS UINT64_C(1000000)

/* Base of getopt_long()'s values for options without a letter: the value is
 * this number plus the option's index in the table. */
enum { CLI_LONG_OPTION = 256 };

static bool takes_value(const struct cli_option *option)
{
	return option->kind != CLI_TRUE && option->kind != CLI_FALSE &&
	       option->kind != CLI_CALL;
}

static void make_tables(const struct cli_option *options,
                        char letters[2 * CLI_MOST_OPTIONS + 4],
                        struct option table[CLI_MOST_OPTIONS + 2])
{
	const struct cli_option *o = options;

	while (o->name)
		o++;
	if (o->kind == CLI_PROGRAM)
		*letters++ = '+';
	*letters++ = ':';
	*letters++ = 'h';
	*table++ = (struct option){ "help", no_argument, NULL, 'h' };
	for (o = options; o->name; o++) {
		*table++ = (struct option){
			.name = o->name,
			.has_arg = takes_value(o) ? required_argument
			                          : no_argument,
			.val = o->letter ? o->letter
			                 : CLI_LONG_OPTION + (int)(o - options),
		};
		if (o->letter)
			*letters++ = o->letter;
		if (o->letter && takes_value(o))
			*letters++ = ':';
	}
	*letters = '\0';
	*table = (struct option){ .name = NULL };
}

/* Return the option for getopt_long()'s value @answer, or NULL if @answer
 * stands for an error. */
static const struct cli_option *find(const struct cli_option *options,
                                     int answer)
{
	if (answer >= CLI_LONG_OPTION)
		return &options[answer - CLI_LONG_OPTION];
	for (const struct cli_option *o = options; o->name; o++)
		if (o->letter == answer)
			return o;
	return NULL;
}

/* Report the error for which getopt_long() returned @answer: '?' for an unknown
 * option, ':' for a missing value. */
static void refuse(char **argv, int answer)
{
	const char *option = argv[optind - 1];
	const char *name = cli_command ? cli_command : "";
	const char *space = *name ? " " : "";

	if (answer == ':')
		cli_error("%s: needs a value", option);
	else if (optopt > UCHAR_MAX || optopt == 'h')
		cli_error("%s: takes no value", option);
	else if (optopt)
		cli_error("-%c: no such option; see cohort%s%s --help", optopt,
		          space, name);
	else
		cli_error("%s: no such option; see cohort%s%s --help", option,
		          space, name);
}

static_assert(sizeof(size_t) == sizeof(uint64_t), "CLI_UINT is for both");

static int take_number(const struct cli_option *o)
{
	uint64_t most = o->kind == CLI_BIT ? 1 : o->most, number;
	int status = cli_number(o->name, optarg, o->least, most, &number);

	if (status != CLI_OK)
		return status;
	if (o->kind == CLI_BIT)
		*(bool *)o->value = number;
	else if (o->kind == CLI_INT)
		*(int *)o->value = (int)number;
	else
		*(uint64_t *)o->value =
			number * (o->kind == CLI_MS ? NS_PER_MS : 1);
	return CLI_OK;
}

static int take_name(const struct cli_option *o)
{
	for (int i = (int)o->least; i <= (int)o->most; i++) {
		if (strcmp(optarg, o->name_of(i)) != 0)
			continue;
		*(int *)o->value = i;
		return CLI_OK;
	}
	return cli_misuse("--%s: \"%s\" %s", o->name, optarg, o->says);
}

static int take_list(const struct cli_option *o)
{
	char *list = cli_need(strdup(optarg)), *rest = list, *word;
	int status = o->read(o, NULL);

	while (status == CLI_OK && (word = strsep(&rest, ",")))
		status = o->read(o, word);
	free(list);
	return status;
}

static int take_option(const struct cli_option *o)
{
	switch (o->kind) {
	case CLI_TRUE:
	case CLI_FALSE:
		*(bool *)o->value = o->kind == CLI_TRUE;
		break;
	case CLI_BIT:
	case CLI_INT:
	case CLI_UINT:
	case CLI_MS:
		return take_number(o);
	case CLI_TEXT:
		*(const char **)o->value = optarg;
		break;
	case CLI_NAME:
		return take_name(o);
	case CLI_LIST:
		return take_list(o);
	case CLI_READ:
	case CLI_CALL:
		return o->read(o, optarg);
	case CLI_END:
	case CLI_FILES:
	case CLI_REST:
	case CLI_PROGRAM:
		break;
	}
	return CLI_OK;
}

/* After all options were read, check that no required option or operand is
 * missing and that there are not too many operands. */
static int check_rest(int argc, char **argv, const struct cli_option *options)
{
	const struct cli_option *o;

	for (o = options; o->name; o++) {
		if (!o->is_needed || *(const char **)o->value)
			continue;
		return cli_misuse("no --%s FILE given; see cohort %s --help",
		                  o->name, cli_command);
	}
	if (o->kind == CLI_END && optind < argc)
		return cli_misuse(
			"\"%s\" is not an option; see cohort %s --help",
			argv[optind], cli_command);
	if (o->kind == CLI_FILES && optind == argc)
		return cli_misuse("no file given; see cohort %s --help",
		                  cli_command);
	return CLI_OK;
}

bool cli_options(const char *command, int argc, char **argv,
                 const struct cli_option *options, const char *help,
                 int *status_out)
{
	char letters[2 * CLI_MOST_OPTIONS + 4];
	struct option table[CLI_MOST_OPTIONS + 2];
	const struct cli_option *option;
	int c, status = CLI_OK;

	cli_command = command;
	make_tables(options, letters, table);
	optind = 0; /* makes getopt_long() start from the first argument */
	opterr = 0;
	while (status == CLI_OK &&
	       (c = getopt_long(argc, argv, letters, table, NULL)) != -1) {
		if (c == 'h') {
			fputs(help, stdout);
			*status_out = CLI_OK;
			return false;
		}
		option = find(options, c);
		if (option) {
			status = take_option(option);
		} else {
			refuse(argv, c);
			status = CLI_USAGE;
		}
	}
	if (status == CLI_OK)
		status = check_rest(argc, argv, options);
	*status_out = status;
	return status == CLI_OK;
}
