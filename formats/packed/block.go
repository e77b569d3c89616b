package packed

// Block is the number of columns whose products are summed exactly in a quantized linear layer before anything is
// scaled: those that share a scale of the weights and a scale of the activations (NUMERICS N15). K if both are of the
// whole row. The candidate filter of the head is not a linear layer: it has its own activations.
func (m *Manifest) Block(e *Entry) int {
	block := e.MatrixShape().K
	if e.Scale.Kind == ScaleGroup {
		block = min(block, e.Scale.Group)
	}
	if m.Activation.Kind == ActivationGroup && e.Name != ScreenName {
		block = min(block, m.Activation.Size)
	}
	return block
}

// Blocks is the number of blocks of a row.
func (m *Manifest) Blocks(e *Entry) int {
	block := m.Block(e)
	return (e.MatrixShape().K + block - 1) / block
}
