/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A model of how a clique ends: gate, cause, record of completions, reaper,
 * waits and close
 *
 * There are two ranks, each with a thread that submits and a device that runs
 * what was submitted; two threads that fire at any time, one of which stands
 * for the watchdog; the reaper; the prober; a thread that closes; a thread that
 * waits for a ticket, twice; a run that abandons a worker; and a thread that
 * finds that the abort's deadline has passed. spin explores every possible
 * order of their steps.
 *
 *	owner      submit() on one rank: src/core/submit.c
 *	group      submit() on both ranks, in one native group
 *	device     a rank's stream: NCCL's kernel, then the mark
 *	firers     cause_set(): src/core/cause.c; all alike, so a count stands
 *	           for them
 *	reaper     reaper_main(): src/core/reaper.c
 *	looker     clique_update_state() after the deadline:
 *	           src/core/clique_end.c
 *	prober     probe_rank(): src/watch/prober.c
 *	closer     cohort_group_close(): src/api/group.c, generation.c
 *	waiter     cohort_wait(): src/api/completion.c
 *	run_end    the end of cohort_group_run(): src/api/worker.c
 *	note, ask  clique_record_completions() and ask()
 *	put        clique_put()
 *
 * One step is one access to memory that threads share. If a step has several
 * accesses, only one of them matters: the others belong to the model's
 * bookkeeping, or read words that no longer change, or words that no other
 * thread writes. Any thread can find that the deadline has passed. In the
 * model, a separate thread does, right before the others check.
 *
 * With PROBER there is a prober. With STRAGGLER, rank 0's thread is the worker
 * of a run that does not wait for it forever: the run may abandon the worker
 * wherever it is, and the worker may outlive the close, and ask, call and
 * return. run.sh determines which of these parts are searched together.
 *
 * Every wait is a guard and not a loop, so that the graph of states has no
 * cycle (run.sh checks this). So every execution ends, without any assumption
 * of fairness, and a thread that has not reached its end is a deadlock.
 *
 * These things can go wrong in the program. A native call blocks until the flag
 * is raised, or forever. A native call fails, with or without having queued
 * something. A mark fails. An operation's peer never arrives, or the operation
 * ignores the flag. A query of the prober never returns. ncclCommAbort(),
 * ncclGroupEnd() or cudaFree() never returns. A group end fails.
 *
 * The model checks the following. A to D and F are the invariants of
 * src/core/clique.h:
 *
 *  A. One cause wins, and it never changes.
 *  B. A native communicator is aborted or destroyed once, never both, and only
 *     by the reaper.
 *  C. From QUIESCED on nothing touches a buffer or is queued.  When the group's
 *     end frees, no thread is inside a native call, including the prober, and
 *     nothing is in flight.  The done words are not freed while a mark is still
 *     to be set, or while a thread reads them; the clique is not freed while a
 *     call, the prober, or a straggler uses it.  Both are freed once; the
 *     clique by the last thread with a reference.
 *  D. Nothing is freed once the clique is WEDGED.
 *  E. No rank is aborted alone: from FLAGGED on all flags are up.  Between the
 *     two raises, a rank whose flag is not up may finish an operation that the
 *     other has cut short, with wrong data and no error from NCCL.  F holds
 *     nevertheless.
 *  F. A ticket returns OK only if its operation was over before any flag was
 *     raised, and a cause only when nothing can touch a buffer.  Its status,
 *     WEDGED included, never changes, and waiting or not makes no difference.
 *  G. Close returns, and so does every wait once there is a cause.
 *
 * With PATIENT, the abort's deadlines never pass and nothing is stuck forever.
 * The close must then end as RELEASED or LEAKED, without the help of a
 * deadline. A run can still abandon a worker: it was busy in the program, so
 * the clique does not wait for it.
 *
 * The model leaves out the following. Memory is sequentially consistent. Two
 * places depend on that: the gate, and the prober's gate, against the cause,
 * which is seq_cst in the code; and the state NOTING against the done words.
 * Everywhere else, an acquire pairs with a release. There is one done word per
 * ticket, not a ring. A rank has one stream, whose work no other thread does.
 * There are no texts, no recorder, no binding of threads, no references to the
 * cause, no notifier and no respawn. No thread makes a call that overlaps a
 * close, which the header forbids, with two exceptions: a wait may overlap a
 * close up to the point where the close frees memory, and a straggler's wait
 * may overlap it at any time.
 *
 * Each macro BREAK_... breaks one thing. run.sh checks that spin detects it.
 */

