/* SPDX-License-Identifier: Apache-2.0 */

/*
 * cohort top on a terminal, with ncurses
 *
 * Signals are blocked except while the command waits for a key, so that no
 * handler interrupts ncurses.  Every exit path restores the terminal.
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

/* The longest line that is drawn. */
#define MOST_COLUMNS ((int)sizeof(((struct page_line *)NULL)->text) - 1)

/* The signal that came while the command waited, 0 for none.  Of several the
 * lowest counts, as those that end the command are below SIGCONT and
 * SIGTSTP. */
static volatile sig_atomic_t caught;

/* The mask while the command waits. */
static sigset_t former;

static attr_t warning = A_BOLD;

/* ---- signals ----------------------------------------------------------- */

static void handle(int number)
{
	if (!caught || number < caught)
		caught = number;
}

/* Handle signals, all of which are blocked but in wait_for_key().  ncurses
 * handles SIGWINCH; it would lose a SIGTSTP that comes while it draws. */
static void block_signals(void)
{
	static const int handled[] = { SIGINT,  SIGTERM, SIGHUP,
		                       SIGQUIT, SIGTSTP, SIGCONT };
	sigset_t set;
	size_t i;

	sigemptyset(&set);
	sigaddset(&set, SIGWINCH);
	for (i = 0; i < ARRAY_SIZE(handled); i++) {
		sigaddset(&set, handled[i]);
		/* What the parent has ignored, as nohup does, stays so. */
		if (signal(handled[i], handle) == SIG_IGN)
			signal(handled[i], SIG_IGN);
	}
	sigprocmask(SIG_BLOCK, &set, &former);
}

/* Give the terminal back. */
static void leave(void)
{
	if (!isendwin())
		endwin();
}

/* Give the terminal back, and have the signal do what it does by default.  The
 * next frame takes the terminal again: after a stop, or after SIGCONT, because
 * the shell has had it. */
static void obey(int number)
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

/* ---- the screen -------------------------------------------------------- */

bool terminal_open(void)
{
	const char *no_color = getenv("NO_COLOR");

	block_signals();
	/* Without a terminal for keys there are none. */
	if (!isatty(STDIN_FILENO) && !freopen("/dev/null", "r", stdin)) {
		cli_complain("top", "/dev/null: %s", strerror(errno));
		return false;
	}
	if (!newterm(NULL, stdout, stdin)) {
		cli_complain("top",
		             "TERM: no terminfo entry for '%s': set another "
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

/* ---- keys -------------------------------------------------------------- */

struct view {
	struct watch *watch;
	struct page page;
	int shown; /* ranks */
	bool quit;
};

static void attend_key(struct view *v, int key)
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

/* Wait for keys, a signal, or the time of the next step. */
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
		v->quit = true; /* the terminal is gone */
	/* More may come while the command is stopped. */
	while (caught)
		obey(caught);
	/* Has ncurses attend to a new size, too. */
	while (!v->quit && (key = getch()) != ERR)
		attend_key(v, key);
}

/* ---- the loop ---------------------------------------------------------- */

static void draw_sample(struct view *v)
{
	const attr_t looks[] = {
		[PAGE_PLAIN] = A_NORMAL,
		[PAGE_BOLD] = A_BOLD,
		[PAGE_TITLE] = A_REVERSE,
		[PAGE_WARN] = warning,
	};
	/* The last column stays free: some terminals wrap as soon as it is
	 * written. */
	const int width = COLS > 1 ? COLS - 1 : 1;
	const struct page_line *line;
	int row;

	v->page.width = MIN(width, MOST_COLUMNS);
	v->page.height = LINES;
	v->page.silent_ns = watch_silence(v->watch);
	v->shown = page_make(&v->page, &v->watch->sample);
	for (row = 0; row < v->page.n; row++) {
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
		         w->is_silent ? "no answer yet from" : "asking by",
		         w->feed.fifo, w->feed.directory);
	refresh();
}

enum watch_state terminal_watch(struct watch *w)
{
	struct view v = { .watch = w, .page = { .sort = w->options->sort } };
	enum watch_state state = WATCH_WAITS;

	while (!v.quit) {
		if (w->is_asked || !v.page.is_paused)
			state = watch_look(w);
		if (state > WATCH_SILENT)
			break;
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
	cli_complain("top", "built without ncurses: install libncurses-dev "
	                    "(Debian, Ubuntu) and pkg-config, then make "
	                    "again; or use --plain");
	return false;
}

enum watch_state terminal_watch(struct watch *w)
{
	(void)w;
	return WATCH_WAITS;
}

#endif
