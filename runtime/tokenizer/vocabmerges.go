package tokenizer

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/lowpack/lowpack/internal/jsonread"
	"github.com/lowpack/lowpack/pack"
	"github.com/lowpack/lowpack/runtime/tokenizer/internal/pattern"
)

// readVocabAndMerges makes a byte-level tokenizer from vocab.json and merges.txt, the two files of GPT-2. The
// pre-tokenizer follows from the class that tokenizer_config.json names.
func readVocabAndMerges(vocabulary, rules []byte, c *config) (*Tokenizer, error) {
	t := &Tokenizer{decoder: decoder{bytewise: true}}
	source := pattern.GPT2
	switch class := strings.TrimSuffix(c.class, "Fast"); class {
	case "", "GPT2Tokenizer", "GPTNeoXTokenizer":
	case "Qwen2Tokenizer":
		source, t.normalizer = pattern.Qwen2, qwen2Normalizer()
	default:
		return nil, fmt.Errorf("%w: tokenizer_class %.40q without a %s; supported are GPT2Tokenizer, GPTNeoXTokenizer "+
			"and Qwen2Tokenizer", pack.ErrUnsupported, c.class,
			tokenizerJSON)
	}
	m := modelReader{bytewise: true, guess: len(vocabulary) + len(rules)}
	r := jsonread.NewReader(vocabulary)
	if err := m.readVocab(r); err != nil {
		return nil, err
	}
	if err := r.End(); err != nil {
		return nil, err
	}
	if m.sawScores {
		return nil, fmt.Errorf("%w: %s is a list", pack.ErrCorrupt, vocabJSON)
	}
	t.vocab = m.vocab
	table, err := readMergesText(rules, newRuleReader(m.vocab, true))
	if err != nil {
		return nil, err
	}
	t.model = newBPE(bpe{vocab: m.vocab, merges: table, bytewise: true, unk: -1}, false)
	if err := t.splitWith(source); err != nil {
		return nil, err
	}
	return t, t.addFromConfig(c, false)
}

// readMergesText reads one rule per line, with the line ends of any system. The first line may be a comment with a
// version.
func readMergesText(data []byte, rules *ruleReader) (*merges, error) {
	for first := true; len(data) > 0; first = false {
		end := bytes.IndexAny(data, "\r\n")
		if end < 0 {
			end = len(data)
		}
		line := data[:end]
		data = data[min(end+1, len(data)):]
		if len(line) == 0 || first && bytes.HasPrefix(line, []byte("#version")) {
			continue
		}
		if err := rules.addLine(line); err != nil {
			return nil, err
		}
	}
	return rules.finish()
}
