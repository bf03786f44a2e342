# SPDX-License-Identifier: Apache-2.0
#
# Tests, benchmarks and checks

# Criterion does not run under ThreadSanitizer; the foreign programs are not
# sanitized.
rings.release := unit api platform fault stress device corpus abi foreign
rings.debug   := unit api platform fault stress corpus abi
rings.asan    := unit api platform fault stress together corpus bindings
rings.tsan    := fault stress together corpus

STRESS_SECONDS ?= 1
race_length    := $(if $(STRESS_ROUNDS),$(STRESS_ROUNDS)r,$(STRESS_SECONDS))

tests    := $(dir)/tests
support  := $(tests)/support.a
unit     := $(tests)/unit/unit
api      := $(tests)/api/api
platform := $(tests)/platform/platform
fault    := $(fault_tests:%=$(tests)/fault/%)
stress   := $(stress_tests:%=$(tests)/stress/%)
races    := $(race_tests:%=$(tests)/stress/%)
gpu      := $(gpu_tests:%=$(tests)/gpu/%)
one_gpu  := $(addprefix $(tests)/gpu/shared/,libnccl.so.2 libcudart.so.13)
soak     := $(tests)/soak/soak
corpus   := $(tests)/fuzz/replay
fuzz     := $(tests)/fuzz/platform
# One for each version of NCCL that scripts/deps-nvidia.sh has brought, too.
nccls    := $(notdir $(patsubst %/nvidia/nccl/include/nccl.h,%,\
              $(wildcard build/nccl-*/nvidia/nccl/include/nccl.h)))
abi      := $(tests)/abi/abi $(if $(cuda),$(nccls:%=$(tests)/abi/abi-%))
walk     := $(dir)/bench/walk
# Programs that run at the same time call make, which then has nothing to make.
foreign  := $(out)/cohort $(library) $(drop_ins) $(nvidia) $(gpu) $(walk) $(one_gpu) \
            $(made_by_scripts)

# The suites with groups that several processes can open.
spread       := capture|connect|differential|group|guard|host_memory|list|mismatch|$\
                neighbours|p2p|reducer|reducer_flush|reducer_found|reducer_shard|$\
                reducer_weights|registered_really|respawn|run|split|together|window

# Those with groups of four ranks.
spread_far   := connect|host_memory|list|mismatch|p2p|reducer|reducer_shard|$\
                reducer_weights|run|split|together

# The drop-in libraries are tested with these programs.
foreign_programs := abort.c defaults.cc driver.c driver_calls.c driver_streams.c exchange.c fuzz.c \
  graph.c groups.c hello.cc ipc.c ipc_event.c nonblocking.c nvml.c own_stream.c processes.c \
  registered.c ring.c runtime.c scaled.c split.c threads.c

# How each ring is run, one quoted command per program.  Suites run one test at a time,
# because Criterion 2.4.1 loses count when two tests time out at the same time.
# Programs on the host platform have to be legal NCCL programs, which strict mode checks;
# but strict mode keeps freed memory, so AddressSanitizer could not find uses of it.
# Groups end by the thousand, without a line on stderr for each.
strict       := env COHORT_LOG=none $(if $(filter asan,$(VARIANT)),,COHORT_HOST_STRICT=1 )
# The gpu platform runs on the drop-in libraries.
on_gpu       := env COHORT_PLATFORM=gpu COHORT_GPU_LIBRARIES=$(drop_in)
# With devices that wait for each other, as GPUs do.
on_device    := env COHORT_HOST_SYNC=device COHORT_LAUNCH=together
# The api suite in three programs: what mostly waits for deadlines begins before
# the rest.
waits        := adaptive|connect|stack stopped|stuck|stuck_device|watch|dump
api_most      = '$1$(api) --jobs=1 --verbose \
                  --filter !($(firstword $(waits))|$(lastword $(waits))$2)/*'
api_waits     = $(foreach w,$(waits),'$1$(api) --jobs=1 --verbose --filter @($w)/*')
api_in        = $(api_waits) $(api_most)
run.unit     := '$(unit) --jobs=1 --verbose'
# As if the ranks were in several processes.  A sanitizer's memory cannot be shared.  The api
# suite runs so in make device, as make test is long.
on_shared    := $(if $(filter asan tsan,$(VARIANT)),,env COHORT_HOST_SHARED=1 )
# With AddressSanitizer each part runs on one platform.
is_asan      := $(filter asan,$(VARIANT))
run.api      := $(if $(is_asan),$(call api_waits,$(strict)),$(call api_in,$(strict))) \
                $(call $(if $(is_asan),api_most,api_in),$(on_device) $(strict)$(on_gpu) )
