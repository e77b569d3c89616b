package verify

import (
	"slices"

	"github.com/lowpack/lowpack/formats/golden"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/runtime/engine"
)

const filterGroup = "with the candidate filter"

// checkFiltered repeats the golden sequences through the candidate filter of a file that has a screen of its head:
// there the largest logits come from other code, and from other weights, than the full set of logits.
func (s *session) checkFiltered(texts [][]golden.Logits) error {
	if _, ok := s.file.Manifest().Entry(packed.ScreenName); !ok {
		return nil
	}
	rows := 0
	for _, top := range s.tops(texts) {
		for _, run := range []func(*runner) error{(*runner).batched, (*runner).single} {
			r := &runner{session: s, group: filterGroup, texts: texts, top: top}
			if err := r.check(run); err != nil || s.report.Failed() > 0 {
				return err
			}
			rows += r.screened
		}
	}
	if rows == 0 {
		s.skip(Logits, filterGroup+" in use",
			"the engine makes no use of the screen: its vocabulary is too small, or its logits are capped")
	}
	return nil
}

// tops lists the numbers of largest logits that sampling asks for: one if it is greedy, the top-k of the model, and as
// many as the golden outputs list.
func (s *session) tops(texts [][]golden.Logits) []int {
	tops := []int{1, len(texts[0][0].TopTokens)}
	generation, _ := s.view.Embedded("generation_config.json")
	if sampling, err := engine.SamplingOf(generation); err == nil && sampling.TopK > 0 {
		tops = append(tops, sampling.TopK)
	}
	slices.Sort(tops)
	return slices.Compact(tops)
}
