/* SPDX-License-Identifier: Apache-2.0 */

/*
 * cohort top on a terminal
 *
 * A frame is one write, of the lines that have changed.  Signals are let in only while
 * the command waits, so they meet no half-drawn frame; each way out gives the terminal
 * back as it was.
 */

#include "cli/top/top.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/common/cli.h"

#define ENTER "\033[?1049h\033[?25l\033[H\033[2J"
#define LEAVE "\033[m\033[?25h\033[?1049l"

/* The longest line that is drawn. */
#define MOST_COLUMNS ((int)sizeof(((struct page_line *)NULL)->text) - 1)

static const int signals[] = { SIGINT,  SIGTERM, SIGHUP,  SIGQUIT,
	                       SIGTSTP, SIGCONT, SIGWINCH };

enum { SIGNALS = sizeof(signals) / sizeof(signals[0]) };

/* Set by the handler, while the command waits. */
static volatile sig_atomic_t caught[SIGNALS];

static struct {
	bool is_entered, is_saved, has_keys;
	struct termios former; /* of the time before the first frame */
	int rows, columns;

	/* What the terminal shows, a line for each row; NULL: not known. */
	struct page shown;
	bool is_known;

	char *frame;
	size_t used, room;
} screen;

/* ---- the terminal ------------------------------------------------------ */

static void send(const char *bytes, size_t n)
{
	struct pollfd out = { .fd = STDOUT_FILENO, .events = POLLOUT };
	ssize_t written;

	while (n) {
		written = write(STDOUT_FILENO, bytes, n);
		if (written < 0 && errno == EAGAIN)
			poll(&out, 1, 1000);
		else if (written < 0 && errno != EINTR)
			return;
		if (written < 0)
			continue;
		bytes += written;
		n -= (size_t)written;
	}
}

void terminal_leave(void)
{
	if (!screen.is_entered)
		return;
	screen.is_entered = false;
	send(LEAVE, sizeof(LEAVE) - 1);
	if (screen.has_keys)
		tcsetattr(STDIN_FILENO, TCSADRAIN, &screen.former);
}

static void find_size(void)
{
	struct winsize size;

	screen.rows = 24;
	screen.columns = 80;
	if (!ioctl(STDOUT_FILENO, TIOCGWINSZ, &size)) {
		screen.rows = size.ws_row ? size.ws_row : 24;
		screen.columns = size.ws_col ? size.ws_col : 80;
	}
	screen.is_known = false;
}

static void enter(void)
{
	struct termios mode;

	if (!screen.is_saved)
		screen.has_keys = !tcgetattr(STDIN_FILENO, &screen.former);
	screen.is_saved = true;
	if (screen.has_keys) {
		mode = screen.former;
		mode.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
		mode.c_cc[VMIN] = 1;
		mode.c_cc[VTIME] = 0;
		tcsetattr(STDIN_FILENO, TCSADRAIN, &mode);
	}
	screen.is_entered = true;
	send(ENTER, sizeof(ENTER) - 1);
	find_size();
}

/* ---- frames ------------------------------------------------------------ */

static void put(const char *bytes, size_t n)
{
	char *more;

	if (n > screen.room - screen.used) {
		more = realloc(screen.frame, 2 * (screen.room + n));
		if (!more)
			return;
		screen.frame = more;
		screen.room = 2 * (screen.room + n);
	}
	memcpy(screen.frame + screen.used, bytes, n);
	screen.used += n;
}

static const char *escape_of(enum page_look look)
{
	static const char *const looks[] = {
		[PAGE_PLAIN] = "\033[m",
		[PAGE_BOLD] = "\033[m\033[1m",
		[PAGE_TITLE] = "\033[m\033[7m",
		[PAGE_WARN] = "\033[m\033[33m",
	};
	const char *no_color = getenv("NO_COLOR");

	if (look == PAGE_WARN && no_color && *no_color)
		look = PAGE_BOLD;
	return looks[look];
}

static void put_row(int row, const struct page_line *line)
{
	char move[32];
	const char *escape = escape_of(line->look);
	size_t n = strlen(line->text);

	put(move, (size_t)snprintf(move, sizeof(move), "\033[%d;1H", row + 1));
	put(escape, strlen(escape));
	put(line->text, n);
	/* At the last column this would erase the last character. */
	if (n < (size_t)screen.columns)
		put("\033[m\033[K", 6);
}

static bool is_same(const struct page_line *a, const struct page_line *b)
{
	return a->look == b->look && strcmp(a->text, b->text) == 0;
}