#ifndef OPS
#define OPS 1 /* operations per rank; if 2, the second rank has only one */
#endif

#ifndef FIRERS
#define FIRERS 2
#endif

/* Number of slots for causes, less than the number of threads that fire */
#define CAUSES 2

/* True if rank 0's thread can call during and after the close */
#ifdef STRAGGLER
#define MAY_CALL(r) (!close_called || (r) == 0)
#else
#define MAY_CALL(r) !close_called
#endif

#define AT(r, k) ((r) * OPS + (k))

/* ---- the clique ------------------------------------------------------- */

/* The cause. Which of the threads fired makes no difference. */
#define NONE 0
#define CLOSING 1
#define FIRED 2

/* enum clique_state */
#define LIVE 0
#define NOTING 1
#define NOTED 2
#define FLAGGED 3
#define QUIESCED 4
#define RECLAIMED 5
#define RELEASED 6
#define LEAKED 7
#define WEDGED 8

byte cause = NONE;
byte used;          /* slots for causes in use */
bit caused, unused; /* semaphores: there is a cause; nothing is in use */
byte state = LIVE;
bit then[2 * OPS];  /* the record of completions: done when NOTING began */
bit gate[2];
byte last[2];
bit unmarked[2];
bit done[2 * OPS];  /* the done words */
bit probing;
byte users = 1;     /* references: the group's, and the straggler's */
bit abandoned;      /* the run has abandoned rank 0's worker */

/* ---- devices and native calls ----------------------------------------- */

/*
 * An operation does not exist, is queued, is running, or is over in some way.
 */
#define ABSENT 0
#define QUEUED 1
#define OVER 2

byte op[2 * OPS];
bit marked[2 * OPS]; /* the operation's mark is queued after it */
bit flag[2];         /* the abort flag */
bit inside[2];       /* the owner is inside a native call */
bit freed;           /* the native communicators are freed */
bit asking;          /* the prober is inside its native query */
bit words_freed;     /* the done words are freed */
bit clique_freed;    /* everything else is freed */

/* ---- bookkeeping of the model ----------------------------------------- */

#define ABORTED 1
#define DESTROYED 2

bit won;             /* the cause was set */
byte released[2];    /* ABORTED or DESTROYED */
bit whole[2 * OPS];  /* the operation was over before any flag was raised */
bit in_call[2];      /* the owner is inside a call of the library */
bit close_called;
bit waiting;         /* the waiter is in a call */
bit reaped;          /* the reaper's thread has ended */
bit probed;          /* the prober's thread has ended, or there is none */
bit worked;          /* rank 0's worker has ended, or there is none */
byte left = FIRERS;  /* firers that have not started */
byte firing;         /* firers between taking a slot and the swap */

#define NOBODY_INSIDE (!inside[0] && !inside[1] && !asking)
#define IS_QUIESCED (state >= QUIESCED && state != WEDGED)

#if OPS == 2
#define RANK_IDLE(r) (op[AT(r, 0)] != QUEUED && op[AT(r, 1)] != QUEUED)
#define RANK_DONE(r) \
	((last[r] < 1 || done[AT(r, 0)]) && (last[r] < 2 || done[AT(r, 1)]))
#define RANK_WRITTEN(r) ((!marked[AT(r, 0)] || done[AT(r, 0)]) && \
                         (!marked[AT(r, 1)] || done[AT(r, 1)]))
