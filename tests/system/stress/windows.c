/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Races launch windows of many cliques with memory sections, while the cliques
 * end
 *
 * In each round, every clique has a thread that repeatedly opens the clique's
 * window, and a thread that ends the clique at some time and closes its window
 * as the reaper does. Checks that no window overlaps a memory section or a
 * window of another clique on the same device, and that all threads end and
 * leave no window or section open.
 */

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clique.h"
#include "core/launch_lock.h"
#include "support/bare_clique.h"
#include "support/stress.h"

#define CLIQUES 3
#define SECTIONS 3 /* number of threads that begin sections */
#define PER_ROUND 200

static struct clique *cliques[CLIQUES];
static atomic_bool launches[CLIQUES]; /* whether the window is open */
static atomic_int sections;           /* number of open sections */
static atomic_ulong opened, ended, begun;

static void look_at_neighbours(size_t k)
{
	size_t i;

	for (i = 0; i < CLIQUES; i++)
		if (i != k && (cliques[i]->devices & cliques[k]->devices) &&
		    atomic_load(&launches[i]) && !clique_cause(cliques[i]) &&
		    !clique_cause(cliques[k]))
			stress_fail("two windows are open on a device");
}

static void *launcher(void *arg)
{
	const size_t k = (size_t)(uintptr_t)arg;
	struct clique *q = cliques[k];
	uint64_t seed = k + atomic_load(&opened);

	while (launch_lock_open(q) == COHORT_OK) {
		atomic_store(&launches[k], true);
		/*
		 * The end of the clique can close its window at any time.
		 */
		if (atomic_load(&sections) && !clique_cause(q))
			stress_fail("a window is open in a memory section");
		look_at_neighbours(k);
		stress_spin(stress_random(&seed) % 500);
		if (atomic_load(&sections) && !clique_cause(q))
			stress_fail("a memory section began in a window");
		atomic_store(&launches[k], false);
		launch_lock_close(q);
		atomic_fetch_add(&opened, 1);
		stress_spin(stress_random(&seed) % 500);
	}
	return NULL;
}

static void *reaper(void *arg)
{
	const size_t k = (size_t)(uintptr_t)arg;
	uint64_t seed = 77 * k + atomic_load(&opened);

	stress_spin(stress_random(&seed) % 100000);
	cause_set_aborted(cliques[k]->end, "as planned");
	launch_lock_close(cliques[k]);
	atomic_fetch_add(&ended, 1);
	return NULL;
}

static void look_inside(uint64_t *seed)
{
	size_t k;

	atomic_fetch_add(&sections, 1);
	for (k = 0; k < CLIQUES; k++)
		if (atomic_load(&launches[k]) && !clique_cause(cliques[k]))
			stress_fail("a memory section lasts in a window");
	stress_spin(stress_random(seed) % 500);
	memory_section_begin(); /* this call does not block */
	memory_section_end();
	atomic_fetch_sub(&sections, 1);
	atomic_fetch_add(&begun, 1);
}

/*
 * Run a section of one of three kinds: of the thread, of a rank's call, or of
 * neither.
 */
static void have_section(unsigned way, struct clique *q, uint64_t *seed)
{
	unsigned taken;

	if (way == 0) {
		taken = launch_lock_begin_section();
		atomic_fetch_add(&sections, 1);
		stress_spin(stress_random(seed) % 500);
		atomic_fetch_sub(&sections, 1);
		launch_lock_end(taken);
		return;
	}
	if (way == 1)
		memory_section_begin();
	else if (memory_section_enter(q) != COHORT_OK)
		return;
	look_inside(seed);
	memory_section_end();
}

static void *allocator(void *arg)
{
	uint64_t seed = 1000 + (uint64_t)(uintptr_t)arg + atomic_load(&begun);
	int i;

	for (i = 0; i < PER_ROUND; i++)
		have_section(stress_random(&seed) % 3,
		             cliques[stress_random(&seed) % CLIQUES], &seed);
	return NULL;
}

static void start(pthread_t *thread, void *(*fn)(void *), size_t k)
{
	if (pthread_create(thread, NULL, fn, (void *)(uintptr_t)k))
		stress_fail("no thread");
}

static void round_of_all(void)
{
	pthread_t threads[2 * CLIQUES + SECTIONS];
	size_t k, n = 0;

	for (k = 0; k < CLIQUES; k++)
		cliques[k] = make_clique();
	for (k = 0; k < CLIQUES; k++)
		cliques[k]->devices = UINT64_C(3)
		                      /* cliques in a row share a device */
		                      << k;
	for (k = 0; k < SECTIONS; k++)
		start(&threads[n++], allocator, k);
	for (k = 0; k < CLIQUES; k++) {
		start(&threads[n++], launcher, k);
		start(&threads[n++], reaper, k);
	}
	while (n--)
		pthread_join(threads[n], NULL);
	if (launch_lock_waiting() || launch_lock_sections())
		stress_fail("a thread was left inside");
	for (k = 0; k < CLIQUES; k++) {
		if (cliques[k]->window || cliques[k]->has_turn)
			stress_fail("a window was left open");
		free_clique(cliques[k]);
	}
}

int main(int argc, char **argv)
{
	unsigned long rounds = 0;

	atomic_store(&launch_lock_limit_ns,
	             1000 * LAUNCH_LOCK_NS); /* long enough on a busy machine */
	while (stress_continue(argc, argv)) {
		round_of_all();
		rounds++;
	}
	printf("%lu rounds: %lu windows, %lu sections, %lu cliques ended\n",
	       rounds, atomic_load(&opened), atomic_load(&begun),
	       atomic_load(&ended));
	return 0;
}
