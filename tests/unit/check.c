/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests of the parts of cohort check that call no platform
 *
 * Findings are stored as lines "RESULT CHECK SUBJECT: WHAT".  The system's
 * files are read from a temporary folder.
 */

#include <criterion/criterion.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/check/check.h"
#include "platform/gpu/known.h"

/* ---- findings ----------------------------------------------------------- */

static char reported[65536];

static void keep(const struct finding *f, void *user)
{
	static const char *const results[] = { "ok", "skipped", "warning",
		                               "error" };
	const size_t n = strlen(reported);

	(void)user;
	cr_assert_not_null(f->what);
	if (f->result == CHECK_ERROR && strcmp(f->check, "platform") != 0)
		cr_assert_not_null(f->advice, "%s: %s", f->check, f->what);
	snprintf(reported + n, sizeof(reported) - n, "%s %s %s: %s\n",
	         results[f->result], f->check, f->subject ? f->subject : "-",
	         f->what);
}

static char root[64];

static struct check fresh(void)
{
	reported[0] = '\0';
	unsetenv("COHORT_PLATFORM");
	return (struct check){
		.deadline_ns = 10000000000,
		.limit_ns = 10000000000,
		.root = root,
		.report = keep,
	};
}

#define HAS(text)                                                              \
	cr_assert(strstr(reported, text), "no \"%s\" in\n%s", text, reported)
#define HAS_NOT(text)                                                          \
	cr_assert(!strstr(reported, text), "\"%s\" in\n%s", text, reported)

/* Write @text to the file @path in the temporary folder, and create its parent
 * folders. */
static void put(const char *path, const char *text)
{
	char full[PATH_MAX], *slash;
	FILE *out;

	if (!root[0]) {
		strcpy(root, "/tmp/cohort-unit-XXXXXX");
		cr_assert_not_null(mkdtemp(root));
	}
	snprintf(full, sizeof(full), "%s%s", root, path);
	for (slash = full + strlen(root) + 1; (slash = strchr(slash, '/'));
	     slash++) {
		*slash = '\0';
		mkdir(full, 0700);
		*slash = '/';
	}
	out = fopen(full, "w");
	cr_assert_not_null(out, "%s", full);
	fputs(text, out);
	fclose(out);
}

static void remove_root(void)
{
	char command[128];

	if (!root[0])
		return;
	snprintf(command, sizeof(command), "rm -rf %s", root);
	cr_assert_eq(system(command), 0);
}

TestSuite(check, .fini = remove_root, .timeout = 60);

/* ---- NCCL's configuration files ----------------------------------------- */

/* Parse a line. Return "<NAME>=<VALUE>", or "-" if the line sets nothing. */
static const char *parsed(const char *text, int nccl_version)
{
	static char line[4096], out[4096];
	struct nccl_setting s = { .line = 0 };

	snprintf(line, sizeof(line), "%s", text);
	if (!nccl_files_parse(line, nccl_version, &s))
		return "-";
	snprintf(out, sizeof(out), "<%s>=<%s>", s.name, s.value);
	return out;
}

Test(check, nccl_conf_lines_are_parsed_as_nccl_does)
{
	cr_assert_str_eq(parsed("NCCL_DEBUG=WARN\n", 22809),
	                 "<NCCL_DEBUG>=<WARN>");
	cr_assert_str_eq(parsed("NCCL_DEBUG=WARN", 22809),
	                 "<NCCL_DEBUG>=<WARN>");
	cr_assert_str_eq(parsed(" NCCL_A = b \n", 22809), "< NCCL_A >=< b >");
	cr_assert_str_eq(parsed("NCCL_SOCKET_IFNAME==eth0\n", 22809),
	                 "<NCCL_SOCKET_IFNAME>=<=eth0>");
	cr_assert_str_eq(parsed("NCCL_A=\"b\"\n", 22809), "<NCCL_A>=<\"b\">");
	cr_assert_str_eq(parsed("NCCL_A=b # c\n", 22809), "<NCCL_A>=<b # c>");
	cr_assert_str_eq(parsed("NCCL_A=\n", 22809), "<NCCL_A>=<>");
	cr_assert_str_eq(parsed("=b\n", 22809), "<>=<b>");
	cr_assert_str_eq(parsed("# NCCL_A=b\n", 22809), "-");
	cr_assert_str_eq(parsed("NCCL_A b\n", 22809), "-");
	cr_assert_str_eq(parsed("\n", 22809), "-");
	cr_assert_str_eq(parsed("", 22809), "-");
}