#else
#define RANK_IDLE(r) (op[r] != QUEUED)
#define RANK_DONE(r) (last[r] < 1 || done[r])
#define RANK_WRITTEN(r) (!marked[r] || done[r])
#endif
/* The event that is recorded if a mark fails comes after all marks. */
#define EVENT_DONE(r) (RANK_IDLE(r) && RANK_WRITTEN(r))
#define ALL_IDLE (RANK_IDLE(0) && RANK_IDLE(1))

/* ---- src/core/cause.c ------------------------------------------------- */

/*
 * Swap in the cause. A thread that loses does nothing else, so slots no longer
 * matter.
 */
inline swap(me, mine)
{
	atomic {
#ifdef BREAK_FIRE_STORES
		mine = 1;
#else
		mine = (cause == NONE);
#endif
		if
		:: mine ->
			assert(!won); /* invariant A */
			cause = me;
			won = 1;
			used = 0;
			left = 0;
#ifndef BREAK_FIRE_STORES
			firing = 0
#endif
		:: else
		fi
	}
}

inline post(mine)
{
	atomic {
		if
		:: mine ->
			mine = 0;
#ifndef BREAK_NO_POST
			caused = 1
#endif
		:: else
		fi
	}
}

/*
 * Fire. If no slot is free, do nothing, even if there is no cause yet.
 */
inline fire(mine)
{
	atomic {
		mine = (cause == NONE && used < CAUSES);
		used = used + mine
	};
	if
	:: mine -> swap(FIRED, mine); post(mine)
	:: else
	fi
}

proctype firers()
{
	bit mine;

	/* Once there is a cause, a late firer does nothing, at any time. */
end_late:
	do
	:: atomic {
		left && cause == NONE && used < CAUSES ->
		left--;
		used++;
		firing++
	}
	:: atomic { firing -> firing-- };
		swap(FIRED, mine);
		post(mine)
	od
}

/* ---- src/core/clique_end.c -------------------------------------------- */

/* Record completed operations. If another thread is doing that, wait for it. */
inline note(i)
{
	if
	:: atomic { state == LIVE -> state = NOTING };
		do
		:: atomic { i < 2 * OPS -> then[i] = done[i]; i++ }
		:: atomic { i == 2 * OPS -> i = 0; state = NOTED; break }
		od
#ifdef BREAK_NOTES_UNAWAITED
	:: state != LIVE
#else
	:: state > NOTING
#endif
	fi
}

/* Find that the abort's deadline has passed. */
proctype looker()
{
	byte i;

#ifndef PATIENT
end_early:
	cause != NONE;
#ifdef BREAK_WEDGED_UNNOTED
end_over:
	atomic { (state == LIVE || state == FLAGGED) -> state = WEDGED };
#else
	note(i);
end_over:
	atomic { (state == NOTED || state == FLAGGED) -> state = WEDGED }
#endif
#endif
}

#define NOT_YET 0
#define OK 1
#define TOLD_CAUSE 2
#define TOLD_WEDGED 3
#define TOLD_CLOSED 4

/* clique_end_status(), from a state that is not LIVE. */
#ifdef BREAK_ANSWERED_EARLY
#define ANSWERS(s) ((s) >= FLAGGED)
#else
#define ANSWERS(s) ((s) >= QUIESCED)
#endif
#define ANSWER_OF(s) \
	(!ANSWERS(s) -> NOT_YET : \
	 (cause == CLOSING -> TOLD_CLOSED : \
	  ((s) == WEDGED -> TOLD_WEDGED : TOLD_CAUSE)))

/* clique_await_end(): the status that a failed call returns. */
inline await_answer()
{
	atomic {
		ANSWERS(state) ->
		assert(!clique_freed); /* invariant C */
		assert(cause > CLOSING);
		assert(state == WEDGED || ALL_IDLE) /* invariant F */
	}
}

/* Free the words. If several threads have a reference, the last one does. */
inline free_words()
{
	assert(RANK_WRITTEN(0) && RANK_WRITTEN(1)); /* invariant C */
	assert(freed && NOBODY_INSIDE && ALL_IDLE && !words_freed);
	words_freed = 1
}

