/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Races the recorder's writer with readers that also report times to it
 *
 * Each record that a reader gets must be complete, with its own times and tag.
 */

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/recorder.h"
#include "support/stress.h"

#define SLOTS 16
#define READERS 2
#define PER_ROUND 20000
#define TAGS 1000 /* more than the recorder keeps */

static struct recorder recorder;
static _Atomic uint64_t newest;
static atomic_bool stop;
static atomic_ulong whole, gone;

/* Write a record whose contents all derive from its ticket. */
static void write_one(uint64_t t)
{
	const struct cohort_tensor tensor = { NULL, NULL, t * 3,
		                              (int)(t % 12) };
	const struct op op = {
		.kind = (enum op_kind)(t % 7),
		.redop = (int)(t % 5),
		.root = (int)(t % 1000),
		.tensors = &tensor,
		.n = 1,
		.stream = (void *)(uintptr_t)(t * 11),
	};

	char tag[TAG_SIZE];

	snprintf(tag, sizeof(tag), "tag %d", (int)(t % TAGS));
	tag_set(&recorder.tags, tag);
	recorder_begin(&recorder, t, &op, (uint32_t)t, (int)(t % 999), t * 5);
	atomic_store(&newest, t);
	recorder_end(&recorder, t, COHORT_OK);
}

static void read_one(uint64_t t)
{
	char tag[TAG_SIZE];
	struct record r;

	recorder_set_started(&recorder, t, t * 5 + t % 7);
	recorder_set_finished(&recorder, t, t * 5 + t % 11);

	if (!recorder_read(&recorder, t, &r)) {
		atomic_fetch_add(&gone, 1);
		return;
	}
	if (r.ticket != t || r.submitted_ns != t * 5 || r.count != t * 3 ||
	    r.digest != (uint32_t)t || r.type != (int)(t % 12) ||
	    r.kind != (enum op_kind)(t % 7) || r.redop != (int)(t % 5) ||
	    r.root != (int)(t % 1000) ||
	    r.stream != (void *)(uintptr_t)(t * 11))
		stress_fail("record %lu is incomplete", (unsigned long)t);
	if (r.tid != (int)(t % 999) ||
	    (r.started_ns && r.started_ns != t * 5 + t % 7) ||
	    (r.finished_ns && r.finished_ns != t * 5 + t % 11))
		stress_fail("record %lu has another record's times",
		            (unsigned long)t);
	tag_read(&recorder.tags, r.tag, tag);
	/*
	 * A reader that did not run while 65,536 texts were set finds another
	 * text, but by then the record was overwritten as well.
	 */
	if (*tag && atoi(tag + strlen("tag ")) != (int)(t % TAGS) &&
	    recorder_read(&recorder, t, &r))
		stress_fail("record %lu has tag %s", (unsigned long)t, tag);
	if (r.outcome != COHORT_OK && r.outcome != COHORT_TIMED_OUT)
		stress_fail("record %lu has outcome %d", (unsigned long)t,
		            r.outcome);
	atomic_fetch_add(&whole, 1);
}

static void *reader(void *arg)
{
	uint64_t seed = (uint64_t)(uintptr_t)arg, t;

	while (!atomic_load(&stop)) {
		t = atomic_load(&newest);
		if (t > SLOTS)
			read_one(t - stress_random(&seed) % SLOTS);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t threads[READERS];
	uint64_t t = 0;
	long i;

	if (recorder_init(&recorder, SLOTS) != COHORT_OK)
		return 1;
	for (i = 0; i < READERS; i++)
		pthread_create(&threads[i], NULL, reader, (void *)i);
	while (stress_continue(argc, argv))
		for (i = 0; i < PER_ROUND; i++)
			write_one(++t);
	atomic_store(&stop, true);
	for (i = 0; i < READERS; i++)
		pthread_join(threads[i], NULL);
	recorder_fini(&recorder);
	printf("%lu written, %lu read whole, %lu gone\n", (unsigned long)t,
	       (unsigned long)whole, (unsigned long)gone);
	return !whole;
}
