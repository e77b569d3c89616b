package engine

import (
	"encoding/json"
	"fmt"

	"github.com/lowpack/lowpack/pack"
)

// SamplingOf reads the settings that a model's generation_config.json asks for; nil stands for a model that has none.
// They count only where do_sample is true: without it a model is meant to be used greedily.
func SamplingOf(generationConfig []byte) (Sampling, error) {
	if generationConfig == nil {
		return Sampling{}, nil
	}
	c := struct {
		DoSample          bool    `json:"do_sample"`
		Temperature       float32 `json:"temperature"`
		TopK              int     `json:"top_k"`
		TopP              float32 `json:"top_p"`
		MinP              float32 `json:"min_p"`
		RepetitionPenalty float32 `json:"repetition_penalty"`
	}{Temperature: 1, TopK: 50} // what transformers takes for absent keys
	if err := json.Unmarshal(generationConfig, &c); err != nil {
		return Sampling{}, fmt.Errorf("%w: generation_config.json: %v", pack.ErrCorrupt, err)
	}
	s := Sampling{RepetitionPenalty: c.RepetitionPenalty}
	if c.DoSample {
		s.Temperature, s.TopK, s.TopP, s.MinP = c.Temperature, c.TopK, c.TopP, c.MinP
	}
	if err := s.Check(); err != nil {
		return Sampling{}, fmt.Errorf("generation_config.json: %w", err)
	}
	return s, nil
}
