package tokenizer

// TokenBytes returns the bytes that a token appends to a text, also for control tokens; nil for an id without a token.
func (t *Tokenizer) TokenBytes(id int) []byte {
	s := t.NewStream(true)
	s.ShowSpecial = true
	s.add(id)
	return s.pending
}
