// Package pooling says how a model makes one vector, an embedding, of the hidden states of a text: what a checkpoint of
// sentence-transformers declares in modules.json and the files of its modules.
//
// [Parse] reads these files, and names what lowpack does not compute; [Pooling] is what a packed file holds of them
// (docs/FORMAT.md, F26); docs/NUMERICS.md N80 has the arithmetic.
package pooling

import (
	"fmt"

	"github.com/lowpack/lowpack/formats/internal/modules"
	"github.com/lowpack/lowpack/pack"
)

// Mode says which hidden states count.
type Mode string

// The modes, by the names of sentence-transformers.
const (
	LastToken Mode = "lasttoken" // that of the last token
	Mean      Mode = "mean"      // the mean of all tokens
)

// modes are all modes, with their names for people and the key that older files have for each.
var modes = []struct {
	mode      Mode
	text, key string
}{
	{LastToken, "last token", "pooling_mode_lasttoken"},
	{Mean, "mean of all tokens", "pooling_mode_mean_tokens"},
}

// Pooling makes a vector of the hidden states of a text.
type Pooling struct {
	Mode      Mode `json:"mode"`
	Normalize bool `json:"normalize,omitempty"`  // the vector has length 1
	MaxTokens int  `json:"max_tokens,omitempty"` // of a text, special tokens included; 0 = the context of the model
}

// Check rejects undefined values (F26).
func (p *Pooling) Check() error {
	if p.MaxTokens < 0 || p.MaxTokens > modules.MostTokens {
		return fmt.Errorf("%w: pooling of at most %d tokens; want 1 to %d, or none (F26)", pack.ErrCorrupt, p.MaxTokens,
			modules.MostTokens)
	}
	for _, m := range modes {
		if m.mode == p.Mode {
			return nil
		}
	}
	return fmt.Errorf("%w: pooling mode %.40q; there are %s and %s (F26)", pack.ErrUnsupported, p.Mode, LastToken, Mean)
}

// String describes the pooling to people.
func (p *Pooling) String() string {
	text := string(p.Mode)
	for _, m := range modes {
		if m.mode == p.Mode {
			text = m.text
		}
	}
	if p.Normalize {
		text += ", normalized"
	}
	if p.MaxTokens > 0 {
		text += fmt.Sprintf(", at most %d tokens", p.MaxTokens)
	}
	return text
}
