/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CREW_H
#define CREW_H

/*
 * Threads that a stress program keeps for all its rounds
 *
 * To make a thread takes longer under a sanitizer than most rounds take.  A
 * thread of a crew may get a signal at any time: the thread ends with the
 * program.
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

/* Start @n threads that call @fn in every round, the i-th with @i.  @crew stays
 * until the end of the program. */
void crew_start(struct crew *crew, int n, crew_fn fn);

/* Let the threads begin a round, and wait until all have come back. */
void crew_begin(struct crew *crew, void *round);
void crew_end(struct crew *crew);

#endif