run.platform := '$(platform) --jobs=1 --verbose' \
                $(if $(is_asan),,'$(on_gpu) $(platform) --jobs=1 --verbose') \
                $(if $(on_shared),'$(on_shared)$(platform) --jobs=1 --verbose')
run.fault    := $(fault:%='$(strict)%')
run.stress   := $(patsubst %,'$(strict)% $(STRESS_SECONDS)',$(stress)) \
                $(patsubst %,'$(strict)% $(race_length)',$(races))
run.corpus   := '$(strict)$(corpus) tests/fuzz/corpus'
run.abi      := $(abi:%='%') 'tests/foreign/abi.sh'
# The programs whose groups end, with ranks that launch together.  The programs mix and
# lives are not among them: they call native functions, which launch at once anyway.
run.together := $(patsubst %,'env COHORT_LAUNCH=together $(strict)$(tests)/stress/% \
                   $(race_length)',abort siblings splits)
# The fault and stress programs on devices that wait for each other; a program that
# cannot run there is skipped, and says why.
run.device   := $(fault:%='$(on_device) $(strict)%') \
                $(stress:%='$(on_device) $(strict)% $(STRESS_SECONDS)') \
                $(races:%='$(on_device) $(strict)% $(race_length)')
# The longest first.
run.foreign  := 'python3 tests/foreign/dump_mutations.py $(out)/cohort' \
                'tests/foreign/readme.sh $(lib)' \
                'python3 tests/foreign/trace.py $(out)/cohort' \
                'tests/foreign/nccl.sh $(out)' \
                'tests/foreign/header.sh tests/foreign/header.c $(lib)' \
                'tests/foreign/header.sh tests/foreign/header.cc $(lib)' \
                'tests/foreign/cpp.sh $(lib)' \
                'tests/foreign/rust.sh $(lib)' \
                'tests/foreign/symbols.sh $(lib) $(cuda)' \
                'tests/foreign/install.sh' \
                'tests/foreign/loader.sh $(out)/cohort' \
                'tests/foreign/real.sh $(out)/cohort $(lib) $(cuda)' \
                'tests/foreign/gpu.sh $(out)/cohort $(drop_in) $(walk) \
                   $(gpu)' \
                'tests/foreign/command.sh $(out)/cohort' \
                'tests/foreign/check.sh $(out)' \
                'tests/foreign/completions.sh $(out)/cohort' \
                'tests/foreign/average.sh $(out)/cohort $(drop_in)' \
                'tests/foreign/overlap.sh $(out)/cohort $(drop_in)' \
                'tests/foreign/drill.sh $(out)/cohort' \
                'tests/foreign/dump.sh $(out)/cohort $(lib)' \
                'tests/foreign/hang.sh $(out)/cohort' \
                'python3 tests/foreign/top.py $(out)/cohort' \
                'python3 tests/foreign/trace_html.py $(out)/cohort' \
                'python3 tests/foreign/debuginfod.py $(out)/cohort' \
                'tests/foreign/peers.sh $(out)/cohort' \
                'tests/foreign/spread.sh $(lib)' \
                'tests/foreign/pmix.sh $(out)/cohort $(lib) $(whole)' \
                'tests/foreign/launch.sh $(out)/cohort $(lib) $(whole)' \
                'tests/foreign/hosts.sh $(out)/cohort $(lib)' \
                $(foreach p,$(foreign_programs),\
                  'tests/foreign/dropin.sh tests/foreign/programs/$p \
                   $(out) $(cuda)') \
                'tests/foreign/sim_headers.sh $(out)' \
                $(nccls:%='tests/foreign/nccl.sh $(out) \
                   build/%/nvidia/nccl/lib/libnccl.so.2') \
                'tests/foreign/standin.sh $(lib) $(out)/cohort' \
                'tests/foreign/examples.sh $(lib)' \
                'tests/foreign/bare.sh' \
                'tests/foreign/bindings_python.sh $(lib)' \
                'python3 tests/foreign/python.py $(shared)' \
                'python3 tests/foreign/bindings.py $(out)/cohort'
