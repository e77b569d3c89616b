package tokenizer

// TokenBytes returns the bytes that a token adds to a text that it continues, those of control tokens included; nil for
// an id without a token.
func (t *Tokenizer) TokenBytes(id int) []byte {
	s := t.NewStream(true)
	s.ShowSpecial = true
	s.add(id)
	return s.pending
}
