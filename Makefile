# make run: build, convert the bundled model, verify it, generate text.  make test: every test.
export CGO_ENABLED := 0
MODEL  := testdata/tiny-bitnet
PACKED := out/tiny-bitnet.vnni4i.safetensors
PROMPT := Once upon a time there was a little girl

.PHONY: run build test generate fuzz bench clean

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

build:
	go build -trimpath -o bin/lowpack ./cmd/lowpack

test:
	go vet ./...
	go test ./...

# Rewrites everything that is generated: assembly, docs/LAYOUTS.md, the hostile corpus.
generate:
	go generate ./...

# One fuzz target after another, each for FUZZTIME (a number of executions, or a duration as in 60s).
FUZZTIME ?= 1000000x
fuzz:
	@for pkg in $$(go list ./...); do \
	  for target in $$(go test -list '^Fuzz' $$pkg | grep '^Fuzz'); do \
	    echo "== $$pkg $$target"; \
	    go test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 10x $$pkg || exit 1; \
	  done; \
	done

clean:
	rm -rf bin out
