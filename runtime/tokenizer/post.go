package tokenizer

import (
	"fmt"

	"github.com/lowpack/lowpack/internal/jsonread"
	"github.com/lowpack/lowpack/pack"
)

// maxAround bounds the number of special tokens before and after a text.
const maxAround = 64

// readPost reads the post-processor: the special tokens before and after a text.
func (t *Tokenizer) readPost(v *jsonread.Value) error {
	seen := false
	return flatten("post_processor", "processors", v, func(p *part) error {
		switch p.kind {
		case "ByteLevel": // concerns offsets, which are not computed
			p.ignore("add_prefix_space", "trim_offsets", "use_regex")
		case "TemplateProcessing":
			if seen {
				p.fail(pack.ErrUnsupported, "occurs twice")
			}
			seen = true
			// the last three from a ByteLevel in Command R
			p.ignore("pair", "add_prefix_space", "trim_offsets", "use_regex")
			t.readTemplate(p)
		default:
			return p.unknown("TemplateProcessing, ByteLevel and Sequence")
		}
		return p.done()
	})
}

// readTemplate reads a list of special tokens with the text somewhere among them.
func (t *Tokenizer) readTemplate(p *part) {
	special := p.get("special_tokens")
	texts := 0
	items := p.list("single", maxAround)
	for i := range items {
		if items[i].Get("Sequence") != nil {
			texts++
			continue
		}
		name, ok := items[i].Get("SpecialToken").Get("id").Str()
		ids := special.Get(name).Get("ids")
		if !ok || ids == nil || ids.Kind != jsonread.Array || len(ids.Items) > maxAround {
			p.fail(pack.ErrCorrupt, "single[%d] is neither the text nor a token of special_tokens", i)
			return
		}
		for j := range ids.Items {
			id, ok := ids.Items[j].Int()
			if !ok || id < 0 || t.vocab.bytes(int(min(id, maxTokens*2))) == nil {
				p.fail(pack.ErrCorrupt, "the special token %.40q is not in the vocabulary", name)
				return
			}
			if texts == 0 {
				t.before = append(t.before, int(id))
			} else {
				t.after = append(t.after, int(id))
			}
		}
	}
	if texts != 1 {
		p.fail(pack.ErrCorrupt, "single has the text %d times", texts)
	}
}

// setAround sets the special tokens before or after a text from their written forms: for files other than
// tokenizer.json, and where tokenizer_config.json overrides.
func (t *Tokenizer) setAround(to *[]int, token string, add bool) error {
	*to = nil
	if !add {
		return nil
	}
	id, ok := t.ID(token)
	if !ok {
		return fmt.Errorf("%w: the special token %.40q is not in the vocabulary", pack.ErrCorrupt, token)
	}
	*to = []int{id}
	return nil
}
