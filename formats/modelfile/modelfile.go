// Package modelfile lists the small files beside the weights of a model: those that a checkpoint may have and a packed
// file may carry (docs/FORMAT.md, F7), with the number of bytes up to which each is read, wherever it comes from.
package modelfile

import "slices"

// File is a small file of a model.
type File struct {
	Name  string
	Limit int64 // bytes
}

// All lists the files.
func All() []File {
	const mib = 1 << 20
	return []File{
		{"config.json", 4 * mib},
		{"generation_config.json", mib},
		{"tokenizer.json", 64 * mib}, // the largest published one has 35 million bytes
		{"tokenizer_config.json", 16 * mib},
		{"tokenizer.model", 16 * mib},
		{"vocab.json", 16 * mib},
		{"merges.txt", 16 * mib},
		{"chat_template.jinja", mib},
		{"chat_template.json", mib},
		{"special_tokens_map.json", mib},
		{"added_tokens.json", mib},
	}
}

// Quantization lists files that may accompany config.json and say how weights are quantized, by GPTQModel and AutoGPTQ,
// AutoRound, AutoAWQ, ModelOpt and Optimum Quanto. A packed file does not contain them: its manifest has the
// information.
func Quantization() []File {
	const mib = 1 << 20
	return []File{{"quantize_config.json", 4 * mib}, {"quantization_config.json", 4 * mib},
		{"quant_config.json", 4 * mib}, {"hf_quant_config.json", 4 * mib}, {"quanto_qmap.json", 4 * mib}}
}

// Sentence lists the files of sentence-transformers, which say how a model makes embeddings or scores. A packed file
// does not contain them: its manifest has the information (F26, F27). Where there is no sentence_bert_config.json, the
// first of those named like it counts.
func Sentence() []File {
	const mib = 1 << 20
	return []File{{"modules.json", mib}, {"sentence_bert_config.json", mib}, {"sentence_roberta_config.json", mib},
		{"sentence_distilbert_config.json", mib}, {"sentence_camembert_config.json", mib},
		{"sentence_albert_config.json", mib}, {"sentence_xlm-roberta_config.json", mib},
		{"sentence_xlnet_config.json", mib}, {"1_Pooling/config.json", mib},
		{"2_Normalize/config.json", mib}, {"1_LogitScore/config.json", mib}, {"config_sentence_transformers.json", mib}}
}

// Limit is the maximum size in bytes of the file of that name; 0 for other names.
func Limit(name string) int64 {
	for _, f := range slices.Concat(All(), Quantization(), Sentence()) {
		if f.Name == name {
			return f.Limit
		}
	}
	return 0
}

// Names lists the names of all files.
func Names() (names []string) {
	for _, f := range All() {
		names = append(names, f.Name)
	}
	return names
}
