# Tests: unit tests (Criterion), the same under sanitizers, fuzzers, end-to-end
# tests on real jobs, and `check`, which is all of them.

UNIT_SOURCES := $(wildcard tests/unit/*_test.c)
UNIT_PROGRAMS := $(UNIT_SOURCES:%.c=$(BUILD)/%)
FUZZ_SOURCES := $(wildcard tests/fuzz/*_fuzz.c)
FUZZ_PROGRAMS := $(FUZZ_SOURCES:%.c=$(BUILD)/%)
FUZZ_SECONDS ?= 5
FUZZ_INPUT_BYTES := 65536
FUZZ_MEMORY_MB := 2048

UNDEFINED := undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
SANITIZE_CFLAGS := -O1 -g -fsanitize=address,$(UNDEFINED)
FUZZ_CFLAGS := -O1 -g -fsanitize=fuzzer-no-link,address,$(UNDEFINED)

PYTHON := /usr/bin/python3
AGAIN = +@$(MAKE) --no-print-directory

# --- unit: every program runs, whatever the one before it did -------------------

$(BUILD)/tests/unit/%: tests/unit/%.c $(BUILD)/libhdtrace.a
	@mkdir -p $(@D)
	$(call say,TEST)$(CC) $(ALL_CFLAGS) -MMD -MP -MF $@.d -o $@ $< $(BUILD)/libhdtrace.a -lcriterion $(LIBS) $(LDFLAGS)

unit: $(UNIT_PROGRAMS)
	@failed=; for program in $(UNIT_PROGRAMS); do \
		printf '  %-8s %s\n' UNIT "$${program##*/}"; $$program --jobs 2 || failed="$$failed $${program##*/}"; \
	done; \
	if [ -n "$$failed" ]; then echo "unit tests failed:$$failed" >&2; exit 1; fi

# Criterion runs each test in a process of its own, whose memory it maps itself:
# leaks are looked for by the fuzzers, which run in one process.
sanitize:
	$(AGAIN) BUILD=$(BUILD)/sanitize CFLAGS="$(SANITIZE_CFLAGS)" ASAN_OPTIONS=detect_leaks=0 unit

# --- fuzz: a short run each; what was found stays in the corpus ------------------

$(BUILD)/tests/fuzz/%: tests/fuzz/%.c $(BUILD)/libhdtrace.a
	@mkdir -p $(@D)
	$(call say,FUZZ)$(CC) $(ALL_CFLAGS) -fsanitize=fuzzer -MMD -MP -MF $@.d -o $@ $< $(BUILD)/libhdtrace.a $(LIBS) $(LDFLAGS)

fuzz-run: $(FUZZ_PROGRAMS)
	@for program in $(FUZZ_PROGRAMS); do \
		name=$${program##*/}; corpus=$(BUILD)/corpus/$$name; seeds=tests/fuzz/corpus/$${name%_fuzz}; \
		mkdir -p $$corpus; [ -d $$seeds ] || seeds=; \
		if ! $$program -max_total_time=$(FUZZ_SECONDS) -max_len=$(FUZZ_INPUT_BYTES) -rss_limit_mb=$(FUZZ_MEMORY_MB) \
			-timeout=10 -artifact_prefix=$(BUILD)/corpus/$$name- -print_final_stats=1 $$corpus $$seeds >$$corpus.log 2>&1; \
		then tail -n 60 $$corpus.log >&2; echo "$$name found a fault; the input is in $(BUILD)/corpus" >&2; exit 1; fi; \
		printf '  %-8s %s: %s inputs, no fault\n' FUZZ $$name "$$(sed -n 's/^stat::number_of_executed_units: *//p' $$corpus.log)"; \
	done

fuzz:
	$(AGAIN) BUILD=$(BUILD)/fuzz CC=$(CLANG) CFLAGS="$(FUZZ_CFLAGS)" fuzz-run

# --- end to end, benchmarks -------------------------------------------------------

# make e2e MATCH=attach: only the tests whose name has this in it.
e2e: all
	@$(PYTHON) tests/e2e/run.py --hdtrace $(BUILD)/hdtrace --work $(BUILD)/e2e $(if $(MATCH),-k '$(MATCH)')

bench: all
	@for program in $(wildcard tests/bench/*.py); do $(PYTHON) $$program --hdtrace $(BUILD)/hdtrace $(BENCH_OPTIONS) || exit 1; done

# --- check: everything, as a stranger would meet it -------------------------------

check-docs:
	@mandoc -T lint -W warning docs/hdtrace.8
	@bash -n packaging/hdtrace.bash-completion
	@if command -v shellcheck >/dev/null; then shellcheck scripts/demo .ci/run; fi

# Both compilers, warnings are errors, nothing left from before.
check-build:
	@rm -rf $(BUILD)/check-gcc $(BUILD)/check-clang
	$(AGAIN) BUILD=$(BUILD)/check-gcc CC=gcc WERROR=1 all
	$(AGAIN) BUILD=$(BUILD)/check-clang CC=$(CLANG) WERROR=1 all

INSTALLED := sbin/hdtrace share/man/man8/hdtrace.8 share/bash-completion/completions/hdtrace share/hdtrace/report.schema.json

check-install: all
	@rm -rf $(BUILD)/installed
	$(AGAIN) install DESTDIR=$(BUILD)/installed PREFIX=/opt/hdtrace >/dev/null
	@for file in $(INSTALLED); do test -s $(BUILD)/installed/opt/hdtrace/$$file || { echo "not installed: $$file" >&2; exit 1; }; done
	@$(BUILD)/installed/opt/hdtrace/sbin/hdtrace --version
	@extra=$$(cd $(BUILD)/installed && find . -type f | wc -l); test "$$extra" = $(words $(INSTALLED)) || \
		{ echo "$$extra files were installed, want $(words $(INSTALLED))" >&2; exit 1; }

CHECKS := check-format check-docs check-build unit sanitize fuzz check-install e2e

check:
	@scripts/setup --tests
	@for target in $(CHECKS); do echo "== $$target"; $(MAKE) --no-print-directory $$target || exit 1; done
	@echo "everything passed: $(CHECKS)"

.PHONY: unit sanitize fuzz fuzz-run e2e bench check check-docs check-build check-install