Test(check, carriage_return_is_part_of_the_value_before_nccl_2_30)
{
	cr_assert_str_eq(parsed("NCCL_A=b\r\n", 22907), "<NCCL_A>=<b\r>");
	cr_assert_str_eq(parsed("NCCL_A=b\r\n", 23003), "<NCCL_A>=<b>");
}

Test(check, nccl_conf_values_are_cut_to_1023_bytes)
{
	char line[3000] = "NCCL_A=";
	struct nccl_setting s = { .line = 0 };

	memset(line + 7, 'x', sizeof(line) - 8);
	cr_assert(nccl_files_parse(line, 22809, &s));
	cr_assert_eq(strlen(s.value), 1023);
}

/* Read the system's configuration file of NCCL and the file that NCCL_CONF_FILE
 * names. If @own is NULL, the second file does not exist. */
static void read_files(struct check *c, const char *system, const char *own,
                       int version)
{
	static char path[PATH_MAX];

	put("/etc/nccl.conf", system);
	put("/own.conf", own ? own : "");
	snprintf(path, sizeof(path), "%s%s", root,
	         own ? "/own.conf" : "/nowhere");
	setenv("NCCL_CONF_FILE", path, 1);
	setenv("HOME", root, 1);
	nccl_files_read(c, version);
}

Test(check, first_setting_of_an_nccl_variable_wins)
{
	struct check c = fresh();

	setenv("NCCL_ALGO", "Tree", 1);
	unsetenv("NCCL_PROTO");
	unsetenv("NCCL_DEBUG");
	read_files(&c, "NCCL_PROTO=LL\nNCCL_DEBUG=WARN\n",
	           "NCCL_ALGO=Ring\nNCCL_PROTO=Simple\nNCCL_PROTO=LL128\n",
	           22809);
	cr_assert_str_eq(getenv("NCCL_ALGO"), "Tree");
	cr_assert_str_eq(getenv("NCCL_PROTO"), "Simple");
	cr_assert_str_eq(getenv("NCCL_DEBUG"), "WARN");
	HAS("own.conf:1: NCCL_ALGO is Ring here, but was set to Tree");
	HAS("own.conf:3: NCCL_PROTO is LL128 here");
	HAS("nccl.conf:1: NCCL_PROTO is LL here");
	HAS_NOT("NCCL_DEBUG");
	free(c.settings);
}

Test(check, misleading_nccl_conf_lines_are_reported)
{
	struct check c = fresh();

	read_files(&c,
	           "# a comment\n"
	           "\n"
	           "NCCL_IB_HCA mlx5\n"
	           "export NCCL_A=1\n"
	           "NCCL_B =1\n"
	           "NCCL_C= 1\n"
	           "NCCL_D='1'\n"
	           "NCCL_E=1 # one\n"
	           "CUDA_VISIBLE_DEVICES=0\n"
	           "=1\n",
	           "", 22809);

	HAS("nccl.conf:3: The line has no \"=\"");
	HAS("nccl.conf:4: The line starts with \"export\"");
	HAS("nccl.conf:5: The line has a space around the name");
	HAS("nccl.conf:6: The line has a space around the value");
	HAS("nccl.conf:7: The line has quotes");
	HAS("nccl.conf:8: The line has a \"#\"");
	HAS("nccl.conf:9: The line sets a variable that is not NCCL's");
	HAS("nccl.conf:10: The line has no name");
	HAS_NOT("nccl.conf:1:");
	HAS_NOT("nccl.conf:2:");
	cr_assert_null(getenv("CUDA_VISIBLE_DEVICES"));
	free(c.settings);
}

