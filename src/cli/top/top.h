/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_TOP_TOP_H
#define CLI_TOP_TOP_H

/*
 * cohort top: requests dumps of a group periodically, and shows what changes
 *
 *  top.c          options, and output without a terminal
 *  terminal.c     the terminal, with ncurses: keys, signals, frames
 *  watch_group.c  rounds: request dumps of a group, and collect the answers
 *  feed.c         sends requests for dumps, and reads the files that arrive
 *  sample.c       pure functions: compute the ranks' states and rates from
 *                 dumps
 *  page.c         pure functions: format a sample as lines of text
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
	TOP_BETWEEN, /* outside the library for less than TOP_OUTSIDE_NS */
	TOP_OUTSIDE, /* outside the library for at least TOP_OUTSIDE_NS */
	/* outside the library for at least TOP_OUTSIDE_NS, with operations in
	 * flight */
	TOP_WAITING,
	TOP_GONE,   /* the thread that called last has ended */
	TOP_SILENT, /* its process did not answer in this round */
};

#define TOP_OUTSIDE_NS UINT64_C(1000000000)

const char *top_state_name(enum top_state state);

struct top_rank {
	int rank, device, pid;
	int tid; /* id of the thread that called last, or 0 */
	enum top_state state;

	/* State of that thread, such as "asleep in futex", and its location in
	 * the program, such as "train_worker (train.c:168)"; "" if not known */
	char thread[THREAD_STATE_SIZE];
	char frame[PLACE_NAME];
	/* Name, tag and label of the last call, or "" */
	char call[32], tag[TAG_SIZE], label[TAG_SIZE];
	uint64_t bytes;
	uint64_t ago_ns; /* time since the last call started */

	uint64_t time_ns;     /* time of the dump */
	uint64_t ticket;      /* ticket of the last call */
	uint64_t collectives; /* number of collectives called so far */
	uint64_t behind;      /* lag behind the foremost rank, in collectives */

	/* Number of recorded operations that are not done. If is_more is true,
	 * older operations, which are not on record, may also be unfinished. */
	size_t in_flight;
	bool is_more;

	/* Rates per second since the previous sample or, in the first sample,
	 * since the first call on record; NAN if not known. Bytes are counted
	 * for all calls except copies and splits. */
	double collectives_rate, bytes_rate;

	/* number of collectives, out of @met, that this rank was the last to
	 * call */
	size_t last;
	double key; /* sort key */
};

struct top_sample {
	char group[64], host[64];
	int generation, world;
	uint64_t time_ns, wall_ns; /* times of the newest dump */
	struct cohort_cause cause; /* status COHORT_OK until the group ends */
	/* text such as "process 4711 was killed by signal 9", or "" */
	char gone[200];
	uint64_t missing[COHORT_RANK_WORDS]; /* ranks without a dump */
	/* number of collectives on record that all ranks have called */
	size_t met;
	int n;
	struct top_rank *ranks;
};

/* A process's dump of a group */
struct top_dump {
	struct top_dump *next;
	char file[NAME_MAX + 1];
	ino_t inode;
	struct timespec changed;
	/* round in which it arrived, or 0 if it is older than the first
	 * round */
	unsigned round;
	bool is_verdict;     /* written after a verdict, and not requested */
	struct trace *trace; /* contents, or NULL if it was not read */

	/* The members below are set by watch_group.c. */
	bool is_member; /* belongs to the group that is shown */
	int pidfd;      /* pidfd of the process that wrote it, or -1 */
	/* first dump of the same group, or NULL */
	const struct top_dump *group;

	/* The following members are valid only in the first dump of a group. */
	uint64_t ranks[COHORT_RANK_WORDS]; /* ranks of all dumps of the group */

	/* True if this group is shown or, while no group has been shown yet, if
	 * it matches the options. */
	bool is_shown;
};

/*
 * Compute a sample from @n dumps of a group, which are sorted by rank. @before
 * is the previous sample, or NULL. Dumps that did not arrive in @round are
 * shown as silent.
 */
void sample_take(struct top_sample *sample, struct top_dump *const *dumps,
                 int n, unsigned round, const struct top_sample *before);
void sample_free(struct top_sample *sample);

enum top_sort { TOP_BY_RANK, TOP_BY_LAST, TOP_BY_RATE };

/* Sort by rank, by time since the last call (longest first), or by rate (lowest
 * first). */
void sample_sort(struct top_sample *sample, enum top_sort sort);

/* ---- pages ------------------------------------------------------------- */

enum page_look { PAGE_PLAIN, PAGE_BOLD, PAGE_TITLE, PAGE_WARN };

struct page_line {
	enum page_look look;
	char text[400];
};

enum { PAGE_PASTS = 100 };

struct page {
	int width, height; /* size of the terminal, or 0 without a terminal */

