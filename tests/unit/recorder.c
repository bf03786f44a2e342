/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests of the recorder's ring buffer, on one thread
 *
 * tests/system/stress tests its races.
 */

#include <criterion/criterion.h>

#include "core/recorder.h"

static struct recorder recorder;

static void set_up(void)
{
	cr_assert_eq(recorder_init(&recorder, 16), COHORT_OK);
}

static void tear_down(void)
{
	recorder_fini(&recorder);
}

TestSuite(recorder, .init = set_up, .fini = tear_down);

static void begin(uint64_t ticket)
{
	const struct cohort_tensor list[] = { { NULL, NULL, 7, COHORT_BF16 },
		                              { NULL, NULL, 1, COHORT_F64 } };
	const struct op op = {
		.kind = OP_REDUCE,
		.redop = COHORT_MIN,
		.root = 3,
		.tensors = list,
		.n = 2,
		.stream = &recorder,
		.label = ticket % 2 ? "bucket 1" : NULL,
	};

	recorder_begin(&recorder, ticket, &op, (uint32_t)ticket, 42,
	               100 + ticket);
}

Test(recorder, recorder_keeps_every_field_of_a_call)
{
	struct record r;

	tag_set(&recorder.tags, "step 1");
	begin(5);
	cr_assert(recorder_read(&recorder, 5, &r));
	cr_assert_eq(r.ticket, 5);
	cr_assert_eq(r.tag, recorder.tags.now);
	cr_assert_eq(r.label, recorder.labels.now);
	cr_assert_neq(r.label, 0);
	cr_assert_eq(r.submitted_ns, 105);
	cr_assert_eq(r.kind, OP_REDUCE);
	cr_assert_eq(r.type, COHORT_BF16);
	cr_assert_eq(r.redop, COHORT_MIN);
	cr_assert_eq(r.root, 3);
	cr_assert_eq(r.n, 2);
	cr_assert_eq(r.digest, 5);
	cr_assert_eq(r.count, 7);
	cr_assert_eq(r.bytes, 22);
	cr_assert_eq(r.stream, (void *)&recorder);
	cr_assert_eq(r.tid, 42);
	cr_assert_eq(r.started_ns, 0);
	cr_assert_eq(r.finished_ns, 0);
}

Test(recorder, recorder_keeps_thread_and_label_with_the_outcome)
{
	struct record r;

	begin(4);
	cr_assert(recorder_read(&recorder, 4, &r));
	cr_assert_eq(r.label, 0);
	begin(5);
	recorder_end(&recorder, 5, COHORT_NCCL);
	cr_assert(recorder_read(&recorder, 5, &r));
	cr_assert_eq(r.outcome, COHORT_NCCL);
	cr_assert_eq(r.tid, 42);
	cr_assert_eq(r.label, recorder.labels.now);
}

/* ---- times ------------------------------------------------------------ */

Test(recorder, recorder_keeps_the_first_times_that_are_reported)
{
	struct record r;

	begin(5);
	cr_assert(recorder_set_started(&recorder, 5, 110));
	cr_assert_not(recorder_set_started(&recorder, 5, 111));
	cr_assert_not(recorder_has_finished(&recorder, 5));
	cr_assert(recorder_set_finished(&recorder, 5, 120));
	cr_assert_not(recorder_set_finished(&recorder, 5, 119));
	cr_assert(recorder_has_finished(&recorder, 5));
	cr_assert(recorder_read(&recorder, 5, &r));
	cr_assert_eq(r.started_ns, 110);
	cr_assert_eq(r.finished_ns, 120);
}

Test(recorder, finish_time_observed_by_a_wait_is_exact)
{
	struct record r;

	begin(5);
	cr_assert(recorder_read(&recorder, 5, &r));
	cr_assert_not(r.finished_at_most);
	cr_assert(recorder_observed_end(&recorder, 5, 120));
	cr_assert_not(recorder_set_finished(&recorder, 5, 130));
	cr_assert(recorder_read(&recorder, 5, &r));
	cr_assert_eq(r.finished_ns, 120);
	cr_assert_not(r.finished_at_most);
}

Test(recorder, finish_time_found_later_is_an_upper_bound)
{
	struct record r;

	begin(5);
	cr_assert(recorder_set_finished(&recorder, 5, 120));
	cr_assert(recorder_read(&recorder, 5, &r));
	cr_assert_eq(r.finished_ns, 120);
	cr_assert(r.finished_at_most);
}

Test(recorder, finish_time_found_during_a_wait_is_exact)
{
	struct record r;

	begin(5);
	cr_assert(recorder_set_finished(&recorder, 5, 120));
	cr_assert_not(recorder_observed_end(&recorder, 5, 130));
	cr_assert(recorder_read(&recorder, 5, &r));
	cr_assert_eq(r.finished_ns, 120);
	cr_assert_not(r.finished_at_most);

	begin(21); /* reuses the slot of ticket 5 */
	cr_assert(recorder_set_finished(&recorder, 21, 200));
	cr_assert_not(recorder_observed_end(&recorder, 5, 210));
	cr_assert(recorder_read(&recorder, 21, &r));
	cr_assert(r.finished_at_most);
}