# On the sanitized library of make asan.
run.bindings := 'tests/foreign/rust.sh $(lib) asan' \
                'tests/foreign/bindings_python.sh $(lib) asan'
bindings     := $(library)
run = CC='$(CC)' CXX='$(CXX)' scripts/run-tests.sh

# The suites need Criterion, the rest nothing but a compiler.  Suites that cannot be built
# are skipped.
suites := $(foreach ring,$(filter unit api platform,$(rings.$(VARIANT))),$($(ring)))
test: $(if $(filter api,$(rings.$(VARIANT))),$(drop_ins)) \
      $(filter-out $(suites),$(foreach ring,$(rings.$(VARIANT)),$($(ring)))) $(races)
	$(Q)$(if $(suites),CC='$(CC)' scripts/deps.sh || :)
	$(Q)$(if $(suites),! CC='$(CC)' scripts/deps.sh --check || \
	  $(MAKE) --no-print-directory $(suites))
	$(Q)$(if $(suites),CC='$(CC)' scripts/deps.sh --check || \
	  export TEST_NO_CRITERION='$(suites)'; )$(run) \
	  $(foreach ring,$(rings.$(VARIANT)),$(run.$(ring)))

# What of the platform suite is not about the simulator's own NCCL: its checks of
# arguments, its scripted faults, its strict mode, and the threads that do its work.  Of
# the other suites most tests would hold, but some hang, or crash in NVIDIA's NCCL:
# differential, join, matching, nonblocking, p2p, registration and split.
export TEST_PLATFORM := @(capture|graph|graph_of_ranks|collective|comm|copy2d|device|ends|$\
  entry|error|event|freed|frees|graph_build|group|init|kinds|launch|legacy|$\
  mark|memory|order|pools|properties|redop|stream|stream_info|sync|table|user_object)/*

# With RANKS_PER_GPU, several ranks on each GPU.
gpu_stress := $(patsubst %,$(tests)/stress/%,abort generations respawn siblings)
test-gpu test-gpus: $(out)/cohort $(library) $(gpu) $(walk) $(gpu_stress) $(if $(RANKS_PER_GPU),$(one_gpu))
	$(Q)! CC='$(CC)' scripts/deps.sh >/dev/null 2>&1 || \
	  $(MAKE) --no-print-directory $(api) $(platform)
	$(Q)$(if $(GPU_LIBRARIES),COHORT_GPU_LIBRARIES='$(abspath $(GPU_LIBRARIES))') \
	  $(if $(RANKS_PER_GPU),TEST_RANKS_PER_GPU='$(RANKS_PER_GPU)') \
	  $(if $(findstring gpus,$@),TEST_GPUS=1) \
	  scripts/test-gpu.sh $(out)/cohort '$(api) $(platform)' '$(gpu)' \
	  '$(walk) --gpu --rounds 51' $(tests)

# A machine without NVIDIA's NCCL skips all of it.
NCCL_MODES ?=
nccl_tests := $(patsubst %,$(tests)/stress/%,abort generations joins memory respawn)
test-nccl: $(out)/cohort $(library) $(drop_ins) $(nvidia) $(gpu) $(nccl_tests)
	$(Q)! CC='$(CC)' scripts/deps.sh || \
	  $(MAKE) --no-print-directory $(api) $(platform)
	$(Q)CC='$(CC)' scripts/test-nccl.sh $(out) $(tests) $(NCCL_MODES) || \
	  { [ $$? -eq 77 ] && echo '0 passed, 0 failed, 1 skipped'; }

stress: $(stress) $(races)
	$(Q)$(run) $(run.stress)

SOAK_SECONDS ?= 60
SOAK_SEED    ?= 1
soak: $(soak)
	$(Q)TEST_SHOW=soak TEST_TIMEOUT=$$(($(SOAK_SECONDS) + 120)) \
	  $(run) '$(strict)$(soak) $(SOAK_SECONDS) $(SOAK_SEED)'

# Ranks are late by up to 10 ms.  Other tests judge how late verdicts are.  What mostly waits
# begins first.  make test has run the api suite on devices that wait for each other, as the
# gpu platform.
DEVICE_SECONDS ?= 30
# What make test has shown, and no device changes.
same_sums      := |differential
device_length  := $(if $(DEVICE_ROUNDS),$(DEVICE_ROUNDS)r,$(DEVICE_SECONDS))
device: $(out)/cohort $(soak) $(tests)/stress/memory
	$(Q)! CC='$(CC)' scripts/deps.sh || $(MAKE) --no-print-directory $(api)
	$(Q)CC='$(CC)' scripts/deps.sh --check || \
	  export TEST_NO_CRITERION='$(api)'; $(run) $(if $(DEVICE_ROUNDS),,\
	    $(call api_waits,$(on_shared)$(strict)) \
	    $(call api_most,$(on_shared)$(strict),$(same_sums)) \
	    $(call api_most,$(strict)$(on_gpu) ,$(same_sums)) \
	    'env TEST_PROCESSES=2 $(strict)$(api) --jobs=1 --verbose \
	      --filter @($(spread))/*' \
	    'env TEST_PROCESSES=4 $(strict)$(api) --jobs=1 --verbose \
	      --filter @($(spread_far))/*') \
	  '$(on_device) $(strict)$(tests)/stress/memory $(device_length) 10000' \
	  '$(on_device) $(strict)$(soak) $(DEVICE_SECONDS) $(SOAK_SEED)' \
	  '$(on_device) $< demo --verify' \
	  $(foreach n,2 4 8,'$(on_device) $< drill --ranks $n --slack 1000')

# libFuzzer needs clang, whatever the rest is built with.
CLANG        ?= clang
FUZZ_SECONDS ?= 60
fuzz:
	$(Q)scripts/fuzz.sh --check '$(CLANG)'
	$(Q)$(MAKE) --no-print-directory VARIANT=fuzz CC='$(CLANG)' \
	  build/fuzz/tests/fuzz/platform
	$(Q)scripts/fuzz.sh build/fuzz/tests/fuzz/platform tests/fuzz/corpus \
	  $(FUZZ_SECONDS) $(FUZZ_FLAGS)

asan tsan:
	$(Q)$(MAKE) --no-print-directory VARIANT=$@ test

# Looked up when a recipe runs, because that is after Criterion was installed.
criterion_cflags = $(shell pkg-config --cflags criterion 2>/dev/null)
criterion_libs   = $(or $(shell pkg-config --libs criterion 2>/dev/null),\
                     -lcriterion)

# Half of what make test computed was to optimize the suites, which run no faster for it.
$(tests)/%.o: extra = -Itests
$(suite_objects): extra = -Itests $(criterion_cflags) -O0

# The unit suite also tests the sources of the benchmark, of cohort check and of cohort
# top, and NCCL's kernels on CPUs.
$(unit): $(call objects,$(unit_sources)) $(kernel_objects) \
         $(filter-out %/bench/bench.o,\
           $(filter $(dir)/src/cli/bench/%,$(command_objects))) \
         $(filter-out %/check.o,\
           $(filter $(dir)/src/cli/check/%,$(command_objects))) \
         $(call objects,src/cli/common/cli.c src/cli/common/options.c \
           src/cli/drill/table.c \
           src/cli/common/progress.c src/cli/top/page.c src/cli/top/sample.c)
$(api): $(call objects,$(api_sources))
$(platform): $(call objects,$(platform_sources))
# Stacks must show the functions of these programs by name, and the suites' replacement for
# a function of Mbed TLS must be found.
$(unit) $(api) $(platform) $(tests)/stress/stack: link += -rdynamic
$(unit) $(api) $(platform): $(call objects,$(suite_support)) \
                            $(whole) $(support)
	$(call say,LINK,$@)
	$(Q)$(link) -o $@ $(filter %.o,$^) $(support) $(criterion_libs) $(libs)

# All allocations of these programs go through tests/support/heap.c.
comma := ,
$(fault): wrap = $(patsubst %,-Wl$(comma)--wrap=%,malloc calloc realloc \
                   aligned_alloc posix_memalign free)
# This program's rounds are programs of the fuzzer.
$(tests)/stress/mix: $(fuzz_objects)
$(fault) $(stress) $(races) $(gpu) $(soak): %: %.o $(whole) $(support)
	$(call say,LINK,$@)
	$(Q)$(link) $(wrap) -o $@ $(filter %.o,$^) $(support) $(libs)

# Names of their own: those in front of which they stand are loaded, too.
$(one_gpu): | $(drop_ins)
	$(call say,LINK,$@)
	$(Q)$(link) -shared -Wl,-soname,shared-$(@F) -Wl,--no-as-needed \
	  -o $@ $(filter %.o,$^) $(drop_in)/$(@F) $(libs)
$(tests)/gpu/shared/libnccl.so.2: $(tests)/gpu/shared/nccl.o
$(tests)/gpu/shared/libcudart.so.13: $(tests)/gpu/shared/cudart.o

$(corpus): $(replay_objects)
$(fuzz): $(mutate_objects)
$(fuzz): libs += -fsanitize=fuzzer
$(corpus) $(fuzz): $(fuzz_objects) $(whole) $(support)
	$(call say,LINK,$@)
	$(Q)$(link) -o $@ $^ $(libs)

# An archive, so that a program takes only the helpers that it uses.
$(support): $(support_objects)
	$(call say,AR,$@)
	@mkdir -p $(@D)
	$(Q)rm -f $@ && $(AR) rcs $@ $^

# facts.c is compiled against our headers, and against the real ones if they are
# installed; the program compares the two.
abi_headers := src/platform/nccl_abi.h src/platform/cuda_abi.h src/sim/driver/abi.h
$(tests)/abi/declared.h: tests/abi/declared.sh $(abi_headers)
	@mkdir -p $(@D)
	$(Q)$< $(abi_headers) >$@

$(tests)/abi/main.o: extra = $(if $(cuda),,-DABI_NO_REAL)
$(tests)/abi/facts_ours.o: extra = -DABI_OURS
$(tests)/abi/facts_real.o: extra = -DABI_REAL -isystem $(cuda)/include
$(tests)/abi/facts_nccl-%.o: extra = -DABI_REAL \
  -isystem build/$*/nvidia/nccl/include -isystem $(cuda)/include
