# SPDX-License-Identifier: Apache-2.0
#
# Build and run tests, benchmarks and checks

STRESS_SECONDS ?= 1
SOAK_SECONDS   ?= 60
SOAK_SEED      ?= 1

tests    := $(dir)/tests
support  := $(tests)/support.a
unit     := $(tests)/unit/unit
api      := $(tests)/api/api
system   := $(tests)/system
sim      := $(tests)/sim/sim
suites   := $(unit) $(api) $(sim)
fault    := $(fault_tests:%=$(system)/fault/%)
stress   := $(stress_tests:%=$(system)/stress/%)
gpu      := $(gpu_tests:%=$(tests)/gpu/%)
one_gpu  := $(addprefix $(tests)/gpu/shared/,libnccl.so.2 libcudart.so.13)
soak     := $(system)/soak/soak
corpus   := $(system)/fuzz/replay
fuzz     := $(system)/fuzz/platform
# Also one for each version of NCCL that scripts/deps-nvidia.sh has downloaded.
nccls    := $(notdir $(patsubst %/nvidia/nccl/include/nccl.h,%,\
              $(wildcard build/nccl-*/nvidia/nccl/include/nccl.h)))
abi      := $(system)/abi/abi $(nccls:%=$(system)/abi/abi-%)
walk     := $(dir)/bench/walk
# Built in advance, because tests that run at the same time call make for them.
foreign  := $(out)/cohort $(library) $(drop_ins) $(nvidia) $(watch_files) $(gpu) $(walk) \
            $(one_gpu) $(made_by_scripts) $(portable)

# Programs of each run in tests/matrix.txt.
RUN          ?= $(VARIANT)
uses.release := $(suites) $(fault) $(stress) $(corpus) $(abi) $(foreign)
uses.debug   := $(suites) $(drop_ins) $(fault) $(stress) $(corpus) $(abi)
uses.asan    := $(suites) $(drop_ins) $(fault) $(stress) $(corpus) $(library)
uses.tsan    := $(fault) $(stress) $(corpus)
uses.aarch64 := $(suites) $(corpus) $(out)/cohort $(library) $(drop_ins) $(watch_files) \
                $(portable) $(system)/fault/steady \
                $(patsubst %,$(system)/stress/%,abort siblings splits respawn)
uses.more    := $(suites) $(drop_ins) $(fault) $(stress) $(soak) $(out)/cohort
uses.stress  := $(stress)
uses.soak    := $(soak)
uses.torch   := $(library) $(drop_ins) $(nvidia) $(portable)
uses.packages := $(uses.torch)

matrix := OUT=$(out) DIR=$(dir) CUDA=$(cuda) GPU='$(gpu)' LENGTH=$(STRESS_SECONDS) \
          SOAK='$(SOAK_SECONDS) $(SOAK_SEED)'
# What these runs print is of interest even if nothing fails.
run    := CC='$(CC)' CXX='$(CXX)' $(if $(filter soak model packages,$(RUN)),\
            TEST_SHOW=$(RUN) TEST_TIMEOUT=$$(($(SOAK_SECONDS) + 3600))) scripts/run-tests.sh
# The suites need Criterion, the rest nothing but a compiler.  Suites that cannot be built
# are skipped.
with_suites = $(if $1,! CC='$(CC)' scripts/deps.sh || $(MAKE) --no-print-directory $1)
test: $(filter-out $(suites),$(uses.$(RUN)))
	+$(Q)$(call with_suites,$(filter $(suites),$(uses.$(RUN))))
	@mkdir -p $(dir)
	$(Q)$(matrix) scripts/matrix.sh $(RUN) >$(dir)/commands
	$(Q)$(run) <$(dir)/commands

# With RANKS_PER_GPU, several ranks on each GPU; with GPUS=all, what only two or more show.
gpu_stress := $(patsubst %,$(system)/stress/%,abort generations respawn siblings)
test-gpu: $(out)/cohort $(library) $(gpu) $(walk) $(gpu_stress) $(if $(RANKS_PER_GPU),$(one_gpu))
	+$(Q)$(call with_suites,$(api) $(sim))
	$(Q)$(if $(GPU_LIBRARIES),COHORT_GPU_LIBRARIES='$(abspath $(GPU_LIBRARIES))') \
	  $(if $(RANKS_PER_GPU),TEST_RANKS_PER_GPU='$(RANKS_PER_GPU)') \
	  $(if $(filter all,$(GPUS)),TEST_GPUS=1) \
	  scripts/test-gpu.sh $(out)/cohort '$(api) $(sim)' '$(gpu)' \
	  '$(walk) --gpu --rounds 51' $(tests)