inline put(is_last)
{
#ifdef BREAK_PUT_FREES
	is_last = 1;
#else
	atomic { assert(users); users--; is_last = (users == 0) };
#endif
	atomic {
		if
		:: is_last ->
			assert(state == RELEASED && !clique_freed); /* invariants C, D */
			if
			:: !words_freed -> free_words()
			:: else
			fi;
			clique_freed = 1;
			is_last = 0
		:: else
		fi
	}
}

/* ---- src/api/completion.c --------------------------------------------- */

/*
 * Return a ticket's status. The record does not change once it can be read, and
 * the cause is set before the state refers to it, so this and the read of the
 * state are one step.
 *
 * A status is checked when it is returned, which is later than when it was
 * found. That is fine, because nothing becomes unsafe again.
 */
inline answer(n, d, s, rc)
{
	d_step {
		assert(!clique_freed); /* invariant C */
#ifdef BREAK_NOTES_IGNORED
		rc = (d && s < QUIESCED -> OK : \
		      (s == LIVE -> NOT_YET : (d -> OK : ANSWER_OF(s))));
#elif defined(BREAK_LATE_RANK_TRUSTED)
		rc = ((s == LIVE || (d && !flag[(n) / OPS])) -> \
		      (d -> OK : NOT_YET) : (then[n] -> OK : ANSWER_OF(s)));
#else
		rc = (s == LIVE -> (d -> OK : NOT_YET) : \
		      (then[n] -> OK : ANSWER_OF(s)));
#endif
		assert(rc != OK || whole[n]);              /* invariant F */
		assert(rc != TOLD_CAUSE || ALL_IDLE);      /* invariant F */
		assert(rc != TOLD_CLOSED);                 /* invariant F */
		d = 0
	}
}

/* The states in which the done word is read before the state is read again */
#if defined(BREAK_NOTES_IGNORED) || defined(BREAK_LATE_RANK_TRUSTED)
#define LOOKS_AT_WORD(s) ((s) != NOTING && (s) < QUIESCED)
#else
#define LOOKS_AT_WORD(s) ((s) == LIVE)
#endif

inline ask(n, d, rc)
{
	if
	:: atomic { LOOKS_AT_WORD(state) -> assert(!clique_freed) }; /* invariant C */
		atomic { assert(!words_freed); d = done[n] }; /* invariant C */
#ifdef BREAK_STATE_READ_FIRST
		answer(n, d, LIVE, rc)
#else
		atomic { state != NOTING -> answer(n, d, state, rc) }
#endif
	:: atomic {
		state != NOTING && !LOOKS_AT_WORD(state) ->
		answer(n, d, state, rc)
	}
	fi
}

/* ---- src/core/submit.c ------------------------------------------------ */

/*
 * Start the native call if there is no cause and the group is not being closed.
 */
inline load_cause(r)
{
	atomic {
		if
		:: cause > CLOSING -> goto refused
		:: else -> assert(!freed && !close_called); inside[r] = 1 /* invariant C */
		fi
	}
}

/* Let the native call block first, in some executions. */
inline block(r)
{
	if
	:: true
	:: true ->
end_blocked:
		flag[r]
#ifndef PATIENT
	:: true ->
end_stuck_inside:
		false
#endif
	fi
}

/*
 * Let the call queue the operation or fail. A call that fails may have queued
 * the operation.
 */
inline launch(r, k, failed)
{
	assert(!freed && !IS_QUIESCED); /* invariant C */
	if
	:: op[AT(r, k)] = QUEUED
#ifndef NO_FAILURES
	:: op[AT(r, k)] = QUEUED; failed = 1
	:: failed = 1
#endif
	fi
}

inline mark(r, k, failed)
{
	if
	:: !failed -> marked[AT(r, k)] = 1
#ifndef NO_FAILURES
	:: true -> failed = 1
#endif
	fi
}

