package hf

// preTokenizer splits text into words before merges apply, under the names of llama.cpp (llama-vocab.cpp).
type preTokenizer struct {
	patterns   []string // applied one after another; nil = GPT-2's
	digits     bool     // each digit is a word
	nfc        bool     // normalize the text, which llama.cpp omits
	wholeWords bool     // a word that is a token needs no merges
	bos        bool     // default of add_bos_token
}

const (
	words         = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+`
	punctuation   = `| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+` // and white space
	llama3Pattern = words + `|\p{N}{1,3}` + punctuation
	qwen2Pattern  = words + `|\p{N}` + punctuation
	upperLower    = `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+`
	upperFirst    = `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*`
	contraction   = `(?i:'s|'t|'re|'ve|'m|'ll|'d)?`
	slashes       = `| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	gpt4oPattern  = upperLower + contraction + `|` + upperFirst + contraction + `|\p{N}{1,3}` + slashes
	// of DeepSeek-V3: ASCII punctuation in front of letters, letters, other signs, white space
	signsFirst       = "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+"
	deepseek3Pattern = signsFirst + `|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*` +
		`|\s*[\r\n]+|\s+(?!\S)|\s+`
	tekkenPattern = upperLower + `|` + upperFirst + `|\p{N}` + slashes
)

// deepseek3Patterns: numbers, Chinese and Japanese apart.
var deepseek3Patterns = []string{`\p{N}{1,3}`, "[一-龥\u3040-ゟ゠-ヿ]+", deepseek3Pattern}

var preTokenizers = map[string]preTokenizer{
	"default": {patterns: []string{`[\p{P}\$\+<=>\^~\|]+`,
		`'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)`, `\p{N}+`, `[0-9][0-9][0-9]`}},
	"gpt-2":            {},
	"llama-bpe":        {patterns: []string{llama3Pattern}, wholeWords: true, bos: true},
	"lfm2":             {patterns: []string{llama3Pattern}, wholeWords: true, bos: true},
	"falcon3":          {patterns: []string{llama3Pattern}, wholeWords: true, bos: true},
	"smaug-bpe":        {patterns: []string{llama3Pattern}},
	"dbrx":             {patterns: []string{llama3Pattern}},
	"qwen2":            {patterns: []string{qwen2Pattern}, nfc: true},
	"deepseek-r1-qwen": {patterns: []string{qwen2Pattern}, nfc: true},
	"gpt-4o":           {patterns: []string{gpt4oPattern}},
	"tekken":           {patterns: []string{tekkenPattern}, wholeWords: true, bos: true},
	"smollm":           {digits: true},
	"glm4":             {patterns: []string{llama3Pattern}, wholeWords: true},
	"chatglm-bpe":      {patterns: []string{llama3Pattern}},
	"hunyuan":          {patterns: []string{qwen2Pattern}},
	"minimax-m2":       {patterns: []string{gpt4oPattern}},
	"deepseek-v3":      {patterns: deepseek3Patterns},
	"hunyuan-dense":    {patterns: deepseek3Patterns},
}

func (p preTokenizer) normalizer() any {
	if p.nfc {
		return map[string]any{"type": "NFC"}
	}
	return nil
}

func byteLevelPart(regex bool) map[string]any {
	return map[string]any{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": regex}
}

func (p preTokenizer) splitter() any {
	var parts []any
	if p.digits {
		parts = append(parts, map[string]any{"type": "Digits", "individual_digits": true})
	}
	for _, x := range p.patterns {
		parts = append(parts, map[string]any{"type": "Split", "pattern": map[string]any{"Regex": x},
			"behavior": "Isolated",
			"invert":   false})
	}
	return map[string]any{"type": "Sequence", "pretokenizers": append(parts, byteLevelPart(p.patterns == nil))}
}
