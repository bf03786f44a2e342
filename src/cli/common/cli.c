/* SPDX-License-Identifier: Apache-2.0 */

#include "cli/common/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cohort/cohort.h>

#include "base/clock.h"
#include "base/text.h"
#include "base/util.h"

const char *cli_command;

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

bool cli_starts_with(const char *text, const char *start)
{
	return strncmp(text, start, strlen(start)) == 0;
}

bool cli_ends_with(const char *text, const char *end)
{
	const size_t n = strlen(text), of = strlen(end);

	return n > of && strcmp(text + n - of, end) == 0;
}

void cli_sanitize(char *text)
{
	const unsigned char *s = (const unsigned char *)text;
	size_t n;

	for (; *s; s += n, text += n) {
		n = (size_t)text_character(text);
		if (!n || *s < ' ' || *s == 0x7f || (*s == 0xc2 && s[1] < 0xa0))
			memset(text, '?', n = n ? n : 1);
	}
}

void cli_error(const char *format, ...)
{
	va_list args;
	char *text;

	va_start(args, format);
	if (vasprintf(&text, format, args) < 0)
		text = NULL;
	va_end(args);
	if (text)
		cli_sanitize(text);
	fprintf(stderr, "cohort%s%s: %s\n", cli_command ? " " : "",
	        cli_command ? cli_command : "", text ? text : "out of memory");
	free(text);
}

int cli_cannot_run(const char *program, int error)
{
	cli_error("%s: %s", program, strerror(error));
	return error == ENOENT ? CLI_NOT_FOUND : CLI_NOT_EXECUTABLE;
}

int cli_exit_status(int status)
{
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status)
	                           : WEXITSTATUS(status);
}

void *cli_need(void *memory)
{
	if (memory)
		return memory;
	cli_error("out of memory");
	exit(CLI_FAILED);
}

int cli_setenv(const char *variable, const char *value, bool replaces)
{
	if (!setenv(variable, value, replaces))
		return CLI_OK;
	return cli_fail("%s: %s", variable, strerror(errno));
}

int cli_need_devices(int ranks)
{
	enum { DEFAULT_HOST_DEVICES = 8 };
	char devices[16];

	if (ranks <= DEFAULT_HOST_DEVICES)
		return CLI_OK;
	snprintf(devices, sizeof(devices), "%d", ranks);
	return cli_setenv("COHORT_HOST_DEVICES", devices, false);
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

bool cli_has_text(const char *image, size_t size, const char *text)
{
	return memmem(image, size, text, strlen(text));
}

void cli_put_quoted(FILE *out, const char *text)
{
	putc('\'', out);
	for (; *text; text++)
		fprintf(out, *text == '\'' ? "'\\''" : "%c", *text);
	putc('\'', out);
}

int cli_columns(int fd)
{
	enum { DEFAULT = 80, LEAST = 40 };
	struct winsize size;

	if (ioctl(fd, TIOCGWINSZ, &size) || size.ws_col < LEAST)
		return DEFAULT - 1;
	return size.ws_col - 1;
}

void cli_print_wrapped(int indent, const char *text)
{
	const int width = cli_columns(STDOUT_FILENO);
	int column = indent, word;

	for (; *text; text += word, text += strspn(text, " ")) {
		word = (int)strcspn(text, " ");
		if (column > indent && column + 1 + word > width) {
			printf("\n%*s", indent, "");
			column = indent;
		}
		column += printf("%s%.*s", column > indent ? " " : "", word,
		                 text);
	}
	printf("\n");
}

/* Print a row of @n bytes, wrapped. Indent all lines but the first by the width
 * of a label. */
static void print_row(FILE *out, int column, const char *row, int n)
{
	enum { LABEL = 7 };
	const int width = cli_columns(fileno(out));
	int cut, indent = column;

	while (n > width - indent) {
		for (cut = width - indent; cut > LABEL && row[cut] != ' ';)
			cut--;
		if (cut == LABEL)
			break; /* a single word that is longer than a line */
		fprintf(out, "%*s%.*s\n", indent, "", cut, row);
		row += cut + 1;
		n -= cut + 1;
		indent = column + LABEL;
	}
	fprintf(out, "%*s%.*s\n", indent, "", n, row);
}

void cli_print_block(FILE *out, int column, const char *text)
{
	int n;

	for (; *text; text += n + (text[n] == '\n')) {
		n = (int)strcspn(text, "\n");
		print_row(out, column, text, n);
	}
}

int cli_number(const char *option, const char *text, uint64_t min, uint64_t max,
               uint64_t *value_out)
{
	unsigned long long value;
	char *end;

	errno = 0;
	value = strtoull(text, &end, 10);
	/* strtoull() would accept a sign and leading blanks. */
	if (*text < '0' || *text > '9' || *end || errno || value < min ||
	    value > max)
		return cli_misuse("--%s: \"%s\" is not a number from %" PRIu64
		                  " to %" PRIu64,
		                  option, text, min, max);
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

/* Folders that contain the folders of libraries, relative to the folder of the
 * command: in the build tree, and installed with one of several values of
 * libdir */
static const char *const parents[] = {
	"lib",
	"../lib/cohort",
	"../lib*/cohort",
	"../lib/*/cohort",
};

/* Find the first match of the pattern @own/@parent/@name that contains
 * @file. */
static bool find_in(const char *own, const char *parent, const char *name,
                    const char *file, char out[PATH_MAX])
{
	char path[2 * PATH_MAX];
	bool found;
	glob_t hits;

	snprintf(path, sizeof(path), "%s/%s/%s/%s", own, parent, name, file);
	if (glob(path, 0, NULL, &hits))
		return false;
	found = realpath(hits.gl_pathv[0], out) != NULL;
	globfree(&hits);
	if (found)
		*strrchr(out, '/') = '\0';
	return found;
}

int cli_find_libraries(const char *name, const char *file, char own[PATH_MAX],
                       char out[PATH_MAX])
{
	if (!realpath("/proc/self/exe", own))
		return cli_fail("/proc/self/exe: %s", strerror(errno));
	*strrchr(own, '/') = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(parents); i++)
		if (find_in(own, parents[i], name, file, out))
			return CLI_OK;
	return cli_fail("%s was not found in %s/%s/%s or %s/%s/%s", file, own,
	                parents[0], name, own, parents[1], name);
}