/*
 * Do the rest of the worker's steps: ask about the ticket, pass the gate with
 * or without a cause (worker_leave()), and end. An abandoned worker has a
 * reference, and learns that it was abandoned under the run's lock.
 */
inline work_on(d, is_last, rc)
{
	if
	:: last[0] ->
		ask(AT(0, 0), d, rc);
		rc = 0
	:: else
	fi;
	atomic { assert(!clique_freed); gate[0] = 1 }; /* invariant C */
	atomic { assert(!clique_freed); gate[0] = 0 }; /* invariant C */
	worked = 1;
#ifndef BREAK_STRAGGLER_UNCOUNTED
	if
	:: abandoned -> put(is_last)
	:: else
	fi
#endif
}

proctype owner(byte r)
{
	byte k, rc;
	bit failed, mine;

	do
	:: k < OPS - (r == 1 && OPS == 2) && MAY_CALL(r) ->
#ifdef BREAK_GATE_LOOKS_FIRST
		atomic {
			if
			:: MAY_CALL(r) -> in_call[r] = 1
			:: else -> goto gone
			fi;
			load_cause(r)
		};
		gate[r] = 1;
#else
		atomic {
			if
			:: MAY_CALL(r) -> in_call[r] = 1; gate[r] = 1
			:: else -> goto gone
			fi
		};
		load_cause(r);
#endif
		block(r);
		atomic {
			launch(r, k, failed);
			mark(r, k, failed);
			unmarked[r] = failed;
			inside[r] = 0
		};
		if
		:: failed ->
			fire(mine);
			atomic { failed = 0; gate[r] = 0 };
			await_answer();
			atomic { in_call[r] = 0; goto gone }
		:: else ->
			atomic {
				k++;
				last[r] = k;
				gate[r] = 0;
				in_call[r] = 0
			}
		fi
	:: else -> goto gone
	od;
refused:
	atomic { assert(!clique_freed); gate[r] = 0; in_call[r] = 0 }; /* invariant C */
gone:
	atomic { k = 0; failed = 0 };
#ifdef STRAGGLER
	if
	:: r == 0 -> work_on(failed, mine, rc)
	:: else
	fi
#endif
}

/*
 * Submit for both ranks. After a mark has failed, no further mark is made, and
 * no rank's state is known.
 */
proctype group()
{
	bit failed, mine;

	atomic {
		if
		:: !close_called -> in_call[0] = 1; gate[0] = 1
		:: else -> goto gone
		fi
	};
	load_cause(0);
	gate[1] = 1;
	atomic {
		if
		:: cause > CLOSING -> inside[0] = 0; gate[1] = 0; goto refused
		:: else -> inside[1] = 1
		fi
	};
	block(0);
	atomic { launch(0, 0, failed) };
	atomic { launch(1, 0, failed) };
	atomic { mark(0, 0, failed); unmarked[0] = failed };
	atomic { mark(1, 0, failed); unmarked[1] = failed };
#ifndef BREAK_MARKED_UNWATCHED
	unmarked[0] = failed;
#endif
	atomic { inside[0] = 0; inside[1] = 0 };
	if
	:: failed ->
		fire(mine);
		gate[1] = 0;
		gate[0] = 0;
		await_answer()
	:: else ->
		last[0] = 1;
		last[1] = 1;
		gate[1] = 0
	fi;
refused:
	atomic { gate[0] = 0; in_call[0] = 0; failed = 0 };
gone:
	skip
}

/* ---- the device ------------------------------------------------------- */

