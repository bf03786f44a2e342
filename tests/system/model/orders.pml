/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Litmus tests of the pairs of accesses in docs/internals.md ("Memory orders")
 * on a weakly ordered machine
 *
 * The models abort.pml and window.pml are sequentially consistent. Here a
 * thread performs its accesses in any order that AArch64 allows, and the other
 * threads see every access at the same time, as AArch64 guarantees:
 *
 *  - An acquire load precedes every later access of its thread.
 *  - A release store follows every earlier access of its thread.
 *  - A seq_cst load follows every earlier seq_cst or release store. An acquire
 *    load does not. The store of a read-modify-write counts as a store, and no
 *    other thread writes the word between its load and its store.
 *
 * So a thread is a set of steps, and each step names the steps that must
 * precede it. A step that accesses several words reads words that no thread
 * changes any more.
 *
 * In each test, every execution must satisfy the assertion. Each macro
 * BREAK_... weakens one order. run.sh checks that spin then finds an execution
 * that violates the assertion.
 */

/* Step @n of a thread: perform @access after the steps in the set @after. */
#define STEP(n, after, access)                                                 \
	:: atomic {                                                            \
		!(done & 1 << (n)) && (done & (after)) == (after) ->           \
		access;                                                        \
		done = done | 1 << (n)                                         \
	}
#define S0 1
#define S1 2
#define S2 4
#define END(all) :: done == (all) -> break

/* ---- a word that announces, and a word that is checked ------------------ */

/*
 * The lock of a communicator and the cause; the prober's word and the cause;
 * and the agreement's words of two processes. Each thread writes its own word,
 * then reads the other's. At least one of them must see the other's word.
 *
 *  announcer  comm_enter(), probe_rank(), agree_add_rank()
 *  checker    cause_set() and the reaper; the other process
 */
#ifdef BREAK_CHECK_ACQUIRES
#define CHECKED 0 /* the load of the other word is only an acquire */
#else
#define CHECKED S0
#endif

byte announced, checked, announcer_saw, checker_saw;

proctype announcer()
{
	byte done;

	do
	STEP(0, 0, announced = 1)
	STEP(1, CHECKED, announcer_saw = checked)
	END(S0 | S1)
	od
}

proctype checker()
{
	byte done;

	do
	STEP(0, 0, checked = 1)
	STEP(1, S0, checker_saw = announced)
	END(S0 | S1)
	od
}

/* ---- a flag that publishes ---------------------------------------------- */

/*
 * The done words, the last ticket and the clique's state: first data, then a
 * flag. The first waiter reads the flag, and publishes the fact to a second
 * waiter, which does not read the flag itself (all_done in struct cohort_comm).
 *
 *  device     the mark of an operation
 *  waiter     comm_await_all()
 *  second     comm_await_all() in another thread
 */
#ifdef BREAK_MARK_RELAXED
#define MARKED 0
#else
#define MARKED S0
#endif
#ifdef BREAK_ALL_DONE_RELAXED
#define TOLD 0
#else
#define TOLD S0
#endif

byte output, mark, all_done;
byte waiter_saw, waiter_read, second_saw, second_read;

proctype device()
{
	byte done;

	do
	STEP(0, 0, output = 1)
	STEP(1, MARKED, mark = 1)
	END(S0 | S1)
	od
}

proctype waiter()
{
	byte done;

	do
	STEP(0, 0, waiter_saw = mark)
	STEP(1, S0, waiter_read = output)
	STEP(2, S0 | S1, all_done = waiter_saw)
	END(S0 | S1 | S2)
	od
}

proctype second()
{
	byte done;

	do
	STEP(0, 0, second_saw = all_done)
	STEP(1, TOLD, second_read = output)
	END(S0 | S1)
	od
}

/* ---- words between two numbers ------------------------------------------ */

/*
 * The slots of the recorder, of tags and of messages, the pages of other
 * processes, and the words of another process's clique. A writer changes the
 * first number, the words, and the last number. A reader reads them in the
 * opposite order. Equal numbers prove that the words belong to them.
 *
 *  writer     put_stamped(), recorder_begin()
 *  reader     get_stamped(), recorder_read(), read_word()
 */
#ifdef BREAK_WORDS_STORED_RELAXED
#define WRITTEN 0
#else
#define WRITTEN S0
#endif
#ifdef BREAK_WORDS_LOADED_RELAXED
#define READ S0
#else
#define READ (S0 | S1)
#endif

byte begun, word, ended;
byte reader_ended, reader_word, reader_begun;

proctype writer()
{
	byte done;

	do
	STEP(0, 0, begun = 1)
	STEP(1, WRITTEN, word = 1)
	STEP(2, S0 | S1, ended = 1)
	END(S0 | S1 | S2)
	od
}

proctype reader()
{
	byte done;

	do
	STEP(0, 0, reader_ended = ended)
	STEP(1, S0, reader_word = word)
	STEP(2, READ, reader_begun = begun)
	END(S0 | S1 | S2)
	od
}