# Without NVIDIA's NCCL everything is skipped.
NCCL_MODES ?=
nccl_tests := $(patsubst %,$(system)/stress/%,abort generations joins memory respawn)
test-nccl: $(out)/cohort $(library) $(drop_ins) $(nvidia) $(gpu) $(nccl_tests)
	+$(Q)$(call with_suites,$(api) $(sim))
	$(Q)CC='$(CC)' $(matrix) scripts/test-nccl.sh $(NCCL_MODES) || \
	  { [ $$? -eq 77 ] && echo '0 passed, 0 failed, 1 skipped'; }

# libFuzzer needs clang, whatever the rest is built with.
CLANG        ?= clang
FUZZ_SECONDS ?= 60
fuzz:
	$(Q)scripts/fuzz.sh --check '$(CLANG)'
	$(Q)$(MAKE) --no-print-directory VARIANT=fuzz CC='$(CLANG)' \
	  build/fuzz/tests/system/fuzz/platform
	$(Q)scripts/fuzz.sh build/fuzz/tests/system/fuzz/platform tests/system/fuzz/corpus \
	  $(FUZZ_SECONDS) $(FUZZ_FLAGS)

asan tsan:
	$(Q)$(MAKE) --no-print-directory VARIANT=$@ test

# Skipped without a cross compiler, QEMU or Debian's packages for arm64.
aarch64:
	+$(Q)scripts/sysroot.sh build/$@/root && scripts/emulate.sh build/$@/root \
	  $(MAKE) --no-print-directory VARIANT=$@ test || \
	  { [ $$? -eq 77 ] && echo '0 passed, 0 failed, 1 skipped'; }

# Expanded when a recipe runs, because Criterion may be installed before that.
criterion_cflags = $(shell $(PKG_CONFIG) --cflags criterion 2>/dev/null)
criterion_libs   = $(or $(shell $(PKG_CONFIG) --libs criterion 2>/dev/null),\
                     -lcriterion)

# Without optimization, which took half the time of make test and made suites no faster.
$(tests)/%.o: extra = -Itests
$(suite_objects): extra = -Itests $(criterion_cflags) -O0

# The unit suite also tests the sources of the benchmark, of cohort check and of cohort
# top, and NCCL's kernels on CPUs.
$(unit): $(call objects,$(unit_sources)) $(kernel_objects) \
         $(filter-out %/bench/bench.o,\
           $(filter $(dir)/src/cli/bench/%,$(command_objects))) \
         $(filter-out %/check.o,\
           $(filter $(dir)/src/cli/check/%,$(command_objects))) \
         $(filter-out %/watch_main.o,\
           $(filter $(dir)/src/cli/watch/%,$(command_objects))) \
         $(call objects,src/cli/common/cli.c src/cli/common/cli_options.c \
           src/cli/common/symbols.c src/cli/drill/table.c src/cli/top/page.c \
           src/cli/top/sample.c)
$(unit): libs += $(if $(filter libdw,$(optional)),$(shell pkg-config --libs libdw))
$(api): $(call objects,$(api_sources))
$(sim): $(call objects,$(sim_sources))
# -rdynamic, so that stacks show the functions of these programs by name, and Mbed TLS finds
# the replacement for one of its functions in the suites.
$(suites) $(system)/stress/stack: link += -rdynamic
$(suites): $(call objects,$(suite_support)) $(whole) $(support)
	$(call say,LINK,$@)
	$(Q)$(link) -o $@ $(filter %.o,$^) $(support) $(criterion_libs) $(libs)

# Route all allocations of these programs through tests/support/heap.c.
comma := ,
$(fault): wrap = $(patsubst %,-Wl$(comma)--wrap=%,malloc calloc realloc \
                   aligned_alloc posix_memalign free)
