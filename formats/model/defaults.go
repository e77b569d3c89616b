package model

import "github.com/lowpack/lowpack/internal/jsonread"

// defaults is a JSON object of the values that transformers 5 uses for keys that a config.json does not contain. A null
// key counts as present. Sizes that define a checkpoint have no default.
type defaults string

// fill adds the defaults of missing keys.
func (k *keys) fill(d defaults) {
	if d == "" {
		return
	}
	v, err := jsonread.Parse([]byte(d), maxConfigBytes)
	if err != nil {
		panic(err) // a constant of this package
	}
	for _, m := range v.Members {
		if !k.mentions(m.Key) {
			k.v.Members = append(k.v.Members, m)
			k.known(m.Key)
		}
	}
}
