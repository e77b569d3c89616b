package calibrate_test

import (
	"context"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/lowpack/lowpack/convert/internal/calibrate"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/testkit/shared"
	"github.com/lowpack/lowpack/internal/testkit/tinymodel"
	"github.com/lowpack/lowpack/runtime/engine"
)

// TestWrite: each text is what the engine generates for its opening and its seed alone, up to an end token or as long
// as a text can be; together they have as many tokens as were asked for, and threads change nothing.
func TestWrite(t *testing.T) {
	f, d := tinymodel.Open(t, tinymodel.Converted(t, shared.Testdata(t, "tiny-bitnet"),
		packed.Recipe{Quant: "none", Golden: "none"}))
	o := calibrate.Writing{Threads: 1, Tokens: 700, Room: 24, Begin: d.BOS, Seed: 5}
	for id := range 200 {
		o.Openings = append(o.Openings, 2*id)
		o.End = append(o.End, 5*id+1)
	}
	var last, total int64
	o.Progress = func(done, all int64) {
		if done < last {
			t.Errorf("%d tokens after %d", done, last)
		}
		last, total = done, all
	}
	texts, err := calibrate.Write(t.Context(), f, o)
	if err != nil {
		t.Fatal(err)
	}
	if last != 700 || total != 700 {
		t.Errorf("%d of %d tokens", last, total)
	}
	o.Threads, last = 3, 0
	if more, err := calibrate.Write(t.Context(), f, o); err != nil || !reflect.DeepEqual(more, texts) {
		t.Errorf("three threads write another text: %v", err)
	}
	e, err := engine.New(f, engine.Options{Context: o.Room + 1})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	sum, long, short, open, openings := 0, 0, 0, 0, map[int]bool{}
	for i, text := range texts {
		sum += len(text)
		openings[text[0]] = true
		if !slices.Contains(o.Openings, text[0]) {
			t.Errorf("text %d begins with token %d", i, text[0])
		}
		want := alone(t, e, o, i, text[0])
		switch {
		case len(text) == o.Room:
			long++
		case len(text) == len(want):
			short++
		default:
			open++
		}
		if len(text) > len(want) || !slices.Equal(text, want[:len(text)]) {
			t.Errorf("text %d is %v; want %v", i, text, want)
		}
	}
	// of the texts that are written at once, the last token ends all
	if sum != 700 || long == 0 || short == 0 || open >= 16 ||
		len(openings) < len(texts)/2 {
		t.Errorf("%d tokens; %d of %d texts at full length, %d ended, with %d openings", sum, long, len(texts), short,
			len(openings))
	}
}

// alone generates a text by itself.
func alone(t *testing.T, e *engine.Engine, o calibrate.Writing, i, opening int) []int {
	t.Helper()
	s, err := e.NewSequence()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	r, err := e.Generate(t.Context(), s, engine.Request{Prompt: []int{o.Begin, opening}, MaxTokens: o.Room - 1,
		StopTokens: o.End, Sampling: engine.Sampling{Temperature: 1, Seed: o.Seed + uint64(i)}},
		func(engine.Piece) bool { return true })
	if err != nil {
		t.Fatal(err)
	}
	return append([]int{opening}, r.Tokens...)
}

// TestWriteEnds: without tokens to begin with nothing is written, and a text of one token is its opening and another
// one at most; a canceled context ends the work.
func TestWriteEnds(t *testing.T) {
	f, _ := tinymodel.Open(t, tinymodel.Converted(t, shared.Testdata(t, "tiny-bitnet"),
		packed.Recipe{Quant: "none", Golden: "none"}))
	o := calibrate.Writing{Tokens: 40, Room: 1, Begin: -1, Progress: func(int64, int64) {}}
	if _, err := calibrate.Write(t.Context(), f, o); err == nil {
		t.Error("a text without an opening")
	}
	o.Openings = []int{7}
	if texts, err := calibrate.Write(t.Context(), f, o); err != nil || len(texts) != 20 || len(texts[0]) != 2 {
		t.Errorf("%v, %v", texts, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := calibrate.Write(ctx, f, o); err == nil {
		t.Error("a canceled context does not end it")
	}
}

// TestWriteRecurrent: a model without attention, which has no keys and values, writes too.
func TestWriteRecurrent(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "model")
	tinymodel.Miniature(t, "mamba-codestral-7b", dir)
	f, _ := tinymodel.Open(t, tinymodel.Converted(t, dir, packed.Recipe{Quant: "none", Golden: "none"}))
	o := calibrate.Writing{Tokens: 100, Room: 20, Begin: -1, Openings: []int{7, 8, 9}, Seed: 1,
		Progress: func(int64, int64) {}}
	if texts, err := calibrate.Write(t.Context(), f, o); err != nil || len(slices.Concat(texts...)) != 100 {
		t.Errorf("%v, %v", texts, err)
	}
}
