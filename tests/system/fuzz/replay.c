/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Runs inputs without libFuzzer: the given files, and all files in the given
 * folders
 *
 * Each input runs REPLAY_TIMES times (default 1), because threads behave
 * differently every time.
 */

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "system/fuzz/fuzz.h"
#include "system/fuzz/program.h"

#define MOST_BYTES 4096

static unsigned long inputs;

static void fail(const char *path, const char *what)
{
	fprintf(stderr, "%s: %s\n", path, what);
	exit(1);
}

static void replay_file(const char *path)
{
	const char *text = getenv("REPLAY_TIMES");
	unsigned long times = text ? strtoul(text, NULL, 10) : 1;
	uint8_t data[MOST_BYTES];
	FILE *file = fopen(path, "rb");
	size_t size;

	if (!file)
		fail(path, "cannot be opened");
	size = fread(data, 1, sizeof(data), file);
	fclose(file);
	/*
	 * Print the name first, so that it is the last line if the input hangs
	 * or crashes.
	 */
	printf("%s\n", path);
	fflush(stdout);
	while (times--)
		LLVMFuzzerTestOneInput(data, size);
	inputs++;
}

static void replay(const char *path)
{
	struct dirent **names;
	char inner[1024];
	struct stat st;
	int i, n;

	if (stat(path, &st) != 0)
		fail(path, "is not there");
	if (!S_ISDIR(st.st_mode)) {
		replay_file(path);
		return;
	}
	n = scandir(path, &names, NULL, alphasort);
	if (n < 0)
		fail(path, "cannot be read");
	for (i = 0; i < n; i++) {
		snprintf(inner, sizeof(inner), "%s/%s", path, names[i]->d_name);
		if (names[i]->d_name[0] != '.')
			replay(inner);
		free(names[i]);
	}
	free(names);
}

int main(int argc, char **argv)
{
	int i;

	for (i = 1; i < argc; i++)
		replay(argv[i]);
	printf("%lu rounds, one per input, %lu results compared\n", inputs,
	       fuzz_results());
	return 0;
}
