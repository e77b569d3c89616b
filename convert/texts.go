package convert

import (
	"errors"
	"fmt"
	"strings"

	"github.com/lowpack/lowpack/formats/sampling"
	"github.com/lowpack/lowpack/pack"
	"github.com/lowpack/lowpack/runtime/chat"
	"github.com/lowpack/lowpack/runtime/tokenizer"
	"github.com/lowpack/lowpack/runtime/tokenizer/texts"
)

// checkTexts loads the tokenizer, the chat template and generation_config.json, as lowpack run will. A broken tokenizer
// is refused: the packed file would pass its verification and not run. A tokenizer that this version does not support
// becomes a note, because the weights are still usable.
func (p *Plan) checkTexts() error {
	if p.model == nil {
		return nil
	}
	config, _ := p.source.File("generation_config.json")
	if _, err := sampling.Parse(config); err != nil {
		return err
	}
	if !p.hasTokenizer() {
		return nil
	}
	t, err := tokenizer.Load(p.source.File)
	switch {
	case errors.Is(err, pack.ErrUnsupported):
		p.note("the packed file will not run text: %v; put a tokenizer.json of a kind that is read into its place, "+
			"and convert again", err)
		return nil
	case err != nil:
		return fmt.Errorf("the packed file would not run text: %w; download the file again, or move the tokenizer's "+
			"files away to convert the weights alone", err)
	}
	if dropped := t.Dropped(); len(dropped) > 0 {
		p.detail("the tokenizer has no token for %d bytes, which a text loses: % x", len(dropped), dropped)
	}
	if p.texts, err = texts.Of(t); err != nil {
		return fmt.Errorf("golden texts: %w", err)
	}
	p.checkTemplates(t)
	return nil
}

func (p *Plan) hasTokenizer() bool {
	file := func(name string) bool {
		_, ok := p.source.File(name)
		return ok
	}
	return file("tokenizer.json") || file("tokenizer.model") || file("vocab.json") && file("merges.txt")
}

// checkTemplates parses every chat template and renders a greeting with it.
func (p *Plan) checkTemplates(t *tokenizer.Tokenizer) {
	for _, name := range t.ChatTemplates() {
		err := t.UseTemplate(name)
		if err == nil {
			_, err = t.Chat([]chat.Message{{Role: "user", Content: "Hello."}}, chat.Options{AddGenerationPrompt: true})
		}
		if err != nil {
			text := strings.TrimPrefix(err.Error(), "chat template: ")
			p.note("chat template %q: %s; run --chat needs another one, --chat-template FILE", name, text)
		}
	}
}