	/* The last refreshes. The newest has index (n_past - 1) %
	 * PAGE_PASTS. */
	char past[PAGE_PASTS][160];
	unsigned n_past;
	int scroll; /* number of ranks to skip; page_make() limits it */
	enum top_sort sort;
	bool is_paused, has_ended;
	uint64_t silent_ns; /* time since the last answer */

	int n, room;
	struct page_line *lines;
};

/* Sort the sample and put it on the page. Return the number of ranks that are
 * shown. The caller must free @page->lines. */
int page_make(struct page *page, struct top_sample *sample);

/* Add a sample to the history, which fills the empty rows of a terminal. */
void page_add_sample(struct page *page, const struct top_sample *sample);
/* A number as text of up to six characters: "999", "12.3K", "1.2M", or "-" for
 * NAN. A time looks like "999us", "12.3s" or "3h07m". */
struct page_number {
	char at[24];
};

struct page_number page_count(double value);
struct page_number page_time(uint64_t ns);

/* ---- feeds ------------------------------------------------------------- */

enum feed_answer {
	FEED_ASKED,
	FEED_NOBODY, /* no process has the FIFO open, or it is missing */
	FEED_FAILED, /* opening or writing has failed; errno says why */
};

struct feed {
	const char *directory, *fifo;
	/* storage for the path that was not given */
	char found[PATH_MAX + NAME_MAX + 2];
	unsigned round; /* number of the round, or 0 before the first */
	struct top_dump *dumps;

	/* Description of a file that could not be read in this round, or "" */
	char problem[256];
};

/* Find the FIFO and the folder from the @n operands or the environment. All
 * members of @feed must be zero. Return CLI_OK, or an exit status after
 * printing an error. */
int feed_open(struct feed *feed, char *const *operands, int n);
void feed_close(struct feed *feed);

/* Request dumps from all groups that have the FIFO open. */
enum feed_answer feed_ask(const struct feed *feed);

/* Read the dumps that have arrived since the last call. Return false with errno
 * if the folder cannot be read. */
bool feed_poll(struct feed *feed);

/* Read the last @most operations of each rank in a file. feed_drop() frees the
 * result. */
struct trace *feed_read(const struct feed *feed, const char *file, size_t most);
void feed_drop(struct trace *trace);

/* Return whether the same process wrote both dumps, which must have been
 * read. */
bool feed_same_process(const struct top_dump *a, const struct top_dump *b);

/* ---- watching ---------------------------------------------------------- */

struct top_options {
	uint64_t interval_ns, count; /* @count is 0 for no limit */
	bool is_json, is_plain;
	const char *group; /* name of the group, or NULL for any */
	int pid;           /* pid of the process, or 0 for any */
};

enum watch_state {
	WATCH_WAITS,    /* there is nothing new */
	WATCH_ANSWERED, /* there is a new sample */
	WATCH_SILENT,   /* the deadline of the round has expired */

	/* The remaining states end the watch. */
	WATCH_ENDED,  /* the group has ended or was closed */
	WATCH_FAILED, /* an error has occurred; see @failed and @error */
	WATCH_MANY,   /* no group matches, or several do: see watch_list() */
};

struct watch {
	const struct top_options *options;
	struct feed feed;
	/* the newest sample; its n is 0 if there is none */
	struct top_sample sample;
	uint64_t next_ns;     /* time of the next watch_poll() */
	bool is_asked;        /* a round is in progress */
	uint64_t asked_ns;    /* start of the round */
	uint64_t again_ns;    /* time of the last write to the FIFO */
	uint64_t first_ns;    /* time of the first answer, or 0 */
	uint64_t answered_ns; /* time of the last sample, or of the start */
	/* time since which nobody has had the FIFO open, or 0 */
	uint64_t nobody_ns;
	bool is_silent; /* no process answered in the last round */

	const char *failed; /* name of the file that could not be used */
	int error;          /* error number from errno */
};

/* Read the answers that have arrived, and start a round if it is time. Call
 * this again at @next_ns. */
enum watch_state watch_poll(struct watch *watch);

/* Print an error: no group matches, or several do. */
void watch_list(const struct watch *watch);

/* After the end, store the cause in the sample. If there is none, store which
 * processes have ended without closing the group, and return false if any
 * have. */
bool watch_find_end(struct watch *watch);

/* Return the time without an answer, or 0 if a process answered in the last
 * round. */
uint64_t watch_silence(const struct watch *watch);

/* Set up the terminal for full-screen output. Return false after printing an
 * error. This always fails if the command was built without ncurses. */
bool terminal_open(void);

/* Watch on the terminal, then restore it. Return the state that ended the
 * watch, or any other state if the user quit. */
enum watch_state terminal_watch(struct watch *watch);

#endif
