package pattern

// Patterns of tokenizers whose files do not contain one.
const (
	GPT2   = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+` + spaces
	Llama3 = words + `\p{N}{1,3}` + others
	Qwen2  = words + `\p{N}` + others
)

const (
	words  = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|`
	others = `| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+` + spaces
	spaces = `|\s+(?!\S)|\s+`
)
