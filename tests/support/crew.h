/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CREW_H
#define CREW_H

/*
 * Threads that a stress program keeps for all of its rounds
 *
 * Under a sanitizer, creating a thread takes longer than most rounds. A thread
 * of a crew lives until the program ends, so it can receive a signal at any
 * time.
 */

#include <pthread.h>
#include <semaphore.h>

#define CREW_MOST 8

typedef void (*crew_fn)(void *round, int i);

struct crew {
	int n;
	crew_fn fn;
	void *round;
	sem_t begin[CREW_MOST], end;
	pthread_t threads[CREW_MOST];
};

/* Start @n threads.  In every round, thread i calls @fn with i.  @crew must
 * exist until the program ends. */
void crew_start(struct crew *crew, int n, crew_fn fn);

/* Start a round in every thread, with @round as the argument. */
void crew_begin(struct crew *crew, void *round);

/* Wait until every thread has finished the round. */
void crew_end(struct crew *crew);

#endif
