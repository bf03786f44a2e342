/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests of premultiplied sums
 */

#include <criterion/criterion.h>
#include <string.h>

#include "support/expect.h"
#include "support/ranks.h"

#define RANKS 3

static struct cohort_group *group;
static struct cohort_comm *c[RANKS];

static void open_all(void)
{
	group = ranks_split(RANKS, NULL, c);
}

static void close_all(void)
{
	expect_close(group);
}

TestSuite(redop, .init = open_all, .fini = close_all, .timeout = 60);

/* Open the group so that one thread can make the calls of each rank in turn. */
static void in_turn(void)
{
	close_all();
	group = ranks_ahead(RANKS, NULL, c);
}

static int create(int r, int32_t factor)
{
	int op = -1;

	ranks_must(cohort_premul_sum_create(c[r], &factor, COHORT_I32,
	                                    COHORT_SCALAR_HOST, &op),
	           "create");
	return op;
}

static int all_reduce(int r, int32_t *x, int op)
{
	return cohort_all_reduce(c[r], x, x, 1, COHORT_I32, op,
	                         cohort_comm_stream(c[r]), NULL);
}

Test(redop, premul_sum_multiplies_each_rank_by_its_own_scalar, .init = in_turn)
{
	int32_t x[RANKS] = { 1, 2, 3 };
	int r, op[RANKS];

	for (r = 0; r < RANKS; r++)
		op[r] = create(r, 10 * (r + 1));
	for (r = 0; r < RANKS; r++)
		ranks_must(all_reduce(r, &x[r], op[r]), "all_reduce");
	/* The operation can be destroyed as soon as the call has returned. */
	for (r = 0; r < RANKS; r++)
		ranks_must(cohort_op_destroy(c[r], op[r]), "destroy");
	for (r = 0; r < RANKS; r++) {
		ranks_must(cohort_synchronize(c[r], RANKS_SOON), "synchronize");
		cr_assert_eq(x[r], 10 + 40 + 90);
	}
}

Test(redop, premul_sum_works_in_every_reduction_and_in_a_batch, .init = in_turn)
{
	int32_t x[RANKS][RANKS], y[RANKS] = { -1, -1, -1 }, z[RANKS];
	int r, i, op[RANKS];

	for (r = 0; r < RANKS; r++) {
		op[r] = create(r, r + 1);
		for (i = 0; i < RANKS; i++)
			x[r][i] = 10 * (i + 1);
		z[r] = -1;
		ranks_must(cohort_batch_begin(c[r]), "batch");
		ranks_must(cohort_reduce_scatter(c[r], x[r], &y[r], 1,
		                                 COHORT_I32, op[r], NULL, NULL),
		           "reduce_scatter");
		ranks_must(cohort_reduce(c[r], x[r], &z[r], 1, COHORT_I32,
		                         op[r], 1, NULL, NULL),
		           "reduce");
		ranks_must(cohort_batch_end(c[r], NULL, NULL), "batch");
	}
	for (r = 0; r < RANKS; r++) {
		ranks_must(cohort_synchronize(c[r], RANKS_SOON), "synchronize");
		cr_assert_eq(y[r], 60 * (r + 1));
		cr_assert_eq(z[r], r == 1 ? 60 : -1);
	}
}

Test(redop, premul_sum_reads_a_device_scalar_when_it_runs, .init = in_turn)
{
	int32_t x[RANKS] = { 1, 1, 1 }, five = 5;
	void *scalar[RANKS];
	int r, op[RANKS];

	for (r = 0; r < RANKS; r++) {
		ranks_must(cohort_alloc(c[r], sizeof(five), &scalar[r]),
		           "alloc");
		ranks_must(cohort_premul_sum_create(c[r], scalar[r], COHORT_I32,
		                                    COHORT_SCALAR_DEVICE,
		                                    &op[r]),
		           "create");
		ranks_must(cohort_copy(c[r], scalar[r], &five, sizeof(five),
		                       cohort_comm_stream(c[r])),
		           "copy");
	}
	for (r = 0; r < RANKS; r++)
		ranks_must(all_reduce(r, &x[r], op[r]), "all_reduce");
	for (r = 0; r < RANKS; r++) {
		ranks_must(cohort_synchronize(c[r], RANKS_SOON), "synchronize");
		cr_assert_eq(x[r], 15);
	}
	for (r = 0; r < RANKS; r++)
		ranks_must(cohort_free(c[r], scalar[r]), "free");
}