/* Draw the page; it becomes what is shown, and gets the memory of what was. */
static void draw(struct page *p)
{
	static const struct page_line empty = { PAGE_PLAIN, "" };
	const struct page_line *line, *old;
	struct page shown;
	int row;

	screen.used = 0;
	for (row = 0; row < screen.rows; row++) {
		line = row < p->n ? &p->lines[row] : &empty;
		old = row < screen.shown.n ? &screen.shown.lines[row] : &empty;
		if (!screen.is_known || !is_same(line, old))
			put_row(row, line);
	}
	if (screen.used)
		send(screen.frame, screen.used);
	shown = screen.shown;
	screen.shown = *p;
	*p = shown;
	screen.is_known = true;
}

/* ---- signals ----------------------------------------------------------- */

static void handle(int number)
{
	int i;

	for (i = 0; i < SIGNALS; i++)
		if (signals[i] == number)
			caught[i] = 1;
}

static void block(sigset_t *former)
{
	struct sigaction action = { .sa_handler = handle };
	struct sigaction before;
	sigset_t set;
	int i;

	sigemptyset(&set);
	sigemptyset(&action.sa_mask);
	for (i = 0; i < SIGNALS; i++) {
		/* What the parent has ignored, as nohup does, stays so. */
		if (sigaction(signals[i], NULL, &before) ||
		    before.sa_handler == SIG_IGN)
			continue;
		sigaction(signals[i], &action, NULL);
		sigaddset(&set, signals[i]);
	}
	sigprocmask(SIG_BLOCK, &set, former);
}

/* Have the signal do what it does by default. */
static void obey(int number)
{
	struct sigaction action = { .sa_handler = SIG_DFL }, former;
	sigset_t one, before;

	sigemptyset(&action.sa_mask);
	sigemptyset(&one);
	sigaddset(&one, number);
	terminal_leave();
	sigaction(number, &action, &former);
	raise(number);
	sigprocmask(SIG_UNBLOCK, &one, &before);
	/* After a stop it goes on here. */
	sigprocmask(SIG_SETMASK, &before, NULL);
	sigaction(number, &former, NULL);
	enter();
}

static void attend_signals(void)
{
	int i;

	for (i = 0; i < SIGNALS; i++) {
		if (!caught[i])
			continue;
		caught[i] = 0;
		if (signals[i] == SIGWINCH) {
			find_size();
		} else if (signals[i] != SIGCONT) {
			obey(signals[i]);
		} else {
			/* After a stop that could not be caught: the shell has
			 * had the terminal. */
			enter();
		}
	}
}

/* ---- keys -------------------------------------------------------------- */

struct view {
	struct watch *watch;
	struct page_form form;
	struct page page;
	int shown; /* ranks */
	bool is_waiting, has_state;
	enum watch_state state; /* of the last round */
	uint64_t next_ns;       /* when the next round begins */
	bool quit;
};

static void scroll(struct view *v, int by)
{
	const int most = v->watch->sample.n - v->shown;

	v->form.scroll += by;
	if (v->form.scroll > most)
		v->form.scroll = most;
	if (v->form.scroll < 0)
		v->form.scroll = 0;
}

static void set_sort(struct view *v, enum top_sort sort)
{
	v->form.sort = sort;
	sample_sort(&v->watch->sample, sort);
}

static void attend_key(struct view *v, int key)
{
	const int all = v->watch->sample.n, page = v->shown > 1 ? v->shown : 1;

	switch (key) {
	case 'q':
	case 'Q':
		v->quit = true;
		break;
	case ' ':
		v->form.is_paused = !v->form.is_paused;
		v->next_ns = 0;
		break;
	case 'r':
		set_sort(v, TOP_BY_RANK);
		break;
	case 'l':
		set_sort(v, TOP_BY_LAST);
		break;
	case 'c':
		set_sort(v, TOP_BY_RATE);
		break;
	case 'j':
		scroll(v, 1);
		break;
	case 'k':
		scroll(v, -1);
		break;
	case 'd':
		scroll(v, page);
		break;
	case 'u':
		scroll(v, -page);
		break;
	case 'g':
		scroll(v, -all);
		break;
	case 'G':
		scroll(v, all);
		break;
	}
}

