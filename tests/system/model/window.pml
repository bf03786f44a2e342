/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A model of the launch window: ranks that wait for each other before they
 * launch, memory sections, and aborts
 *
 * Clique A has two ranks, each with a thread that allocates, is counted, and
 * launches after both were counted. Clique A may end at any time. Then its
 * reaper raises the flags, closes the window, and frees. Clique B only opens
 * windows, twice. A thread of the program has a memory section with another one
 * inside it. With CONNECTS, a third clique is being connected: its thread
 * allocates, then launches for one rank and for the other.
 *
 * The two cliques share a device, so their windows take turns.
 *
 *	enter, leave, close, give_up, begin_turn, end_turn
 *	           src/core/launch_lock.c; what it does under its lock is one
 *	           step here
 *	rank       launch_barrier_await(), launch_barrier_leave()
 *	reaper     reap_by_abort(): src/core/reaper.c
 *	quiet      cohort_quiet_begin() and _end(): src/api/device_memory.c
 *	connect    connect_one(): src/core/connect_warmup.c
 *
 * Devices behave as in reality. A kernel of A runs until the other rank's
 * kernel has started or the flags are raised. A memory operation does not end
 * before the kernel does. Nothing is launched during a memory operation.
 *
 * With STUCK, one of A's ranks may stay in its native launch forever, which
 * finally becomes a cause. Then nothing of A is freed. The time limits of a
 * window and of a turn are left out, because they are for cliques that nothing
 * ends.
 *
 * The model checks the following:
 *
 *  A. No memory operation begins while a rank of A has launched and the other
 *     has not, unless the flags are up, or while only one rank that is being
 *     connected has launched.
 *  B. Both ranks launch, or none does.
 *  C. Every thread ends, except a rank that is stuck.
 *  D. In the end no thread that has left counts as inside, and no thread waits.
 *  E. No thread waits for a side that it could share since another gave up.
 *  F. The two windows are never open at the same time.
 *
 * Each macro BREAK_... breaks one thing. run.sh checks that spin detects it.
 */

#define LAUNCH 0
#define MEMORY 1
#define CONNECT 2

/* The sides after a side, in cyclic order */
#define NEXT(side) ((side + 1) % 3)
#define LAST(side) ((side + 2) % 3)

/* ---- src/core/launch_lock.c ------------------------------------------- */

byte inside[3], waiting[3], let[3];

byte window[2]; /* of A and B: the number of the stay plus 1, or 0 if closed */

/* of A and B in the queue for turns, from 1, or 0 if not queued */
byte place[2];

/* Let waiting threads in, but only one connection at a time. */
inline let_in(side)
{
	if
	:: side == CONNECT ->
		inside[side]++;
		waiting[side]--
	:: else ->
		inside[side] = inside[side] + waiting[side];
		waiting[side] = 0
	fi;
	let[side]++
}

inline leave_locked(side, its)
{
	if
	:: its == 0 ->
		assert(inside[side]);
		inside[side]--;
		if
		:: !inside[side] && waiting[NEXT(side)] -> let_in(NEXT(side))
		:: !inside[side] && !waiting[NEXT(side)] &&
		   waiting[LAST(side)] -> let_in(LAST(side))
		:: !inside[side] && !waiting[NEXT(side)] &&
		   !waiting[LAST(side)] && waiting[side] -> let_in(side)
		:: else
		fi
	:: else
	fi
}

/* True if threads wait for a side that they could share */
#define IN_VAIN(side) \
	(inside[side] && waiting[side] && !waiting[NEXT(side)] && \
	 !waiting[LAST(side)])

inline give_up_locked(side)
{
	waiting[side]--;
	if
#ifndef BREAK_GIVE_UP_FORGETS
	:: IN_VAIN(LAUNCH) -> let_in(LAUNCH)
	:: IN_VAIN(MEMORY) -> let_in(MEMORY)
#endif
	:: else
	fi;
	assert(!IN_VAIN(LAUNCH) && !IN_VAIN(MEMORY)) /* invariant E */
}

#ifdef BREAK_NO_WINDOW
#define MAY_COME(side) true
#else
#define MAY_COME(side) \
	(!inside[NEXT(side)] && !inside[LAST(side)] && \
	 !waiting[NEXT(side)] && !waiting[LAST(side)] && \
	 (side != CONNECT || !inside[CONNECT]))
#endif

/*
 * Enter a side. Set @its to the stay plus 1, or to 0 if @until became true
 * first.
 */
inline enter(side, its, seen, until)
{
	atomic {
		seen = let[side];
		its = 1;
		if
		:: MAY_COME(side) -> inside[side]++
		:: else -> waiting[side]++; its = 0
		fi
	}
	if
	:: its
	:: else ->
		if
		:: atomic {
			let[side] != seen ->
			if
#ifdef BREAK_LET_IN_TWICE
			:: let[side] != seen + 1 -> its = 255
#else
			:: false
#endif
			:: else -> its = 1
			fi
		   }
		:: atomic { until && let[side] == seen -> give_up_locked(side) }
		fi
	fi
}

inline leave(side, its)
{
	atomic { leave_locked(side, its - 1) }
}

/* Wait for a turn. Set @its, or clear it if @until became true first. */
inline begin_turn(q, its, until)
{
	atomic { place[q] = (place[1 - q] -> 2 : 1) }
#ifdef BREAK_NO_TURNS
	its = 1
#else
	if
	:: place[q] == 1 -> its = 1
	:: until -> its = 0
	fi
#endif
}