Test(redop, premul_sum_is_valid_for_one_communicator_and_type)
{
	int op = create(0, 2), other = create(1, 2);
	int32_t x = 7;
	float f = 7;

	expect(all_reduce(0, &x, other), COHORT_INVALID,
	       "nor a premultiplied sum of rank 0");
	expect(all_reduce(0, &x, 5), COHORT_INVALID,
	       "op is 5, not a value of enum cohort_op");
	expect(cohort_all_reduce(c[0], &f, &f, 1, COHORT_F32, op, NULL, NULL),
	       COHORT_INVALID, "a premultiplied sum of int32, but type is");
	expect(cohort_op_destroy(c[0], other), COHORT_INVALID, "op is ");
	expect(cohort_op_destroy(c[0], COHORT_SUM), COHORT_INVALID, "op is 0");
	expect(cohort_op_destroy(c[0], -3), COHORT_INVALID, "op is -3");
	ranks_must(cohort_op_destroy(c[0], op), "destroy");
	expect(cohort_op_destroy(c[0], op), COHORT_INVALID, "op is ");
	expect(all_reduce(0, &x, op), COHORT_INVALID, "op is ");
	cr_assert_eq(x, 7);
}

Test(redop, premul_sum_names_the_invalid_argument_and_its_value)
{
	int32_t x = 7;
	int op = 77;

	expect(cohort_premul_sum_create(NULL, &x, COHORT_I32,
	                                COHORT_SCALAR_HOST, &op),
	       COHORT_INVALID, "comm is NULL");
	expect(cohort_premul_sum_create(c[0], NULL, COHORT_I32,
	                                COHORT_SCALAR_HOST, &op),
	       COHORT_INVALID, "scalar is NULL");
	expect(cohort_premul_sum_create(c[0], &x, COHORT_I32,
	                                COHORT_SCALAR_HOST, NULL),
	       COHORT_INVALID, "op is NULL");
	expect(cohort_premul_sum_create(c[0], &x, 12, COHORT_SCALAR_HOST, &op),
	       COHORT_INVALID, "type is 12");
	expect(cohort_premul_sum_create(c[0], &x, COHORT_I32, 2, &op),
	       COHORT_INVALID, "residence is 2");
	cr_assert_eq(op, 77);
}

Test(redop, rank_can_have_64_premul_sums)
{
	int i, op[64], one_more = 77;
	int32_t x = 7;

	for (i = 0; i < 64; i++)
		op[i] = create(0, i);
	expect(cohort_premul_sum_create(c[0], &x, COHORT_I32,
	                                COHORT_SCALAR_HOST, &one_more),
	       COHORT_NO_MEMORY, "64");
	cr_assert_eq(one_more, 77);
	for (i = 0; i < 64; i++)
		ranks_must(cohort_op_destroy(c[0], op[i]), "destroy");
	for (i = 0; i < 200; i++)
		ranks_must(cohort_op_destroy(c[0], create(0, i)), "destroy");
}

/* NCCL has no kernel for premultiplied sums of 8-bit floats on one rank. */
Test(redop, premul_sum_of_8_bit_floats_is_refused_on_one_rank)
{
	const uint8_t two = 0x40;
	struct cohort_comm *alone;
	struct cohort_group *one = ranks_split(1, NULL, &alone);
	int op = 77;

	expect(cohort_premul_sum_create(alone, &two, COHORT_F8E4M3,
	                                COHORT_SCALAR_HOST, &op),
	       COHORT_UNSUPPORTED, "type is float8e4m3");
	expect(cohort_premul_sum_create(alone, &two, COHORT_F8E5M2,
	                                COHORT_SCALAR_HOST, &op),
	       COHORT_UNSUPPORTED, "type is float8e5m2");
	cr_assert_eq(op, 77);
	expect_close(one);
}

/* NCCL refuses averages of 8-bit floats. On one rank, the library copies the
 * data instead of calling NCCL. */
Test(redop, average_of_8_bit_floats_on_one_rank_is_a_copy)
{
	static const int types[] = { COHORT_F8E4M3, COHORT_F8E5M2 };
	uint8_t in[64], out[64];
	struct cohort_comm *alone;
	struct cohort_group *one = ranks_split(1, NULL, &alone);
	size_t i, k;

	for (k = 0; k < 2; k++) {
		for (i = 0; i < sizeof(in); i++)
			in[i] = (uint8_t)(i + k);
		memset(out, 0, sizeof(out));
		ranks_must(cohort_all_gather_host(alone, in, out, sizeof(in),
		                                  types[k], COHORT_FOREVER),
		           "all_gather_host");
		memset(out, 0xff, sizeof(out));
		ranks_must(cohort_reduce_scatter_host(
				   alone, in, out, sizeof(in), types[k],
				   COHORT_AVG, COHORT_FOREVER),
		           "reduce_scatter_host");
		cr_assert_arr_eq(in, out, sizeof(in));
	}
	expect_close(one);
}

