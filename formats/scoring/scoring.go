// Package scoring says how a model makes a score of the logits after a query and a document: what a checkpoint of
// sentence-transformers, a CrossEncoder over a causal model, declares in modules.json and the files beside it.
//
// [Parse] reads these files, and names what lowpack does not compute; [Scoring] is what a packed file holds of them
// (docs/FORMAT.md, F27); docs/NUMERICS.md N81 has the arithmetic.
package scoring

import (
	"fmt"

	"github.com/lowpack/lowpack/formats/internal/modules"
	"github.com/lowpack/lowpack/pack"
)

// Activation makes the score of the difference of logits.
type Activation string

// The activations.
const (
	Sigmoid  Activation = "sigmoid"
	Identity Activation = "identity"
)

// activations are all activations, with the names that PyTorch has for each; the first is what is saved.
var activations = []struct {
	activation Activation
	classes    []string
}{
	{Sigmoid, []string{"torch.nn.modules.activation.Sigmoid", "torch.nn.Sigmoid"}},
	{Identity, []string{"torch.nn.modules.linear.Identity", "torch.nn.Identity"}},
}

// Format says what the content of a message is to the chat template.
type Format string

// The formats, by the names of sentence-transformers.
const (
	Flat       Format = "flat"       // the text
	Structured Format = "structured" // a list of one part of type text
)

// Scoring makes a score of the logits after the last token of a conversation: the prompt in a message of the system, if
// there is one, the query in one of the role query, and the document in one of the role document.
type Scoring struct {
	True       int        `json:"true_token"`  // the token that says that the document answers the query
	False      int        `json:"false_token"` // the token that says that it does not; −1 = none, True alone counts
	Activation Activation `json:"activation"`
	Format     Format     `json:"format"`
	Generation bool       `json:"add_generation_prompt,omitempty"` // the template ends with the start of an answer
	Prompt     string     `json:"prompt,omitempty"`                // where a request brings none; "" = no message
	MaxTokens  int        `json:"max_tokens,omitempty"`            // of the conversation; 0 = the context of the model
}

// None is the False of a scoring with one token.
const None = -1

// Bounds of F27.
const (
	mostToken  = 1<<31 - 1
	mostPrompt = 1 << 16 // bytes
)

// Tokens returns the tokens whose logits count: True, and False if there is one.
func (s *Scoring) Tokens() []int {
	if s.False == None {
		return []int{s.True}
	}
	return []int{s.True, s.False}
}

// Check rejects undefined values (F27).
func (s *Scoring) Check() error {
	switch {
	case s.True < 0 || s.True > mostToken || s.False < None || s.False > mostToken:
		return fmt.Errorf("%w: a score of the tokens %d and %d (F27)", pack.ErrCorrupt, s.True, s.False)
	case s.MaxTokens < 0 || s.MaxTokens > modules.MostTokens:
		return fmt.Errorf("%w: scores of at most %d tokens; want 1 to %d, or none (F27)", pack.ErrCorrupt, s.MaxTokens,
			modules.MostTokens)
	case len(s.Prompt) > mostPrompt:
		return fmt.Errorf("%w: a prompt of scores of %d bytes; at most %d (F27)", pack.ErrLimit, len(s.Prompt),
			mostPrompt)
	case s.Format != Flat && s.Format != Structured:
		return fmt.Errorf("%w: messages of the format %.40q; there are %s and %s (F27)", pack.ErrUnsupported, s.Format,
			Flat, Structured)
	}
	for _, a := range activations {
		if a.activation == s.Activation {
			return nil
		}
	}
	return fmt.Errorf("%w: the activation %.40q of scores; there are %s and %s (F27)", pack.ErrUnsupported,
		s.Activation, Sigmoid, Identity)
}

// CheckVocab rejects tokens that a vocabulary of n tokens does not have (F27).
func (s *Scoring) CheckVocab(n int) error {
	if s.True >= n || s.False >= n {
		return fmt.Errorf("%w: a score of the tokens %d and %d of a vocabulary of %d (F27)", pack.ErrCorrupt, s.True,
			s.False, n)
	}
	return nil
}

// String describes the scoring to people.
func (s *Scoring) String() string {
	text := fmt.Sprintf("logit of token %d", s.True)
	if s.False != None {
		text += fmt.Sprintf(" less that of %d", s.False)
	}
	text += ", " + string(s.Activation)
	if s.Prompt != "" {
		text += fmt.Sprintf(", prompt %.60q", s.Prompt)
	}
	if s.MaxTokens > 0 {
		text += fmt.Sprintf(", at most %d tokens", s.MaxTokens)
	}
	return text
}
