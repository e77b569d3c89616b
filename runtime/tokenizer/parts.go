package tokenizer

import (
	"fmt"

	"github.com/lowpack/lowpack/internal/jsonread"
	"github.com/lowpack/lowpack/pack"
	"github.com/lowpack/lowpack/runtime/tokenizer/internal/chars"
	"github.com/lowpack/lowpack/runtime/tokenizer/internal/pattern"
)

func readNormalizers(v *jsonread.Value) (out normalizers, err error) {
	err = flatten("normalizer", "normalizers", v, func(p *part) error {
		var n normalizer
		switch p.kind {
		case "NFC", "NFD", "NFKC", "NFKD":
			n = newUnicodeForm(p.kind)
		case "Lowercase":
			n = lowercase{}
		case "Strip":
			n = strip{p.flag("strip_left", true), p.flag("strip_right", true)}
		case "Prepend":
			n = prepend(p.text("prepend"))
		case "Replace":
			n = replace{p.finding("pattern"), p.text("content")}
		default:
			return p.unknown("NFC, NFD, NFKC, NFKD, Lowercase, Strip, Prepend, Replace and Sequence")
		}
		out = append(out, n)
		return p.done()
	})
	return out, err
}

// readSplitters reads the pre-tokenizer. bytewise: one of them is ByteLevel, so the resulting words are bytes.
func readSplitters(v *jsonread.Value) (out chain, bytewise bool, err error) {
	mapped := false // the next splitter's input is in the byte alphabet
	err = flatten("pre_tokenizer", "pretokenizers", v, func(p *part) error {
		if bytewise && !mapped {
			out, mapped = append(out, toAlphabet{}), true
		}
		if p.kind == "ByteLevel" {
			if bytewise {
				p.fail(pack.ErrUnsupported, "occurs twice")
			}
			bytewise = true
			out = append(out, byteLevel(p)...)
			return p.done()
		}
		s := readSplitter(p)
		out = append(out, s)
		return p.done()
	})
	if mapped {
		out = append(out, fromAlphabet{})
	}
	return out, bytewise, err
}

// byteLevel splits as GPT-2 does, unless disabled. Its mapping of bytes to characters is undone in the vocabulary.
func byteLevel(p *part) (out chain) {
	p.ignore("trim_offsets")
	if p.flag("add_prefix_space", true) {
		out = append(out, prefixSpace{})
	}
	if p.flag("use_regex", true) {
		re, err := pattern.Compile(pattern.GPT2)
		if err != nil {
			panic(err) // a constant
		}
		out = append(out, divider{find: re, behavior: isolated})
	}
	return out
}

func readSplitter(p *part) splitter {
	switch p.kind {
	case "Split":
		return divider{p.finding("pattern"), p.behavior(), p.flag("invert", false)}
	case "Digits":
		runs := !p.flag("individual_digits", false)
		return divider{find: pattern.OfClass("Digits", chars.Recorded(chars.Number), runs), behavior: isolated}
	case "Punctuation":
		return divider{find: pattern.OfClass("Punctuation", chars.Recorded(chars.Punctuation), false),
			behavior: p.behavior()}
	case "Whitespace":
		words, err := pattern.Compile(`[\w\x{200C}\x{200D}]+|[^\w\s\x{200C}\x{200D}]+`) // its \w has the joiners
		if err != nil {
			panic(err) // a constant
		}
		return divider{words, removed, true}
	case "WhitespaceSplit":
		return divider{find: pattern.OfClass("WhitespaceSplit", chars.Recorded(chars.Space), false), behavior: removed}
	case "Metaspace":
		return readMetaspace(p)
	}
	p.unknown("ByteLevel, Split, Digits, Punctuation, Whitespace, WhitespaceSplit, Metaspace and Sequence")
	return nil
}

func (p *part) behavior() behavior {
	switch b := p.text("behavior"); b {
	case "Isolated", "isolated", "":
		return isolated
	case "Removed", "removed":
		return removed
	case "MergedWithPrevious", "merged_with_previous":
		return withPrevious
	case "MergedWithNext", "merged_with_next":
		return withNext
	case "Contiguous", "contiguous":
		return contiguous
	default:
		p.fail(pack.ErrUnsupported, "behavior %.40q is not known", b)
		return isolated
	}
}

func readMetaspace(p *part) metaspace {
	return metaspace{mark: p.mark(), prepend: p.prependScheme(), cut: p.flag("split", true)}
}

func (p *part) mark() string {
	if s := p.text("replacement"); s != "" {
		return s
	}
	return mark
}

// prependScheme reads the scheme, or add_prefix_space, its equivalent in older files.
func (p *part) prependScheme() prependScheme {
	prefix := p.flag("add_prefix_space", true)
	p.ignore("str_rep")
	switch s := p.text("prepend_scheme"); {
	case s == "always", s == "" && prefix:
		return prependAlways
	case s == "first":
		return prependFirst
	case s == "never", s == "":
		return prependNever
	default:
		p.fail(pack.ErrUnsupported, "prepend_scheme %.40q is not known", s)
		return prependNever
	}
}

// readDecoder reads the decoder; bytewise says whether the words of the tokenizer are bytes.
func readDecoder(v *jsonread.Value, bytewise bool) (decoder, error) {
	var d decoder
	fused, any := false, false
	err := flatten("decoder", "decoders", v, func(p *part) error {
		any = true
		if d.strip.count > 0 {
			p.fail(pack.ErrUnsupported, "behind Fuse and Strip")
		}
		switch p.kind {
		case "ByteLevel":
			p.ignore("add_prefix_space", "trim_offsets", "use_regex")
			d.bytewise = true
		case "ByteFallback":
			d.steps = append(d.steps, fallbackStep)
		case "Fuse":
			fused = true
		case "Replace":
			lit, ok := p.finding("pattern").(literal)
			if !ok {
				p.fail(pack.ErrUnsupported, "a Regex in a decoder")
			}
			d.steps = append(d.steps, replaceStep(string(lit), p.text("content")))
		case "Metaspace":
			p.ignore("split")
			d.steps = append(d.steps, marksStep(p.mark(), p.prependScheme() != prependNever))
		case "Strip":
			d.addStrip(p, fused)
		default:
			return p.unknown("ByteLevel, ByteFallback, Fuse, Replace, Metaspace, Strip and Sequence")
		}
		if fused && p.kind != "Fuse" && p.kind != "Strip" {
			p.fail(pack.ErrUnsupported, "behind Fuse")
		}
		if d.bytewise && (len(d.steps) > 0 || fused) {
			p.fail(pack.ErrUnsupported, "together with ByteLevel")
		}
		if d.bytewise != bytewise {
			p.fail(pack.ErrUnsupported, "ByteLevel belongs into the pre_tokenizer and the decoder")
		}
		return p.done()
	})
	switch {
	case err != nil || any:
	case bytewise:
		err = fmt.Errorf("%w: a ByteLevel pre_tokenizer without a decoder", pack.ErrUnsupported)
	default:
		d.separator = " " // the behavior of a tokenizer without a decoder
	}
	return d, err
}

// addStrip adds a Strip: of every token, or, after Fuse, of the whole text, whose end a stream cannot wait for.
func (d *decoder) addStrip(p *part, fused bool) {
	char, left, right := p.text("content"), p.count("start"), p.count("stop")
	switch {
	case char == "":
		p.fail(pack.ErrCorrupt, "content is empty")
	case !fused:
		d.steps = append(d.steps, trimStep(char, left, right))
	case right > 0:
		p.fail(pack.ErrUnsupported, "at the end of a whole text")
	default:
		d.strip = leftTrim{char, left}
	}
}