Test(check, missing_nccl_conf_file_is_an_error)
{
	struct check c = fresh();

	read_files(&c, "", NULL, 22809);

	HAS("error nccl-files NCCL_CONF_FILE: ");
	HAS("/nowhere: No such file or directory");
	free(c.settings);
}

Test(check, nccl_conf_in_home_is_read_if_nccl_conf_file_is_unset)
{
	struct check c = fresh();

	unsetenv("NCCL_CONF_FILE");
	unsetenv("NCCL_HOME_TEST");
	put("/.nccl.conf", "NCCL_HOME_TEST=1\n");
	setenv("HOME", root, 1);
	nccl_files_read(&c, 23003);
	cr_assert_str_eq(getenv("NCCL_HOME_TEST"), "1");
	free(c.settings);
	c = fresh();
	/* Before 2.30, NCCL finds the home folder by the user's account and
	 * ignores HOME. */
	unsetenv("NCCL_HOME_TEST");
	nccl_files_read(&c, 22907);
	cr_assert_null(getenv("NCCL_HOME_TEST"));
	free(c.settings);
}

/* ---- versions ----------------------------------------------------------- */

Test(check, driver_version_is_parsed_from_its_text_in_proc)
{
	cr_assert_eq(driver_version(
			     "NVRM version: NVIDIA UNIX x86_64 Kernel "
			     "Module  525.60.13  Wed Nov 30 06:39:21 UTC "
			     "2022\nGCC version:  gcc version 12.2.0\n"),
	             DRIVER_VERSION(525, 60, 13));
	cr_assert_eq(driver_version("NVRM version: NVIDIA UNIX Open Kernel "
	                            "Module for x86_64  580.82.07  Release "
	                            "Build\n"),
	             DRIVER_VERSION(580, 82, 7));
	cr_assert_eq(driver_version("NVRM version: NVIDIA UNIX x86_64 Kernel "
	                            "Module  610.43  Fri\n"),
	             DRIVER_VERSION(610, 43, 0));
	cr_assert_eq(driver_version("no version"), 0);
	cr_assert_eq(driver_version(""), 0);
}

Test(check, versions_with_known_bugs_are_reported_with_a_source)
{
	struct check c = fresh();

	cr_assert(report_known_faults(&c, KNOWN_NCCL, 22602, "nccl-version",
	                              "2.26.2"));
	HAS("warning nccl-version 2.26.2: With two RTX PRO 6000 Blackwell");
	HAS("NVIDIA/nccl#2418");
	HAS_NOT("Aborts are slow");
	cr_assert(report_known_faults(&c, KNOWN_NCCL, 22105, "nccl-version",
	                              "2.21.5"));
	HAS("error nccl-version 2.21.5: Aborts are slow and may hang, ");
	cr_assert(report_known_faults(&c, KNOWN_CUDA, 11080, "cuda-version",
	                              "11.8"));
	HAS("error cuda-version 11.8: ");
	cr_assert(report_known_faults(&c, KNOWN_DRIVER,
	                              DRIVER_VERSION(560, 35, 3),
	                              "driver-version", "560.35.03"));
	HAS("warning driver-version 560.35.03: NCCL may hang on direct paths");
	reported[0] = '\0';
	cr_assert_not(report_known_faults(&c, KNOWN_NCCL, 23203, "nccl-version",
	                                  "2.32.3"));
	cr_assert_not(report_known_faults(&c, KNOWN_CUDA, 12000, "cuda-version",
	                                  "12.0"));
	cr_assert_not(report_known_faults(&c, KNOWN_DRIVER,
	                                  DRIVER_VERSION(525, 60, 13),
	                                  "driver-version", "525.60.13"));
	cr_assert_str_empty(reported);
}

