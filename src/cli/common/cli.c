/* SPDX-License-Identifier: Apache-2.0 */

#include "cli/common/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cohort/cohort.h>

#include "base/clock.h"
#include "base/text.h"

/* ---- figures ---------------------------------------------------------- */

void cli_sleep_until(uint64_t time_ns)
{
	const struct timespec until = clock_timespec(time_ns);

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) ==
	       EINTR)
		;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

double cli_quantile(double *values, size_t n, double place)
{
	double at = place * (double)(n - 1);
	size_t below = (size_t)at;

	qsort(values, n, sizeof(*values), compare);
	if (below + 1 >= n)
		return values[n - 1];
	return values[below] +
	       (at - (double)below) * (values[below + 1] - values[below]);
}

/* ---- text ------------------------------------------------------------- */

bool cli_ends_with(const char *text, const char *end)
{
	const size_t n = strlen(text), of = strlen(end);

	return n > of && strcmp(text + n - of, end) == 0;
}

void cli_plain(char *text)
{
	const unsigned char *s = (const unsigned char *)text;
	size_t n;

	for (; *s; s += n, text += n) {
		n = (size_t)text_character(text);
		if (!n || *s < ' ' || *s == 0x7f || (*s == 0xc2 && s[1] < 0xa0))
			memset(text, '?', n = n ? n : 1);
	}
}

void cli_complain(const char *command, const char *format, ...)
{
	va_list args;
	char *text;

	va_start(args, format);
	if (vasprintf(&text, format, args) < 0)
		text = NULL;
	va_end(args);
	if (text)
		cli_plain(text);
	fprintf(stderr, "cohort%s%s: %s\n", command ? " " : "",
	        command ? command : "", text ? text : "out of memory");
	free(text);
}

void *cli_need(const char *command, void *memory)
{
	if (memory)
		return memory;
	cli_complain(command, "out of memory");
	exit(CLI_FAILED);
}

int cli_setenv(const char *command, const char *variable, const char *value,
               bool replaces)
{
	if (!setenv(variable, value, replaces))
		return CLI_OK;
	cli_complain(command, "%s: %s", variable, strerror(errno));
	return CLI_FAILED;
}

int cli_need_devices(const char *command, int ranks)
{
	enum { DEFAULT_HOST_DEVICES = 8 };
	char devices[16];

	if (ranks <= DEFAULT_HOST_DEVICES)
		return CLI_OK;
	snprintf(devices, sizeof(devices), "%d", ranks);
	return cli_setenv(command, "COHORT_HOST_DEVICES", devices, false);
}

const char *cli_map_file(const char *path, size_t *size_out)
{
	const int fd = open(path, O_RDONLY | O_CLOEXEC);
	void *bytes = MAP_FAILED;
	struct stat file;

	if (fd < 0)
		return NULL;
	if (!fstat(fd, &file) && S_ISREG(file.st_mode) && file.st_size > 0) {
		*size_out = (size_t)file.st_size;
		bytes = mmap(NULL, *size_out, PROT_READ, MAP_PRIVATE, fd, 0);
	}
	close(fd);
	return bytes == MAP_FAILED ? NULL : bytes;
}

void cli_put_quoted(FILE *out, const char *text)
{
	putc('\'', out);
	for (; *text; text++)
		fprintf(out, *text == '\'' ? "'\\''" : "%c", *text);
	putc('\'', out);
}

/* The columns of a terminal that are used. */
#define WIDTH 79

void cli_print_wrapped(int indent, const char *text)
{
	int column = indent, word;

	for (; *text; text += word, text += strspn(text, " ")) {
		word = (int)strcspn(text, " ");
		if (column > indent && column + 1 + word > WIDTH) {
			printf("\n%*s", indent, "");
			column = indent;
		}
		column += printf("%s%.*s", column > indent ? " " : "", word,
		                 text);
	}
	printf("\n");
}

/* Print the @n bytes of a row.  What follows its label starts at LABEL. */
static void print_row(int column, const char *row, int n)
{
	enum { LABEL = 7 };
	int cut, indent = column;

	while (n > WIDTH - indent) {
		for (cut = WIDTH - indent; cut > LABEL && row[cut] != ' ';)
			cut--;
		if (cut == LABEL)
			break; /* one long word */
		printf("%*s%.*s\n", indent, "", cut, row);
		row += cut + 1;
		n -= cut + 1;
		indent = column + LABEL;
	}
	printf("%*s%.*s\n", indent, "", n, row);
}

void cli_print_block(int column, const char *text)
{
	int n;

	for (; *text; text += n + (text[n] == '\n')) {
		n = (int)strcspn(text, "\n");
		print_row(column, text, n);
	}
}

int cli_number(const char *command, const char *option, const char *text,
               uint64_t min, uint64_t max, uint64_t *value_out)
{
	unsigned long long value;
	char *end;

	errno = 0;
	value = strtoull(text, &end, 10);
	/* strtoull() would take a sign and leading blanks. */
	if (*text < '0' || *text > '9' || *end || errno || value < min ||
	    value > max) {
		cli_complain(command,
		             "--%s: '%s' is not a number from %" PRIu64
		             " to %" PRIu64,
		             option, text, min, max);
		return CLI_USAGE;
	}
	*value_out = value;
	return CLI_OK;
}

const char *cli_platform_name(int platform)
{
	return platform == COHORT_PLATFORM_GPU    ? "gpu"
	       : platform == COHORT_PLATFORM_HOST ? "host"
	                                          : "?";
}

const char *cli_launch_name(int launch)
{
	return launch == COHORT_LAUNCH_TOGETHER ? "together"
	       : launch == COHORT_LAUNCH_AHEAD  ? "ahead"
	                                        : NULL;
}