proctype device(byte r)
{
	byte k;

	/*
	 * The peer arrives when its operation is queued and the previous one is
	 * over.
	 */
end_running:
	atomic {
		op[AT(r, k)] == QUEUED &&
		(op[AT(1 - r, k)] >= QUEUED || flag[r]) ->
		assert(!freed && !IS_QUIESCED); /* invariant C: it touches buffers */
#ifndef PATIENT
		if
		:: true
		:: flag[r] -> goto end_stuck
		fi;
#endif
		whole[AT(r, k)] = !flag[0] && !flag[1];
		op[AT(r, k)] = OVER;
#ifndef GROUP
		/*
		 * The mark usually follows immediately. With "group", it can be
		 * late.
		 */
		if
		:: marked[AT(r, k)] -> goto write
		:: else
		fi
#endif
	};
end_unmarked:
	atomic {
		marked[AT(r, k)];
write:
		assert(!words_freed); /* invariant C */
		done[AT(r, k)] = 1;
		k++;
		if
		:: k < OPS -> goto end_running
		:: else -> k = 0; goto gone
		fi
	};
end_stuck:
	false;
gone:
	skip
}

/* ---- src/core/reaper.c ------------------------------------------------ */

/* Call ncclCommAbort(), which raises the flag immediately. */
inline release(r, how)
{
	atomic {
		assert(!released[r] && !freed); /* invariant B */
		assert(!released[1 - r] || released[1 - r] == how); /* invariant B */
		released[r] = how;
		flag[r] = (how == ABORTED)
	}
}

inline group_end()
{
	assert(released[0] && released[1] && !freed); /* invariant B */
	assert(state != WEDGED);                      /* invariant D */
	assert(NOBODY_INSIDE && ALL_IDLE);            /* invariant C */
	freed = 1
}

inline move(from, to)
{
	atomic {
		if
		:: state == from ->
			assert(to != FLAGGED || (flag[0] && flag[1])); /* invariant E */
			state = to
		:: else -> goto end_parked
		fi
	}
}

inline await_prober()
{
	if
	:: !probing
	:: state == WEDGED -> goto end_parked
	fi
}

proctype reaper()
{
	byte i;
	bit has_abandoned_threads;

end_asleep: /* forever, if no thread fires or closes */
	caused;
	if
	:: cause == CLOSING ->
#ifndef BREAK_DESTROYED_LIVE
		note(i);
#ifndef BREAK_DESTROYED_PROBED
		await_prober();
#endif
		move(NOTED, QUIESCED);
#endif
#ifndef BREAK_CLOSE_DESTROYS
		release(0, DESTROYED);
		release(1, DESTROYED);
#endif
	:: else ->
#ifndef BREAK_NOTED_LATE
		note(i);
#endif
		release(0, ABORTED);
#ifdef BREAK_ONE_RANK
		released[1] = ABORTED;
#else
		release(1, ABORTED);
#endif
#ifdef BREAK_NOTED_LATE
		note(i);
#endif
#ifndef PATIENT
		if
		:: true
		:: goto end_parked /* ncclCommAbort() does not return */
		fi;
#endif
		move(NOTED, FLAGGED);

		do
		:: i < 2 ->
#ifndef BREAK_GATES_IGNORED
			if
			:: !gate[i]
			:: state == WEDGED -> goto end_parked
			fi;
#endif
#ifndef BREAK_FLIGHT_IGNORED
			if
			:: RANK_DONE(i) &&
			   (!unmarked[i] || EVENT_DONE(i))
			:: state == WEDGED -> goto end_parked
			fi;
#endif
			i++
		:: else -> i = 0; break
		od;
#ifndef BREAK_ABORTED_PROBED
		await_prober();
#endif
#ifdef BREAK_QUIESCED_STORED
		state = QUIESCED;
#else
		move(FLAGGED, QUIESCED);
#endif
	fi;

	/* Here the real reaper waits, no longer than an abort may take, for
	 * neighboring groups to raise their flags. For this clique, that is a
	 * pause as between any two steps. Before it records completions, it
	 * ends the clique's children, by a fire() at other cliques. */

	if
	:: atomic {
#ifdef BREAK_CLOSE_DESTROYS
		if
		:: cause == CLOSING
		:: else -> group_end()
		fi
#else
		group_end()
#endif
	}
	:: atomic { state = LEAKED; goto over } /* the group end fails */
#ifndef PATIENT
	:: goto end_parked /* the group end does not return */
#endif
	fi;
#ifdef BREAK_DESTROYED_LIVE
	atomic {
		if
		:: cause == CLOSING && state == LIVE
		:: state == QUIESCED
		:: else -> goto over
		fi;
		state = RECLAIMED
	};
#else
	move(QUIESCED, RECLAIMED);
#endif
end_used: /* forever, if close has returned COHORT_STATE */
	unused;
#ifndef PATIENT
	if
	:: true
	:: goto end_parked /* cudaFree() does not return */
	fi;
#endif
#ifndef BREAK_WORDS_GIVEN_BACK
	has_abandoned_threads = (users > 1);
#endif
	atomic {
		if
		:: !has_abandoned_threads -> free_words()
		:: else -> has_abandoned_threads = 0
		fi
	};
	state = RELEASED;
over:
	reaped = 1;
	goto gone;
end_parked:
	false;
gone:
	skip
}