Test(check, every_known_bug_has_a_range_a_sentence_and_a_source)
{
	for (size_t i = 0; i < known_version_count; i++) {
		const struct known_version *k = &known_versions[i];

		cr_assert_leq(k->first, k->last, "%s", k->what);
		cr_assert_eq(k->what[strlen(k->what) - 1], '.', "%s", k->what);
		cr_assert(k->source && *k->source, "%s", k->what);
		if (k->is_unusable)
			cr_assert_not_null(k->advice, "%s", k->what);
	}
}

/* ---- variables ---------------------------------------------------------- */

Test(check, malformed_lists_of_visible_devices_are_found)
{
	cr_assert_null(visible_devices_fault("0", 0));
	cr_assert_null(visible_devices_fault("0,1,7", 8));
	cr_assert_null(visible_devices_fault("7", 0));
	cr_assert_null(visible_devices_fault("0 , 1, GPU-8932f937", 8));
	cr_assert_null(visible_devices_fault("GPU-8932f937,MIG-1", 2));
	cr_assert_not_null(visible_devices_fault("", 8));
	cr_assert_not_null(visible_devices_fault("0,,1", 8));
	cr_assert_not_null(visible_devices_fault("0,", 8));
	cr_assert_not_null(visible_devices_fault("0,8", 8));
	cr_assert_not_null(visible_devices_fault("0,1,0", 8));
	cr_assert_not_null(visible_devices_fault("1, 0, 1", 8));
	cr_assert_not_null(visible_devices_fault("0, ", 8));
	cr_assert_not_null(visible_devices_fault("-1", 8));
	cr_assert_not_null(visible_devices_fault("all", 8));
	cr_assert_not_null(visible_devices_fault("0 1", 8));
	cr_assert_not_null(visible_devices_fault("0;1", 8));
}

Test(check, interface_names_are_matched_as_nccl_does)
{
	cr_assert(nccl_list_matches("eth", "eth0"));
	cr_assert(nccl_list_matches("ib,eth", "eth0"));
	cr_assert_not(nccl_list_matches("=eth", "eth0"));
	cr_assert(nccl_list_matches("=eth0,eth1", "eth1"));
	cr_assert_not(nccl_list_matches("=eth0,eth1", "eth10"));
	cr_assert_not(nccl_list_matches("^docker,lo", "lo"));
	cr_assert(nccl_list_matches("^docker,lo", "eth0"));
	cr_assert(nccl_list_matches("^=lo", "lo1"));
	cr_assert(nccl_list_matches("eth0:1234", "eth0"));
	cr_assert_not(nccl_list_matches("wlan", "eth0"));
}

/* ---- the system's files ------------------------------------------------- */

Test(check, missing_device_files_of_a_loaded_driver_are_an_error)
{
	struct check c = fresh();

	put("/proc/driver/nvidia/version", "NVRM version: 580.82.07\n");
	put("/proc/driver/nvidia/gpus/0000:01:00.0/information", "");
	put("/proc/driver/nvidia/gpus/0000:02:00.0/information", "");
	check_limits(&c);
	HAS("error device-files /dev/nvidiactl: No such file or directory: "
	    "the driver is loaded");
	HAS("error device-files /dev/nvidia-uvm: ");
	cr_assert_eq(check_gpus(&c), 2);
	put("/dev/nvidiactl", "");
	put("/dev/nvidia-uvm", "");
	put("/dev/nvidia0", "");
	reported[0] = '\0';
	check_limits(&c);
	HAS("warning device-files -: 1 of 2 GPUs: ");
	put("/dev/nvidia1", "");
	reported[0] = '\0';
	check_limits(&c);
	HAS("ok device-files -: enough for 1 rank; 2 of 2 GPUs");
}

Test(check, device_files_are_not_checked_without_a_driver)
{
	struct check c = fresh();

	put("/etc/none", "");
	check_limits(&c);
	HAS("skipped device-files");
	check_versions(&c);
	HAS("skipped driver-version");
}

