/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_TOP_TOP_H
#define CLI_TOP_TOP_H

/*
 * The parts of cohort top, which has a group write dumps again and again, and
 * shows what changes
 *
 *  top.c          options, and the output that is no terminal's terminal.c
 *  the terminal, if there is ncurses: keys, signals, frames watch_group.c
 *  rounds: a group is asked, and answers, or does not, or has ended feed.c
 *  the FIFO, and the files that come sample.c       pure: what dumps say of the
 *  ranks, and how fast these were since page.c         pure: a sample as lines
 *  of text
 */

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>
#include <time.h>

#include "base/text.h"
#include "cli/trace/trace.h"

/* ---- samples ----------------------------------------------------------- */

enum top_state {
	TOP_NEVER,   /* no thread has called for the rank yet */
	TOP_IN_CALL, /* a thread is inside a call */
	TOP_BETWEEN, /* it is outside, since less than TOP_OUTSIDE_NS */
	TOP_OUTSIDE, /* and for longer */
	TOP_WAITING, /* the same, and some of its operations are not done */
	TOP_GONE,    /* the thread that called last does not live any more */
	TOP_SILENT,  /* its process did not answer this time: all is older */
};

#define TOP_OUTSIDE_NS UINT64_C(1000000000)

/* The word for a state. */
const char *top_state_name(enum top_state state);

struct top_rank {
	int rank, device, pid;
	enum top_state state;

	/* The last call; empty if there was none. */
	char call[32], tag[TAG_SIZE], label[TAG_SIZE];
	uint64_t bytes;
	uint64_t ago_ns; /* since it began */

	uint64_t time_ns;     /* of the dump */
	uint64_t ticket;      /* of the last call */
	uint64_t collectives; /* called so far */
	uint64_t behind;      /* the foremost rank, in collectives */

	/* Operations that are not done; more are, if all on record are not. */
	size_t in_flight;
	bool is_more;

	/* Since the sample before; or, in the first one, since the first call
	 * on record.  Bytes: of all calls but copies.  NAN: not known. */
	double collectives_rate, bytes_rate; /* a second */

	size_t last; /* collectives to which it came last, of @met */
	double key;  /* by which ranks are sorted */
};

struct top_sample {
	char group[64], host[64];
	int generation, world;
	uint64_t time_ns, wall_ns; /* of the newest dump */
	struct cohort_cause cause; /* status COHORT_OK: it has not ended */
	char gone[200]; /* "process 4711 was killed by signal 9", or "" */
	uint64_t missing[COHORT_RANK_WORDS]; /* ranks without a dump */
	size_t met; /* collectives on record that all ranks have called */
	int n;
	struct top_rank *ranks;
};

/* A process's dump of a group. */
struct top_dump {
	struct top_dump *next;
	char file[NAME_MAX + 1];
	ino_t inode;
	struct timespec changed;
	unsigned round;      /* in which it came; 0: it was there before */
	bool is_verdict;     /* it came, unasked */
	struct trace *trace; /* NULL: it was not read */

	/* Set by watch_group.c. */
	bool is_member;               /* of the group that is shown */
	int pidfd;                    /* of the process that wrote it, or -1 */
	const struct top_dump *group; /* its first dump; NULL: not shown */

	/* Of the first dump of a group: the ranks of all its dumps; and whether
	 * the group is shown or, before one is, matches the options. */
	uint64_t ranks[COHORT_RANK_WORDS];
	bool is_meant;
};

/*
 * Make a sample of @n dumps of one group, by rank.  @before: the sample before,
 * or NULL.  Dumps that did not come in @round are shown as silent.  False
 * without memory.
 */
bool sample_take(struct top_sample *sample, struct top_dump *const *dumps,
                 int n, unsigned round, const struct top_sample *before);
void sample_free(struct top_sample *sample);

enum top_sort { TOP_BY_RANK, TOP_BY_LAST, TOP_BY_RATE };

/* "rank", "last", "rate"; NULL for no sort. */
const char *top_sort_name(int sort);

/* Sort by rank, by the longest time since the last call, or by the lowest
 * rate. */
void sample_sort(struct top_sample *sample, enum top_sort sort);

/* ---- pages ------------------------------------------------------------- */

enum page_look { PAGE_PLAIN, PAGE_BOLD, PAGE_TITLE, PAGE_WARN };

