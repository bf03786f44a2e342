/* SPDX-License-Identifier: Apache-2.0 */

/*
 * cohort top on a terminal, with ncurses
 *
 * Signals are blocked except while the command waits for a key, so that no
 * handler interrupts ncurses. Every exit path restores the terminal.
 */

#include "cli/top/top.h"

#include "cli/common/cli.h"

#ifdef HAVE_NCURSES

#include <curses.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/util.h"

#define MOST_COLUMNS ((int)sizeof(((struct page_line *)NULL)->text) - 1)

/* The lowest signal that arrived while the command waited, or 0. Signals that
 * end the command are lower than SIGCONT and SIGTSTP. */
static volatile sig_atomic_t caught;

/* Signal mask while the command waits */
static sigset_t former;

static attr_t warning = A_BOLD;

static void handle(int number)
{
	if (!caught || number < caught)
		caught = number;
}

/* Install the signal handlers, and block the signals except in wait_for_key(),
 * because ncurses would lose a SIGTSTP that arrives while it draws. SIGWINCH is
 * also blocked; ncurses handles it. */
static void block_signals(void)
{
	static const int handled[] = { SIGINT,  SIGTERM, SIGHUP,
		                       SIGQUIT, SIGTSTP, SIGCONT };
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGWINCH);
	for (size_t i = 0; i < ARRAY_SIZE(handled); i++) {
		sigaddset(&set, handled[i]);
		/* If the parent ignores a signal, as nohup does, continue to
		 * ignore it. */
		if (signal(handled[i], handle) == SIG_IGN)
			signal(handled[i], SIG_IGN);
	}
	sigprocmask(SIG_BLOCK, &set, &former);
}

static void leave(void)
{
	if (!isendwin())
		endwin();
}

/* Restore the terminal, and let the signal take its default action. After a
 * stop or SIGCONT, the next frame draws everything, because the shell has used
 * the terminal. */
static void default_action(int number)
{
	sigset_t blocked;

	caught = 0;
	leave();
	if (number != SIGCONT) {
		signal(number, SIG_DFL);
		raise(number);
		sigprocmask(SIG_SETMASK, &former, &blocked);
		sigprocmask(SIG_SETMASK, &blocked, NULL);
		signal(number, handle);
	}
}

bool terminal_open(void)
{
	const char *no_color = getenv("NO_COLOR");

	block_signals();
	/* If standard input is not a terminal, read no keys. */
	if (!isatty(STDIN_FILENO) && !freopen("/dev/null", "r", stdin)) {
		cli_error("/dev/null: %s", strerror(errno));
		return false;
	}
	if (!newterm(NULL, stdout, stdin)) {
		cli_error("TERM: no terminfo entry for \"%s\": set another "
		          "TERM, or use --plain",
		          getenv("TERM"));
		return false;
	}
	atexit(leave);
	cbreak();
	noecho();
	nodelay(stdscr, true);
	keypad(stdscr, true);
	curs_set(0);
	if ((!no_color || !*no_color) && start_color() == OK) {
		use_default_colors();
		init_pair(1, COLOR_YELLOW, -1);
		warning = COLOR_PAIR(1);
	}
	return true;
}

struct view {
	struct watch *watch;
	struct page page;
	int shown; /* number of ranks on the screen */
	bool quit;
};

static void handle_key(struct view *v, int key)
{
	switch (key) {
	case 'q':
		v->quit = true;
		break;
	case ' ':
		v->page.is_paused = !v->page.is_paused;
		if (!v->watch->is_asked)
			v->watch->next_ns = 0;
		break;
	case 'r':
		v->page.sort = TOP_BY_RANK;
		break;
	case 'l':
		v->page.sort = TOP_BY_LAST;
		break;
	case 'c':
		v->page.sort = TOP_BY_RATE;
		break;
	case 'j':
	case KEY_DOWN:
		v->page.scroll++;
		break;
	case 'k':
	case KEY_UP:
		v->page.scroll--;
		break;
	case KEY_NPAGE:
		v->page.scroll += v->shown;
		break;
	case KEY_PPAGE:
		v->page.scroll -= v->shown;
		break;
	case 'g':
	case KEY_HOME:
		v->page.scroll = 0;
		break;
	case 'G':
	case KEY_END:
		v->page.scroll = v->watch->sample.n;
		break;
	}
}

static void wait_for_key(struct view *v)
{
	struct pollfd in = { .fd = isatty(STDIN_FILENO) ? STDIN_FILENO : -1,
		             .events = POLLIN };
	const uint64_t now = clock_now(), next = v->watch->next_ns;
	const struct timespec until =
		clock_timespec(next > now ? next - now : 0);
	int key;

	ppoll(&in, 1, v->page.is_paused && !v->watch->is_asked ? NULL : &until,
	      &former);
	if (in.revents & ~POLLIN)
		v->quit = true; /* the terminal was closed */
	/* More signals can arrive while the command is stopped. */
	while (caught)
		default_action(caught);
	/* getch() also makes ncurses handle a new terminal size. */
	while (!v->quit && (key = getch()) != ERR)
		handle_key(v, key);
}

static void draw_sample(struct view *v)
{
	const attr_t looks[] = {
		[PAGE_PLAIN] = A_NORMAL,
		[PAGE_BOLD] = A_BOLD,
		[PAGE_TITLE] = A_REVERSE,
		[PAGE_WARN] = warning,
	};
	/* Do not use the last column, because some terminals wrap when it is
	 * written. */
	const int width = COLS > 1 ? COLS - 1 : 1;
	const struct page_line *line;

	v->page.width = MIN(width, MOST_COLUMNS);
	v->page.height = LINES;
	v->page.silent_ns = watch_silence(v->watch);
	v->shown = page_make(&v->page, &v->watch->sample);
	for (int row = 0; row < v->page.n; row++) {
		line = &v->page.lines[row];
		attrset((int)looks[line->look]);
		mvprintw(row, 0, "%-*s", line->look == PAGE_TITLE ? width : 0,
		         line->text);
	}
}

static void draw(struct view *v)
{
	const struct watch *w = v->watch;

	erase();
	if (w->sample.n)
		draw_sample(v);
	else
		mvprintw(0, 0, "%s FIFO %s, for dumps in %s\nq quit",
		         w->is_silent ? "no answer yet from"
		                      : "waiting for an answer from",
		         w->feed.fifo, w->feed.directory);
	refresh();
}

enum watch_state terminal_watch(struct watch *w)
{
	struct view v = { .watch = w };
	enum watch_state state = WATCH_WAITS;

	while (!v.quit) {
		if (w->is_asked || !v.page.is_paused)
			state = watch_poll(w);
		if (state > WATCH_SILENT)
			break;
		if (state == WATCH_ANSWERED)
			page_add_sample(&v.page, &w->sample);
		draw(&v);
		wait_for_key(&v);
	}
	leave();
	free(v.page.lines);
	sigprocmask(SIG_SETMASK, &former, NULL);
	return state;
}

#else

bool terminal_open(void)
{
	cli_error("built without ncurses: install libncurses-dev "
	          "(Debian, Ubuntu) and pkg-config, then run make "
	          "again; or use --plain");
	return false;
}

enum watch_state terminal_watch(struct watch *w)
{
	(void)w;
	return WATCH_WAITS;
}

#endif