inline end_turn(q)
{
	atomic {
		if
		:: place[q] && place[1 - q] -> place[1 - q] = 1
		:: else
		fi;
		place[q] = 0
	}
}

inline close(q)
{
	atomic {
		if
		:: window[q] -> leave_locked(LAUNCH, window[q] - 1)
		:: else
		fi;
		window[q] = 0
	}
	end_turn(q)
}

/* ---- the rest of the library ------------------------------------------ */

bit cause;   /* A's cause */
bit flag;    /* A's abort flags */
byte counted;
bit opened, given_up;
byte left = 2;
bit gate[2] = 1;

/* ---- devices ---------------------------------------------------------- */

bit launched[2];
byte operations; /* memory operations in progress */
#ifndef QUIET
#define QUIET 1 /* number of threads of the program that have sections */
#endif
#ifndef CONNECTS
#define CONNECTS 0 /* number of threads that connect pairs of ranks */
#endif
#define THREADS (3 + QUIET + CONNECTS)

byte ended;      /* number of threads that have ended or are stuck */
bit stuck;       /* one of them is stuck */
bit reaped;      /* the reaper has ended */

bit connected[2]; /* each rank that is being connected has launched */

#define SPINS \
	((launched[0] != launched[1] && !flag) || connected[0] != connected[1])

inline operate()
{
	atomic {
		assert(!SPINS); /* invariant A */
		operations++
	}
	if
	:: atomic { !SPINS -> operations-- }
	fi
}

/* ---- threads ---------------------------------------------------------- */

proctype rank(byte r)
{
	byte number, mine;
	bit last;

	enter(MEMORY, number, mine, cause);
	if
	:: number ->
		operate();
		leave(MEMORY, number)
	:: else -> goto out
	fi;
	atomic { counted++; last = (counted == 2) }
	if
	:: last ->
		begin_turn(0, number, cause);
		if
		:: number -> enter(LAUNCH, number, mine, cause)
		:: else
		fi;
		if
		:: !number -> goto gives_up
		:: else
		fi;
		atomic {
			if
			:: cause -> leave_locked(LAUNCH, number - 1); goto gives_up
			:: else ->
				window[0] = number;
				assert(!window[1]) /* invariant F */
			fi
		}
		atomic {
			if
#ifndef BREAK_NOT_CANCELLED
			:: given_up -> skip
#endif
			:: else -> opened = 1
			fi
		}
		if
		:: !opened -> close(0); goto out
		:: else
		fi
	:: else ->
		if
		:: opened
		:: atomic { cause && !opened -> given_up = 1 } goto out
		fi
	fi;
	if
	:: atomic {
		!operations || flag ->
		launched[r] = 1
	   }
#ifdef STUCK
	:: atomic { !stuck -> stuck = 1; ended++ } goto lost
#endif
	fi;
	atomic { left-- }
	if
	:: !left -> close(0)
	:: else
	fi;
	goto out;
gives_up:
#ifndef BREAK_TURN_KEPT
	end_turn(0);
#endif
	given_up = 1;
out:
	gate[r] = 0;
	ended++;
lost:
	skip
}

proctype neighbour()
{
	byte number, mine, round;

	do
	:: round < 2 ->
		begin_turn(1, number, false);
		enter(LAUNCH, number, mine, false);
		atomic {
			window[1] = number;
			assert(!window[0]) /* invariant F */
		}
		close(1);
		round++
	:: else -> break
	od;
	ended++
}

proctype quiet()
{
	byte number, mine, nested;

	enter(MEMORY, number, mine, false);
#ifdef BREAK_NESTED_WAITS
	enter(MEMORY, nested, mine, false);
	leave(MEMORY, nested);
#endif
	operate();
	leave(MEMORY, number);
	ended++
}

proctype connect()
{
	byte number, mine;

#ifdef BREAK_CONNECTS_IN_A_SECTION
	enter(MEMORY, number, mine, false);
#else
	enter(CONNECT, number, mine, false);
#endif
	operate();
	atomic { !operations -> connected[0] = 1 }
	atomic { !operations -> connected[1] = 1 }
#ifdef BREAK_CONNECTS_IN_A_SECTION
	leave(MEMORY, number);
#else
	leave(CONNECT, number);
#endif
	ended++
}

proctype reaper()
{
	byte number, mine;

	if
	:: cause
	:: ended == THREADS && !stuck -> goto out
	fi;
	flag = 1;
#ifndef BREAK_LEFT_OPEN
	close(0);
#endif
	if
	:: !gate[0] && !gate[1]
	:: stuck -> goto out /* WEDGED */
	fi;
	assert(launched[0] == launched[1]); /* invariant B */
	enter(MEMORY, number, mine, false);
	operate();
	leave(MEMORY, number);
out:
	reaped = 1
}

proctype firer()
{
	if
	:: cause = 1
	:: ended == THREADS && !stuck
	fi
}

init
{
	atomic {
		run rank(0);
		run rank(1);
		run neighbour();
#if CONNECTS
		run connect();
#endif
#if CONNECTS == 2
		run connect();
#endif
#if QUIET
		run quiet();
#endif
#if QUIET == 2
		run quiet(); /* a thread may wait until a window gives up */
#endif
		run reaper();
		run firer()
	}
	ended == THREADS && reaped;
	/* invariant D */
	assert(!inside[LAUNCH] && !inside[MEMORY] && !inside[CONNECT] &&
	       !waiting[LAUNCH] && !waiting[MEMORY] && !waiting[CONNECT] &&
	       !window[0] && !window[1] && !place[0] && !place[1])
}