static const struct platform *whole;

/*
 * Reduce with the bug of NCCL before 2.29.7: on one rank, the blocks of a
 * kernel that multiplies divide the elements among themselves and omit the
 * remainder.
 */
static ncclResult_t lossy(const void *send, void *recv, size_t count,
                          ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                          cudaStream_t stream)
{
	const size_t size = cohort_type_size((int)type), pack = 16 / size;
	size_t blocks = (count * size + (16 << 10) - 1) / (16 << 10), each,
	       done;

	blocks = blocks > 32 ? 32 : blocks ? blocks : 1;
	each = (count / blocks + pack - 1) / pack * pack;
	done = op < ncclAvg || blocks * each > count ? count : blocks * each;
	return whole->ncclAllReduce(send, recv, done, type, op, comm, stream);
}

static ncclResult_t version_that_loses(int *version)
{
	*version = 22809;
	return ncclSuccess;
}

/* Check that averages, and sums of values multiplied by 3, process all @count
 * elements. */
static void expect_all(struct cohort_comm *alone, int32_t *in, int32_t *out,
                       size_t count, int op)
{
	const int32_t factor = op == COHORT_AVG ? 1 : 3;
	size_t i;

	memset(out, 0, count * sizeof(*out));
	ranks_must(cohort_all_reduce(alone, in, out, count, COHORT_I32, op,
	                             cohort_comm_stream(alone), NULL),
	           "all_reduce");
	ranks_must(cohort_synchronize(alone, RANKS_SOON), "synchronize");
	for (i = 0; i < count; i++)
		cr_assert_eq(out[i], factor * in[i], "element %zu of %zu", i,
		             count);
}

Test(redop, reduction_on_one_rank_processes_every_element)
{
	static const size_t counts[] = { 0,      1,      4095,   4096,
		                         4097,   40001,  126977, 126979,
		                         131071, 131073, 300001 };
	static int32_t in[300001], out[300001];
	struct platform table = *(whole = place_table());
	const int32_t three = 3;
	struct cohort_comm *alone;
	struct cohort_group *one;
	size_t i;
	int op;

	table.ncclAllReduce = lossy;
	table.ncclGetVersion = version_that_loses;
	platform_override(&table);
	one = ranks_split(1, NULL, &alone);
	for (i = 0; i < sizeof(in) / sizeof(in[0]); i++)
		in[i] = (int32_t)i + 1;
	ranks_must(cohort_premul_sum_create(alone, &three, COHORT_I32,
	                                    COHORT_SCALAR_HOST, &op),
	           "premul_sum_create");
	for (i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
		expect_all(alone, in, out, counts[i], op);
		expect_all(alone, in, out, counts[i], COHORT_AVG);
	}
	expect_close(one);
}

Test(redop, premul_sum_is_refused_after_an_abort)
{
	int op = create(0, 2), left = create(0, 3), another = 77;
	int32_t x = 7;

	(void)left;
	cohort_group_abort(group, "enough");
	expect(all_reduce(0, &x, op), COHORT_ABORTED, "enough");
	expect(cohort_premul_sum_create(c[0], &x, COHORT_I32,
	                                COHORT_SCALAR_HOST, &another),
	       COHORT_ABORTED, "enough");
	cr_assert_eq(another, 77);
	ranks_must(cohort_op_destroy(c[0], op), "destroy");
	expect(cohort_op_destroy(c[0], op), COHORT_INVALID, "op is ");
}

static int against_a_sum(struct cohort_comm *comm, void *user)
{
	int32_t x = 1;
	int op = COHORT_SUM, rc = COHORT_OK;

	(void)user;
	if (cohort_comm_rank(comm) == 1)
		rc = cohort_premul_sum_create(comm, &x, COHORT_I32,
		                              COHORT_SCALAR_HOST, &op);
	if (rc == COHORT_OK)
		rc = cohort_all_reduce(comm, &x, &x, 1, COHORT_I32, op, NULL,
		                       NULL);
	return rc == COHORT_OK ? cohort_synchronize(comm, RANKS_SOON) : rc;
}

Test(redop, premul_sum_and_plain_sum_are_a_mismatch)
{
	struct cohort_cause cause;

	cause = expect_end_of_run(group, against_a_sum, NULL, COHORT_MISMATCH);
	cr_assert_eq(cause.rank, 1, "%s", cause.text);
	expect_text(cause.text, "rank 1 calls all_reduce of 1 "
	                        "int32, premul sum");
}
