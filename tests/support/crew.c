/* SPDX-License-Identifier: Apache-2.0 */

#include "support/crew.h"

#include "support/stress.h"

/* Wait for @semaphore. A barrier would not work, because ThreadSanitizer delays
 * signals while a thread waits at a barrier. */
static void await(sem_t *semaphore)
{
	while (sem_wait(semaphore) != 0)
		continue;
}

struct member {
	struct crew *crew;
	int i;
};

static void *crew_main(void *arg)
{
	struct crew *crew = ((struct member *)arg)->crew;
	int i = ((struct member *)arg)->i;

	sem_post(&crew->end); /* this thread no longer uses @arg */
	for (;;) {
		await(&crew->begin[i]);
		crew->fn(crew->round, i);
		sem_post(&crew->end);
	}
	return NULL;
}

void crew_start(struct crew *crew, int n, crew_fn fn)
{
	struct member members[CREW_MOST];
	int i;

	crew->n = n;
	crew->fn = fn;
	sem_init(&crew->end, 0, 0);
	for (i = 0; i < n; i++) {
		sem_init(&crew->begin[i], 0, 0);
		members[i] = (struct member){ crew, i };
		if (pthread_create(&crew->threads[i], NULL, crew_main,
		                   &members[i]) ||
		    pthread_detach(crew->threads[i]))
			stress_fail("a thread cannot be started");
	}
	crew_end(crew);
}

void crew_begin(struct crew *crew, void *round)
{
	int i;

	crew->round = round;
	for (i = 0; i < crew->n; i++)
		sem_post(&crew->begin[i]);
}

void crew_end(struct crew *crew)
{
	int i;

	for (i = 0; i < crew->n; i++)
		await(&crew->end);
}
