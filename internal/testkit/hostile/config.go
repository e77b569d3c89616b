package hostile

import (
	"os"
	"path/filepath"
	"strings"
)

// configured is the base model with some keys of config.json set to other values.
func configured(change map[string]any) func(dir string) (string, error) {
	return func(dir string) (string, error) {
		c := baseConfig()
		for k, v := range change {
			c[k] = v
		}
		return model(dir, map[string][]byte{"config.json": encode(c)})
	}
}

// spelled is the base model with one value of config.json spelled in a way that no encoder writes.
func spelled(key, value string) func(dir string) (string, error) {
	return func(dir string) (string, error) {
		c := baseConfig()
		c[key] = "REPLACED"
		text := strings.Replace(string(encode(c)), `"REPLACED"`, value, 1)
		return model(dir, map[string][]byte{"config.json": []byte(text)})
	}
}

func configs() []Case {
	type m = map[string]any
	cases := []Case{
		{ID: "C01a", Class: Structure, Note: "num_attention_heads 0", build: configured(m{"num_attention_heads": 0})},
		{ID: "C01b", Class: Structure, Note: "num_key_value_heads 0", build: configured(m{"num_key_value_heads": 0})},
		{ID: "C01c", Class: Structure, Note: "num_attention_heads −2", build: configured(m{"num_attention_heads": -2})},
		{ID: "C02a", Class: Limit, Note: "hidden_size 2³¹ with tensors of 32 columns",
			build: configured(m{"hidden_size": 1 << 31})},
		{ID: "C02b", Class: Structure, Note: "hidden_size 64 with tensors of 32 columns",
			build: configured(m{"hidden_size": 64})},
		{ID: "C03", Class: Structure, Note: "heads that do not divide hidden_size, no head_dim",
			build: configured(m{"num_attention_heads": 3, "head_dim": nil})},
		{ID: "C04", Class: Limit, Note: "max_position_embeddings 2⁴⁰",
			build: configured(m{"max_position_embeddings": 1 << 40})},
		{ID: "C05a", Class: Syntax, Note: "rms_norm_eps NaN", build: spelled("rms_norm_eps", "NaN")},
		{ID: "C05b", Class: Syntax, Note: "rope_theta Infinity", build: spelled("rope_theta", "Infinity")},
		{ID: "C06", Class: Limit, Note: "config.json of 1 GB", Big: true, build: func(dir string) (string, error) {
			if _, err := Base(dir); err != nil {
				return "", err
			}
			return dir, os.Truncate(filepath.Join(dir, "config.json"), 1<<30)
		}},
		{ID: "C07", Class: Structure, Note: "vocab_size is not the number of embedding rows",
			build: configured(m{"vocab_size": vocab + 1})},
		{ID: "C08a", Class: Structure, Note: "rope_theta 0", build: configured(m{"rope_theta": 0})},
		{ID: "C08b", Class: Structure, Note: "rope_theta −1", build: configured(m{"rope_theta": -1})},
		{ID: "C08c", Class: Structure, Note: "rms_norm_eps 0", build: configured(m{"rms_norm_eps": 0})},
		{ID: "C09", Class: Limit, Note: "num_hidden_layers 10⁹ with the tensors of one",
			build: configured(m{"num_hidden_layers": 1000000000})},
	}
	for i := range cases {
		cases[i].Group = Config
	}
	return cases
}