Test(recorder, duration_of_days_does_not_set_the_upper_bound_bit)
{
	const uint64_t days = UINT64_C(5) * 24 * 3600 * 1000000000;
	struct record r;

	begin(5);
	cr_assert(recorder_observed_end(&recorder, 5, days));
	cr_assert(recorder_read(&recorder, 5, &r));
	cr_assert_not(r.finished_at_most);
	cr_assert_gt(r.finished_ns, days / 5);
}

Test(recorder, recorded_start_is_not_before_the_call)
{
	struct record r;

	begin(5);
	cr_assert(recorder_set_started(&recorder, 5, 50));
	cr_assert(recorder_read(&recorder, 5, &r));
	cr_assert_eq(r.started_ns, 105);
}

Test(recorder, recorder_ignores_a_time_for_a_slot_that_was_reused)
{
	struct record r;

	begin(5);
	begin(21);
	cr_assert_not(recorder_set_finished(&recorder, 5, 200));
	cr_assert(recorder_read(&recorder, 21, &r));
	cr_assert_eq(r.finished_ns, 0);
	cr_assert(recorder_set_finished(&recorder, 21, 200));
}

static const char *spell(const struct op *op)
{
	static char text[200];
	struct record r;

	recorder_begin(&recorder, 3, op, 0, 42, 0);
	cr_assert(recorder_read(&recorder, 3, &r));
	record_add(&(struct text){ text, sizeof(text) }, &r);
	return text;
}

Test(recorder, recorded_calls_are_described_in_words)
{
	const struct cohort_tensor t = { NULL, NULL, 1000, COHORT_F32 };
	const struct op send = {
		.kind = OP_SEND, .root = 2, .tensors = &t, .n = 1
	};
	const struct op recv = {
		.kind = OP_RECV, .root = 0, .tensors = &t, .n = 1
	};
	const struct op gather = {
		.kind = OP_GATHER, .root = 1, .tensors = &t, .n = 1
	};
	const struct op sum = {
		.kind = OP_ALL_REDUCE, .redop = 5000, .tensors = &t, .n = 1
	};

	cr_assert_str_eq(spell(&send), "send of 1000 float32 to rank 2");
	cr_assert_str_eq(spell(&recv), "recv of 1000 float32 from rank 0");
	cr_assert_str_eq(spell(&gather), "gather of 1000 float32, root 1");
	cr_assert_str_eq(spell(&sum), "all_reduce of 1000 float32, premul sum");
}

Test(recorder, record_of_a_batch_describes_its_first_call)
{
	const struct cohort_tensor t = { NULL, NULL, 1000, COHORT_F32 };
	struct op calls[12], batch = { .kind = OP_BATCH, .calls = calls };
	struct record r;
	size_t i;

	for (i = 0; i < 12; i++)
		calls[i] = (struct op){ .kind = OP_ALL_REDUCE,
			                .tensors = &t,
			                .n = 1 };
	batch.n = 12;
	cr_assert_str_eq(spell(&batch),
	                 "batch of 12 calls, the first all_reduce of 1000 "
	                 "float32, sum");
	cr_assert(recorder_read(&recorder, 3, &r));
	cr_assert_eq(r.bytes, 48000);
	batch.n = 1;
	cr_assert_str_eq(spell(&batch),
	                 "batch of 1 call, the first all_reduce of 1000 "
	                 "float32, sum");
	batch.n = 0;
	cr_assert_str_eq(spell(&batch), "batch of 0 calls");
	cr_assert_str_eq(record_native_name(&r), "ncclGroupEnd");
}

Test(recorder, recorder_shows_a_call_that_has_not_returned)
{
	struct record r;

	begin(1);
	cr_assert(recorder_read(&recorder, 1, &r));
	cr_assert_eq(r.outcome, COHORT_TIMED_OUT);
	recorder_end(&recorder, 1, COHORT_NCCL);
	cr_assert(recorder_read(&recorder, 1, &r));
	cr_assert_eq(r.outcome, COHORT_NCCL);
}

Test(recorder, recorder_has_no_record_of_unmade_or_overwritten_calls)
{
	struct record r;
	uint64_t t;

	cr_assert_not(recorder_read(&recorder, 0, &r));
	cr_assert_not(recorder_read(&recorder, 1, &r));
	for (t = 1; t <= 17; t++)
		begin(t);
	cr_assert_not(recorder_read(&recorder, 1, &r));
	cr_assert(recorder_read(&recorder, 2, &r));
	cr_assert(recorder_read(&recorder, 17, &r));
	cr_assert_not(recorder_read(&recorder, 18, &r));
	cr_assert_null(recorder_stream(&recorder, 1));
	cr_assert_eq(recorder_stream(&recorder, 2), (void *)&recorder);
}