/* ---- src/watch/prober.c ----------------------------------------------- */

/* Enter a probe. Something is in flight, so the prober will query. */
inline enter_probe()
{
	atomic { assert(!words_freed && !clique_freed); probing = 1 } /* invariant C */
}

/* Start the native query if there is no cause. */
inline look_before_asking()
{
	atomic {
		assert(!clique_freed); /* invariant C */
		if
		:: cause == NONE -> assert(!freed); asking = 1 /* invariant C */
		:: else
		fi
	}
}

/*
 * The prober. It can query at any moment, even long after there is a cause,
 * because it checked for a cause earlier. One query stands for all, because a
 * query that finds nothing has no effect.
 */
proctype prober()
{
	bit mine;

#ifdef BREAK_PROBER_LOOKS_FIRST
	look_before_asking();
	enter_probe();
#else
	enter_probe();
	look_before_asking();
#endif
	if
	:: asking -> swap(FIRED, mine); post(mine)
	:: true
#ifndef PATIENT
	:: asking ->
end_stuck_asking:
		false
#endif
	fi;
	atomic { assert(!clique_freed); asking = 0; probing = 0 }; /* invariant C */
	atomic { assert(!words_freed && !clique_freed); probed = 1 } /* invariant C */
}

/* ---- src/api/completion.c --------------------------------------------- */

/* True if a query of ticket n would return a status */
#define ANSWERABLE(n) \
	(state != NOTING && \
	 ((state == LIVE && done[n]) || \
	  (state != LIVE && (then[n] || ANSWERS(state)))))

/*
 * The waiter. It asks at any moment. If there was no status, it asks again once
 * there is one. In both cases, it asks once more at any later moment.
 */
proctype waiter()
{
	byte n, rc, first;
	bit d, asked;

	if
	:: atomic { last[0] >= 1 && !close_called -> n = AT(0, 0); waiting = 1 }
	:: atomic { last[1] >= 1 && !close_called -> n = AT(1, 0); waiting = 1 }
#if OPS == 2
	:: atomic { last[0] >= 2 && !close_called -> n = AT(0, 1); waiting = 1 }
	:: atomic { last[1] >= 2 && !close_called -> n = AT(1, 1); waiting = 1 }
#endif
	:: timeout -> goto gone
	fi;
	do
	:: !asked || ANSWERABLE(n) ->
		ask(n, d, rc);
		atomic {
			assert(!first || rc == first); /* invariant F */
			if
			:: first -> first = 0; break
			:: else -> first = rc; asked = (rc == NOT_YET)
			fi;
			rc = 0
		}
	:: timeout ->
		assert(cause == NONE); /* invariant G */
		goto gone
	od;
	atomic { n = 0; rc = 0; waiting = 0 };
gone:
	skip
}

/* Stands in for the waiter: in the end, a cause must have led to a status. */
proctype auditor()
{
	timeout -> assert(cause == NONE || ANSWERS(state)) /* invariant G */
}

/* ---- src/api/group.c, generation.c ------------------------------------ */

