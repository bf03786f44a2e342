/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Opens a group of two processes by the program's own table, for spread.sh. The
 * second process is killed before the first one watches it, and the table waits
 * for it forever.
 *
 *  ended ROUND  kill the second process after its records of this many rounds
 *               (1 or 2) have arrived
 *
 * Prints the error that the first process gets.
 */

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cohort/bootstrap.h>
#include <cohort/cohort.h>

#define MOST 4096 /* largest size of a record, in bytes */

static int rounds; /* number of rounds for which process 1 sends its records */
static pid_t second;
/* pipes, named from the first process's point of view */
static int from[2], to[2];

/* The request in progress, of which there is one at a time */
static struct request {
	int round;
	size_t bytes;
	char *recv;
	char mine[MOST], other[3][MOST];
} r;

static void read_all(int fd, char *to_bytes, size_t bytes)
{
	ssize_t n;

	for (; bytes; bytes -= (size_t)n, to_bytes += n) {
		n = read(fd, to_bytes, bytes);
		if (n <= 0)
			exit(2);
	}
}

static int gather(void *send, void *recv, size_t bytes, void *info,
                  void **request)
{
	(void)info;
	if (bytes > MOST)
		return -1;
	r.round++;
	r.bytes = bytes;
	r.recv = recv;
	memcpy(r.mine, send, bytes);
	*request = &r;
	return write(second ? to[1] : from[1], send, bytes) != (ssize_t)bytes;
}

/* Test a request in the first process. */
static int test(void *request)
{
	int i;

	(void)request;
	if (r.round > rounds)
		return 1;
	if (r.round == 1) {
		for (i = 1; i <= rounds; i++)
			read_all(from[0], r.other[i], r.bytes);
		kill(second, SIGKILL);
		waitpid(second, NULL, 0);
	}
	memcpy(r.recv, r.mine, r.bytes);
	memcpy(r.recv + r.bytes, r.other[r.round], r.bytes);
	return 0;
}

static int test_second(void *request)
{
	(void)request;
	read_all(to[0], r.recv, r.bytes);
	memcpy(r.recv + r.bytes, r.mine, r.bytes);
	return 0;
}

static int release(void *request)
{
	(void)request;
	return 0;
}

int main(int argc, char **argv)
{
	struct cohort_bootstrap table = {
		.size = sizeof(table),
		.kind = COHORT_BOOTSTRAP_TABLE,
		.processes = 2,
		.allgather = gather,
		.req_test = test,
		.req_free = release,
	};
	struct cohort_group_options options;
	struct cohort_group *group;
	int device, rc;

	rounds = argc == 2 ? atoi(argv[1]) : 0;
	if (rounds < 1 || rounds > 2 || pipe(from) || pipe(to))
		return 2;
	second = fork();
	if (second == 0) {
		table.process = 1;
		table.req_test = test_second;
	}
	device = table.process;
	cohort_group_options_init(&options);
	options.bootstrap = &table;
	rc = cohort_group_open(&device, 1, &options, &group);
	printf("%s: %s\n", cohort_status_text(rc), cohort_last_error());
	return rc != COHORT_PROCESS_EXITED;
}
