/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Counters, read from memory: no lock is taken
 */

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "api/communicator.h"
#include "api/group.h"
#include "base/sized.h"
#include "base/status.h"
#include "base/text.h"
#include "base/util.h"
#include "core/pair.h"

static uint64_t load(const _Atomic uint64_t *count)
{
	return atomic_load_explicit(count, memory_order_relaxed);
}

/* How many records were overwritten. */
static uint64_t lost_of(const struct cohort_comm *c)
{
	uint64_t last = load(&c->tickets.last), slots = c->clique->slots;

	return last > slots ? last - slots : 0;
}

static void fill(const struct cohort_comm *c, struct cohort_stats *s)
{
	const struct clique *q = c->clique;
	int i;

	s->operations = load(&c->tickets.last);
	s->collectives = load(&c->agreement.collectives);
	s->transfers = pair_count(c);
	s->bytes = load(&c->recorder.bytes);
	s->waits = load(&c->thread.waits);
	s->captured = load(&c->captured);
	s->lost_records = lost_of(c);
	s->slow = load(&q->counts.slow);
	s->warnings = load(&q->counts.warnings);
	s->aborts = clique_cause(q) != NULL;
	s->stops = load(&q->counts.stops);
	s->starved = load(&q->counts.starved);
	for (i = 0; i < COUNTED_KINDS; i++)
		s->verdicts[i] = load(&q->counts.verdicts[i]);
}

int cohort_stats(struct cohort_comm *comm, struct cohort_stats *stats)
{
	struct cohort_stats all = { .size = 0 };
	int rc = comm_check(comm);

	if (rc != COHORT_OK)
		return rc;
	if (!stats)
		return error_set(COHORT_INVALID, "stats is NULL");
	rc = sized_check("stats", stats->size,
	                 offsetof(struct cohort_stats, bytes),
	                 "was it set to sizeof(*stats)?");
	if (rc != COHORT_OK)
		return rc;
	fill(comm, &all);
	all.size = stats->size;
	sized_fill(stats, stats->size, &all, sizeof(all));
	return COHORT_OK;
}

/* ---- as text ---------------------------------------------------------- */

/* The file as it is written, piece by piece. */
struct output {
	int fd;
	int error; /* errno of the first write that failed */
	char line[512];
};

static void flush(struct output *o, const struct text *t)
{
	size_t n = (size_t)(t->at - o->line), done = 0;
	ssize_t written;

	while (done < n && !o->error) {
		written = write(o->fd, o->line + done, n - done);
		if (written >= 0)
			done += (size_t)written;
		else if (errno != EINTR)
			o->error = errno;
	}
}

/* Write a label's value.  The group's name is the caller's, and may not be
 * UTF-8. */
static void add_name(struct text *t, const char *name)
{
	int n;

	for (; *name; name += n ? n : 1) {
		n = text_character(name);
		if (!n)
			text_add(t, TEXT_NO_CHARACTER);
		else if (*name == '\n')
			text_add(t, "\\n");
		else if (*name == '"' || *name == '\\')
			text_add(t, "\\%c", *name);
		else
			text_add(t, "%.*s", n, name);
	}
}

static void add_labels(struct text *t, const struct clique *q)
{
	text_add(t, "{group=\"");
	add_name(t, q->name);
	text_add(t, "\",generation=\"%d\"", q->generation);
}

static void write_head(struct output *o, const char *name, const char *help)
{
	struct text t = { o->line, sizeof(o->line) };

	text_add(&t,
	         "# HELP cohort_%s_total %s\n# TYPE cohort_%s_total counter\n",
	         name, help, name);
	flush(o, &t);
}

/* One line a rank. */
static void write_ranks(struct output *o, const struct clique *q,
                        const char *name, size_t offset)
{
	struct cohort_stats s;
	struct text t;
	uint64_t value;
	int r;

	for (r = 0; r < q->size; r++) {
		t = (struct text){ o->line, sizeof(o->line) };
		fill(&q->comms[r], &s);
		memcpy(&value, (const char *)&s + offset, sizeof(value));
		text_add(&t, "cohort_%s_total", name);
		add_labels(&t, q);
		text_add(&t, ",rank=\"%d\",device=\"%d\"} %llu\n",
		         q->comms[r].rank, q->comms[r].device,
		         (unsigned long long)value);
		flush(o, &t);
	}
}

static void write_group(struct output *o, const struct clique *q,
                        const char *name, uint64_t value)
{
	struct text t = { o->line, sizeof(o->line) };

	text_add(&t, "cohort_%s_total", name);
	add_labels(&t, q);
	text_add(&t, "} %llu\n", (unsigned long long)value);
	flush(o, &t);
}

static void write_verdicts(struct output *o, const struct clique *q)
{
	struct text t;
	int kind;

	write_head(o, "verdicts", "Verdicts by kind, without warnings.");
	for (kind = 1; kind <= COHORT_VERDICT_PROCESS_STOPPED; kind++) {
		t = (struct text){ o->line, sizeof(o->line) };
		text_add(&t, "cohort_verdicts_total");
		add_labels(&t, q);
		text_add(&t, ",kind=\"%s\"} %llu\n", cohort_verdict_text(kind),
		         (unsigned long long)load(&q->counts.verdicts[kind]));
		flush(o, &t);
	}
}

static void write_all(struct output *o, const struct clique *q)
{
	static const struct {
		const char *name, *help;
		size_t offset;
		bool is_of_group;
	} counters[] = {
#define COUNTER(field, help, of_group)                                         \
	{ #field, help, offsetof(struct cohort_stats, field), of_group }
		COUNTER(operations, "Operations that were queued.", false),
		COUNTER(collectives, "Collectives that were called.", false),
		COUNTER(transfers, "Sends and receives.", false),
		COUNTER(bytes, "Bytes of the operations' tensors.", false),
		COUNTER(waits, "Waits for operations that were not done yet.",
		        false),
		COUNTER(captured, "Calls that went into CUDA graphs.", false),
		COUNTER(lost_records, "Records that were overwritten.", false),
		COUNTER(slow, "Operations that were reported as slow.", true),
		COUNTER(warnings, "Warnings.", true),
		COUNTER(aborts, "Ends with a cause.", true),
		COUNTER(stops, "Times that the process did not run.", true),
		COUNTER(starved, "Times that the watchdog was starved.", true),
#undef COUNTER
	};
	struct cohort_stats s;
	uint64_t value;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(counters); i++) {
		write_head(o, counters[i].name, counters[i].help);
		if (!counters[i].is_of_group) {
			write_ranks(o, q, counters[i].name, counters[i].offset);
			continue;
		}
		fill(&q->comms[0], &s);
		memcpy(&value, (const char *)&s + counters[i].offset,
		       sizeof(value));
		write_group(o, q, counters[i].name, value);
	}
	write_verdicts(o, q);
}

int cohort_stats_write(struct cohort_group *group, int fd)
{
	struct output o = { .fd = fd };
	int rc = group_check(group);

	if (rc != COHORT_OK)
		return rc;
	write_all(&o, group_clique(group));
	return o.error ? error_set(COHORT_SYSTEM, "cannot write to fd %d: %s",
	                           fd, strerror(o.error))
	               : COHORT_OK;
}