Test(check, gpus_are_not_checked_on_the_host_platform)
{
	struct check c = fresh();

	put("/proc/driver/nvidia/version", "NVRM version: x  470.256.02\n");
	c.platform = COHORT_PLATFORM_HOST;
	check_limits(&c);
	check_versions(&c);
	HAS("skipped device-files -: No GPU was requested");
	HAS("skipped driver-version -: No GPU was requested");
	c.platform = COHORT_PLATFORM_AUTO;
	setenv("COHORT_PLATFORM", "host", 1);
	reported[0] = '\0';
	check_limits(&c);
	HAS("skipped device-files -: No GPU was requested");
}

Test(check, loaded_driver_that_is_too_old_is_an_error)
{
	struct check c = fresh();

	put("/proc/driver/nvidia/version",
	    "NVRM version: NVIDIA UNIX x86_64 Kernel Module  470.256.02  x\n");
	check_versions(&c);
	HAS("error driver-version 470.256.02: The driver is too old for");
}

Test(check, tightest_limit_of_nested_cgroups_counts)
{
	struct check c = fresh();

	put("/proc/self/cgroup", "0::/a/b\n");
	put("/sys/fs/cgroup/a/b/pids.max", "max\n");
	put("/sys/fs/cgroup/a/pids.max", "100\n");
	put("/sys/fs/cgroup/a/pids.current", "90\n");
	check_limits(&c);
	HAS("error cgroup pids: 10 threads are left for the control group, but "
	    "a run of 1 rank needs about 20; otherwise ");
	put("/sys/fs/cgroup/a/pids.max", "100000\n");
	reported[0] = '\0';
	check_limits(&c);
	HAS("ok cgroup");
}

Test(check, cgroup_v1_limits_are_read)
{
	struct check c = fresh();

	put("/proc/self/cgroup", "5:cpu:/x\n4:pids:/x\n");
	put("/sys/fs/cgroup/pids/x/pids.max", "20\n");
	put("/sys/fs/cgroup/pids/x/pids.current", "1\n");
	check_limits(&c);
	HAS("error cgroup pids: 19 threads are left for the control group");
}

Test(check, cgroup_file_with_many_long_names_is_read)
{
	struct check c = fresh();
	char text[4096] = "";
	int i;

	for (i = 20; i > 0; i--)
		sprintf(text + strlen(text), "%d:a%d:/%0150d\n", i + 1, i, i);
	strcat(text, "1:pids:/x\n");
	put("/proc/self/cgroup", text);
	put("/sys/fs/cgroup/pids/x/pids.max", "20\n");
	check_limits(&c);
	HAS("warning cgroup pids: 20 threads are left for the control group, "
	    "but a run of 1 rank needs about 80; otherwise ");
}

Test(check, page_cache_does_not_count_as_used_cgroup_memory)
{
	struct check c = fresh();

	c.is_probed = true;
	c.probed.info.platform = COHORT_PLATFORM_GPU;
	put("/proc/self/cgroup", "4:memory:/x\n0::/a\n");
	put("/sys/fs/cgroup/a/memory.max", "4294967296\n");
	put("/sys/fs/cgroup/a/memory.current", "4294900000\n");
	put("/sys/fs/cgroup/a/memory.stat",
	    "anon 94900000\nfile 4200000000\ninactive_file 4000000000\n"
	    "active_file 100000000\n");
	check_limits(&c);
	HAS_NOT("cgroup memory");
	put("/sys/fs/cgroup/a/memory.stat",
	    "anon 4194900000\ninactive_file 50000000\nactive_file 50000000\n");
	reported[0] = '\0';
	check_limits(&c);
	HAS("warning cgroup memory: 95.4 MiB are left for the control group");
	put("/sys/fs/cgroup/a/memory.max", "max\n");
	put("/sys/fs/cgroup/memory/x/memory.limit_in_bytes", "1073741824\n");
	put("/sys/fs/cgroup/memory/x/memory.usage_in_bytes", "1073000000\n");
	put("/sys/fs/cgroup/memory/x/memory.stat",
	    "cache 9\ninactive_file 1\nactive_file 1\n"
	    "total_inactive_file 600000000\ntotal_active_file 200000000\n");
	reported[0] = '\0';
	check_limits(&c);
	HAS_NOT("cgroup memory");
}