/* The key that the end of a sequence of bytes stands for: arrows, pages, home, end. */
static int key_of(const char *sequence)
{
	static const struct {
		const char *sequence;
		int key;
	} keys[] = {
		{ "[A", 'k' },  { "[B", 'j' },  { "OA", 'k' },  { "OB", 'j' },
		{ "[H", 'g' },  { "[F", 'G' },  { "OH", 'g' },  { "OF", 'G' },
		{ "[5~", 'u' }, { "[6~", 'd' }, { "[1~", 'g' }, { "[4~", 'G' },
	};
	size_t i;

	for (i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		if (strcmp(sequence, keys[i].sequence) == 0)
			return keys[i].key;
	return 0;
}

/* How many bytes at @at are one sequence behind an escape. */
static size_t sequence_length(const char *at, size_t n)
{
	size_t i = 1;

	if (n < 2 || (at[0] != '[' && at[0] != 'O'))
		return 0;
	while (i < n - 1 && (at[i] < '@' || at[i] > '~'))
		i++;
	return i + 1;
}

static void read_keys(struct view *v)
{
	char bytes[256], sequence[16];
	ssize_t n = read(STDIN_FILENO, bytes, sizeof(bytes)), i;
	size_t of;

	if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN)) {
		v->quit = true; /* the terminal is gone */
		return;
	}
	for (i = 0; i < n; i++) {
		of = bytes[i] == '\033' ? sequence_length(bytes + i + 1,
		                                          (size_t)(n - i - 1))
		                        : 0;
		if (of) {
			snprintf(sequence, sizeof(sequence), "%.*s", (int)of,
			         bytes + i + 1);
			attend_key(v, key_of(sequence));
		} else {
			attend_key(v, bytes[i]);
		}
		i += (ssize_t)of;
	}
}

/* ---- the loop ---------------------------------------------------------- */

static void show(struct view *v)
{
	struct watch *w = v->watch;
	char text[1400];

	/* The last column stays free: some terminals wrap as soon as it is
	 * written. */
	v->form.width = screen.columns - 1 < MOST_COLUMNS ? screen.columns - 1
	                                                  : MOST_COLUMNS;
	v->form.width = v->form.width ? v->form.width : 1;
	v->form.height = screen.rows;
	v->form.silent_ns = watch_silence(w, v->state);
	if (w->sample.n) {
		v->shown = page_make(&v->page, &w->sample, &v->form);
	} else {
		snprintf(text, sizeof(text),
		         "%s FIFO %.500s, for dumps in %.500s",
		         v->form.silent_ns ? "no answer yet from" : "asking by",
		         w->feed.fifo, w->feed.directory);
		page_tell(&v->page, &v->form, text);
	}
	draw(&v->page);
}

/* Wait for a key, a signal, or the time of the next step. */
static void wait_for_something(struct view *v, const sigset_t *former)
{
	struct pollfd in = { .fd = screen.has_keys ? STDIN_FILENO : -1,
		             .events = POLLIN };
	uint64_t now = clock_now(), ns = UINT64_MAX;
	struct timespec until;

	if (v->is_waiting)
		ns = WATCH_LOOK_NS;
	else if (!v->form.is_paused)
		ns = v->next_ns > now ? v->next_ns - now : 0;
	until = clock_timespec(ns);
	if (ppoll(&in, 1, ns == UINT64_MAX ? NULL : &until, former) > 0)
		read_keys(v);
}

/* True if the watch is over. */
static bool step(struct view *v)
{
	struct watch *w = v->watch;

	if (!v->is_waiting) {
		if (v->form.is_paused || clock_now() < v->next_ns)
			return false;
		watch_ask(w);
		v->next_ns = w->asked_ns + w->options->interval_ns;
		v->is_waiting = true;
	}
	v->state = watch_look(w);
	if (v->state == WATCH_WAITS) {
		/* While there is no answer it is still told for how long. */
		if (clock_now() - w->answered_ns >
		    w->options->interval_ns + 3 * NS_PER_S)
			v->state = WATCH_SILENT;
		return false;
	}
	v->is_waiting = false;
	if (v->state == WATCH_ANSWERED)
		sample_sort(&w->sample, v->form.sort);
	return v->state == WATCH_ENDED || v->state == WATCH_FAILED ||
	       v->state == WATCH_MANY;
}

int terminal_watch(struct watch *w)
{
	struct view v = {
		.watch = w,
		.form = { .is_terminal = true, .sort = w->options->sort },
	};
	bool is_over = false;
	sigset_t former;

	block(&former);
	atexit(terminal_leave);
	enter();
	while (!v.quit && !is_over) {
		is_over = step(&v);
		if (!is_over) {
			show(&v);
			wait_for_something(&v, &former);
			attend_signals();
		}
	}
	terminal_leave();
	page_free(&v.page);
	page_free(&screen.shown);
	free(screen.frame);
	sigprocmask(SIG_SETMASK, &former, NULL);
	return is_over ? (int)v.state : -1;
}
