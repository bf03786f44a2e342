/* SPDX-License-Identifier: Apache-2.0 */

#include "cli/launch/job.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/common/cli.h"

bool launch_has(const struct launch *l, bool is_remote)
{
	int i = 0;

	while (i < l->n && l->processes[i].is_remote != is_remote)
		i++;
	return i < l->n;
}

/* 0 or an errno. */
static int check_program(const char *path)
{
	struct stat s;

	if (stat(path, &s))
		return errno;
	if (S_ISDIR(s.st_mode))
		return EACCES;
	return access(path, X_OK) ? errno : 0;
}

/* Find @name as execvp() does.  0 and the path, for free(), or an errno. */
static int find_program(const char *name, char **path)
{
	const char *folders = getenv("PATH"), *end;
	int err, found = ENOENT;

	*path = NULL;
	if (!*name)
		return ENOENT;
	if (strchr(name, '/')) {
		err = check_program(name);
		*path = err ? NULL : strdup(name);
		return err;
	}
	for (folders = folders ? folders : "/bin:/usr/bin"; folders;
	     folders = *end ? end + 1 : NULL) {
		end = strchrnul(folders, ':');
		if (asprintf(path, "%.*s%s%s", (int)(end - folders), folders,
		             end > folders ? "/" : "./", name) < 0)
			return ENOMEM;
		err = check_program(*path);
		if (!err)
			return 0;
		if (err == EACCES)
			found = EACCES;
		free(*path);
		*path = NULL;
	}
	return found;
}

int launch_find_programs(struct launch *l)
{
	char *path;
	int err = 0;

	if (launch_has(l, true)) {
		err = find_program(l->words[0], &path);
		free(path);
	}
	if (err) {
		cli_complain("launch", "--agent: '%s': %s", l->agent,
		             strerror(err));
		return CLI_USAGE;
	}
	if (launch_has(l, false))
		err = find_program(l->program[0], &l->path);
	if (!err)
		return CLI_OK;
	cli_complain("launch", "%s: %s", l->program[0], strerror(err));
	return err == ENOENT ? CLI_NOT_FOUND : CLI_NOT_EXECUTABLE;
}
