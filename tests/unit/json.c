/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests of the JSON writer, and of output files, which must be complete or not
 * exist
 */

#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/json.h"
#include "base/outfile.h"

static char folder[] = "/tmp/cohort-json-XXXXXX";
static int dir;
static char buffer[16]; /* small, so that it is flushed often */
static struct outfile file;
static struct json json;

static void set_up(void)
{
	cr_assert_not_null(mkdtemp(folder));
	dir = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	outfile_begin(&file, dir, "out", buffer, sizeof(buffer));
	json = (struct json){ .file = &file };
}

static void tear_down(void)
{
	unlinkat(dir, "out", 0);
	close(dir);
	rmdir(folder);
}

TestSuite(json, .init = set_up, .fini = tear_down);

static const char *contents(void)
{
	static char text[4096];
	int fd = openat(dir, "out", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

	if (fd >= 0)
		close(fd);
	text[n > 0 ? n : 0] = '\0';
	return n < 0 ? "(none)" : text;
}

static const char *written(void)
{
	cr_assert_eq(outfile_end(&file), 0);
	return contents();
}

/* Return the number of files in the folder, including temporary files. */
static int count(void)
{
	DIR *d = opendir(folder);
	int n = -2; /* not counting "." and ".." */

	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

/* ---- values ----------------------------------------------------------- */

Test(json, json_writer_writes_commas_and_keys)
{
	json_open(&json, NULL, '{');
	json_int(&json, "a", -1);
	json_open(&json, "b", '[');
	json_uint(&json, NULL, 2);
	json_bool(&json, NULL, true);
	json_null(&json, NULL);
	json_close(&json, ']');
	json_string(&json, "c", NULL);
	json_close(&json, '}');
	cr_assert_str_eq(written(),
	                 "{\"a\":-1,\"b\":[2,true,null],\"c\":null}");
}

Test(json, json_writer_begins_lines_after_the_comma)
{
	json_open(&json, NULL, '[');
	json_line(&json);
	json_int(&json, NULL, 1);
	json_line(&json);
	json_int(&json, NULL, 2);
	json_line(&json);
	json_close(&json, ']');
	cr_assert_str_eq(written(), "[\n1,\n2\n]");
}

Test(json, json_strings_are_escaped_and_made_valid_utf8)
{
	json_string(&json, NULL, "a\"b\\c\n\x7f\xc3\xa4\xff\xed\xa0\x80.");
	cr_assert_str_eq(written(), "\"a\\\"b\\\\c\\u000a\\u007f\xc3\xa4\\ufffd"
	                            "\\ufffd\\ufffd\\ufffd.\"");
}

Test(json, json_writer_writes_the_extreme_integers)
{
	json_open(&json, NULL, '[');
	json_int(&json, NULL, INT64_MIN);
	json_uint(&json, NULL, UINT64_MAX);
	json_uint(&json, NULL, 0);
	json_close(&json, ']');
	cr_assert_str_eq(written(),
	                 "[-9223372036854775808,18446744073709551615,0]");
}

Test(json, json_writer_writes_fractions_with_all_digits)
{
	json_open(&json, NULL, '[');
	json_fixed(&json, NULL, 0, 3);
	json_fixed(&json, NULL, 12, 3);
	json_fixed(&json, NULL, 1234, 3);
	json_fixed(&json, NULL, UINT64_MAX, 6);
	json_fixed(&json, NULL, 7, 0);
	json_close(&json, ']');
	cr_assert_str_eq(written(),
	                 "[0.000,0.012,1.234,18446744073709.551615,7]");
}

/* The buffer collects short writes. A write longer than the buffer bypasses
 * it. */
Test(json, json_output_does_not_depend_on_the_buffer_size)
{
	static char large[1000];
	char text[131] = "", *stream_text;
	size_t n, stream_size;
	FILE *stream = open_memstream(&stream_text, &stream_size);
	struct json other = { .out = stream };

	cr_assert_eq(outfile_discard(&file), 0);
	for (n = 0; n < sizeof(text) - 1; n++) {
		outfile_begin(&file, dir, "out", large, sizeof(large));
		json = (struct json){ .file = &file };
		rewind(stream);
		json_open(&json, NULL, '{');
		json_open(&other, NULL, '{');
		json_string(&json, text, text);
		json_string(&other, text, text);
		json_uint(&json, text, UINT64_MAX);
		json_uint(&other, text, UINT64_MAX);
		json_close(&json, '}');
		json_close(&other, '}');
		other.comma = false;
		fputc('\0', stream);
		fflush(stream);
		cr_assert_str_eq(written(), stream_text);
		cr_assert_eq(strlen(stream_text), 3 * n + 31);
		text[n] = n % 7 ? 'x' : '~';
	}
	fclose(stream);
	free(stream_text);
}

Test(json, several_outfiles_can_share_a_buffer)
{
	static char shared[1000];
	struct outfile files[3];
	char name[8];
	int i;

	cr_assert_eq(outfile_discard(&file), 0);
	for (i = 0; i < 3; i++) {
		snprintf(name, sizeof(name), "f%d", i);
		outfile_begin(&files[i], dir, name, shared, sizeof(shared));
		outfile_put(&files[i], name, 2);
		outfile_send(&files[i]);
	}
	cr_assert_eq(count(), 3);
	for (i = 0; i < 3; i++)
		cr_assert_eq(outfile_end(&files[i]), 0);
	cr_assert_eq(count(), 3);
	for (i = 0; i < 3; i++) {
		char got[8] = "";
		int fd = openat(dir, files[i].name, O_RDONLY | O_CLOEXEC);

		cr_assert_eq(read(fd, got, sizeof(got)), 2);
		cr_assert_str_eq(got, files[i].name);
		close(fd);
		unlinkat(dir, files[i].name, 0);
	}
}

/* ---- files ------------------------------------------------------------ */

Test(json, outfile_does_not_exist_before_it_is_complete)
{
	outfile_put(&file, "more than the buffer has room for", 33);
	cr_assert_str_eq(contents(), "(none)");
	cr_assert_eq(count(), 1);
	cr_assert_str_eq(written(), "more than the buffer has room for");
	cr_assert_eq(count(), 1);
}

Test(json, outfile_replaces_the_old_file_when_it_is_complete)
{
	outfile_put(&file, "old", 3);
	written();
	outfile_begin(&file, dir, "out", buffer, sizeof(buffer));
	outfile_put(&file, "new and longer than that", 24);
	cr_assert_str_eq(contents(), "old");
	cr_assert_str_eq(written(), "new and longer than that");
}

Test(json, outfile_that_fails_leaves_the_old_file_unchanged)
{
	int full = open("/dev/full", O_WRONLY | O_CLOEXEC);

	outfile_put(&file, "old", 3);
	written();
	outfile_begin(&file, dir, "out", buffer, sizeof(buffer));
	cr_assert_geq(dup2(full, file.fd), 0);
	outfile_put(&file, "new and longer than that", 24);
	cr_assert_eq(outfile_end(&file), ENOSPC);
	cr_assert_str_eq(contents(), "old");
	cr_assert_eq(count(), 1);
	close(full);
}

Test(json, outfile_without_a_directory_fails)
{
	struct outfile none;

	outfile_begin(&none, -1, "out", buffer, sizeof(buffer));
	outfile_put(&none, "anything that is longer than 16", 31);
	cr_assert_eq(outfile_end(&none), EBADF);
	written();
}
