# Tests: unit tests (Criterion), the same under sanitizers, fuzzers, end-to-end
# tests on real jobs, and `check`, which is all of them. Each part ends with a
# line that says how much passed.

UNIT_SOURCES := $(wildcard tests/unit/*_test.c)
UNIT_PROGRAMS := $(UNIT_SOURCES:%.c=$(BUILD)/%)
FUZZ_SOURCES := $(wildcard tests/fuzz/*_fuzz.c)
FUZZ_PROGRAMS := $(FUZZ_SOURCES:%.c=$(BUILD)/%)
BENCH_SOURCES := $(wildcard tests/bench/*.c)
BENCH_PROGRAMS := $(BENCH_SOURCES:%.c=$(BUILD)/%)
FUZZ_SECONDS ?= 5
FUZZ_INPUT_BYTES := 65536
FUZZ_MEMORY_MB := 2048

UNDEFINED := undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
SANITIZE_CFLAGS := -O1 -g -fsanitize=address,$(UNDEFINED)
FUZZ_CFLAGS := -O1 -g -fsanitize=fuzzer-no-link,address,$(UNDEFINED)

PYTHON := /usr/bin/python3
# Make again with other variables, on all cores unless -j was given already.
AGAIN = +@$(MAKE) --no-print-directory $(if $(filter -j%,$(MAKEFLAGS)),,-j$(JOBS))

# --- unit: every program runs, whatever the one before it did -------------------

$(BUILD)/tests/unit/%: tests/unit/%.c $(BUILD)/libhdtrace.a $(FLAGS)
	@mkdir -p $(@D)
	$(call say,TEST)$(CC) $(ALL_CFLAGS) -MD -MP -MF $@.d -MT $@ -o $@ $< $(BUILD)/libhdtrace.a -lcriterion $(LIBS) $(LDFLAGS)

unit: $(UNIT_PROGRAMS)
	@tests/unit/run $(JOBS) $(UNIT_PROGRAMS)

# Criterion runs each test in a process of its own, whose memory it maps itself:
# leaks are looked for by the fuzzers, which run in one process.
sanitize:
	$(AGAIN) BUILD=$(BUILD)/sanitize CFLAGS="$(SANITIZE_CFLAGS)" ASAN_OPTIONS=detect_leaks=0 unit

programs: $(UNIT_PROGRAMS) $(BENCH_PROGRAMS)

# --- fuzz: a short run each; what was found stays in the corpus ------------------

$(BUILD)/tests/fuzz/%: tests/fuzz/%.c $(BUILD)/libhdtrace.a $(FLAGS)
	@mkdir -p $(@D)
	$(call say,FUZZ)$(CC) $(ALL_CFLAGS) -fsanitize=fuzzer -MD -MP -MF $@.d -MT $@ -o $@ $< $(BUILD)/libhdtrace.a $(LIBS) $(LDFLAGS)

fuzz-run: $(FUZZ_PROGRAMS)
	@tests/fuzz/run $(JOBS) $(BUILD)/corpus $(FUZZ_PROGRAMS) -- -max_total_time=$(FUZZ_SECONDS) -max_len=$(FUZZ_INPUT_BYTES) \
		-rss_limit_mb=$(FUZZ_MEMORY_MB) -timeout=10 -print_final_stats=1

fuzz:
	$(AGAIN) BUILD=$(BUILD)/fuzz CC=$(CLANG) CFLAGS="$(FUZZ_CFLAGS)" fuzz-run

# --- end to end, benchmarks -------------------------------------------------------

# make e2e MATCH=attach: only the tests whose name has this in it. The first test that needs a root
# (scripts/test-root) makes it: some minutes, once.
e2e: all
	@$(PYTHON) tests/e2e/run.py --hdtrace $(BUILD)/hdtrace --work $(BUILD)/e2e --jobs $(JOBS) --again 2 $(if $(MATCH),-k '$(MATCH)')

$(BUILD)/tests/bench/%: tests/bench/%.c $(BUILD)/libhdtrace.a $(FLAGS)
	@mkdir -p $(@D)
	$(call say,BENCH)$(CC) $(ALL_CFLAGS) -MD -MP -MF $@.d -MT $@ -o $@ $< $(BUILD)/libhdtrace.a $(LIBS) $(LDFLAGS)

# The program itself under the sanitizers, leaks included: a recording of each kind.
SANITIZED_TESTS := each_program survives forked_children several_pids replaces_itself cannot_be_run full_disk damaged doctor_looks every_format

e2e-sanitize:
	$(AGAIN) BUILD=$(BUILD)/sanitize CFLAGS="$(SANITIZE_CFLAGS)" all
	@$(PYTHON) tests/e2e/run.py --hdtrace $(BUILD)/sanitize/hdtrace --work $(BUILD)/e2e-sanitize --jobs $(JOBS) --again 2 \
		$(foreach name,$(SANITIZED_TESTS),-k $(name))

# kill -9 of everything, so many times: of the agent, its store, its captures, and jobs.
torture: all
	@KILLS=$(or $(KILLS),100) SEED=$(SEED) $(PYTHON) tests/e2e/run.py --hdtrace $(BUILD)/hdtrace --work $(BUILD)/torture -k whatever_is_killed

bench: all $(BENCH_PROGRAMS)
	@$(BUILD)/tests/bench/report_bench $(BUILD)/hdtrace $(BUILD)/bench; status=$$?; rm -rf $(BUILD)/bench; exit $$status
	@$(PYTHON) tests/bench/page.py --hdtrace $(BUILD)/hdtrace --bench $(BUILD)/tests/bench/report_bench --work $(BUILD)/bench
	@$(PYTHON) tests/bench/formats.py --hdtrace $(BUILD)/hdtrace --bench $(BUILD)/tests/bench/report_bench --work $(BUILD)/bench
	@$(PYTHON) tests/bench/walk.py --hdtrace $(BUILD)/hdtrace
	@$(PYTHON) tests/bench/fleet.py --hdtrace $(BUILD)/hdtrace --bench $(BUILD)/tests/bench/fleet_bench --work $(BUILD)/bench
	@$(PYTHON) tests/bench/ranks.py --hdtrace $(BUILD)/hdtrace --work $(BUILD)/bench
	@$(PYTHON) tests/bench/overhead.py --hdtrace $(BUILD)/hdtrace $(BENCH_OPTIONS)

# --- check: everything, as a stranger would meet it -------------------------------

SCRIPTS := scripts/demo scripts/setup scripts/package scripts/static-licences .ci/run tests/unit/run tests/fuzz/run tests/check

check-docs:
	@mandoc -T lint -W warning docs/hdtrace.8
	@bash -n packaging/hdtrace.bash-completion
	@for script in $(SCRIPTS); do sh -n $$script || exit 1; done
	@if command -v shellcheck >/dev/null; then shellcheck -S warning $(SCRIPTS); fi
	@$(PYTHON) tests/docs.py

# Both compilers, warnings are errors, nothing left from before.
check-build:
	@rm -rf $(BUILD)/check-gcc $(BUILD)/check-clang
	$(AGAIN) BUILD=$(BUILD)/check-gcc CC=gcc WERROR=1 all programs
	$(AGAIN) BUILD=$(BUILD)/check-clang CC=$(CLANG) WERROR=1 all programs
	@echo "gcc and clang: no warning"

# The BPF programs of the other machine; nothing here can run them.
check-bpf:
	@rm -rf $(BUILD)/check-arm64
	$(AGAIN) BUILD=$(BUILD)/check-arm64 BPF_ARCH=arm64 WERROR=1 bpf
	@echo "BPF for arm64: no warning"

INSTALLED := sbin/hdtrace share/man/man8/hdtrace.8 share/bash-completion/completions/hdtrace share/hdtrace/report.schema.json share/hdtrace/top.schema.json \
	$(addprefix share/hdtrace/,$(wildcard queries/*.sql)) share/hdtrace/prometheus/hdtrace.rules.yml \
	share/hdtrace/grafana/hdtrace.dashboard.json lib/systemd/system/hdtrace-agent.service ../../etc/hdtrace/agent.conf ../../etc/apparmor.d/hdtrace-agent

check-install: all
	@rm -rf $(BUILD)/installed
	+@$(MAKE) --no-print-directory install DESTDIR=$(abspath $(BUILD))/installed PREFIX=/opt/hdtrace >/dev/null
	@for file in $(INSTALLED); do test -s $(BUILD)/installed/opt/hdtrace/$$file || { echo "not installed: $$file" >&2; exit 1; }; done
	@$(BUILD)/installed/opt/hdtrace/sbin/hdtrace --version
	@extra=$$(cd $(BUILD)/installed && find . -type f | wc -l); test "$$extra" = $(words $(INSTALLED)) || \
		{ echo "$$extra files were installed, want $(words $(INSTALLED))" >&2; exit 1; }
	@echo "$(words $(INSTALLED)) files are installed, no other"

# What is handed out: built, looked at, installed, used, removed.
check-package: all
	@$(MAKE) --no-print-directory deb static >/dev/null
	@HDTRACE_BUILD='$(abspath $(BUILD))' $(PYTHON) tests/e2e/run.py --tests tests/package --hdtrace $(BUILD)/hdtrace \
		--work $(BUILD)/package --jobs $(JOBS) $(if $(MATCH),-k '$(MATCH)')

CHECKS ?= check-format lint check-docs check-build check-bpf unit sanitize fuzz check-install check-package e2e e2e-sanitize

# Other versions of PyTorch and CPython; where one cannot be made, its tests say that they are skipped.
ROOTS := cuda latest python39 clickhouse prometheus zookeeper plain

roots:
	@for root in $(ROOTS); do scripts/test-root $$root >/dev/null || true; done

check:
	@scripts/setup --tests
	@scripts/setup --browser
	+@$(MAKE) --no-print-directory roots
	+@MAKE='$(MAKE)' tests/check $(CHECKS)

.PHONY: programs roots unit sanitize fuzz fuzz-run e2e e2e-sanitize torture bench check check-docs check-build check-bpf check-install check-package
