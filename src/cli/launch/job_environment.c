/* SPDX-License-Identifier: Apache-2.0 */

#include "cli/launch/job.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/common/cli.h"
#include "cli/launch/server.h"

/* NAME=value...; has_failed: memory was lacking. */
struct list {
	char **lines;
	size_t n, room;
	bool has_failed;
};

void launch_free_list(char **list)
{
	char **line = list;

	while (line && *line)
		free(*line++);
	free(list);
}

static bool has_name(const char *line, const char *name)
{
	const size_t n = strlen(name);

	return strncmp(line, name, n) == 0 && line[n] == '=';
}

static void append(struct list *l, char *line)
{
	char **more = l->lines;

	if (line && l->n + 2 > l->room) {
		l->room = 2 * l->room + 64;
		more = reallocarray(l->lines, l->room, sizeof(*more));
	}
	if (!line || !more) {
		l->has_failed = true;
		free(line);
		return;
	}
	l->lines = more;
	l->lines[l->n++] = line;
	l->lines[l->n] = NULL;
}

/* Set what @line does: nothing else may set it. */
static void set(struct list *l, const char *line)
{
	const size_t name = strcspn(line, "=") + 1;
	size_t i;

	for (i = 0; i < l->n; i++)
		if (strncmp(l->lines[i], line, name) == 0) {
			free(l->lines[i]);
			l->lines[i] = l->lines[--l->n];
			l->lines[l->n] = NULL;
			break;
		}
	append(l, strdup(line));
}

__attribute__((format(printf, 2, 3))) static void
set_format(struct list *l, const char *format, ...)
{
	char line[512];
	va_list args;

	va_start(args, format);
	vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	set(l, line);
}

/* What another host does not have of its own. */
static bool goes_along(const char *line)
{
	return strncmp(line, "COHORT_", 7) == 0 ||
	       strncmp(line, "NCCL_", 5) == 0 ||
	       has_name(line, "LD_LIBRARY_PATH");
}

/* What names this host, and folders of it. */
static bool stays(const char *line)
{
	return has_name(line, "PMIX_HOSTNAME") ||
	       has_name(line, "PMIX_SERVER_TMPDIR") ||
	       has_name(line, "PMIX_SYSTEM_TMPDIR");
}

char **launch_environment(const struct launch *l, const struct process *p)
{
	char **pmix = server_environment(p->number), **line;
	struct list list = { 0 };

	if (!pmix)
		return NULL;
	for (line = environ; *line; line++)
		if (!p->is_remote || goes_along(*line))
			set(&list, *line);
	for (line = pmix; *line; line++)
		if (!p->is_remote || !stays(*line))
			set(&list, *line);
	set_format(&list, "COHORT_PROCESS=%d", p->number);
	set_format(&list, "COHORT_PROCESSES=%d", l->n);
	set_format(&list, "COHORT_JOB=%s", server_job());
	set_format(&list, "COHORT_LOCAL_PROCESS=%d", p->local_number);
	set_format(&list, "COHORT_LOCAL_PROCESSES=%d", p->local_count);
	launch_free_list(pmix);
	if (!list.has_failed)
		return list.lines;
	cli_complain("launch", "out of memory");
	launch_free_list(list.lines);
	return NULL;
}
