package verify

import (
	"errors"
	"fmt"
	"slices"

	"github.com/lowpack/lowpack/formats/golden"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/pack"
	"github.com/lowpack/lowpack/runtime/engine"
	"github.com/lowpack/lowpack/runtime/tokenizer"
	"github.com/lowpack/lowpack/runtime/tokenizer/texts"
)

const textsGroup = "texts"

// checkTexts loads tokenizer and chat template, as `lowpack run` does, and compares the golden texts with their output.
// No second tokenizer judges them: they come from the program that converted, so that a later one which differs is
// noticed.
func (s *session) checkTexts() error {
	err := s.one(Logits, textsGroup, "F7", packed.FilePrefix+"generation_config.json", func() error {
		generation, _ := s.view.Embedded("generation_config.json")
		_, err := engine.SamplingOf(generation)
		return err
	})
	if err != nil {
		return err
	}
	t, err := tokenizer.Load(s.view.Embedded)
	if errors.Is(err, pack.ErrUnsupported) && (s.golden == nil || len(s.golden.Texts) == 0) {
		s.skip(Logits, "tokenizer", err.Error())
		return nil
	}
	var got []golden.Text
	if err == nil {
		got, err = texts.Of(t)
	}
	loaded := func() error { return err }
	if err := s.one(Logits, textsGroup, "F7", s.tokenizerName(), loaded); err != nil || s.report.Failed() > 0 {
		return err
	}
	if s.golden == nil || s.file.Manifest().Recipe.Golden != packed.GoldenFull {
		s.report.note("the file has no golden texts: its tokenizer was loaded, what it gives was compared with " +
			"nothing; convert --golden full records them")
		return nil
	}
	return s.compareTexts(got)
}

// tokenizerName is the embedded file that the vocabulary is in.
func (s *session) tokenizerName() string {
	for _, name := range []string{"tokenizer.json", "tokenizer.model"} {
		if _, err := s.file.Section(packed.FilePrefix + name); err == nil {
			return packed.FilePrefix + name
		}
	}
	return packed.FilePrefix + "vocab.json"
}

// compareTexts compares what the tokenizer gives now with what is recorded.
func (s *session) compareTexts(got []golden.Text) error {
	want := s.golden.Texts
	return s.each(Logits, textsGroup,
		slices.Concat([]item{{group: textsGroup, name: "all of them", rule: "F8", size: 1, check: func() error {
			if len(want) != len(got) {
				return broken("F8",
					"%d golden texts, but tokenizer and chat template give %d: they were left out, or recorded by a "+
						"program that did not support these files; convert again", len(want), len(got))
			}
			s.report.Coverage.Texts = len(want)
			return nil
		}}}, textItems(want, got)))
}

func textItems(want, got []golden.Text) (items []item) {
	for i := range min(len(want), len(got)) {
		w, g := &want[i], &got[i]
		items = append(items, item{group: textsGroup, name: w.Name, rule: "F8", size: 1,
			check: func() error { return sameText(w, g) }})
	}
	return items
}

// sameText compares one text.
func sameText(want, got *golden.Text) error {
	if want.Text != got.Text {
		return broken("F8", "the chat template gives %s; recorded is %s", brief(got.Text), brief(want.Text))
	}
	for i := range max(len(want.Tokens), len(got.Tokens)) {
		if i >= len(want.Tokens) || i >= len(got.Tokens) || want.Tokens[i] != got.Tokens[i] {
			return broken("F8", "the tokenizer gives %d tokens, recorded are %d; the first that differs is number %d",
				len(got.Tokens), len(want.Tokens), i)
		}
	}
	return nil
}

// brief quotes the beginning of a text.
func brief(text string) string { return fmt.Sprintf("%.200q", text) }