struct page_line {
	enum page_look look;
	char text[400];
};

struct page {
	/* Of a terminal, which has keys; 0: it is none. */
	int width, height;
	int scroll; /* ranks to leave out at the top; page_make() limits it */
	enum top_sort sort;
	bool is_paused, has_ended;
	uint64_t silent_ns; /* how long there was no answer */

	int n, room;
	struct page_line *lines;
};

/* Sort the sample, and put it on the page; returns how many ranks are shown.
 * The caller frees @lines in the end. */
int page_make(struct page *page, struct top_sample *sample);

/* Numbers for a column of six: "999", "12.3K", "1.2M", "-" for NAN; "999us",
 * "12.3s", "3h07m". */
struct page_number {
	char at[24];
};

struct page_number page_count(double value);
struct page_number page_time(uint64_t ns);

/* ---- feeds ------------------------------------------------------------- */

enum feed_answer {
	FEED_ASKED,
	FEED_NOBODY, /* no process has the FIFO open, or it is not there */
	FEED_FAILED, /* errno says why */
};

struct feed {
	const char *directory, *fifo;
	char found[PATH_MAX + NAME_MAX + 2]; /* one of both */
	unsigned round;                      /* 0: nobody was asked yet */
	struct top_dump *dumps;

	/* About a file that could not be read in this round, or "". */
	char problem[256];
};

/* Find the FIFO and the folder, by the @n operands or the environment, for a
 * feed of zeros.  CLI_OK, or an exit status after a complaint. */
int feed_open(struct feed *feed, char *const *operands, int n);
void feed_close(struct feed *feed);

/* Ask all groups that have the FIFO for a dump. */
enum feed_answer feed_ask(const struct feed *feed);

/* Read what has come since the last look.  False with errno if the folder
 * cannot be read. */
bool feed_look(struct feed *feed);

/* Read a file, the last @most operations of each rank; feed_drop() frees
 * that. */
struct trace *feed_read(const struct feed *feed, const char *file, size_t most);
void feed_drop(struct trace *trace);

/* True if one process wrote both, which are read. */
bool feed_same_process(const struct top_dump *a, const struct top_dump *b);

/* ---- watching ---------------------------------------------------------- */

struct top_options {
	uint64_t interval_ns, count; /* 0: any number */
	bool is_json, is_plain;
	const char *group; /* NULL: any */
	int pid;           /* 0: any */
	enum top_sort sort;
};

enum watch_state {
	WATCH_WAITS,    /* nothing is new */
	WATCH_ANSWERED, /* there is a new sample */
	WATCH_SILENT,   /* the deadline has passed */

	/* The watch is over. */
	WATCH_ENDED,  /* the group has ended, or was closed */
	WATCH_FAILED, /* @failed and @error say why */
	WATCH_MANY,   /* no group, or several: see watch_list() */
};

struct watch {
	const struct top_options *options;
	struct feed feed;
	struct top_sample sample; /* the newest; n 0: there was none */
	uint64_t next_ns;         /* when to look again */
	bool is_asked;        /* in a round, of which not all is known yet */
	uint64_t asked_ns;    /* when the round began */
	uint64_t again_ns;    /* when the FIFO was written to last */
	uint64_t first_ns;    /* when the first answer came, 0: none has */
	uint64_t answered_ns; /* when the last sample came, or the start */
	uint64_t nobody_ns;   /* since when nobody has the FIFO; 0: one has */
	bool is_silent;       /* nobody has answered in the last round */

	const char *failed; /* what could not be used */
	int error;          /* errno */
};

/* Look what has come, and begin a round if it is time; to be called again at
 * @next_ns. */
enum watch_state watch_look(struct watch *watch);

/* Complain that no group, or none of several ones, can be chosen. */
void watch_list(const struct watch *watch);

/* After the end, store the cause in the sample or, if there is none, which of
 * its processes have ended without closing the group.  False if such have, as
 * far as is known. */
bool watch_find_end(struct watch *watch);

/* How long there has been no answer, 0: there was one in the last round. */
uint64_t watch_silence(const struct watch *watch);

/* Take the terminal; false after a complaint, always if the command was built
 * without ncurses. */
bool terminal_open(void);

/* Watch on the terminal, and give it back.  Returns the state in which the
 * watch ended; another one if the user has ended it. */
enum watch_state terminal_watch(struct watch *watch);

#endif
