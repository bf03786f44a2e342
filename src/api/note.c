/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Notes on possible mistakes, for a program that has asked for them
 */

#include "api/note.h"

#include <pthread.h>
#include <stdbool.h>

#include "base/environment.h"
#include "cohort/cohort.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Guarded by lock. */
static cohort_note_fn listener;
static void *listener_user;
static bool is_told;

void cohort_on_note(cohort_note_fn note, void *user)
{
	pthread_mutex_lock(&lock);
	listener = note;
	listener_user = user;
	pthread_mutex_unlock(&lock);
}

void note_environment(void)
{
	char text[1024] = "";
	struct text t = { text, sizeof(text) };
	cohort_note_fn note = NULL;
	void *user = NULL;

	pthread_mutex_lock(&lock);
	if (!is_told) {
		note = listener;
		user = listener_user;
		is_told = note;
	}
	pthread_mutex_unlock(&lock);
	if (!note)
		return;
	environment_add_unknown(&t, " ");
	if (!*text)
		return;
	if (t.room) /* unless the text was cut */
		t.at[-1] = '\0';
	note(text, user);
}
