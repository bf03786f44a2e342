/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Checks NCCL's configuration files
 *
 * NCCL's first call reads NCCL_CONF_FILE or, if that is not set, .nccl.conf in
 * the home directory, and then /etc/nccl.conf. A line NAME=VALUE sets an
 * environment variable, unless the environment or an earlier line sets it.
 * There is no other syntax: spaces and quotes are part of the name or the
 * value, a line without "=" is skipped, and NCCL never reports an error.
 */

#include <ctype.h>
#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/check/check.h"

#define CHECK "nccl-files"
#define PREFIX "NCCL_"

/* First version of NCCL that reads the home directory from HOME */
#define ASKS_HOME 23003

/* First version that drops a carriage return before a newline */
#define DROPS_RETURN 23003

/* Longest name or value; NCCL truncates longer ones */
#define MOST 1023

bool nccl_files_parse(char *line, int nccl_version, struct nccl_setting *out)
{
	const size_t n = strcspn(line, "\n");
	char *equals;

	line[n] = '\0';
	if (n && line[n - 1] == '\r' && nccl_version >= DROPS_RETURN)
		line[n - 1] = '\0';
	equals = strchr(line, '=');
	if (line[0] == '#' || !equals)
		return false;
	*equals = '\0';
	snprintf(out->name, sizeof(out->name), "%.*s", MOST, line);
	snprintf(out->value, sizeof(out->value), "%.*s", MOST, equals + 1);
	return true;
}

static const char *name_fault(const char *name)
{
	if (!*name)
		return "has no name before the \"=\"";
	if (strncmp(name, "export ", 7) == 0)
		return "starts with \"export\", which is not part of the "
		       "syntax";
	if (isspace((unsigned char)name[0]) ||
	    isspace((unsigned char)name[strlen(name) - 1]))
		return "has a space around the name, which makes it a "
		       "different "
		       "name";
	if (strncmp(name, PREFIX, strlen(PREFIX)) != 0)
		return "sets a variable that is not NCCL's, and only in NCCL's "
		       "first call, which may be too late";
	return NULL;
}

static const char *value_fault(const char *value)
{
	const size_t n = strlen(value);

	if (n == MOST)
		return "has a value of more than 1023 bytes, which NCCL "
		       "truncates";
	if (!n)
		return NULL;
	if (value[n - 1] == '\r')
		return "ends with a carriage return, which is part of the "
		       "value "
		       "for this version of NCCL";
	if (isspace((unsigned char)value[0]) ||
	    isspace((unsigned char)value[n - 1]))
		return "has a space around the value, which is part of it";
	if (value[0] == '"' || value[0] == '\'')
		return "has quotes, which are part of the value";
	if (strchr(value, '#'))
		return "has a \"#\" after the value, which is part of it: a "
		       "comment needs its own line";
	return NULL;
}

/* Parse a line into @s, and report it if it does not have the effect that it
 * seems to have. Return whether it sets one of NCCL's variables that was unset.
 * Other variables do not count, because NCCL sets them in its first call, when
 * the code that reads them may already have run. */
static bool read_line(struct check *c, char *line, int nccl_version,
                      struct nccl_setting *s)
{
	char subject[PATH_MAX + 32];
	const char *fault, *is;
	bool is_nccl;

	snprintf(subject, sizeof(subject), "%s:%d", s->file, s->line);
	if (!nccl_files_parse(line, nccl_version, s)) {
		if (line[0] != '#' && line[strspn(line, " \t\r\n")])
			check_warn(c, CHECK, subject, "Write NAME=VALUE.",
			           "The line has no \"=\", and NCCL skips it.");
		return false;
	}
	is_nccl = strncmp(s->name, PREFIX, strlen(PREFIX)) == 0;
	is = getenv(s->name);
	fault = name_fault(s->name);
	if (!fault)
		fault = value_fault(s->value);
	if (fault)
		check_warn(
			c, CHECK, subject,
			is_nccl || s->name[strcspn(s->name, " \t")]
				? "Write NAME=VALUE without spaces, quotes or "
				  "comments."
				: "Set it in the environment.",
			"The line %s: %.60s=%.60s", fault, s->name, s->value);
	else if (is && strcmp(is, s->value) != 0)
		check_warn(c, CHECK, subject, NULL,
		           "%.60s is %.60s here, but was set to %.60s before, "
		           "which takes precedence.",
		           s->name, s->value, is);
	return is_nccl && !is && setenv(s->name, s->value, 0) == 0;
}

static void read_file(struct check *c, FILE *in, const char *name,
                      int nccl_version)
{
	struct nccl_setting s = { .file = name }, *more;
	char *line = NULL;
	size_t size = 0;

	while (getline(&line, &size, in) >= 0) {
		s.line++;
		if (!read_line(c, line, nccl_version, &s))
			continue;
		more = realloc(c->settings,
		               (c->setting_count + 1) * sizeof(*more));
		if (!more)
			break;
		c->settings = more;
		more[c->setting_count++] = s;
	}
	free(line);
	fclose(in);
}

static const char *home(int nccl_version)
{
	const struct passwd *user;

	if (nccl_version >= ASKS_HOME)
		return getenv("HOME");
	user = getpwuid(getuid());
	return user ? user->pw_dir : NULL;
}

/* Open a regular file. NCCL would block on a FIFO or a device. Return NULL,
 * with errno, if there is no such file. */
static FILE *open_regular(const char *name)
{
	struct stat is;

	if (stat(name, &is) != 0)
		return NULL;
	if (S_ISREG(is.st_mode))
		return fopen(name, "r");
	errno = S_ISDIR(is.st_mode) ? EISDIR : EINVAL;
	return NULL;
}

void nccl_files_read(struct check *c, int nccl_version)
{
	const unsigned before = check_troubles(c);
	const char *own = getenv("NCCL_CONF_FILE"), *in = home(nccl_version);
	FILE *file;

	if (own && *own)
		snprintf(c->files[0], PATH_MAX, "%s", own);
	else if (in)
		snprintf(c->files[0], PATH_MAX, "%s/.nccl.conf", in);
	snprintf(c->files[1], PATH_MAX, "%s/etc/nccl.conf", c->root);
	for (int i = 0; i < 2; i++) {
		file = open_regular(c->files[i]);
		if (file)
			read_file(c, file, c->files[i], nccl_version);
		else if (i == 0 && own && *own)
			/* NCCL does not report a missing file. */
			check_report(c, check_severity(c), CHECK,
			             "NCCL_CONF_FILE",
			             "Correct the path, or unset the variable.",
			             "%s: %s; NCCL silently reads neither this "
			             "file nor ~/.nccl.conf.",
			             own,
			             errno == EINVAL ? "not a regular file"
			                             : strerror(errno));
	}
	if (check_troubles(c) == before)
		check_ok(c, CHECK, "%zu setting%s from NCCL's files",
		         c->setting_count, c->setting_count == 1 ? "" : "s");
}