# The rounds of this program are programs of the fuzzer.
$(system)/stress/mix: $(fuzz_objects)
$(fault) $(stress) $(gpu) $(soak): %: %.o $(whole) $(support)
	$(call say,LINK,$@)
	$(Q)$(link) $(wrap) -o $@ $(filter %.o,$^) $(support) $(libs)

# These libraries have their own sonames, because the real ones are loaded as well.
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

# An archive, so that a program links only the helpers that it uses.
$(support): $(support_objects)
	$(call say,AR,$@)
	@mkdir -p $(@D)
	$(Q)rm -f $@ && $(AR) rcs $@ $^

# facts.c is compiled against our headers and, if installed, the real ones; the program
# compares the two.
abi_headers := src/platform/nccl_abi.h src/platform/cuda_abi.h src/sim/driver/driver_abi.h
$(system)/abi/declared.h: tests/system/abi/declared.sh $(abi_headers)
	@mkdir -p $(@D)
	$(Q)$< $(abi_headers) >$@

$(system)/abi/main.o: extra = $(if $(cuda),,-DABI_NO_REAL)
$(system)/abi/facts_ours.o: extra = -DABI_OURS
$(system)/abi/facts_real.o: extra = -DABI_REAL -isystem $(cuda)/include
$(system)/abi/facts_nccl-%.o: extra = -DABI_REAL \
  -isystem build/$*/nvidia/nccl/include -isystem $(cuda)/include
$(system)/abi/facts_%.o: tests/system/abi/facts.c $(system)/abi/declared.h $(dir)/flags
	$(call say,CC,$< ($(@F)))
	$(Q)$(compile) $(extra) -I$(@D) -c -o $@ $<

$(system)/abi/abi-%: $(system)/abi/main.o $(system)/abi/facts_ours.o \
                    $(system)/abi/facts_%.o
	$(call say,LINK,$@)
	$(Q)$(link) -o $@ $^

$(system)/abi/abi: $(system)/abi/main.o $(system)/abi/facts_ours.o \
        $(if $(cuda),$(system)/abi/facts_real.o)
	$(call say,LINK,$@)
	$(Q)$(link) -o $@ $^

bench := $(bench_programs:%=$(dir)/bench/%)
bench_objects := $(bench_support:%=$(dir)/bench/%.o)

# The overlap benchmark draws a figure if gnuplot is installed.
OVERLAP_FLAGS ?= --shapes bench/shapes/resnet50.tsv \
  --backward x0.25,x0.5,x0.75,x1,x1.5,x2,x3
bench: $(bench) $(out)/cohort
	$(Q)set -e; for program in $(bench); do $$program; done
	$(Q)$(out)/cohort bench overlap $(OVERLAP_FLAGS) >$(out)/overlap.txt
	$(Q)cat $(out)/overlap.txt
	$(Q)if command -v gnuplot >/dev/null; then \
	  gnuplot -c bench/overlap.gnuplot $(out)/overlap.txt >$(out)/overlap.svg; fi

$(bench): %: %.o $(bench_objects) $(whole)
	$(call say,LINK,$@)
	$(Q)$(link) -o $@ $^ $(libs)

sources := $(library_sources) $(command_sources) $(drop_in_sources) $(nvidia_sources) \
  $(filter-out $(nvidia_sources),$(static_sources)) \
  $(shim_sources) $(kernel_sources) $(unit_sources) \
  $(api_sources) $(sim_sources) $(suite_support) $(support_sources) \
  $(fuzz_sources) $(replay_sources) $(mutate_sources) \
  $(patsubst $(dir)/%,%.c,$(fault) $(stress) $(gpu) $(soak) $(bench)) \
  tests/gpu/shared/nccl.c tests/gpu/shared/cudart.c \
  $(bench_support:%=bench/%.c)
lint: $(library) $(drop_ins) $(out)/cohort
	$(Q)$(MAKE) --no-print-directory VARIANT=debug all
	$(Q)SOURCES='$(sources)' OBJECTS=build/debug/src CC='$(CC)' \
	  FLAGS='$(cppflags) $(cflags)' scripts/lint.sh $(lib) $(cuda)
