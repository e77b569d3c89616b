package tokenizer

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"

	"github.com/lowpack/lowpack/pack"
	"github.com/lowpack/lowpack/runtime/tokenizer/internal/pattern"
)

// looksLikeTiktoken reports whether a file consists of lines of base64 and a number, rather than a protobuf message.
func looksLikeTiktoken(data []byte) bool {
	line, _, _ := bytes.Cut(data, []byte{'\n'})
	_, _, err := tiktokenLine(bytes.TrimRight(line, "\r"))
	return err == nil
}

func tiktokenLine(line []byte) (token []byte, rank int, err error) {
	text, number, ok := bytes.Cut(line, []byte{' '})
	if !ok {
		return nil, 0, fmt.Errorf("%w: a line without a rank", pack.ErrCorrupt)
	}
	token, err = base64.StdEncoding.DecodeString(string(text))
	if err == nil {
		rank, err = strconv.Atoi(string(number))
	}
	if err != nil {
		return nil, 0, fmt.Errorf("%w: %v", pack.ErrCorrupt, err)
	}
	return token, rank, nil
}

// readTiktoken makes a tokenizer from a tiktoken file: every token with its rank, which is its id and its position in
// the order of merges. The file does not contain the pattern and the special tokens; they follow from the size, which
// is unique to one family.
func readTiktoken(data []byte, c *config) (*Tokenizer, error) {
	t := &Tokenizer{vocab: newVocab(len(data)/16, len(data)/2), decoder: decoder{bytewise: true}}
	for number, line := range bytes.Split(data, []byte{'\n'}) {
		if line = bytes.TrimRight(line, "\r"); len(line) == 0 {
			continue
		}
		token, rank, err := tiktokenLine(line)
		if err == nil {
			err = t.vocab.add(token, int64(rank))
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", number+1, err)
		}
	}
	if t.vocab.size() != t.vocab.count {
		return nil, fmt.Errorf("%w: %d tokens, but the largest rank is %d", pack.ErrCorrupt, t.vocab.count,
			t.vocab.size()-1)
	}
	special, source, err := tiktokenFamily(t.vocab.size())
	if err != nil {
		return nil, err
	}
	if err := t.vocab.index(); err != nil {
		return nil, err
	}
	order := make([]int, t.vocab.size())
	for i := range order {
		order[i] = i
	}
	rules, err := mergesOf(t.vocab, order, func(i int) int { return i })
	if err != nil {
		return nil, err
	}
	t.model = newBPE(bpe{vocab: t.vocab, merges: rules, bytewise: true, wholeWords: true, unk: -1}, false)
	if err := t.splitWith(source); err != nil {
		return nil, err
	}
	if len(c.added) == 0 {
		for i, content := range special {
			c.added = append(c.added, addedToken{id: len(order) + i, content: content, special: true})
		}
	}
	return t, t.addFromConfig(c, source == pattern.Llama3)
}

// tiktokenFamily returns the special tokens and the pattern that belong to a vocabulary of this size.
func tiktokenFamily(size int) (special []string, source string, err error) {
	switch size {
	case 128000:
		special = []string{
			"<|begin_of_text|>", "<|end_of_text|>", "<|reserved_special_token_0|>", "<|reserved_special_token_1|>",
			"<|reserved_special_token_2|>", "<|reserved_special_token_3|>", "<|start_header_id|>", "<|end_header_id|>",
			"<|reserved_special_token_4|>", "<|eot_id|>",
		}
		for i := 5; len(special) < 256; i++ {
			special = append(special, fmt.Sprintf("<|reserved_special_token_%d|>", i))
		}
		return special, pattern.Llama3, nil
	case 151643:
		return []string{"<|endoftext|>", "<|im_start|>", "<|im_end|>"}, pattern.Qwen2, nil
	}
	return nil, "", fmt.Errorf("%w: a tiktoken file of %d tokens; known are those of Llama 3 (128000) and Qwen "+
		"(151643); a %s says all by itself", pack.ErrUnsupported, size, tokenizerJSON)
}

func (t *Tokenizer) splitWith(source string) error {
	re, err := pattern.Compile(source)
	t.splitters = chain{divider{find: re, behavior: isolated}}
	return err
}

// addFromConfig adds the special tokens that tokenizer_config.json lists or gives a role, and puts the begin-of-text
// token before texts if the family does so and the file does not say otherwise.
func (t *Tokenizer) addFromConfig(c *config, bos bool) error {
	added := slices.Clone(c.added)
	for _, role := range tokenRoles {
		content := c.tokens[role]
		id, ok := t.idInVocab(content)
		listed := slices.ContainsFunc(added, func(a addedToken) bool { return a.content == content })
		if ok && !listed && content != "" {
			added = append(added, addedToken{id: id, content: content, special: true})
		}
	}
	for _, a := range added {
		if old, known := t.added[a.content]; known && old == a.id {
			continue
		}
		if err := t.addToken(a); err != nil {
			return err
		}
	}
	if err := t.vocab.checkDense(); err != nil {
		return err
	}
	if c.addBOS == nil && bos {
		for _, token := range []string{c.tokens["bos_token"], "<s>", "<|begin_of_text|>", "<bos>"} {
			if id, ok := t.added[token]; ok {
				t.before = []int{id}
				break
			}
		}
	}
	return nil
}

// qwen2Normalizer is the normalizer of Qwen2 tokenizers.
func qwen2Normalizer() normalizers { return normalizers{newUnicodeForm("NFC")} }
