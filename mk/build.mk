# SPDX-License-Identifier: Apache-2.0
#
# Build the objects, the libraries and the command

# The flags of all objects.  If they change, the file with them changes, and all is rebuilt.
quote     = '$(subst ','\'',$1)'
all_flags = $(compile) $(LDFLAGS) $(cuda)
$(dir)/flags: FORCE
	@mkdir -p $(@D)
	@printf '%s\n' $(call quote,$(all_flags)) | \
	  cmp -s - $@ || printf '%s\n' $(call quote,$(all_flags)) >$@

$(dir)/%.o: %.c $(dir)/flags
	$(call say,CC,$<)
	@mkdir -p $(@D)
	$(Q)$(compile) $(extra) -c -o $@ $<

$(dir)/%.o: %.S $(dir)/flags
	$(call say,AS,$<)
	@mkdir -p $(@D)
	$(Q)$(compile) -I$(<D) -c -o $@ $<

# Instrument only the library, so that the fuzzer looks for new paths there, not in tests.
$(library_objects): extra = $(if $(filter fuzz,$(VARIANT)),\
                              -fsanitize=fuzzer-no-link)

$(dir)/src/cli/demo/digits_data.o: src/cli/demo/data/digits.csv
$(dir)/src/cli/trace/page_data.o: $(wildcard src/cli/trace/page/*) src/cli/trace/fr2pickle.py

shared  := $(lib)/libcohort.so.$(version)
# Package files for pkg-config and CMake.
cmake_files := $(lib)/cohortConfig.cmake $(lib)/cohortConfigVersion.cmake
packages    := $(lib)/cohort.pc $(lib)/cohort-simulator.pc $(cmake_files)
library := $(shared) $(lib)/libcohort.so.$(major) $(lib)/libcohort.so \
           $(lib)/libcohort.a $(packages)

all: $(out)/cohort $(library)

demo: $(out)/cohort
	$(Q)$< demo

$(dir)/src/cli/common/symbols.o: extra = $(call with,libdw,-DHAVE_LIBDW)
json_objects := $(addprefix $(dir)/src/cli/trace/,parse.o reader.o value.o)
$(json_objects): extra = $(call with,json-c,-DHAVE_JSON_C)
$(dir)/src/cli/top/terminal.o: extra = $(call with,ncursesw,-DHAVE_NCURSES)
$(dir)/src/cli/common/symbols.o $(dir)/src/cli/top/terminal.o $(json_objects): $(dir)/optional
$(dir)/optional: FORCE
	@mkdir -p $(@D)
	@echo '$(optional)' | cmp -s - $@ || echo '$(optional)' >$@

whole := $(dir)/whole.o
$(whole): $(library_objects)
	$(call say,LINK,$@)
	$(Q)$(LD) -r -o $@ $^

$(out)/cohort: $(command_objects) $(whole)
	$(call say,LINK,$@)
	$(Q)$(link) -o $@ $^ \
	  $(if $(optional),$(shell $(PKG_CONFIG) --libs $(optional))) $(libs)

# The command of the wheel, which needs no library but glibc: json-c is linked statically if its
# archive and its license are installed, and libdw and ncurses are left out.
portable      := $(out)/portable/cohort
json_license  := $(wildcard $(sysroot)/usr/share/doc/libjson-c-dev/copyright)
json_archive  := $(and $(filter json-c,$(optional)),$(json_license),\
                   $(wildcard $(shell $(CC) -print-file-name=libjson-c.a)))
plain_objects := $(addprefix $(dir)/src/cli/,common/symbols.o top/terminal.o) \
                 $(if $(json_archive),,$(json_objects))
$(dir)/portable/%.o: %.c $(dir)/flags
	$(call say,CC,$< (portable))
	@mkdir -p $(@D)
	$(Q)$(compile) -c -o $@ $<

$(portable): $(filter-out $(plain_objects),$(command_objects)) \
             $(plain_objects:$(dir)/%=$(dir)/portable/%) $(whole)
	$(call say,LINK,$@)
	@mkdir -p $(@D)
	$(Q)$(link) -o $@ $^ $(json_archive) $(libs)
	$(if $(json_archive),$(Q)cp $(json_license) $(@D)/json-c.copyright)

$(shared): $(whole) src/cohort.map
	$(call say,LINK,$@)
	@mkdir -p $(@D)
	$(Q)$(link) -shared -Wl,-soname,libcohort.so.$(major) -Wl,-z,nodelete \
	  $(defs) -Wl,--version-script,src/cohort.map -o $@ $< $(libs)

$(lib)/libcohort.so.$(major) $(lib)/libcohort.so: $(shared)
	$(Q)ln -sf $(<F) $@

# The archive is one object whose hidden symbols are local, so that short internal names
# cannot collide with a program's.
$(lib)/libcohort.a: $(whole)
	$(call say,AR,$@)
	@mkdir -p $(@D)
	$(Q)$(OBJCOPY) --localize-hidden $< $(dir)/libcohort.o
	$(Q)rm -f $@ && $(AR) rcsD $@ $(dir)/libcohort.o

$(packages): $(lib)/%: src/%.in include/cohort/version.h FORCE
	@mkdir -p $(@D)
	$(Q)sed -e 's|@prefix@|$(prefix)|' -e 's|@includedir@|$(includedir)|' \
	  -e 's|@libdir@|$(libdir)|' -e 's|@version@|$(version)|' \
	  -e 's|@libs@|$(libs)|' -e 's|@link@|$(subst $() $(),;,$(libs))|' \
	  -e 's|@major@|$(major)|' \
	  -e "s|@pointer@|$$(echo __SIZEOF_POINTER__ | $(CC) $(CFLAGS) -E -P -)|" \
	  -e "s|@include@|$$(realpath -ms --relative-to='$(libdir)' '$(includedir)')|" \
	  $< >$@

drop_in := $(lib)/drop-in
d       := $(dir)/src/sim/dropin

# Not empty on x86-64.  Code that redirects a linked-in runtime writes its instructions.
x86_64 := $(filter x86_64-%,$(shell $(CC) -dumpmachine))

cudart_majors := 12 13
host_library  := $(drop_in)/libcohort-host.so
nccl_library  := $(drop_in)/libnccl.so.2
cudart        := $(cudart_majors:%=$(drop_in)/libcudart.so.%)
cuda_library  := $(drop_in)/libcuda.so.1
nvml_library  := $(drop_in)/libnvidia-ml.so.1
static_library := $(if $(x86_64),$(drop_in)/libcohort-static.so)
drop_in_files := $(host_library) $(nccl_library) $(cudart) $(cuda_library) $(nvml_library) \
                 $(static_library)
drop_in_links := $(addprefix $(drop_in)/,libnccl.so libcudart.so libcuda.so libnvidia-ml.so)
drop_ins      := $(drop_in_files) $(drop_in_links)

host_objects   := $(filter-out %/knobs.o,$(filter $(dir)/src/base/% \
                    $(dir)/src/sim/%,$(library_objects))) $d/host_calls.o
nccl_objects   := $d/libnccl.o $d/marker.o $d/unsupported.o
cudart_objects := $d/cudart_kernels.o $d/marker.o $d/unsupported.o
cuda_objects   := $d/libcuda.o $d/cuda_absent.o $d/marker.o $d/unsupported.o
nvml_objects   := $d/libnvidia_ml.o $d/marker.o
static_objects := $(call objects,$(static_sources))
# These objects exist once for each major version of CUDA.
major_objects  := $(foreach m,$(cudart_majors),$d/cudart_absent.$m.o $d/libcudart.$m.o)
drop_in_objects := $(host_objects) $(nccl_objects) $(cudart_objects) \
                   $(cuda_objects) $(nvml_objects) $(static_objects) $(major_objects)

# Drop-in libraries.
all: $(drop_ins)

$(host_library): $(host_objects)
$(nccl_library): $(nccl_objects) $(host_library)
$(cuda_library): $(cuda_objects) $(host_library)
$(nvml_library): $(nvml_objects) $(host_library)
$(static_library): $(static_objects) $(host_library)
$(cudart): $(drop_in)/libcudart.so.%: $d/cudart_absent.%.o $d/libcudart.%.o \
                                      $(cudart_objects) $(host_library)

# Each library's exports are listed in a .map file of its name.  The other libraries find the
# host platform's library in their own directory.
$(drop_in_files): $(drop_in)/%: src/sim/dropin/%.map
	$(call say,LINK,$@)
	@mkdir -p $(@D)
	$(Q)$(link) -shared -Wl,-soname,$(@F) -Wl,-z,nodelete $(defs) \
	  -Wl,--version-script,$< -Wl,--enable-new-dtags \
	  -Wl,-rpath,'$$ORIGIN' -o $@ $(filter %.o %.so,$^) $(libs)

define compile_major
	$(call say,CC,$< ($(@F)))
	@mkdir -p $(@D)
	$(Q)$(compile) -DCUDART=$(patsubst $d/$*.%.o,%,$@) -c -o $@ $<
endef
$(filter %.12.o,$(major_objects)): $d/%.12.o: src/sim/dropin/%.c \
                                             $(dir)/flags
	$(compile_major)
$(filter %.13.o,$(major_objects)): $d/%.13.o: src/sim/dropin/%.c \
                                             $(dir)/flags
	$(compile_major)

$(drop_in)/libnccl.so: $(nccl_library)
$(drop_in)/libcuda.so: $(cuda_library)
$(drop_in)/libnvidia-ml.so: $(nvml_library)
$(drop_in)/libnccl.so $(drop_in)/libcuda.so $(drop_in)/libnvidia-ml.so:
	$(Q)ln -sf $(<F) $@

$(drop_in)/libcudart.so: $(drop_in)/libcudart.so.13
	$(Q)ln -sf $(<F) $@

# The library that loads NVIDIA's NCCL.
nvidia := $(if $(x86_64),$(lib)/nvidia/libnccl.so.2)
# Kernels need some of the simulator's arithmetic and the library's clock.
nvidia_objects := $(call objects,$(nvidia_sources)) $(kernel_objects) $d/marker.o \
  $(filter $(addprefix $(dir)/src/,sim/exec/reduce% base/backoff.o base/clock.o),\
    $(library_objects))

all: $(nvidia)

$(lib)/nvidia/libnccl.so.2: src/sim/dropin/libnccl.so.2.map \
                            $(nvidia_objects) $(host_library)
	$(call say,LINK,$@)
	@mkdir -p $(@D)
	$(Q)$(link) -shared -Wl,-soname,$(@F) -Wl,-z,nodelete $(defs) \
	  -Wl,--version-script,$< -Wl,--enable-new-dtags \
	  -Wl,-rpath,'$$ORIGIN/../drop-in' -o $@ $(filter %.o %.so,$^) $(libs)

# The library that cohort watch gives to a program instead of NCCL (src/shim/watched.h), and
# the loader's hook that does so.  The shim is linked with an empty library, for which the hook
# gives the loader NCCL.
watch        := $(lib)/watch
watch_shim   := $(watch)/libnccl.so.2
watch_audit  := $(watch)/libcohort-audit.so
watch_empty  := $(dir)/src/shim/libcohort-watched-nccl.so
watch_files  := $(watch_shim) $(watch_audit)
audit_object := $(dir)/src/shim/loader_audit.o
shim_objects := $(filter-out $(audit_object),$(call objects,$(shim_sources))) \
  $(filter $(addprefix $(dir)/src/,base/pages.o base/status.o base/text.o base/thread.o \
    core/op.o core/recorder.o core/tag.o),$(library_objects))

all: $(watch_files)

$(watch_empty):
	@mkdir -p $(@D)
	$(Q)$(link) -shared -Wl,-soname,$(@F) -o $@ -x c /dev/null

$(watch_shim): src/shim/libnccl.map $(shim_objects) $(watch_empty)
	$(call say,LINK,$@)
	@mkdir -p $(@D)
	$(Q)$(link) -shared -Wl,-soname,$(@F) -Wl,-z,nodelete $(defs) \
	  -Wl,--version-script,$< -Wl,--no-as-needed -o $@ $(filter %.o %.so,$^) $(libs)

$(watch_audit): $(audit_object)
	$(call say,LINK,$@)
	@mkdir -p $(@D)
	$(Q)$(link) -shared -Wl,-soname,$(@F) $(defs) -o $@ $^ -ldl
