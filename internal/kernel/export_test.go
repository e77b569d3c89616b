package kernel

// Memory is the bytes of weights that products read: those given to Bind, or what the kernel made of them.
func (w *Weights) Memory() []byte {
	if w.own != nil {
		return w.own.Bytes
	}
	return w.packed
}