/* ---- a ring whose entries are counted afterwards ------------------------- */

/*
 * A call stores its ticket in the slot of an old call, and then its number. A
 * reader reads the slot, and then the number. If the number is that of the call
 * before the previous one or older, the ticket is the old call's.
 *
 *  counter    count_collective(): src/shim/watched.c
 *  scanner    shared_ticket()
 */
#ifdef BREAK_RING_STORED_RELAXED
#define COUNTED 0
#else
#define COUNTED S0
#endif

byte counted, slot, scanner_slot, scanner_counted;

proctype counter()
{
	byte done;

	do
	STEP(0, 0, counted = 1) /* the previous call */
	STEP(1, COUNTED, slot = 1)
	STEP(2, S0 | S1, counted = 2)
	END(S0 | S1 | S2)
	od
}

proctype scanner()
{
	byte done;

	do
	STEP(0, 0, scanner_slot = slot)
	STEP(1, S0, scanner_counted = counted)
	END(S0 | S1)
	od
}

/* ---- the record of completions ------------------------------------------ */

/*
 * A waiter that finds an operation done while the clique is live returns OK. So
 * the record, which the reaper makes after the change to NOTING, must have this
 * operation.
 *
 *  marker     the mark of an operation
 *  looker     cohort_wait(): the done word, then the state
 *  noter      clique_record_completions()
 */
#ifdef BREAK_NOTED_RELAXED
#define NOTED 0
#else
#define NOTED S0
#endif

byte is_done, state, looker_done, looker_state, recorded;

proctype marker()
{
	is_done = 1
}

proctype looker()
{
	byte done;

	do
	STEP(0, 0, looker_done = is_done)
	STEP(1, S0, looker_state = state)
	END(S0 | S1)
	od
}

proctype noter()
{
	byte done;

	do
	STEP(0, 0, state = 1)
	STEP(1, NOTED, recorded = is_done)
	END(S0 | S1)
	od
}

/* ---- hazard pointers ---------------------------------------------------- */

/*
 * The caller has only a compiler barrier between its two accesses. membarrier()
 * issues a barrier in the caller's thread, and no access after this barrier
 * precedes an access before it.
 *
 *  caller     hazard_announce(), comm_protect()
 *  respawner  hazard_is_announced()
 */
byte hazard, forgotten, caller_saw, respawner_saw;
byte caller_done;

/* No barrier is possible after the caller has made only its second access. */
#define IN_ORDER (caller_done != S1)

proctype caller()
{
#define done caller_done
	do
	STEP(0, 0, hazard = 1)
	STEP(1, 0, caller_saw = forgotten)
	END(S0 | S1)
	od
#undef done
}

proctype respawner()
{
	forgotten = 1;
#ifndef BREAK_NO_MEMBARRIER
	IN_ORDER;
#endif
	respawner_saw = hazard
}

/* ---- buffers that are read until they are released ----------------------- */

/*
 * A receiver reads a buffer, and then checks, by a read-modify-write, that the
 * sender was not cut short. A sender that is cut short first records that, and
 * then lets the program reuse the buffer.
 *
 *  receiver   is_cut(): src/sim/exec/span.c; read_card(): src/sim/nccl/spans.c
 *  sender     span_abort(); set_stage()
 */
#ifdef BREAK_CUT_STORED
#define CUT 0 /* a store, which later stores can overtake */
#else
#define CUT S0
#endif

byte buffer, cut, receiver_read, receiver_cut;

proctype receiver()
{
	byte done;

	do
	STEP(0, 0, receiver_read = buffer)
	STEP(1, S0, receiver_cut = cut)
	END(S0 | S1)
	od
}

proctype sender()
{
	byte done;

	do
	STEP(0, 0, cut = 1)
	STEP(1, CUT, buffer = 1)
	END(S0 | S1)
	od
}

/* ---- the tests ---------------------------------------------------------- */

#define ALL_HAVE_ENDED _nr_pr == 1

init {
	if
	:: atomic { run announcer(); run checker() };
		ALL_HAVE_ENDED;
		assert(announcer_saw || checker_saw)
	:: atomic { run device(); run waiter(); run second() };
		ALL_HAVE_ENDED;
		assert(!waiter_saw || waiter_read);
		assert(!second_saw || second_read)
	:: atomic { run writer(); run reader() };
		ALL_HAVE_ENDED;
		assert(reader_ended != reader_begun ||
		       reader_word == reader_begun)
	:: atomic { run counter(); run scanner() };
		ALL_HAVE_ENDED;
		assert(!scanner_slot || scanner_counted)
	:: atomic { run marker(); run looker(); run noter() };
		ALL_HAVE_ENDED;
		assert(!looker_done || looker_state || recorded)
	:: atomic { run caller(); run respawner() };
		ALL_HAVE_ENDED;
		assert(caller_saw || respawner_saw)
	:: atomic { run receiver(); run sender() };
		ALL_HAVE_ENDED;
		assert(receiver_cut || !receiver_read)
	fi
}
