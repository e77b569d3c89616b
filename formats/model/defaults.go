package model

import "github.com/lowpack/lowpack/internal/jsonread"

// defaults is a JSON object of the values that transformers 5 puts in the place of keys that a config.json does not
// mention. A key that is null is mentioned. Sizes without which nothing is known about a checkpoint are not among them.
type defaults string

// fill adds the defaults that are not mentioned.
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
		}
	}
}
