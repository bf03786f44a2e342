/* SPDX-License-Identifier: Apache-2.0 */

#include "cli/common/cli_options.h"

#include <assert.h>
#include <getopt.h>
#include <limits.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define NS_PER_MS UINT64_C(1000000)

/* The value that getopt_long() returns for the first option without a
 * letter. */
enum { CLI_LONG_OPTION = 256 };

static bool takes_value(const struct cli_option *option)
{
	return option->kind != CLI_TRUE && option->kind != CLI_FALSE &&
	       option->kind != CLI_CALL;
}

/* Fill what getopt_long() takes.  Its value for an option is the option's
 * letter, or else CLI_LONG_OPTION and the option's place in the table. */
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

/* The option for which getopt_long() returned @answer; NULL if that is an
 * error. */
static const struct cli_option *find(const struct cli_option *options,
                                     int answer)
{
	const struct cli_option *o;

	if (answer >= CLI_LONG_OPTION)
		return &options[answer - CLI_LONG_OPTION];
	for (o = options; o->name; o++)
		if (o->letter == answer)
			return o;
	return NULL;
}

/* Complain about the option for which getopt_long() returned @answer: '?' or
 * ':'. */
static void refuse(const char *command, char **argv, int answer)
{
	const char *option = argv[optind - 1];

	if (answer == ':')
		cli_complain(command, "%s: needs a value", option);
	else if (optopt > UCHAR_MAX || optopt == 'h')
		cli_complain(command, "%s: takes no value", option);
	else if (optopt)
		cli_complain(command, "-%c: no such option", optopt);
	else
		cli_complain(command, "%s: no such option", option);
}

static_assert(sizeof(size_t) == sizeof(uint64_t), "CLI_UINT is for both");

static int take_number(const char *command, const struct cli_option *o)
{
	uint64_t most = o->kind == CLI_BIT ? 1 : o->most, number;
	int status =
		cli_number(command, o->name, optarg, o->least, most, &number);

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

static int take_name(const char *command, const struct cli_option *o)
{
	for (int i = (int)o->least; i <= (int)o->most; i++) {
		if (strcmp(optarg, o->name_of(i)) != 0)
			continue;
		*(int *)o->value = i;
		return CLI_OK;
	}
	cli_complain(command, "--%s: '%s' %s", o->name, optarg, o->says);
	return CLI_USAGE;
}

static int take_list(const char *command, const struct cli_option *o)
{
	char *list = cli_need(command, strdup(optarg)), *rest = list, *word;
	int status = o->read(o, NULL);

	while (status == CLI_OK && (word = strsep(&rest, ",")))
		status = o->read(o, word);
	free(list);
	return status;
}

static int take(const char *command, const struct cli_option *o)
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
		return take_number(command, o);
	case CLI_TEXT:
		*(const char **)o->value = optarg;
		break;
	case CLI_NAME:
		return take_name(command, o);
	case CLI_LIST:
		return take_list(command, o);
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

/* Look for what must be there, and must not be, once all options are read. */
static int check_rest(const char *command, int argc, char **argv,
                      const struct cli_option *options)
{
	const struct cli_option *o;

	for (o = options; o->name; o++) {
		if (!o->is_needed || *(const char **)o->value)
			continue;
		cli_complain(command, "--%s: no file given", o->name);
		return CLI_USAGE;
	}
	if (o->kind == CLI_END && optind < argc) {
		cli_complain(command, "'%s': takes options only", argv[optind]);
		return CLI_USAGE;
	}
	if (o->kind == CLI_FILES && optind == argc) {
		cli_complain(command, "no file given");
		return CLI_USAGE;
	}
	return CLI_OK;
}

int cli_options(const char *command, int argc, char **argv,
                const struct cli_option *options, void (*print_help)(void),
                bool *help_out)
{
	char letters[2 * CLI_MOST_OPTIONS + 4];
	struct option table[CLI_MOST_OPTIONS + 2];
	const struct cli_option *option;
	int c, status = CLI_OK;

	make_tables(options, letters, table);
	*help_out = false;
	optind = 0; /* getopt starts afresh */
	opterr = 0;
	while (status == CLI_OK &&
	       (c = getopt_long(argc, argv, letters, table, NULL)) != -1) {
		if (c == 'h') {
			*help_out = true;
			print_help();
			return CLI_OK;
		}
		option = find(options, c);
		if (option) {
			status = take(command, option);
		} else {
			refuse(command, argv, c);
			status = CLI_USAGE;
		}
	}
	return status == CLI_OK ? check_rest(command, argc, argv, options)
	                        : status;
}
