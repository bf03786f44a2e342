/* SPDX-License-Identifier: Apache-2.0 */

#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "base/thread.h"
#include "base/util.h"

#define PREFIX "cohort: "
#define LINE_SIZE 500
#define VERDICT_SIZE 16384

/* Number of bytes that can be written without blocking to a pipe that poll()
 * reports as writable. */
#define CHUNK 4096

/* Maximum time that a verdict waits for stderr to become writable. */
#define PATIENCE_MS 1000

/* Atomic; number of lines dropped since the last line that was written. */
static atomic_uint dropped;

struct log log_parse(const char *text)
{
	static const char *const names[] = { "line", "none", "verdict" };
	struct log log = { .form = LOG_INVALID };
	int i;

	if (!text || !*text)
		text = names[LOG_LINE];
	for (i = LOG_LINE; i < LOG_FILE; i++)
		if (strcmp(text, names[i]) == 0)
			log.form = (enum log_form)i;
	if (strchr(text, '/')) {
		log.form = LOG_FILE;
		text_copy(log.path, sizeof(log.path), text);
	}
	return log;
}

bool log_wants_verdicts(const struct log *log)
{
	return log->form == LOG_VERDICT || log->form == LOG_FILE;
}

/* Open the log's file in nonblocking mode, so that opening a FIFO without a
 * reader is an error. */
static int open_file(const struct log *log)
{
	return open(log->path,
	            O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY |
	                    O_NONBLOCK,
	            0600);
}

int log_check_file(const struct log *log)
{
	int fd = log->form == LOG_FILE ? open_file(log) : -1;

	if (fd >= 0)
		close(fd);
	return log->form == LOG_FILE && fd < 0 ? errno : 0;
}

/* Write in pieces that do not block.  Return false if @fd does not become
 * writable within @patience_ms. */
static bool write_in_pieces(int fd, const char *bytes, size_t n,
                            int patience_ms)
{
	struct pollfd ready = { .fd = fd, .events = POLLOUT };
	ssize_t piece, written;

	for (; n; bytes += piece, n -= (size_t)piece) {
		piece = (ssize_t)MIN(n, CHUNK);
		if (poll(&ready, 1, patience_ms) <= 0 ||
		    ready.revents != POLLOUT)
			return false;
		do
			written = write_quietly(fd, bytes, (size_t)piece,
			                        SIGPIPE, EPIPE);
		while (written < 0 && errno == EINTR);
		if (written != piece)
			return false;
	}
	return true;
}

/* Append to the log's file.  If that fails, write to stderr. */
static bool put_log(const struct log *log, const char *bytes, size_t n,
                    int patience_ms)
{
	int fd = log->form == LOG_FILE ? open_file(log) : -1;
	bool is_written = fd >= 0 && write_in_pieces(fd, bytes, n, patience_ms);

	if (fd >= 0)
		close(fd);
	return is_written ||
	       write_in_pieces(STDERR_FILENO, bytes, n, patience_ms);
}

/* End the line that starts at @line with a newline, and replace its control
 * characters.  Does nothing if the text was truncated in an earlier line.  The
 * buffer must be one byte larger than the room in @t. */
static void end_line(struct text *t, char *line)
{
	for (; *line; line++)
		if ((unsigned char)*line < ' ' || *line == '\177')
			*line = ' ';
	if (t->at[-1] == '\n')
		return;
	memcpy(t->at++, "\n", sizeof("\n"));
	if (t->room)
		t->room--;
}

void log_line(const struct log *log, const char *format, ...)
{
	char line[LINE_SIZE + 1];
	struct text t = { line, LINE_SIZE };
	unsigned before;
	va_list args;

	if (log->form == LOG_NONE)
		return;
	before = atomic_exchange(&dropped, 0);
	text_add(&t, PREFIX);
	if (before)
		text_add(&t, "(%u earlier line%s lost: stderr was full) ",
		         before, before > 1 ? "s were" : " was");
	va_start(args, format);
	text_vadd(&t, format, args);
	va_end(args);
	end_line(&t, line);
	if (!put_log(log, line, strlen(line), 0))
		atomic_fetch_add(&dropped, before + 1);
}

static void add_line(struct text *t, const char *what, const char *text)
{
	char *line = t->at;

	text_add(t, "%s%s", what, text);
	end_line(t, line);
}

static bool is_blamed(const struct cohort_verdict *v, int rank)
{
	return rank == v->rank || v->missing[rank / 64] >> rank % 64 & 1;
}

static void add_reports(struct text *t, const struct cohort_verdict *v,
                        bool blamed)
{
	const struct cohort_rank_report *r;

	for (r = v->ranks; r < v->ranks + v->size; r++) {
		if (is_blamed(v, r->rank) != blamed)
			continue;
		add_line(t, "  ", r->text);
		if (r->stack && *r->stack)
			add_line(t, "    stack: ", r->stack);
	}
}

void log_verdict(const struct log *log, const struct cohort_verdict *v)
{
	char text[VERDICT_SIZE + 1];
	struct text t = { text, VERDICT_SIZE };

	if (!log_wants_verdicts(log))
		return;
	text_add(&t, PREFIX "group \"%s\" (generation %d)%s ", v->group,
	         v->generation,
	         v->stage == COHORT_STAGE_ENDED ? " ended:" : ":");
	text_add(&t, "%s", v->text);
	end_line(&t, text);
	add_reports(&t, v, true);
	add_reports(&t, v, false);
	put_log(log, text, strlen(text), PATIENCE_MS);
}