$(tests)/abi/facts_%.o: tests/abi/facts.c $(tests)/abi/declared.h $(dir)/flags
	$(call say,CC,$< ($(@F)))
	$(Q)$(compile) $(extra) -I$(@D) -c -o $@ $<

$(tests)/abi/abi-%: $(tests)/abi/main.o $(tests)/abi/facts_ours.o \
                    $(tests)/abi/facts_%.o
	$(call say,LINK,$@)
	$(Q)$(link) -o $@ $^

$(tests)/abi/abi: $(tests)/abi/main.o $(tests)/abi/facts_ours.o \
        $(if $(cuda),$(tests)/abi/facts_real.o)
	$(call say,LINK,$@)
	$(Q)$(link) -o $@ $^

model:
	$(Q)CC='$(CC)' tests/model/run.sh

bench := $(bench_programs:%=$(dir)/bench/%)
bench_objects := $(bench_support:%=$(dir)/bench/%.o)

# The overlap benchmark also draws its figure, if gnuplot is installed.
OVERLAP_FLAGS ?= --shapes bench/shapes/resnet50.tsv \
  --backward x0.25,x0.5,x0.75,x1,x1.5,x2,x3
bench: $(bench) $(out)/cohort
	$(Q)set -e; for program in $(bench); do $$program; done
	$(Q)if command -v gnuplot >/dev/null; then \
	  set -- --plot $(out)/overlap.svg; fi; \
	$(out)/cohort bench overlap $(OVERLAP_FLAGS) "$$@"

$(bench): %: %.o $(bench_objects) $(whole)
	$(call say,LINK,$@)
	$(Q)$(link) -o $@ $^ $(libs)

sources := $(library_sources) $(command_sources) $(drop_in_sources) $(nvidia_sources) \
  $(kernel_sources) $(unit_sources) \
  $(api_sources) $(platform_sources) $(suite_support) $(support_sources) \
  $(fuzz_sources) $(replay_sources) $(mutate_sources) \
  $(patsubst $(dir)/%,%.c,$(fault) $(stress) $(races) $(gpu) $(soak) $(bench)) \
  tests/gpu/shared/nccl.c tests/gpu/shared/cudart.c \
  $(bench_support:%=bench/%.c)
lint: $(library) $(drop_ins) $(out)/cohort
	$(Q)$(MAKE) --no-print-directory VARIANT=debug all
	$(Q)SOURCES='$(sources)' OBJECTS=build/debug/src CC='$(CC)' \
	  FLAGS='$(cppflags) $(cflags)' scripts/lint.sh $(lib) $(cuda)