/*
 * Whether no thread is in a call. A thread that is stuck in a call forever does
 * not prevent a close, and neither does an abandoned worker outside the gate.
 */
#ifdef STRAGGLER
#define MAY_CLOSE (state == WEDGED && (worked || abandoned) || \
                   !in_call[1] && (worked || abandoned && !gate[0]))
#else
#define MAY_CLOSE (state == WEDGED || !in_call[0] && !in_call[1])
#endif

/*
 * Stop the prober. It may leave, enter again, and see the cause, any number of
 * times; or it is inside when the deadline passes.
 */
inline stop_prober(s)
{
	if
	:: !probing -> probed
#ifndef PATIENT
	:: true ->
#ifndef BREAK_PROBER_FORGOTTEN
		s = LIVE
#endif
#endif
	fi
}

proctype closer()
{
	byte r, k, s, rc = OK;
	bit d, mine, expired, is_last;

	/* close_check() */
	if
	:: atomic { MAY_CLOSE -> close_called = 1 }
	:: gate[0] || gate[1] || !worked -> goto gone /* COHORT_STATE */
	fi;

	/* generation_end() */
	do
	:: r < 2 && k < last[r] ->
		if
		:: ANSWERABLE(AT(r, k))
		:: expired = 1
		fi;
		ask(AT(r, k), d, rc);
		atomic {
			if
			:: rc == OK -> k++
			:: rc == NOT_YET && !expired
			:: else -> break
			fi
		}
	:: atomic { r < 2 && k == last[r] -> r++; k = 0 }
	:: atomic { r == 2 -> r = 0; break }
	od;
	if
	:: rc == OK ->
#ifdef BREAK_CLOSE_DESTROYS
		release(0, DESTROYED);
		release(1, DESTROYED);
		atomic { group_end() };
#endif
		swap(CLOSING, mine);
		post(mine)
	:: rc == NOT_YET -> fire(mine)
	:: else
	fi;
	atomic { r = 0; k = 0; rc = 0; expired = 0 };

	/* generation_free() waits until RECLAIMED, for a bounded time. */
	if
	:: atomic { state >= RECLAIMED -> s = state }
#ifndef PATIENT
	:: true
#endif
	fi;
#ifdef BREAK_PROBER_STOPPED_LATE
	unused = (s == RECLAIMED);
#endif
	stop_prober(s);
	if
	:: s == RECLAIMED ->
		/*
		 * Wait, for a bounded time, until no thread waits. Then free
		 * the memory.
		 */
		atomic { !waiting -> unused = 1 };
		if
		:: atomic { state == RELEASED -> s = state }
#ifndef PATIENT
		:: true
#endif
		fi
	:: else
	fi;
	if
	:: s == RELEASED -> /* clique_retire() */
		atomic {
			reaped ->
			assert(!in_call[1] && (!in_call[0] || abandoned)) /* invariant C */
		};
		put(is_last)
	:: else -> /* clique_leak() */
#ifdef PATIENT
		assert(s == LEAKED) /* invariant G */
#endif
	fi;
	s = 0;
gone:
	skip
}

/* ---- src/api/worker.c ------------------------------------------------- */

/*
 * Abandon the worker when the run's deadline passes: abandon_locked(). The run
 * ends before close is called.
 */
proctype run_end()
{
end_running:
	atomic {
		cause > CLOSING && !worked ->
#ifndef BREAK_STRAGGLER_UNCOUNTED
		users++;
#endif
		abandoned = 1
	}
}

init {
	atomic {
		run device(0);
		run device(1);
#ifdef GROUP
		run group();
#else
		run owner(0);
		run owner(1);
#endif
		run reaper();
#ifdef PROBER
		run prober();
#else
		probed = 1;
#endif
		run closer();
#ifdef STRAGGLER
		run run_end();
#else
		worked = 1;
#endif
#if defined(PROBER) || defined(STRAGGLER)
		run auditor();
#else
		run waiter();
#endif
		run firers();
		run looker()
	}
}
